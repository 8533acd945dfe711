//! One data set's view of the shards of one stream, below the claims, guards and readers that belong to it.

use super::access_time::accessed_ns;
use super::blocks::Blocks;
use super::claim;
use super::dir_locks::LimitRefusal;
use super::fetched_versions::FetchedVersions;
use super::listing::{list, survey};
use super::shards::{ShardSet, raw_files};
use super::shared_dir::{RAW, SharedDir, ZIP};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::INDEX_BASENAME;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU32, Mutex, Ordering, Weak};
use crate::versions::Versions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of a [`StreamCache`].
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamCacheConfig {
    /// The stream's directory on local disk (`local/split`).
    pub(crate) dir: PathBuf,
    /// Folder of the shards, if they are read where they are and the directory has the index alone.
    pub(crate) files: Option<PathBuf>,
    /// Versions of these files, if they are compared.
    pub(crate) versions: Option<Arc<Versions>>,
    /// Versions of the objects that shards are fetched from, if they are compared.
    pub(crate) fetched: Option<FetchedVersions>,
    /// All shards of the stream's index.
    pub(crate) shards: Arc<ShardSet>,
    /// Absent shards can be fetched. Without a remote nothing is ever deleted.
    pub(crate) has_remote: bool,
    /// Name of the remote, if the index has no hashes: then different data may have the same index.
    pub(crate) remote: Option<String>,
    /// Keep the compressed files next to the raw ones.
    pub(crate) keep_zip: bool,
    /// Directories that share one limit, and the limit.
    pub(crate) group: Arc<CacheGroup>,
    /// Number of shard 0 where the data set's plan numbers shards across all streams: the numbers that `next_use` is
    /// called with. All remaining numbers are the numbers of this directory's index.
    pub(crate) first_shard: u32,
    /// Blocks by which the bytes on disk are counted; `None`: the blocks of the file system.
    pub(crate) blocks: Option<Blocks>,
    /// Clock for waits and access times.
    pub(crate) clock: Clock,
}

/// Directories of a data set's streams, which share its `cache_limit`.
///
/// Their shards are numbered across all streams ([`StreamCacheConfig::first_shard`]), so one plan covers them and a
/// shard of one stream may be evicted for one of a second stream. Streams without a remote neither count nor lose
/// anything.
#[derive(Debug, Default)]
pub(crate) struct CacheGroup {
    /// Announced by a lock, from which eviction reads it.
    limit: Option<u64>,
    members: Mutex<Vec<Weak<StreamCache>>>,
}

impl CacheGroup {
    /// Creates a group with directories that may hold `cache_limit` bytes together; `None` for as many as the disk has.
    pub(crate) fn new(cache_limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self { limit: cache_limit, members: Mutex::default() })
    }

    /// Returns the members with shards that may be evicted, each directory once, in an order that is the same in every
    /// process: their locks are taken in it. `own` represents its directory.
    pub(super) fn evictable(&self, own: &Arc<StreamCache>) -> Vec<Arc<StreamCache>> {
        let mut members: Vec<_> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        // `dedup_by` keeps the first of each directory.
        members.insert(0, own.clone());
        members.retain(|member| member.config.has_remote);
        members.sort_by(|a, b| a.dir.path.cmp(&b.dir.path));
        members.dedup_by(|a, b| Arc::ptr_eq(&a.dir, &b.dir));
        members
    }
}

/// Statistics of published and evicted shards.
#[derive(Debug)]
pub(super) struct CacheCounters {
    pub(super) published: Arc<Counter>,
    pub(super) published_bytes: Arc<Counter>,
    pub(super) lost_races: Arc<Counter>,
    pub(super) evicted: Arc<Counter>,
    pub(super) evicted_bytes: Arc<Counter>,
}

/// Shards of one stream on local disk, as one data set sees them.
///
/// Belongs to the process that opened it: in a forked child every call is an error. Claims are made by `publish`,
/// readers by `open`; `evict` removes shards.
#[derive(Debug)]
pub(crate) struct StreamCache {
    pub(super) config: StreamCacheConfig,
    pub(super) dir: Arc<SharedDir>,
    pub(super) counters: CacheCounters,
    /// Requests for room by this data set, out of the requests of the whole process.
    room_requests: AtomicU32,
}

impl StreamCache {
    /// Opens a directory, which is created if shards can be fetched into it, and lists it.
    ///
    /// `index.json` should be there already (see [`IndexSource`](super::IndexSource)), because it carries the
    /// locks.
    ///
    /// # Errors
    ///
    /// `Stale` when a second data set of this process uses the directory with different shards, or a second job fetches
    /// into it from a different remote; `Config` for a limit without locks, and `Permission` for one among several
    /// users that cannot lock or remove the files of the rest; `NotFound` or `Permission` when there is no directory
    /// and none can be created.
    pub(crate) fn open(config: StreamCacheConfig, stats: &Stats) -> Result<Arc<Self>> {
        if config.has_remote {
            std::fs::create_dir_all(&config.dir).map_err(|e| {
                let why = "the cache directory cannot be made: set `local`, or XDG_CACHE_HOME, to a folder that can be \
                           written";
                let e = Error::from_io(e, why).with("directory", config.dir.display());
                // File systems such as /sys and /proc answer that their folder does not exist.
                if e.kind() == ErrorKind::NotFound { e.of_kind(ErrorKind::Permission) } else { e }
            })?;
        }
        let dir = SharedDir::join(&config.dir, config.files.as_deref(), config.shards.clone(), config.blocks)?;
        let counters = CacheCounters {
            published: stats.counter("cache_published"),
            published_bytes: stats.counter("cache_published_bytes"),
            lost_races: stats.counter("cache_lost_races"),
            evicted: stats.counter("cache_evicted"),
            evicted_bytes: stats.counter("cache_evicted_bytes"),
        };
        let stream = Arc::new(Self { config, dir, counters, room_requests: AtomicU32::new(0) });
        let mut locks = stream.dir.locks.lock();
        stream.announcements().for_each(|position| locks.share(position));
        if let Some(errno) = locks.unavailable {
            stats.note(format!("no locks in {} ({errno}): processes may fetch twice", stream.dir.path.display()));
        }
        // Announced first: of two jobs that start together, at least one finds the second one.
        let remote = stream.config.remote.as_deref();
        if let Some(remote) = remote.filter(|remote| locks.has_different_remote(claim::remote(remote))) {
            drop(locks);
            let message =
                "a second job fetches into this directory from a different remote: choose a different `local`";
            return Err(Error::new(ErrorKind::Stale, message)
                .with("directory", stream.dir.path.display())
                .with("remote", remote));
        }
        let refusal =
            if stream.config.has_remote { locks.limit_refusal(stream.config.group.limit.is_some()) } else { None };
        drop(locks);
        if let Some(refusal) = refusal {
            return Err(stream.refused(refusal));
        }
        if stream.config.has_remote {
            survey(&stream.dir, stream.config.keep_zip);
        }
        let mut members = stream.config.group.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(&stream));
        drop(members);
        Ok(stream)
    }

    /// Shared locks that announce this data set's settings to all jobs, as long as it lives.
    fn announcements(&self) -> impl Iterator<Item = u64> {
        let limit = self.config.group.limit.filter(|_| self.config.has_remote);
        let limit = limit.map(|limit| claim::LIMIT + limit.min(claim::LIMIT_MAX));
        let keep_zip = self.config.keep_zip.then_some(claim::KEEP_ZIP);
        let local_only = (!self.config.has_remote).then_some(claim::LOCAL_ONLY);
        let remote = self.config.remote.as_deref().map(claim::remote);
        limit.into_iter().chain(keep_zip).chain(local_only).chain(remote)
    }

    /// Returns the error of a directory that has a limit which cannot be kept.
    fn refused(&self, refusal: LimitRefusal) -> Error {
        let path = &self.dir.path;
        let error = match refusal {
            LimitRefusal::DifferentUser => {
                let message = "`cache_limit` needs locks and the right to remove shards, but several users share this \
                               cache folder, and one of them may not write its index.json: give each user a \
                               separate `local`";
                let owner = std::fs::metadata(path.join(INDEX_BASENAME)).map_or(0, |meta| meta.uid());
                Error::new(ErrorKind::Permission, message)
                    .with("owner", owner)
                    .with("user", rustix::process::geteuid().as_raw())
            }
            LimitRefusal::InUse(errno) => Error::config(format!(
                "`cache_limit` needs locks, which the file system of the cache folder does not have ({errno}), and \
                 another process uses the folder: give each process a separate `local`, or choose one on a local disk"
            )),
            LimitRefusal::NoLocks(errno) => Error::config(format!(
                "`cache_limit` needs locks, which the file system of the cache folder does not have ({errno}): choose \
                 a `local` on a local disk, or leave cache_limit out"
            )),
        };
        error.with("directory", path.display())
    }

    /// Returns the bytes that `shard` occupies once it is published: raw, and compressed if that is kept.
    pub(super) fn disk_bytes(&self, shard: u32) -> u64 {
        self.dir.disk_bytes(shard, self.config.keep_zip)
    }

    /// Returns the blocks by which the bytes on disk are counted.
    pub(crate) fn blocks(&self) -> Blocks {
        self.dir.blocks
    }

    /// Returns true if absent shards can be fetched.
    pub(crate) fn has_remote(&self) -> bool {
        self.config.has_remote
    }

    /// Returns the directory of the index.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir.path
    }

    /// Versions of the files that are read where they are, if they are compared.
    pub(crate) fn versions(&self) -> Option<&Arc<Versions>> {
        self.config.versions.as_ref()
    }

    /// Versions of the objects that shards are fetched from, if they are compared.
    pub(crate) fn fetched(&self) -> Option<&FetchedVersions> {
        self.config.fetched.as_ref()
    }

    /// Returns the paths of the uncompressed files of `shard`.
    pub(crate) fn raw_paths(&self, shard: u32) -> Vec<PathBuf> {
        raw_files(&self.dir.shards[shard as usize]).map(|file| self.dir.path_of(file)).collect()
    }

    /// Returns the folder of the files that the samples of `shard` are put together from when they are read; `None` for
    /// a shard that has a data file, or will.
    pub(crate) fn folder_of_files(&self, shard: u32) -> Option<&Path> {
        self.dir.shards.get(shard as usize).filter(|shard| self.dir.is_assembled(shard)).map(|_| &*self.dir.files)
    }

    /// Lets reads of the shards fill the page cache: for data that fits there and is read again every epoch.
    pub(crate) fn keep_in_page_cache(&self) {
        self.dir.features.keep_in_page_cache();
    }

    /// Returns true if `shard` was on disk when that was last checked. The disk is read the first time; a different
    /// process may have changed it since.
    pub(crate) fn is_resident(&self, shard: u32) -> bool {
        self.is_complete(shard, self.dir.present(shard))
    }

    /// Returns true if `present` has all files of `shard` that this data set needs.
    pub(super) fn is_complete(&self, shard: u32, present: u8) -> bool {
        let config = &self.config;
        let needs_zip = config.keep_zip && config.has_remote && self.dir.shards[shard as usize].zip_data.is_some();
        present & RAW != 0 && (!needs_zip || present & ZIP != 0)
    }

    /// Wakes every thread of this process that waits for a change in a directory: the plan has advanced, or a stop flag
    /// was set.
    pub(crate) fn wake(&self) {
        if self.dir.is_own_process() {
            self.dir.watch.wake();
        }
    }

    /// Lets changes by all processes end a wait for a change.
    pub(crate) fn watch_folders(&self) {
        for (folder, _) in &self.dir.folders {
            self.dir.watch.version(folder);
        }
    }

    /// Returns the number to pass to [`wait_for_change`](Self::wait_for_change), taken before the state that is waited
    /// for is checked.
    pub(crate) fn changes(&self) -> u64 {
        self.dir.watch.changes()
    }

    /// Waits until a different thread or process changes something in a directory of this process after `changes` was
    /// taken: a shard, a claim, the room that is kept. At most a quarter of a second.
    pub(crate) fn wait_for_change(&self, changes: u64) {
        self.dir.watch.wait(changes, Duration::MAX);
    }

    /// Returns true if a running job limits the bytes of the directory.
    pub(crate) fn is_limited(&self) -> bool {
        self.dir.is_own_process() && self.dir.locks.lock().strictest_limit().is_some()
    }

    /// Announces to the data sets of all processes that a consumer waits for room, until the answer is dropped.
    pub(crate) fn request_room(self: &Arc<Self>) -> RoomRequest {
        if self.dir.is_own_process() {
            self.room_requests.fetch_add(1, Ordering::Relaxed);
            self.dir.locks.lock().share(claim::NEED);
            self.dir.watch.wake();
            self.dir.wake_waiters();
        }
        RoomRequest(self.clone())
    }

    /// Returns true if a consumer of a different data set waits for room, in any process. Shards that are kept
    /// for later samples should then be released.
    pub(crate) fn is_room_requested(&self) -> bool {
        let own = self.room_requests.load(Ordering::Relaxed);
        self.dir.is_own_process() && self.dir.locks.lock().is_room_requested(own)
    }

    /// Returns the least recently used shard on disk with its access time in nanoseconds since 1970; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub(crate) fn least_recently_used(&self) -> Result<Option<(u128, u32)>> {
        let listing = list(&self.dir)?;
        let present = (0u32..).zip(&listing.files).filter(|(_, files)| **files != 0);
        Ok(present.map(|(shard, _)| (accessed_ns(self.dir.data_path(shard)), shard)).min())
    }

    /// Returns the lengths of the index and of all shards on disk.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        Ok(list(&self.dir)?.bytes)
    }

    /// Returns the name of a shard in messages: "shard 3 (shard.00003.mds)".
    pub(super) fn name(&self, shard: u32) -> String {
        format!("shard {shard} ({})", self.dir.shards[shard as usize].raw_data.basename)
    }

    /// Returns the error for a stream without a remote that cannot use `shard`. It names the first file that is missing
    /// or has the wrong size.
    pub(super) fn unusable_error(&self, shard: u32) -> Error {
        let missing = "a shard is missing and the stream has no remote to fetch it from";
        let wrong_size = "a shard's size differs from the index, and the stream has no remote to fetch it from";
        let shard_files = &self.dir.shards[shard as usize];
        let size = |file| std::fs::metadata(self.dir.path_of(file)).ok().map(|meta| meta.len());
        let (file, found) = raw_files(shard_files)
            .map(|file| (file, size(file)))
            .find(|(file, found)| !found.is_some_and(|bytes| shard_files.accepts(file, bytes)))
            // All are there by now: the caller checked a moment earlier.
            .unwrap_or((&shard_files.raw_data, None));
        let error = match found {
            Some(bytes) => Error::new(ErrorKind::Checksum, wrong_size)
                .with("bytes", bytes)
                .with("expected", shard_files.disk_bytes(file)),
            None => Error::new(ErrorKind::NotFound, missing),
        };
        error.with("file", self.dir.path_of(file).display()).with("shard", shard)
    }
}

impl Drop for StreamCache {
    fn drop(&mut self) {
        if self.dir.is_own_process() {
            let mut locks = self.dir.locks.lock();
            self.announcements().for_each(|position| locks.unshare(position));
        }
    }
}

/// Announcement of a consumer that waits for room; see [`StreamCache::request_room`].
#[derive(Debug)]
pub(crate) struct RoomRequest(Arc<StreamCache>);

impl Drop for RoomRequest {
    fn drop(&mut self) {
        if self.0.dir.is_own_process() {
            self.0.dir.locks.lock().unshare(claim::NEED);
            self.0.room_requests.fetch_sub(1, Ordering::Relaxed);
            self.0.dir.watch.wake();
            self.0.dir.wake_waiters();
        }
    }
}
