//! One data set's handle on one directory: what is resident, and who fetches the rest.

use super::claim;
use super::directory::{Directory, RAW, ZIP};
use super::open::{OpenShard, Touched};
use super::patience::Patience;
use super::publish::{Claim, Claimed};
use super::table::Wants;
use super::{CacheGroup, ShardFiles, ShardSet, listing, open};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU32, Mutex, Ordering};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What a [`CacheDir`] is opened with.
#[derive(Clone, Debug, Default)]
pub struct CacheDirConfig {
    /// The stream's directory on local disk (`local/split`).
    pub dir: PathBuf,
    /// All shards of the stream's index.
    pub shards: Arc<ShardSet>,
    /// Whether absent shards can be fetched. Without a remote nothing is ever deleted.
    pub has_remote: bool,
    /// Keep the compressed files beside the raw ones.
    pub keep_zip: bool,
    /// Bytes that the directory may hold, `index.json` included; `None` for as many as the disk has.
    pub cache_limit: Option<u64>,
    /// Directories that share a limit, instead of `cache_limit`.
    pub group: Option<Arc<CacheGroup>>,
    /// The number of shard 0 where the data set's plan counts shards through all streams: what `next_use` is asked
    /// with. All other numbers are those of this directory's index.
    pub first_shard: u32,
    /// Trust the medium's write cache: link shards without waiting for their bytes to be on disk. A machine that loses
    /// power may then keep a shard of the right size with holes in it.
    pub skip_sync: bool,
    /// Measures waits.
    pub clock: Clock,
}

/// What is known about a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// Not here.
    Absent,
    /// Only its compressed files are here.
    Packed,
    /// This process is fetching it.
    Claimed,
    /// Here.
    Resident,
}

/// Shards of one stream on local disk, as one data set sees them.
///
/// Belongs to the process that opened it: in a forked child every call is an error that says so.
#[derive(Debug)]
pub struct CacheDir {
    pub(super) directory: Arc<Directory>,
    pub(super) wants: Wants,
    pub(super) has_remote: bool,
    pub(super) keep_zip: bool,
    pub(super) sync: bool,
    pub(super) group: Option<Arc<CacheGroup>>,
    pub(super) first_shard: u32,
    pub(super) clock: Clock,
    /// Shards that this data set has published or found and not yet read.
    holds: Mutex<HashSet<u32>>,
    /// Its own needs of room among the table's.
    needs: AtomicU32,
    pub(super) counters: Counters,
}

/// What the statistics say about the cache.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) published: Arc<Counter>,
    pub(super) published_bytes: Arc<Counter>,
    pub(super) evicted: Arc<Counter>,
    pub(super) evicted_bytes: Arc<Counter>,
    pub(super) lost_races: Arc<Counter>,
}

impl CacheDir {
    /// Opens a directory, which is made if shards can be fetched into it, and looks at what it holds.
    ///
    /// `index.json` should be there already (see [`install_index`](super::install_index)): locks live on it.
    ///
    /// # Errors
    ///
    /// `Stale` when another data set of this process uses the directory
    /// with other shards, `NotFound` or `Permission` when there is no directory and none can be made.
    pub fn open(config: CacheDirConfig, stats: &Stats) -> Result<Arc<Self>> {
        if config.has_remote {
            make_directory(&config.dir)?;
        }
        let directory = Directory::join(&config.dir, config.shards)?;
        let limit = config.group.as_ref().map_or(config.cache_limit, |group| group.cache_limit());
        let wants = Wants {
            limit: limit.filter(|_| config.has_remote),
            keep_zip: config.keep_zip,
            local_only: !config.has_remote,
        };
        let mut table = directory.table.lock();
        table.announce(&directory, wants);
        if let Some(errno) = table.no_locks {
            stats.note(format!("no locks in {} ({errno}): processes may fetch twice", directory.path.display()));
        }
        drop(table);
        let dir = Self {
            directory,
            wants,
            has_remote: config.has_remote,
            keep_zip: config.keep_zip,
            sync: !config.skip_sync,
            group: config.group,
            first_shard: config.first_shard,
            clock: config.clock,
            holds: Mutex::new(HashSet::new()),
            needs: AtomicU32::new(0),
            counters: Counters {
                published: stats.counter("cache_published"),
                published_bytes: stats.counter("cache_published_bytes"),
                evicted: stats.counter("cache_evicted"),
                evicted_bytes: stats.counter("cache_evicted_bytes"),
                lost_races: stats.counter("cache_lost_races"),
            },
        };
        listing::survey(&dir);
        let dir = Arc::new(dir);
        if let Some(group) = &dir.group {
            group.join(&dir);
        }
        Ok(dir)
    }

    /// The directory, absolute.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// The shards' files, as configured.
    pub fn shards(&self) -> &[ShardFiles] {
        &self.directory.shards
    }

    /// Bytes that `shard` occupies once it is published: raw, and compressed when that is kept.
    pub fn disk_bytes(&self, shard: u32) -> u64 {
        self.directory.shards.get(shard as usize).map_or(0, |files| {
            let zip = if self.keep_zip { files.zip_bytes() } else { 0 };
            files.raw_bytes().saturating_add(zip)
        })
    }

    /// Whether absent shards can be fetched.
    pub fn has_remote(&self) -> bool {
        self.has_remote
    }

    /// Lets reads of the shards fill the page cache: for data that fits there and is read again every epoch.
    pub fn keep_in_page_cache(&self) {
        self.directory.reads.keep_in_page_cache();
    }

    /// What is known about `shard`; the disk is looked at the first time, and another process may since have changed it.
    pub fn state(&self, shard: u32) -> ShardState {
        if shard as usize >= self.directory.shards.len() {
            return ShardState::Absent;
        }
        let present = self.directory.present(shard);
        if self.suffices(shard, present) {
            ShardState::Resident
        } else if self.directory.is_own_process() && self.directory.table.lock().claims.contains(&shard) {
            ShardState::Claimed
        } else if present & ZIP != 0 {
            ShardState::Packed
        } else {
            ShardState::Absent
        }
    }

    /// Tries to become the one process and thread that fetches `shard`. Does not wait.
    ///
    /// When the shard is here already it is held: nobody evicts it until [`mark_read`](Self::mark_read).
    ///
    /// # Errors
    ///
    /// `NotFound` when the shard is absent and there is no remote, `Permission` when the directory cannot be written,
    /// `Closed` in a forked child.
    pub fn try_claim(self: &Arc<Self>, shard: u32) -> Result<Claim> {
        let directory = &self.directory;
        directory.check_process()?;
        directory.files(shard)?;
        if self.suffices(shard, directory.present(shard)) {
            if !self.hold(shard) {
                return Ok(Claim::Busy);
            }
            if self.still_here(shard) {
                return Ok(Claim::Resident);
            }
        }
        let mut table = directory.table.lock();
        if table.claims.contains(&shard) {
            return Ok(Claim::Busy);
        }
        let present = directory.look(shard);
        if !self.suffices(shard, present) {
            self.check_fetchable(shard, present)?;
            if !table.exclusive(directory, claim::CLAIM + u64::from(shard)) {
                return Ok(Claim::Busy);
            }
            // Between the look and the lock another process may have published it and let go.
            if !self.suffices(shard, directory.look(shard)) {
                table.claims.insert(shard);
                return Ok(Claim::Mine(Claimed::new(self.clone(), shard)));
            }
            table.release(directory, claim::CLAIM + u64::from(shard));
        }
        drop(table);
        // It was here, but not held: it may have gone since.
        if self.hold(shard) && self.still_here(shard) { Ok(Claim::Resident) } else { Ok(Claim::Busy) }
    }

    /// Whether `shard`, which has just been held and so cannot go any more, was still there; gives the hold back if not.
    fn still_here(&self, shard: u32) -> bool {
        let here = self.suffices(shard, self.directory.look(shard));
        if !here {
            self.mark_read(shard);
        }
        here
    }

    /// As [`try_claim`](Self::try_claim), but waits while somebody else fetches the shard.
    ///
    /// # Errors
    ///
    /// As [`try_claim`](Self::try_claim), and those of the wait.
    pub fn claim(self: &Arc<Self>, shard: u32, patience: Patience<'_>) -> Result<Claim> {
        let mut waiting = patience.start(&self.clock);
        loop {
            let version = self.directory.watch.version(&self.folder_of(shard)?);
            match self.try_claim(shard)? {
                Claim::Busy => {
                    waiting.feel(self.pulse(shard));
                    let left = waiting.left(|| format!("{}, which {} fetches", self.name(shard), self.who(shard)))?;
                    self.directory.watch.wait(version, left);
                }
                answer => return Ok(answer),
            }
        }
    }

    /// Waits until `shard` is here, whoever fetches it.
    ///
    /// # Errors
    ///
    /// `Closed` or `Timeout` of the wait, `NotFound` when the shard is absent and there is no remote.
    pub fn wait_resident(&self, shard: u32, patience: Patience<'_>) -> Result<()> {
        self.directory.check_process()?;
        let mut waiting = patience.start(&self.clock);
        let folder = self.folder_of(shard)?;
        loop {
            let version = self.directory.watch.version(&folder);
            let present = self.directory.look(shard);
            if self.suffices(shard, present) {
                return Ok(());
            }
            if !self.has_remote && present & ZIP == 0 {
                return Err(self.absent(shard));
            }
            waiting.feel(self.pulse(shard));
            let left = waiting.left(|| format!("{}, which {} fetches", self.name(shard), self.who(shard)))?;
            self.directory.watch.wait(version, left);
        }
    }

    /// Opens the raw files of `shard` and sets its access time; `None` when it is not here (evicted, or never fetched).
    ///
    /// Readers share one set of descriptors. The bytes count towards the limit until the last reader drops it, even
    /// when the shard is evicted meanwhile.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Checksum` when a stream without a remote lacks the shard or has it in another size;
    /// `Permission`, `Io` when a file cannot be opened.
    pub fn open_shard(self: &Arc<Self>, shard: u32) -> Result<Option<Arc<OpenShard>>> {
        open::open_shard(self, shard)
    }

    /// Opens the data file of `shard` for one read and sets its access time; `None` when it is not here.
    ///
    /// The descriptor does not count: where shards may be evicted, a process that reads now and then keeps nobody from
    /// using the room of a shard that has gone.
    ///
    /// # Errors
    ///
    /// `NotFound` when a stream without a remote lacks the shard, `Permission` or `Io` when it cannot be opened.
    pub fn open_once(&self, shard: u32, touched: &Touched) -> Result<Option<OwnedFd>> {
        open::open_once(self, shard, touched)
    }

    /// The sample that wanted `shard` has been read: from now on it may be evicted when the plan says so.
    pub fn mark_read(&self, shard: u32) {
        if self.directory.is_own_process() && self.holds.lock().remove(&shard) {
            self.directory.table.lock().unhold(&self.directory, shard);
            self.wake();
        }
    }

    /// Marks everything read, as at the end of an epoch that was broken off.
    pub fn mark_all_read(&self) {
        if !self.directory.is_own_process() {
            return;
        }
        let holds = std::mem::take(&mut *self.holds.lock());
        let mut table = self.directory.table.lock();
        for shard in holds {
            table.unhold(&self.directory, shard);
        }
        drop(table);
        self.wake();
    }

    /// Wakes every thread of this process that waits on this directory or its group: the plan moved on, or a stop flag was set.
    pub fn wake(&self) {
        if self.directory.is_own_process() {
            self.directory.watch.wake();
            if let Some(group) = &self.group {
                group.wake();
            }
        }
    }

    /// The directories that share this one's limit, itself among them.
    pub(super) fn members(self: &Arc<Self>) -> Vec<Arc<Self>> {
        self.group.as_ref().map_or_else(|| vec![self.clone()], |group| group.members(self))
    }

    /// Keeps `shard` until [`mark_read`](Self::mark_read); false while another process evicts it.
    pub(super) fn hold(&self, shard: u32) -> bool {
        let mut holds = self.holds.lock();
        if holds.contains(&shard) {
            return true;
        }
        let held = self.directory.table.lock().hold(&self.directory, shard);
        if held {
            holds.insert(shard);
        }
        held
    }

    /// Whether `present` is all that this data set wants of `shard`.
    pub(super) fn suffices(&self, shard: u32, present: u8) -> bool {
        let zip_too = self.keep_zip && self.has_remote && !self.directory.shards[shard as usize].zip.is_empty();
        present & RAW != 0 && (!zip_too || present & ZIP != 0)
    }

    /// "shard 3 (shard.00003.mds)", for messages.
    pub(super) fn name(&self, shard: u32) -> String {
        let file = self.directory.shards.get(shard as usize).map_or("?", |f| &f.raw[0].name);
        format!("shard {shard} ({file})")
    }

    /// Why a stream without a remote cannot use `shard`: the first of its files that is missing or has another size.
    pub(super) fn absent(&self, shard: u32) -> Error {
        let missing = "a shard is missing and the stream has no remote to fetch it from";
        let of_another_size = "a shard's size differs from the index, and the stream has no remote to fetch it from";
        let files = &self.directory.shards[shard as usize].raw;
        let size = |file| std::fs::metadata(self.directory.path_of(file)).ok().map(|meta| meta.len());
        let (file, found) = files
            .iter()
            .map(|file| (file, size(file)))
            .find(|(file, found)| *found != Some(file.bytes))
            // All are there by now: the caller looked a moment earlier.
            .unwrap_or((&files[0], None));
        let error = match found {
            Some(bytes) => {
                Error::new(ErrorKind::Checksum, of_another_size).with("bytes", bytes).with("expected", file.bytes)
            }
            None => Error::new(ErrorKind::NotFound, missing),
        };
        error.with("file", self.directory.path_of(file).display()).with("shard", shard)
    }

    /// The pulse of whoever fetches `shard`: it turns while bytes come in.
    fn pulse(&self, shard: u32) -> bool {
        self.directory.table.lock().pulse(&self.directory, shard)
    }

    /// Whether any live job limits what the directory may hold.
    pub fn is_limited(&self) -> bool {
        self.directory.is_own_process() && self.directory.table.lock().strictest_limit(&self.directory).is_some()
    }

    /// Tells the data sets of all processes that a consumer waits for room, until the answer is dropped.
    pub fn need_room(self: &Arc<Self>) -> RoomNeeded {
        if self.directory.is_own_process() {
            self.needs.fetch_add(1, Ordering::Relaxed);
            self.directory.table.lock().need(&self.directory);
        }
        RoomNeeded(self.clone())
    }

    /// Whether a consumer of another data set waits for room, in whichever process: who keeps shards for later should let
    /// go of them.
    pub fn is_room_needed(&self) -> bool {
        let own = self.needs.load(Ordering::Relaxed);
        self.directory.is_own_process() && self.directory.table.lock().room_needed(&self.directory, own)
    }

    /// Bytes of evicted shards that this process still has open, and that no other shard can have until it closes them.
    pub fn evicted_open_bytes(&self) -> u64 {
        if self.directory.is_own_process() { self.directory.table.lock().evicted_open_bytes } else { 0 }
    }

    pub(super) fn folder_of(&self, shard: u32) -> Result<PathBuf> {
        self.directory.files(shard)?;
        Ok(self.directory.folder_of(shard))
    }

    /// Says why `shard` cannot be fetched before anybody downloads it.
    fn check_fetchable(&self, shard: u32, present: u8) -> Result<()> {
        if !self.has_remote && present & ZIP == 0 {
            return Err(self.absent(shard));
        }
        let folder = &self.directory.path;
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|errno| {
            Error::from_io(
                errno.into(),
                "the cache directory lacks a shard and cannot be written: choose another `local`, or complete it",
            )
            .with("shard", shard)
            .with("directory", folder.display())
        })
    }

    fn who(&self, shard: u32) -> &'static str {
        let here = self.directory.is_own_process() && self.directory.table.lock().claims.contains(&shard);
        if here { "another thread" } else { "another process" }
    }
}

/// A consumer's need of room, as told to others by [`CacheDir::need_room`].
#[derive(Debug)]
pub struct RoomNeeded(Arc<CacheDir>);

impl Drop for RoomNeeded {
    fn drop(&mut self) {
        let directory = &self.0.directory;
        if directory.is_own_process() {
            directory.table.lock().unneed(directory);
            self.0.needs.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CacheDir {
    fn drop(&mut self) {
        if !self.directory.is_own_process() {
            return;
        }
        self.mark_all_read();
        self.directory.table.lock().leave(&self.directory, self.wants);
    }
}

fn make_directory(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).or_else(|e| if dir.is_dir() { Ok(()) } else { Err(e) }).map_err(|e| {
        Error::from_io(e, "the cache directory cannot be made: choose another `local`").with("directory", dir.display())
    })
}
