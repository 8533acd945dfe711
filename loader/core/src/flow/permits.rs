//! Permits of shards in flight.
//!
//! There are more threads of the shard plane than permits. A thread takes a permit before a shard, and releases it
//! while its shard waits for the next attempt of a download.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// Number of shards that may be in flight at the same time.
#[derive(Debug)]
pub struct Permits {
    state: Mutex<PermitsState>,
    freed: Condvar,
}

#[derive(Debug)]
struct PermitsState {
    /// Below 0 while shards that have waited for an attempt continue beyond the limit.
    free: isize,
    is_closed: bool,
}

impl Permits {
    /// Creates `count` free permits.
    pub fn new(count: usize) -> Self {
        let state = PermitsState { free: count as isize, is_closed: false };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }

    /// Waits for a free permit.
    ///
    /// # Errors
    ///
    /// `Closed` after [`close`](Self::close).
    pub fn take(&self) -> Result<HeldPermit<'_>> {
        let mut state = self.state.lock();
        while state.free <= 0 && !state.is_closed {
            state = self.freed.wait(state);
        }
        if state.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the loader was closed while a shard waited for its turn"));
        }
        state.free -= 1;
        Ok(HeldPermit { permits: self, is_held: AtomicBool::new(true) })
    }

    /// Rejects all waiting and later requests.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.freed.notify_all();
    }

    fn add(&self, count: isize) {
        self.state.lock().free += count;
        self.freed.notify_one();
    }
}

/// Permit of one shard; free again when dropped.
#[derive(Debug)]
pub struct HeldPermit<'a> {
    permits: &'a Permits,
    is_held: AtomicBool,
}

impl HeldPermit<'_> {
    /// Returns the permit, or takes one again. That does not wait: the shard may hold memory that shards with a permit
    /// wait for.
    pub fn hold(&self, is_held: bool) {
        // Relaxed: one thread has the permit.
        if self.is_held.swap(is_held, Ordering::Relaxed) != is_held {
            self.permits.add(if is_held { -1 } else { 1 });
        }
    }
}

impl Drop for HeldPermit<'_> {
    fn drop(&mut self) {
        self.hold(false);
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicUsize, model, spawn};

    #[test]
    fn no_more_shards_than_permits_are_in_flight_unless_one_continues() {
        model(|| {
            let (permits, count) = (Arc::new(Permits::new(1)), Arc::new(AtomicUsize::new(0)));
            let threads = [0, 1, 2].map(|_| {
                let (permits, count) = (permits.clone(), count.clone());
                let body = move || {
                    let permit = permits.take().unwrap();
                    assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0);
                    count.fetch_sub(1, Ordering::SeqCst);
                    permit.hold(false);
                    permit.hold(false);
                    permit.hold(true);
                    permit.hold(true);
                };
                spawn("shard", body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(permits.state.lock().free, 1);
        });
    }

    #[test]
    fn closing_rejects_waiting_and_later_requests() {
        model(|| {
            let permits = Arc::new(Permits::new(1));
            let held = permits.take().unwrap();
            let waiting = permits.clone();
            let waiter = spawn("shard", move || waiting.take().is_err()).unwrap();
            permits.close();
            assert!(waiter.join().unwrap());
            drop(held);
            assert!(permits.take().is_err());
        });
    }
}
