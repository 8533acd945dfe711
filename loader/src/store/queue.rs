//! Queue from callers to the fetch threads.

use crate::sync::{AtomicBool, Mutex, Ordering};
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Bounded queue that plain threads push into and tasks of several runtimes wait on.
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    ready: Notify,
    len_max: usize,
    is_closed: AtomicBool,
}

impl<T> Queue<T> {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { items: Mutex::default(), ready: Notify::new(), len_max, is_closed: AtomicBool::new(false) }
    }

    /// Adds all of `new`, in order, at the end or (`ahead`) at the front. Returns them if the queue is full or closed.
    pub(crate) fn push_all(&self, new: Vec<T>, ahead: bool) -> Result<(), Vec<T>> {
        let n = new.len();
        {
            let mut items = self.items.lock();
            // Read under the lock: `close` empties the queue under it, so nothing is added afterwards.
            if self.is_closed.load(Ordering::Acquire) || items.len() + n > self.len_max {
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
            // Registered before the check: a push after the check wakes this waiter. A waiter that was woken and finds
            // an item without waiting passes its wake-up on when it is dropped.
            woken.as_mut().enable();
            if let Some(item) = self.items.lock().pop_front() {
                return item;
            }
            woken.await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Rejects further items and drops the queued ones.
    pub(crate) fn close(&self) {
        let mut items = self.items.lock();
        self.is_closed.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut *items);
        drop(items);
        // Outside the lock: dropping an item may run a caller's code.
        drop(waiting);
    }
}
