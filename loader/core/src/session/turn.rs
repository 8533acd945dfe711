//! Turn of the threads that use the engines.

use crate::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A lock that a thread can wait for in short calls, so that its signal handlers run in between, and that can be handed
/// to a different thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<TurnState>);

#[derive(Debug, Default)]
struct TurnState {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

impl Turn {
    /// Waits for the turn, about `limit` at most.
    pub(super) fn take_within(&self, limit: Duration) -> Option<TurnGuard> {
        let mut is_taken = self.0.is_taken.lock();
        if *is_taken {
            is_taken = self.0.is_free.wait_timeout(is_taken, limit).0;
        }
        // A different thread may have been faster.
        let is_mine = !std::mem::replace(&mut *is_taken, true);
        is_mine.then(|| TurnGuard(self.0.clone()))
    }

    /// Takes the turn if it is free.
    pub(super) fn try_take(&self) -> Option<TurnGuard> {
        let is_mine = !std::mem::replace(&mut *self.0.is_taken.lock(), true);
        is_mine.then(|| TurnGuard(self.0.clone()))
    }

    /// Waits for the turn.
    pub(super) fn take(&self) -> TurnGuard {
        let mut is_taken = self.0.is_taken.lock();
        while *is_taken {
            is_taken = self.0.is_free.wait(is_taken);
        }
        *is_taken = true;
        TurnGuard(self.0.clone())
    }
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(super) struct TurnGuard(Arc<TurnState>);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        *self.0.is_taken.lock() = false;
        self.0.is_free.notify_one();
    }
}
