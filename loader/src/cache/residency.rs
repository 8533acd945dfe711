//! Guards that keep shards on disk.

use super::claim;
use super::stream_cache::StreamCache;
use crate::sync::Arc;

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
