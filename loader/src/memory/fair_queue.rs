//! What is granted in the order of asking.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// Something that many threads take parts of and bring them back to, granted in the order of asking.
///
/// Order is what keeps the progress rule "granted in plan order": a small request that could be met must not overtake a
/// large one that came before, or the large one could wait for ever.
#[derive(Debug)]
pub(super) struct FairPool<T> {
    state: Mutex<FairPoolState<T>>,
    /// Something has come back, or it is over.
    returned: Condvar,
}

#[derive(Debug)]
struct FairPoolState<T> {
    stock: T,
    next_ticket: u64,
    /// Tickets of those who wait; the one in front is served next.
    waiting: VecDeque<u64>,
    counts: Counts,
    closed: bool,
}

/// What has been granted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub granted: u64,
    /// How many of those had to wait.
    pub waited: u64,
}

/// Nothing is granted any more.
#[derive(Debug)]
pub(super) struct Closed;

impl<T> FairPool<T> {
    pub(super) fn new(stock: T) -> Self {
        let (waiting, counts) = (VecDeque::new(), Counts::default());
        Self {
            state: Mutex::new(FairPoolState { stock, next_ticket: 0, waiting, counts, closed: false }),
            returned: Condvar::new(),
        }
    }

    /// What `grant` takes out of the stock. Waits behind those who asked before, and until `grant` finds enough; it is
    /// called again whenever something has come back.
    pub(super) fn take<G>(&self, grant: impl FnMut(&mut T) -> Option<G>) -> Result<G, Closed> {
        self.take_unless(grant, || false).and_then(|granted| granted.ok_or(Closed))
    }

    /// The same, `None` when `is_over`; whoever makes it so calls [`wake`](Self::wake) then.
    pub(super) fn take_unless<G>(
        &self,
        mut grant: impl FnMut(&mut T) -> Option<G>,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<G>, Closed> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        let mut waited = false;
        loop {
            let is_front = state.waiting.front() == Some(&ticket);
            let ends = state.closed || is_over();
            let granted = if ends || !is_front { None } else { grant(&mut state.stock) };
            if granted.is_none() && !ends {
                waited = true;
                state = self.returned.wait(state);
                continue;
            }
            state.waiting.retain(|t| *t != ticket);
            if granted.is_some() {
                state.counts.granted += 1;
                state.counts.waited += u64::from(waited);
            }
            let (more, closed) = (!state.waiting.is_empty(), state.closed);
            drop(state);
            if more {
                // The next in front may be served as well.
                self.returned.notify_all();
            }
            return if closed { Err(Closed) } else { Ok(granted) };
        }
    }

    /// Has those who wait look whether it is over.
    pub(super) fn wake(&self) {
        // Whoever has looked before waits by the time that the lock is free.
        drop(self.state.lock());
        self.returned.notify_all();
    }

    /// What `grant` takes out of the stock now; nothing while somebody waits.
    pub(super) fn try_take<G>(&self, grant: impl FnOnce(&mut T) -> Option<G>) -> Result<Option<G>, Closed> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Closed);
        }
        if !state.waiting.is_empty() {
            return Ok(None);
        }
        let granted = grant(&mut state.stock);
        state.counts.granted += u64::from(granted.is_some());
        Ok(granted)
    }

    /// Has `back` put something back into the stock and wakes who waits. `back` is told whether the stock is closed, so that
    /// nobody will take from it again.
    pub(super) fn release(&self, back: impl FnOnce(&mut T, bool)) {
        let mut state = self.state.lock();
        let closed = state.closed;
        back(&mut state.stock, closed);
        let waiting = !state.waiting.is_empty();
        drop(state);
        if waiting {
            self.returned.notify_all();
        }
    }

    /// Refuses everyone who waits and whoever comes after; `last` sees what is in stock.
    pub(super) fn close(&self, last: impl FnOnce(&mut T)) {
        let mut state = self.state.lock();
        state.closed = true;
        last(&mut state.stock);
        drop(state);
        self.returned.notify_all();
    }

    /// Looks at the stock.
    pub(super) fn inspect<R>(&self, look: impl FnOnce(&T, Counts) -> R) -> R {
        let state = self.state.lock();
        look(&state.stock, state.counts)
    }

    /// Whether somebody waits.
    #[cfg(test)]
    pub(super) fn has_waiters(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicBool, Ordering, model, spawn};

    #[test]
    fn everything_that_comes_back_is_granted_again_and_nothing_twice() {
        model(|| {
            let pool = Arc::new(FairPool::new(1_u32));
            let threads = [0, 1, 2].map(|_| {
                let pool = pool.clone();
                let body = move || {
                    for _ in 0..2 {
                        pool.take(|stock| stock.checked_sub(1).map(|left| *stock = left)).unwrap();
                        pool.release(|stock, _| *stock += 1);
                    }
                };
                spawn("taker", body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(pool.inspect(|stock, counts| (*stock, counts.granted)), (1, 6));
        });
    }

    #[test]
    fn whoever_waits_for_what_is_over_comes_back_and_others_stay() {
        model(|| {
            let pool = Arc::new(FairPool::new(0_u32));
            let is_over = Arc::new(AtomicBool::new(false));
            let leaver = {
                let (pool, is_over) = (pool.clone(), is_over.clone());
                spawn("leaver", move || pool.take_unless(|_| None::<()>, || is_over.load(Ordering::SeqCst))).unwrap()
            };
            let taker = {
                let pool = pool.clone();
                spawn("taker", move || pool.take(|stock| stock.checked_sub(1).map(|left| *stock = left))).unwrap()
            };
            is_over.store(true, Ordering::SeqCst);
            pool.wake();
            assert!(leaver.join().unwrap().unwrap().is_none());
            pool.release(|stock, _| *stock += 1);
            taker.join().unwrap().unwrap();
        });
    }

    #[test]
    fn closing_refuses_all_who_wait_and_who_come_after() {
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
