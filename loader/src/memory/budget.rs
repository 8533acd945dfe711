//! Sizes of the pools, and a budget for bytes that are not slots.

use super::fair_queue::{Closed, FairPool};
use crate::error::{Error, ErrorKind, Result};

/// Upper bound of the default of `memory`: 2 GiB hold 3 batches of 256 images as float32 and 1 GiB of encoded images.
const DEFAULT_BYTES_MAX: u64 = 2 << 30;

/// Batches that must fit: one being filled, one ready, one held by the consumer.
const BATCHES_MIN: u64 = 3;

/// Smallest size of the read slots together: 64 images of 500 kB.
const READ_BYTES_MIN: u64 = 32 << 20;

/// Returns the default of `memory` for one rank: an eighth of its share of `limit_bytes` (the machine's or
/// container's), at most 2 GiB, raised to three batches where that is less than a quarter of the share.
///
/// # Errors
///
/// [`ErrorKind::Config`] when three batches are a quarter of the share or more, with the figures.
pub fn default_bytes(limit_bytes: u64, local_world_size: usize, batch_bytes: u64) -> Result<u64> {
    let share = limit_bytes / (local_world_size.max(1) as u64);
    let default = (share / 8).min(DEFAULT_BYTES_MAX);
    let batches = batch_bytes.saturating_mul(BATCHES_MIN);
    if batches <= default {
        return Ok(default);
    }
    if batches < share / 4 {
        return Ok(batches);
    }
    Err(Error::config(
        "three batches need a quarter of this rank's memory or more: set `memory`, or lower `batch_size`",
    )
    .with("three_batches_bytes", batches)
    .with("rank_bytes", share))
}

/// Division of `memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes for read slots.
    pub read_bytes: u64,
    /// Bytes for batch slots.
    pub batch_bytes: u64,
}

/// Divides `memory_bytes` between read slots and batch slots: up to `batches` of `batch_bytes` each while a quarter
/// remains for reading, and at least three.
///
/// # Errors
///
/// [`ErrorKind::Config`] when three batches do not fit, with the size that is needed.
pub fn split(memory_bytes: u64, batch_bytes: u64, batches: u64) -> Result<Split> {
    let slot = batch_bytes.max(1).checked_next_multiple_of(super::BLOCK_BYTES as u64).unwrap_or(u64::MAX);
    let least = slot.saturating_mul(BATCHES_MIN);
    if least > memory_bytes {
        return Err(Error::config(
            "`memory` does not hold three batches, which is the minimum: raise it, or lower `batch_size`",
        )
        .with("memory_bytes", memory_bytes)
        .with("needed_bytes", least));
    }
    let requested = slot.saturating_mul(batches.max(BATCHES_MIN));
    let most = (memory_bytes / 4 * 3 / slot * slot).max(least);
    let batch_bytes = requested.min(most);
    // Three batches may take nearly all of it: the minimum for reading then comes on top.
    let read_bytes = (memory_bytes - batch_bytes).max(READ_BYTES_MIN);
    Ok(Split { read_bytes, batch_bytes })
}

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

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

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
    fn the_default_is_an_eighth_of_the_share_and_at_most_2_gib() {
        assert_eq!(default_bytes(64 * GIB, 1, MIB).unwrap(), 2 * GIB);
        assert_eq!(default_bytes(8 * GIB, 1, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(64 * GIB, 8, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(8 * GIB, 1, 500 * MIB).unwrap(), 1500 * MIB, "raised to three batches");
    }

    #[test]
    fn batches_that_would_take_too_much_memory_are_an_error_with_the_size() {
        let e = default_bytes(8 * GIB, 1, GIB).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains(&format!("three_batches_bytes {}", 3 * GIB)), "{e}");
        assert!(default_bytes(u64::MAX, 1, u64::MAX).is_err());
        assert!(default_bytes(0, 0, 1).is_err());
    }

    #[test]
    fn batches_get_their_size_while_a_quarter_remains_for_reading() {
        assert_eq!(split(GIB, 50 * MIB, 5).unwrap(), Split { read_bytes: GIB - 250 * MIB, batch_bytes: 250 * MIB });
        assert_eq!(split(GIB, 100 * MIB, 50).unwrap(), Split { read_bytes: GIB - 700 * MIB, batch_bytes: 700 * MIB });
        assert_eq!(split(GIB, 340 * MIB, 5).unwrap(), Split { read_bytes: 32 * MIB, batch_bytes: 1020 * MIB });
        assert!(split(GIB, 400 * MIB, 3).unwrap_err().to_string().contains("needed_bytes"));
        assert!(split(GIB, u64::MAX, 3).is_err());
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

    /// Reserves `bytes` on another thread, and returns once that thread waits.
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
