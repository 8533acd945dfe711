//! One data set's handle on the shards of one stream.

use super::access_time::{AccessTime, accessed_ns};
use super::claim;
use super::evict::evict_now;
use super::group::{CacheGroup, GroupMember};
use super::listing::{list, survey};
use super::open;
use super::publish::{ClaimOutcome, ShardClaim};
use super::residency::ResidencyGuard;
use super::shards::{ShardFiles, ShardSet};
use super::shared_dir::{OpenShard, SharedDir, ZIP};
use super::stream_state::{PublishCounters, StreamState};
use super::wait_policy::WaitPolicy;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::sync::{Arc, AtomicU32, Ordering};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Settings of a [`StreamCache`].
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamCacheConfig {
    /// The stream's directory on local disk (`local/split`).
    pub(crate) dir: PathBuf,
    /// All shards of the stream's index.
    pub(crate) shards: Arc<ShardSet>,
    /// Absent shards can be fetched. Without a remote nothing is ever deleted.
    pub(crate) has_remote: bool,
    /// Keep the compressed files next to the raw ones.
    pub(crate) keep_zip: bool,
    /// Directories that share one limit, and the limit.
    pub(crate) group: Arc<CacheGroup>,
    /// Number of shard 0 where the data set's plan numbers shards across all streams: the numbers that `next_use` is
    /// called with. All other numbers are those of this directory's index.
    pub(crate) first_shard: u32,
    /// Trust the medium's write cache: link shards without waiting until their bytes are on the medium. A machine that
    /// loses power may then keep a shard of the right size with holes in it.
    pub(crate) skip_sync: bool,
    /// Clock for waits and access times.
    pub(crate) clock: Clock,
}

/// State of a shard on local disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardState {
    /// Not on disk.
    Absent,
    /// Only the compressed files are on disk.
    Packed,
    /// This process is fetching it.
    Claimed,
    /// On disk.
    Resident,
}

/// Shards of one stream on local disk, as one data set sees them. Cheap to clone.
///
/// Belongs to the process that opened it: in a forked child every call is an error.
#[derive(Clone, Debug)]
pub(crate) struct StreamCache {
    pub(super) state: Arc<StreamState>,
}

impl StreamCache {
    /// Opens a directory, which is created if shards can be fetched into it, and lists it.
    ///
    /// `index.json` should be there already (see [`install_index`](super::install_index)), because it carries the
    /// locks.
    ///
    /// # Errors
    ///
    /// `Stale` when another data set of this process uses the directory with other shards, `NotFound` or `Permission`
    /// when there is no directory and none can be created.
    pub(crate) fn open(config: StreamCacheConfig, stats: &Stats) -> Result<Self> {
        if config.has_remote {
            create_directory(&config.dir)?;
        }
        let dir = SharedDir::join(&config.dir, config.shards)?;
        let state = StreamState {
            member: Arc::new(GroupMember::new(dir.clone(), config.has_remote, config.first_shard, stats)),
            dir,
            group: config.group,
            has_remote: config.has_remote,
            keep_zip: config.keep_zip,
            sync: !config.skip_sync,
            clock: config.clock,
            room_requests: AtomicU32::new(0),
            counters: PublishCounters::new(stats),
        };
        state.announce();
        let dir = &state.dir;
        if let Some(errno) = dir.locks.lock().unavailable {
            stats.note(format!("no locks in {} ({errno}): processes may fetch twice", dir.path.display()));
        }
        if state.has_remote {
            survey(dir, state.keep_zip);
        }
        state.group.join(&state.member);
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns the absolute path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.state.dir.path
    }

    /// Returns the files of all shards.
    pub(crate) fn shards(&self) -> &[ShardFiles] {
        &self.state.dir.shards
    }

    /// Returns the bytes that `shard` occupies once it is published: raw, and compressed if that is kept.
    pub(crate) fn disk_bytes(&self, shard: u32) -> u64 {
        self.shards().get(shard as usize).map_or(0, |files| files.disk_bytes(self.state.keep_zip))
    }

    /// Returns true if absent shards can be fetched.
    pub(crate) fn has_remote(&self) -> bool {
        self.state.has_remote
    }

    /// Lets reads of the shards fill the page cache: for data that fits there and is read again every epoch.
    pub(crate) fn keep_in_page_cache(&self) {
        self.state.dir.features.keep_in_page_cache();
    }

    /// Returns the last known state of `shard`. The disk is read the first time; another process may have changed it
    /// since.
    pub(crate) fn state(&self, shard: u32) -> ShardState {
        let dir = &self.state.dir;
        if shard as usize >= dir.shards.len() {
            return ShardState::Absent;
        }
        let present = dir.present(shard);
        if self.state.is_complete(shard, present) {
            ShardState::Resident
        } else if self.is_claimed_here(shard) {
            ShardState::Claimed
        } else if present & ZIP != 0 {
            ShardState::Packed
        } else {
            ShardState::Absent
        }
    }

    /// Tries to become the one process and thread that fetches `shard`. Does not wait.
    ///
    /// # Errors
    ///
    /// `NotFound` when the shard is absent and there is no remote, `Permission` when the directory cannot be written,
    /// `Closed` in a forked child.
    pub(crate) fn try_claim(&self, shard: u32) -> Result<ClaimOutcome> {
        let (state, dir) = (&self.state, &self.state.dir);
        dir.check_process()?;
        dir.files(shard)?;
        let claim = claim::CLAIM + u64::from(shard);
        if state.is_complete(shard, dir.present(shard))
            && let Some(guard) = ResidencyGuard::of_resident(state, shard)
        {
            return Ok(ClaimOutcome::Resident(guard));
        }
        let mut locks = dir.locks.lock();
        if locks.claims.contains(&shard) {
            return Ok(ClaimOutcome::Busy);
        }
        let present = dir.refresh_present(shard);
        if !state.is_complete(shard, present) {
            self.check_fetchable(shard, present)?;
            if !locks.try_exclusive(claim) {
                return Ok(ClaimOutcome::Busy);
            }
            // Between the check and the lock another process may have published the shard and released its claim.
            if !state.is_complete(shard, dir.refresh_present(shard)) {
                locks.claims.insert(shard);
                return Ok(ClaimOutcome::Claimed(ShardClaim::new(state.clone(), shard)));
            }
            locks.release(claim);
        }
        drop(locks);
        // It was on disk, but not guarded: it may have been evicted since.
        Ok(ResidencyGuard::of_resident(state, shard).map_or(ClaimOutcome::Busy, ClaimOutcome::Resident))
    }

    /// Claims `shard` like [`try_claim`](Self::try_claim), but waits while another thread or process fetches it.
    ///
    /// # Errors
    ///
    /// Those of [`try_claim`](Self::try_claim) and of the wait.
    pub(crate) fn claim(&self, shard: u32, policy: WaitPolicy<'_>) -> Result<ClaimOutcome> {
        let (state, dir) = (&self.state, &self.state.dir);
        let mut wait = policy.start(&state.clock);
        loop {
            let version = dir.watch.version(&state.folder_of(shard)?);
            match self.try_claim(shard)? {
                ClaimOutcome::Busy => {
                    wait.note_pulse(dir.locks.lock().is_pulse_up(shard));
                    let what = || format!("{}, which {} fetches", state.name(shard), self.holder(shard));
                    dir.watch.wait(version, wait.remaining(what)?);
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Opens the raw files of `shard` and sets its access time; `None` if it is not on disk (evicted, or never
    /// fetched).
    ///
    /// Readers share one set of descriptors. The bytes count towards the limit until the last reader drops it, even if
    /// the shard is evicted before.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Checksum` when a stream without a remote lacks the shard or has it in another size;
    /// `Permission`, `Io` when a file cannot be opened.
    pub(crate) fn open_shard(&self, shard: u32) -> Result<Option<Arc<OpenShard>>> {
        open::open_shard(&self.state, shard)
    }

    /// Opens the data file of `shard` for one read and sets its access time; `None` if it is not on disk.
    ///
    /// The descriptor does not count: where shards may be evicted, a process that reads occasionally does not block the
    /// room of an evicted shard.
    ///
    /// # Errors
    ///
    /// `NotFound` when a stream without a remote lacks the shard, `Permission` or `Io` when it cannot be opened.
    pub(crate) fn open_once(&self, shard: u32, access_time: &AccessTime) -> Result<Option<OwnedFd>> {
        open::open_once(&self.state, shard, access_time)
    }

    /// Wakes every thread of this process that waits on this directory or its group: the plan has advanced, or a stop
    /// flag was set.
    pub(crate) fn wake(&self) {
        self.state.wake();
    }

    /// Returns true if a running job limits the bytes of the directory.
    pub(crate) fn is_limited(&self) -> bool {
        let dir = &self.state.dir;
        dir.is_own_process() && dir.locks.lock().strictest_limit().is_some()
    }

    /// Announces to the data sets of all processes that a consumer waits for room, until the answer is dropped.
    pub(crate) fn request_room(&self) -> RoomRequest {
        if self.state.dir.is_own_process() {
            self.state.room_requests.fetch_add(1, Ordering::Relaxed);
            self.state.dir.locks.lock().share(claim::NEED);
        }
        RoomRequest(self.state.clone())
    }

    /// Returns true if a consumer of another data set waits for room, in this or another process. Shards that are kept
    /// for later samples should then be released.
    pub(crate) fn is_room_requested(&self) -> bool {
        let dir = &self.state.dir;
        let own = self.state.room_requests.load(Ordering::Relaxed);
        dir.is_own_process() && dir.locks.lock().is_room_requested(own)
    }

    /// Returns the bytes of evicted shards that this process still has open. They are free for other shards only when
    /// they are closed.
    pub(crate) fn evicted_open_bytes(&self) -> u64 {
        let dir = &self.state.dir;
        if dir.is_own_process() { dir.locks.lock().evicted_open_bytes } else { 0 }
    }

    /// Removes `shard` from the directory now, whatever the limit; false if it is held, being fetched, or not here.
    ///
    /// # Errors
    ///
    /// `Config` when this or another data set on the directory has no remote: the files may be the only copy.
    pub(crate) fn evict(&self, shard: u32) -> Result<bool> {
        evict_now(&self.state.member, shard, self.disk_bytes(shard))
    }

    /// Returns the least recently used shard on disk with its access time in nanoseconds since 1970; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub(crate) fn least_recently_used(&self) -> Result<Option<(u128, u32)>> {
        let dir = &self.state.dir;
        let listing = list(dir)?;
        let present = (0u32..).zip(&listing.files).filter(|(_, files)| **files != 0);
        Ok(present.map(|(shard, _)| (accessed_ns(dir.data_path(shard)), shard)).min())
    }

    /// Returns the bytes of the index and of all shards on disk.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        Ok(list(&self.state.dir)?.bytes)
    }

    /// Checks before a download that `shard` can be fetched.
    fn check_fetchable(&self, shard: u32, present: u8) -> Result<()> {
        if !self.state.has_remote && present & ZIP == 0 {
            return Err(self.state.unusable_error(shard));
        }
        rustix::fs::access(self.path(), rustix::fs::Access::WRITE_OK).map_err(|errno| {
            Error::from_io(
                errno.into(),
                "the cache directory lacks a shard and cannot be written: choose another `local`, or complete it",
            )
            .with("shard", shard)
            .with("directory", self.path().display())
        })
    }

    fn is_claimed_here(&self, shard: u32) -> bool {
        let dir = &self.state.dir;
        dir.is_own_process() && dir.locks.lock().claims.contains(&shard)
    }

    /// Returns the holder of the claim of `shard`, for messages.
    fn holder(&self, shard: u32) -> &'static str {
        if self.is_claimed_here(shard) { "another thread" } else { "another process" }
    }
}

/// Announcement of a consumer that waits for room; see [`StreamCache::request_room`].
#[derive(Debug)]
pub(crate) struct RoomRequest(Arc<StreamState>);

impl Drop for RoomRequest {
    fn drop(&mut self) {
        if self.0.dir.is_own_process() {
            self.0.dir.locks.lock().unshare(claim::NEED);
            self.0.room_requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn create_directory(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).or_else(|e| if dir.is_dir() { Ok(()) } else { Err(e) }).map_err(|e| {
        Error::from_io(e, "the cache directory cannot be made: choose another `local`").with("directory", dir.display())
    })
}
