//! Work on its way from callers to the fetch threads.

use crate::sync::{AtomicBool, Mutex, Ordering};
use std::collections::VecDeque;
use tokio::sync::Notify;

/// A bounded queue that plain threads push into and tasks of several runtimes wait on.
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    ready: Notify,
    len_max: usize,
    closed: AtomicBool,
}

impl<T> Queue<T> {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { items: Mutex::default(), ready: Notify::new(), len_max, closed: AtomicBool::new(false) }
    }

    /// Adds all of `items`, in order, at the end or (`ahead`) at the front. Gives them back when the queue is full or
    /// closed.
    pub(crate) fn push_all(&self, new: Vec<T>, ahead: bool) -> Result<(), Vec<T>> {
        let n = new.len();
        {
            let mut items = self.items.lock();
            // Read under the lock: `close` empties the queue under it, so nothing slips in behind.
            if self.closed.load(Ordering::Acquire) || items.len() + n > self.len_max {
                return Err(new);
            }
            if ahead {
                new.into_iter().rev().for_each(|item| items.push_front(item));
            } else {
                items.extend(new);
            }
        }
        (0..n).for_each(|_| self.ready.notify_one());
        Ok(())
    }

    /// Waits for the next item.
    pub(crate) async fn next(&self) -> T {
        loop {
            let woken = self.ready.notified();
            tokio::pin!(woken);
            // Registered before looking: a push after the look wakes this waiter. One that was woken and finds an item
            // without waiting passes its wake-up on when it is dropped.
            woken.as_mut().enable();
            if let Some(item) = self.items.lock().pop_front() {
                return item;
            }
            woken.await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Refuses further items and drops those that wait.
    pub(crate) fn close(&self) {
        let mut items = self.items.lock();
        self.closed.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut *items);
        drop(items);
        // Outside the lock: dropping an item may run a caller's code.
        drop(waiting);
    }
}
