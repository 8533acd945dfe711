//! State that the two ends of the queue share.

use super::request::Request;
use crate::Result;
use crate::queue::closed_error;
use forebay_core::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;

/// Exchanges that the library makes at the same time, with those that no fetch thread waits for any more: these end by
/// themselves, and some libraries have no time limit.
pub(super) const RUNNING_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<SharedState>,
    changed: Condvar,
}

#[derive(Default)]
struct SharedState {
    /// At most as many as are awaited, and those that were abandoned since the last one was added.
    queued: VecDeque<Request>,
    running: usize,
    is_closed: bool,
}

impl Shared {
    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `Closed` when the queue is closed.
    pub(super) fn push(&self, request: Request) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closed_error());
        }
        state.queued.retain(|request| !request.is_abandoned());
        state.queued.push_back(request);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the next request that is still awaited; `None` when the queue is closed.
    pub(super) fn next(shared: &Arc<Self>) -> Option<(Request, Running)> {
        let mut state = shared.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if state.running < RUNNING_MAX
                && let Some(request) = state.queued.pop_front()
            {
                if request.is_abandoned() {
                    continue;
                }
                state.running += 1;
                return Some((request, Running { shared: shared.clone(), process: std::process::id() }));
            }
            state = shared.changed.wait(state);
        }
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        // Their replies end, which wakes the tasks that wait for them.
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        self.changed.notify_all();
        drop(queued);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let mut shown = f.debug_struct("LibraryQueue");
        shown.field("queued", &state.queued.len()).field("running", &state.running).finish_non_exhaustive()
    }
}

/// An exchange that the library makes, until this is dropped.
pub(super) struct Running {
    shared: Arc<Shared>,
    process: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A forked child has a copy, without the thread that may hold the lock.
        if self.process == std::process::id() {
            self.shared.state.lock().running -= 1;
            self.shared.changed.notify_all();
        }
    }
}
