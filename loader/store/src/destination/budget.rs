//! Bound of the bytes of uploads in flight.

use super::cancel::Cancel;
use forebay_core::sync::{Arc, Condvar, Mutex};

/// Bytes that wait for the store's confirmation. A part larger than the bound proceeds alone.
pub(crate) struct Budget {
    bytes_max: u64,
    used: Mutex<Use>,
    released: Condvar,
}

#[derive(Default)]
struct Use {
    bytes: u64,
    peak: u64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: Mutex::default(), released: Condvar::default() })
    }

    /// Waits until there is room for `bytes`, and takes it; `None` after `cancel`.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64, cancel: &Cancel) -> Option<Reservation> {
        let mut used = self.used.lock();
        while !cancel.is_set() && used.bytes > 0 && used.bytes + bytes > self.bytes_max {
            used = self.released.wait(used);
        }
        if cancel.is_set() {
            return None;
        }
        used.bytes += bytes;
        used.peak = used.peak.max(used.bytes);
        Some(Reservation { budget: self.clone(), bytes })
    }

    /// Wakes those that wait for room, after a cancellation.
    pub(super) fn wake(&self) {
        // With the lock, no thread is between its check of the cancellation and its wait.
        let _used = self.used.lock();
        self.released.notify_all();
    }

    /// Returns the most bytes that were in flight at once.
    pub(super) fn peak(&self) -> u64 {
        self.used.lock().peak
    }
}

/// Part of a [`Budget`]; released when dropped.
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.lock().bytes -= self.bytes;
        self.budget.released.notify_all();
    }
}
