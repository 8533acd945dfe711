//! A pool that serves requests in order of arrival.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// A stock that many threads take from and return to, in order of arrival.
///
/// Progress rule 1 (slots are granted in plan order) depends on this order: if small requests could overtake a large
/// one, the large one could wait forever.
#[derive(Debug)]
pub struct FairPool<T> {
    state: Mutex<FairPoolState<T>>,
    /// Signalled when something has returned to the stock, when the pool is closed, and by `wake`.
    returned: Condvar,
}

#[derive(Debug)]
struct FairPoolState<T> {
    stock: T,
    next_ticket: u64,
    /// Tickets of the waiting requests; the front one is served next.
    waiting: VecDeque<u64>,
    closed: bool,
}

/// Error of a closed pool, which grants nothing.
#[derive(Debug)]
pub struct Closed;

impl<T> FairPool<T> {
    /// Makes a pool of `stock`.
    pub fn new(stock: T) -> Self {
        let state = FairPoolState { stock, next_ticket: 0, waiting: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), returned: Condvar::new() }
    }

    /// Returns the items that `grant` takes from the stock. Waits for earlier requests, and until `grant` finds enough;
    /// `grant` is called again whenever something has returned to the stock.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](Self::close).
    pub fn take<G>(&self, grant: impl FnMut(&mut T) -> Option<G>) -> Result<G, Closed> {
        self.take_unless(grant, || false).and_then(|granted| granted.ok_or(Closed))
    }

    /// Like [`take`](Self::take), but returns `None` once `is_over`. A change of `is_over` must be followed by a call
    /// of [`wake`](Self::wake).
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](Self::close).
    pub fn take_unless<G>(
        &self,
        mut grant: impl FnMut(&mut T) -> Option<G>,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<G>, Closed> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        loop {
            let is_front = state.waiting.front() == Some(&ticket);
            let ends = state.closed || is_over();
            let granted = if ends || !is_front { None } else { grant(&mut state.stock) };
            if granted.is_none() && !ends {
                state = self.returned.wait(state);
                continue;
            }
            state.waiting.retain(|t| *t != ticket);
            let (more, closed) = (!state.waiting.is_empty(), state.closed);
            drop(state);
            if more {
                // The request that is now in front may be granted as well.
                self.returned.notify_all();
            }
            return if closed { Err(Closed) } else { Ok(granted) };
        }
    }

    /// Returns the items that `grant` takes from the stock without waiting; `None` while earlier requests wait.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](Self::close).
    pub fn try_take<G>(&self, grant: impl FnOnce(&mut T) -> Option<G>) -> Result<Option<G>, Closed> {
        let mut state = self.state.lock();
        match (state.closed, state.waiting.is_empty()) {
            (true, _) => Err(Closed),
            (false, is_free) => Ok(if is_free { grant(&mut state.stock) } else { None }),
        }
    }

    /// True while a request waits.
    pub fn has_waiters(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// Makes all waiting requests check `is_over` again.
    pub fn wake(&self) {
        // A thread that has checked `is_over` before is waiting by the time this thread has the lock.
        drop(self.state.lock());
        self.returned.notify_all();
    }

    /// Returns something to the stock by calling `add`, and wakes the waiting requests. The second argument of `add` is
    /// true if the pool is closed.
    pub fn release(&self, add: impl FnOnce(&mut T, bool)) {
        let mut state = self.state.lock();
        let closed = state.closed;
        add(&mut state.stock, closed);
        let waiting = !state.waiting.is_empty();
        drop(state);
        if waiting {
            self.returned.notify_all();
        }
    }

    /// Rejects all waiting and later requests; `last` runs on the stock.
    pub fn close(&self, last: impl FnOnce(&mut T)) {
        let mut state = self.state.lock();
        state.closed = true;
        last(&mut state.stock);
        drop(state);
        self.returned.notify_all();
    }

    /// Runs `read` on the stock.
    pub fn inspect<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.state.lock().stock)
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicBool, Ordering, model, spawn};

    #[test]
    fn returned_stock_is_granted_again_and_never_twice() {
        model(|| {
            let pool = Arc::new(FairPool::new(1_u32));
            let threads = [0, 1, 2].map(|_| {
                let pool = pool.clone();
                let body = move || {
                    for _ in 0..2 {
                        pool.take(|stock| stock.checked_sub(1).map(|rest| *stock = rest)).unwrap();
                        pool.release(|stock, _| *stock += 1);
                    }
                };
                spawn("taker", body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(pool.inspect(|stock| *stock), 1);
        });
    }

    #[test]
    fn a_request_that_is_over_returns_and_the_rest_keep_waiting() {
        model(|| {
            let pool = Arc::new(FairPool::new(0_u32));
            let is_over = Arc::new(AtomicBool::new(false));
            let over = {
                let (pool, is_over) = (pool.clone(), is_over.clone());
                spawn("over", move || pool.take_unless(|_| None::<()>, || is_over.load(Ordering::SeqCst))).unwrap()
            };
            let taker = {
                let pool = pool.clone();
                spawn("taker", move || pool.take(|stock| stock.checked_sub(1).map(|rest| *stock = rest))).unwrap()
            };
            is_over.store(true, Ordering::SeqCst);
            pool.wake();
            assert!(over.join().unwrap().unwrap().is_none());
            pool.release(|stock, _| *stock += 1);
            taker.join().unwrap().unwrap();
        });
    }

    #[test]
    fn closing_rejects_waiting_and_later_requests() {
        model(|| {
            let pool = Arc::new(FairPool::new(0_u32));
            let threads = [0, 1].map(|_| {
                let pool = pool.clone();
                spawn("taker", move || pool.take(|_| None::<()>).is_err()).unwrap()
            });
            pool.close(|_| {});
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
            assert!(pool.try_take(|_| Some(())).is_err());
        });
    }
}
