//! Removal of one shard's files.

use crate::cache::claim;
use crate::cache::shards::files_of;
use crate::cache::shared_dir::{RAW, SharedDir};
use crate::cache::stream_cache::StreamCache;
use crate::cache::write::remove_quietly;
use crate::error::{Error, ErrorKind, Result};

impl StreamCache {
    /// Removes `shard` from the directory now, whatever the limit; false if it is held, being fetched, or not here.
    ///
    /// # Errors
    ///
    /// `Config` when this or a second data set on the directory has no remote: the files may be the only copy;
    /// `Permission` when they belong to a different user.
    pub(crate) fn evict(&self, shard: u32) -> Result<bool> {
        let dir = &self.dir;
        dir.check_process()?;
        dir.files(shard)?;
        if dir.locks.lock().is_shared(claim::LOCAL_ONLY) {
            return Err(Error::config(
                "a shard is not evicted where a data set has no remote: its files may be the only copy",
            )
            .with("shard", shard)
            .with("directory", dir.path.display()));
        }
        let was_here = dir.refresh_present(shard) != 0;
        let bytes = self.disk_bytes(shard);
        evict(self, shard, bytes);
        if dir.refresh_present(shard) != 0 && self.await_exact_holds() {
            evict(self, shard, bytes);
        }
        if dir.unremovable.lock().contains(&shard) {
            return Err(not_removable(dir));
        }
        Ok(was_here && dir.refresh_present(shard) == 0)
    }
}

/// Returns the error of a directory with shards that this user may not remove.
pub(super) fn not_removable(dir: &SharedDir) -> Error {
    let message = "shards in the cache folder belong to a different user and cannot be removed to make room: give each \
                   user a separate `local`";
    let shards = dir.unremovable.lock().len();
    Error::new(ErrorKind::Permission, message).with("directory", dir.path.display()).with("shards", shards)
}

/// Removes the files of `shard`, unless it has been claimed or held since it was chosen. Returns the part of its
/// `bytes` that is free at once.
pub(super) fn evict(stream: &StreamCache, shard: u32, bytes: u64) -> u64 {
    let dir = &stream.dir;
    let copy = dir.copy_on_disk(shard);
    let mut locks = dir.locks.lock();
    let (claim, hold) = (claim::CLAIM + u64::from(shard), claim::HOLD + u64::from(shard));
    if !locks.try_exclusive(claim) {
        return 0;
    }
    // A reader takes the hold first and checks afterwards that the shard is there, so one of the two notices:
    // either the hold is refused here, or the reader finds that the file is gone.
    if !locks.try_exclusive(hold) {
        locks.release(claim);
        return 0;
    }
    // The data file first: without it the remaining files do not look like a shard.
    if std::fs::remove_file(dir.data_path(shard)).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) {
        // Of a different user, in a folder with the sticky bit. Different shards are chosen from now on.
        dir.unremovable.lock().insert(shard);
    } else {
        files_of(&dir.shards[shard as usize]).for_each(|file| remove_quietly(&dir.path_of(file)));
    }
    let is_gone = dir.refresh_present(shard) & RAW == 0;
    locks.release(hold);
    locks.release(claim);
    if !is_gone {
        return 0;
    }
    stream.counters.evicted.add(1);
    stream.counters.evicted_bytes.add(bytes);
    // After the removal: see the check of a reader that has just opened the shard.
    if let Some(copy) = copy {
        locks.announce_evicted(copy);
    }
    if copy.is_some_and(|copy| locks.is_shared(copy)) { 0 } else { bytes }
}
