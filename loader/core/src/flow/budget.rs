//! Budget of bytes: tasks reserve a part of it, and wait for room.

use super::fair_pool::{Closed, FairPool};
use crate::error::{Error, ErrorKind, Result};

/// Bound on the bytes that several threads reserve, granted in order of arrival.
#[derive(Debug)]
pub struct Budget {
    /// Reserved bytes.
    taken_bytes: FairPool<u64>,
    limit_bytes: u64,
}

impl Budget {
    /// Makes a budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self { taken_bytes: FairPool::new(0), limit_bytes }
    }

    /// Waits until `bytes` are free, after earlier requests. A request above the whole budget is granted when nothing
    /// else is reserved, so that a shard larger than the budget can be fetched.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] after [`close`](Self::close).
    pub fn reserve(&self, bytes: u64) -> Result<Reservation<'_>> {
        let granted = self.taken_bytes.take(|taken| self.take(taken, bytes));
        granted.map_err(|Closed| {
            Error::new(ErrorKind::Closed, "the loader was closed while a download waited for memory")
        })?;
        Ok(Reservation { budget: self, bytes })
    }

    /// Rejects all waiting and later requests.
    pub fn close(&self) {
        self.taken_bytes.close(|_| {});
    }

    fn take(&self, taken: &mut u64, bytes: u64) -> Option<()> {
        *taken = taken.checked_add(bytes).filter(|sum| *taken == 0 || *sum <= self.limit_bytes)?;
        Some(())
    }
}

/// Reserved bytes of a [`Budget`]; released when dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.taken_bytes.release(|taken, _| *taken -= self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Budget {
        /// Reserved bytes.
        pub(super) fn taken_bytes(&self) -> u64 {
            self.taken_bytes.inspect(|taken| *taken)
        }

        /// Reserves `bytes` if that needs no wait.
        pub(super) fn try_reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
            self.taken_bytes.try_take(|taken| self.take(taken, bytes)).ok()??;
            Some(Reservation { budget: self, bytes })
        }
    }

    #[test]
    fn a_request_above_the_budget_is_granted_alone() {
        let budget = Budget::new(100);
        let large = budget.reserve(1000).unwrap();
        assert!(budget.try_reserve(0).is_none());
        drop(large);
        let (first, second) = (budget.reserve(60).unwrap(), budget.try_reserve(40).unwrap());
        assert_eq!(budget.taken_bytes(), 100);
        assert!(budget.try_reserve(u64::MAX).is_none());
        drop((first, second));
        assert!(budget.try_reserve(u64::MAX).is_some());
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, model, spawn, yield_now};

    /// Reserves `bytes` on a second thread, and returns once that thread waits.
    fn waiter(budget: &Arc<Budget>, bytes: u64) -> crate::sync::JoinHandle<Result<u64>> {
        let waiting = budget.clone();
        let thread = spawn("waiter", move || waiting.reserve(bytes).map(|r| r.bytes)).unwrap();
        while !budget.taken_bytes.has_waiters() {
            yield_now();
        }
        thread
    }

    #[test]
    fn a_budget_grants_in_order_of_arrival() {
        model(|| {
            let budget = Arc::new(Budget::new(100));
            let first = budget.reserve(80).unwrap();
            let large = waiter(&budget, 90);
            assert!(budget.try_reserve(1).is_none(), "a small request does not overtake");
            let later = budget.clone();
            let small = spawn("small", move || later.reserve(20).map(|r| r.bytes)).unwrap();
            drop(first);
            assert_eq!(large.join().unwrap().unwrap(), 90);
            assert_eq!(small.join().unwrap().unwrap(), 20);
            assert_eq!(budget.taken_bytes(), 0);
        });
    }

    #[test]
    fn every_request_is_granted_and_the_budget_is_never_exceeded() {
        model(|| {
            let budget = Arc::new(Budget::new(10));
            let threads = [3, 10, 7, 4].map(|bytes| {
                let budget = budget.clone();
                let body = move || {
                    for _ in 0..3 {
                        let _held = budget.reserve(bytes).unwrap();
                        assert!(budget.taken_bytes() <= 10);
                    }
                };
                spawn("reserve", body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(budget.taken_bytes(), 0);
        });
    }

    #[test]
    fn closing_a_budget_rejects_waiting_requests() {
        model(|| {
            let budget = Arc::new(Budget::new(10));
            let _held = budget.reserve(10).unwrap();
            let waiter = waiter(&budget, 1);
            budget.close();
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
            assert!(budget.try_reserve(0).is_none());
        });
    }
}
