//! State of one data set on one directory, below the claims, guards and readers that belong to it.

use super::claim;
use super::group::{CacheGroup, GroupMember};
use super::shared_dir::{RAW, SharedDir, ZIP};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU32};
use std::path::PathBuf;

/// One data set's settings and counters on one directory.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) dir: Arc<SharedDir>,
    pub(super) member: Arc<GroupMember>,
    pub(super) group: Arc<CacheGroup>,
    pub(super) has_remote: bool,
    pub(super) keep_zip: bool,
    /// Force published files to the medium.
    pub(super) sync: bool,
    pub(super) clock: Clock,
    /// Requests for room by this data set, out of those of the whole process.
    pub(super) room_requests: AtomicU32,
    pub(super) counters: PublishCounters,
}

/// Statistics of published shards.
#[derive(Debug)]
pub(super) struct PublishCounters {
    pub(super) published: Arc<Counter>,
    pub(super) published_bytes: Arc<Counter>,
    pub(super) lost_races: Arc<Counter>,
}

impl PublishCounters {
    pub(super) fn new(stats: &Stats) -> Self {
        Self {
            published: stats.counter("cache_published"),
            published_bytes: stats.counter("cache_published_bytes"),
            lost_races: stats.counter("cache_lost_races"),
        }
    }
}

impl StreamState {
    /// Shared locks that announce this data set's settings to other jobs.
    fn announcements(&self) -> impl Iterator<Item = u64> {
        let limit = self.group.cache_limit().filter(|_| self.has_remote);
        let limit = limit.map(|limit| claim::LIMIT + limit.min(claim::LIMIT_MAX));
        let keep_zip = self.keep_zip.then_some(claim::KEEP_ZIP);
        let local_only = (!self.has_remote).then_some(claim::LOCAL_ONLY);
        limit.into_iter().chain(keep_zip).chain(local_only)
    }

    /// Announces the settings to other jobs, until this value is dropped.
    pub(super) fn announce(&self) {
        let mut locks = self.dir.locks.lock();
        self.announcements().for_each(|position| locks.share(position));
    }

    /// Wakes the threads of this process that wait on this directory or its group.
    pub(super) fn wake(&self) {
        if self.dir.is_own_process() {
            self.dir.watch.wake();
            self.group.wake();
        }
    }

    /// Returns true if `present` has all files of `shard` that this data set needs.
    pub(super) fn is_complete(&self, shard: u32, present: u8) -> bool {
        let needs_zip = self.keep_zip && self.has_remote && !self.dir.shards[shard as usize].zip.is_empty();
        present & RAW != 0 && (!needs_zip || present & ZIP != 0)
    }

    /// Returns the name of a shard in messages: "shard 3 (shard.00003.mds)".
    pub(super) fn name(&self, shard: u32) -> String {
        let file = self.dir.shards.get(shard as usize).map_or("?", |f| &f.raw[0].name);
        format!("shard {shard} ({file})")
    }

    /// Returns the folder of the data file of `shard`.
    pub(super) fn folder_of(&self, shard: u32) -> Result<PathBuf> {
        self.dir.files(shard)?;
        Ok(self.dir.folder_of(shard))
    }

    /// Returns the error for a stream without a remote that cannot use `shard`. It names the first file that is missing
    /// or has the wrong size.
    pub(super) fn unusable_error(&self, shard: u32) -> Error {
        let missing = "a shard is missing and the stream has no remote to fetch it from";
        let wrong_size = "a shard's size differs from the index, and the stream has no remote to fetch it from";
        let files = &self.dir.shards[shard as usize].raw;
        let size = |file| std::fs::metadata(self.dir.path_of(file)).ok().map(|meta| meta.len());
        let (file, found) = files
            .iter()
            .map(|file| (file, size(file)))
            .find(|(file, found)| *found != Some(file.bytes))
            // All are there by now: the caller checked a moment earlier.
            .unwrap_or((&files[0], None));
        let error = match found {
            Some(bytes) => {
                Error::new(ErrorKind::Checksum, wrong_size).with("bytes", bytes).with("expected", file.bytes)
            }
            None => Error::new(ErrorKind::NotFound, missing),
        };
        error.with("file", self.dir.path_of(file).display()).with("shard", shard)
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        if self.dir.is_own_process() {
            let mut locks = self.dir.locks.lock();
            self.announcements().for_each(|position| locks.unshare(position));
        }
    }
}
