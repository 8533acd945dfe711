//! Queue from callers to the fetch threads.

use crate::{Error, ErrorKind, Result};
use forebay_core::sync::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Bounded queue that plain threads push into and tasks of several runtimes wait on.
pub(crate) struct Queue<T> {
    /// `None` when the queue is closed.
    items: Mutex<Option<VecDeque<T>>>,
    ready: Notify,
    len_max: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { items: Mutex::new(Some(VecDeque::new())), ready: Notify::new(), len_max }
    }

    /// Adds all of `new`, in order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`], and [`ErrorKind::Full`] if there is no room for all of them. Nothing is added then.
    pub(crate) fn push_all(&self, new: Vec<T>) -> Result<()> {
        // Rejected items are dropped after the lock, since arguments are dropped last: their drop may run a caller's
        // code.
        let n = new.len();
        let mut guard = self.items.lock();
        let items = guard.as_mut().ok_or_else(closed_error)?;
        if items.len() + n > self.len_max {
            return Err(Error::new(ErrorKind::Full, "too many fetches are waiting"));
        }
        items.extend(new);
        drop(guard);
        (0..n).for_each(|_| self.ready.notify_one());
        Ok(())
    }

    pub(crate) async fn next(&self) -> T {
        loop {
            let woken = self.ready.notified();
            tokio::pin!(woken);
            // Registered before the check: a push after the check wakes this waiter. A waiter that was woken and finds
            // an item without waiting passes its wake-up on when it is dropped.
            woken.as_mut().enable();
            if let Some(item) = self.items.lock().as_mut().and_then(VecDeque::pop_front) {
                return item;
            }
            woken.await;
        }
    }

    /// Returns true if an item waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.items.lock().as_ref().is_some_and(|items| !items.is_empty())
    }

    /// Rejects further items and drops the queued ones.
    pub(crate) fn close(&self) {
        // The items are dropped after the lock, because their drop may run a caller's code.
        let waiting = self.items.lock().take();
        drop(waiting);
    }
}

pub(crate) fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed")
}
