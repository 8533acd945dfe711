//! Replacement of a shard's files under their names.

use super::claim;
use super::publish::{PublishFile, check_file};
use super::shards::{raw_files, zip_files};
use super::stream_cache::StreamCache;
use super::write::{WriteMode, write_file};
use crate::error::{Error, Result};
use crate::sync::AtomicBool;
use std::fs::File;

impl StreamCache {
    /// Writes `files` over the files of `shard`: each replaces the old one when all its bytes are on the medium.
    /// Readers that have the old files open keep them. False, without a change, if the shard is held or being fetched.
    ///
    /// Both copies of a file are on disk for a moment, which is not for a directory with a limit.
    ///
    /// # Errors
    ///
    /// `Checksum` for a wrong size, `Config` if a data set on the directory has no remote, `Full`, `Permission` or `Io`
    /// from the disk. The files that were not written yet are then unchanged.
    pub(crate) fn replace(&self, shard: u32, files: &[PublishFile<'_>]) -> Result<bool> {
        let dir = &self.dir;
        dir.check_process()?;
        let all = dir.files(shard)?;
        for file in files {
            check_file(all, file).map_err(|e| e.with("file", file.name).with("shard", shard))?;
        }
        let mut locks = ShardLocks::try_take(self, shard)?;
        if locks.is_none() && self.await_exact_holds() {
            locks = ShardLocks::try_take(self, shard)?;
        }
        let Some(_locks) = locks else { return Ok(false) };
        // Without unnamed files, the new file has a temporary name and is renamed.
        let unnamed_files = AtomicBool::new(false);
        let is_alone = dir.locks.lock().is_available();
        let zips = zip_files(all).filter(|_| self.config.keep_zip || !self.has_remote());
        for expected in zips.chain(raw_files(all).rev()) {
            if let Some(file) = files.iter().find(|file| *file.name == *expected.basename) {
                let label = |written: &File| self.label(all, expected, written);
                let mode = WriteMode { is_alone, unnamed_files: &unnamed_files, label: &label };
                write_file(&dir.path_of(expected), file.content, mode).map_err(|e| e.with("shard", shard))?;
                self.counters.published_bytes.add(expected.bytes);
            }
        }
        dir.refresh_present(shard);
        self.counters.published.add(1);
        Ok(true)
    }
}

/// Locks of a process that changes the files of a shard, as an evictor and a fetcher take them.
struct ShardLocks<'a> {
    stream: &'a StreamCache,
    shard: u32,
}

impl<'a> ShardLocks<'a> {
    fn try_take(stream: &'a StreamCache, shard: u32) -> Result<Option<Self>> {
        let mut locks = stream.dir.locks.lock();
        if locks.is_shared(claim::LOCAL_ONLY) {
            let why = "a shard is not replaced where a data set has no remote: its files may be the only copy";
            let error = Error::config(why).with("shard", shard);
            return Err(error.with("directory", stream.dir.path.display()));
        }
        if !locks.try_exclusive(claim::CLAIM + u64::from(shard)) {
            return Ok(None);
        }
        if !locks.try_exclusive(claim::HOLD + u64::from(shard)) {
            locks.release(claim::CLAIM + u64::from(shard));
            return Ok(None);
        }
        Ok(Some(Self { stream, shard }))
    }
}

impl Drop for ShardLocks<'_> {
    fn drop(&mut self) {
        let dir = &self.stream.dir;
        if !dir.is_own_process() {
            return;
        }
        let mut locks = dir.locks.lock();
        locks.release(claim::HOLD + u64::from(self.shard));
        locks.release(claim::CLAIM + u64::from(self.shard));
        drop(locks);
        dir.watch.wake();
        dir.wake_waiters();
    }
}
