//! Guards that keep shards on disk.

use super::claim;
use super::stream_cache::StreamCache;
use crate::sync::{Arc, sleep};
use std::time::Duration;

/// Checks for the end of common holds, [`PAUSE`] apart. The threads that end them look at least four times a second.
/// Tests run on machines that are slower than any job's.
const ATTEMPTS: u32 = if cfg!(test) { 12_000 } else { 200 };
const PAUSE: Duration = Duration::from_millis(5);

/// Keeps a shard on disk for a sample that has not been read yet. No process evicts the shard until this is dropped.
#[derive(Debug)]
pub(crate) struct ResidencyGuard {
    stream: Arc<StreamCache>,
    shard: u32,
}

impl ResidencyGuard {
    /// Guards `shard` if it is still on disk. `None` if it has gone, or while a different process evicts it.
    pub(super) fn of_resident(stream: &Arc<StreamCache>, shard: u32) -> Option<Self> {
        if !stream.dir.locks.lock().try_share(claim::HOLD + u64::from(shard)) {
            return None;
        }
        let guard = Self { stream: stream.clone(), shard };
        // Checked after the hold is taken: from here on the shard cannot be evicted.
        let present = stream.dir.refresh_present(shard);
        stream.is_complete(shard, present).then_some(guard)
    }

    /// Guards `shard`, which the caller has claimed and is about to publish. The claim keeps evictors from the hold.
    pub(super) fn of_claimed(stream: &Arc<StreamCache>, shard: u32) -> Self {
        stream.dir.locks.lock().share(claim::HOLD + u64::from(shard));
        Self { stream: stream.clone(), shard }
    }
}

impl Drop for ResidencyGuard {
    fn drop(&mut self) {
        if self.stream.dir.is_own_process() {
            let mut locks = self.stream.dir.locks.lock();
            locks.unshare(claim::HOLD + u64::from(self.shard));
            let is_limited = locks.strictest_limit().is_some();
            drop(locks);
            self.stream.wake();
            if is_limited {
                self.stream.dir.wake_waiters();
            }
        }
    }
}

/// Keeps all shards of a directory on disk, at the cost of one lock, until a process needs to know those in use; see
/// `dir_locks::common_hold`. Its owner calls [`make_holds_exact_if_needed`](StreamCache::make_holds_exact_if_needed)
/// whenever the directory changes.
#[derive(Debug)]
pub(crate) struct CommonHold(Arc<StreamCache>);

impl Drop for CommonHold {
    fn drop(&mut self) {
        if self.0.dir.is_own_process() && self.0.dir.locks.lock().end_common_hold() {
            self.0.dir.wake_waiters();
        }
    }
}

impl StreamCache {
    /// Holds all shards together, if no process needs to know which of them are in use.
    pub(crate) fn hold_in_common(self: &Arc<Self>) -> CommonHold {
        if self.dir.is_own_process() {
            self.dir.locks.lock().begin_common_hold(self.dir.shards.len());
        }
        CommonHold(self.clone())
    }

    /// Holds the shards in use alone from now on, if a process needs to know them.
    pub(crate) fn make_holds_exact_if_needed(&self) {
        if self.dir.is_own_process() && self.dir.locks.lock().make_holds_exact_if_needed() {
            self.wake();
            self.dir.wake_waiters();
        }
    }

    /// Waits, a second at most, until no different process holds all shards in common. Returns false if none did.
    pub(super) fn await_exact_holds(&self) -> bool {
        if !self.dir.locks.lock().request_exact_holds() {
            return false;
        }
        self.dir.wake_waiters();
        for _ in 0..ATTEMPTS {
            sleep(PAUSE);
            if !self.dir.locks.lock().request_exact_holds() {
                break;
            }
        }
        true
    }
}
