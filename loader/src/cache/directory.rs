//! The process's table of one directory, shared by all its handles and threads.
//!
//! Locks of one process do not conflict with each other, so what threads and data sets of this process do is kept in
//! [`Table`], and a lock is taken for the first of them and given back with the last.

use super::claim::{self, Lock, LockFile};
use super::open::OpenShard;
use super::watch::Watch;
use super::{CacheFile, INDEX_NAME, ShardFiles};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicU8;

/// All raw files are there.
pub(super) const RAW: u8 = 1;
/// All compressed files are there.
pub(super) const ZIP: u8 = 2;

/// Files of one kind in a shard at most (the formats have two).
const FILES_MAX: usize = 4;

/// One directory in one process.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The process that made this value; a forked child must not use it.
    process: u32,
    pub(super) shards: Vec<ShardFiles>,
    /// Shard and place among its files (raw first, then compressed) by name.
    pub(super) names: HashMap<Box<str>, (u32, u8)>,
    /// [`RAW`] and [`ZIP`] as last seen, per shard. The file system has the truth: other processes evict too.
    present: Vec<AtomicU8>,
    /// Descriptors that readers of this process have.
    pub(super) open: Mutex<HashMap<u32, Weak<OpenShard>>>,
    pub(super) table: Mutex<Table>,
    /// Makes room, one thread at a time.
    pub(super) admission: Mutex<()>,
    pub(super) watch: Watch,
    /// False once the file system refused an unnamed file.
    pub(super) unnamed_files: AtomicBool,
    /// False once access times could not be set.
    pub(super) access_times: AtomicBool,
}

/// What this process's threads and data sets do in the directory.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// `None` until `index.json` is there to be opened.
    locks: Option<LockFile>,
    /// Why locks do not work here; told once.
    pub(super) no_locks: Option<rustix::io::Errno>,
    pub(super) claims: HashSet<u32>,
    pub(super) reserved: HashSet<u32>,
    pub(super) holds: HashMap<u32, u32>,
    pub(super) opens: HashMap<u32, u32>,
    /// Descriptors of this process to files that are evicted, in bytes.
    pub(super) evicted_open_bytes: u64,
    limits: HashMap<u64, u32>,
    keep_zip: u32,
    local_only: u32,
}

/// Handles on directories by device and inode, so that two paths to one directory share a table.
type Known = HashMap<(u64, u64), Weak<Directory>>;

/// A forked child must not touch its parent's table, whose lock another thread may have held during the fork; each
/// generation of forks uses the next slot. 64 nested forks come round to the first.
static KNOWN: [Mutex<Option<(u32, Known)>>; 64] = [const { Mutex::new(None) }; 64];

impl Directory {
    /// The process's table of `path`, which exists.
    ///
    /// # Errors
    ///
    /// `Stale` when another data set of this process uses the directory with different shards; `Format` when a file
    /// name leads out of the directory or occurs twice.
    pub(super) fn join(path: &Path, shards: Vec<ShardFiles>) -> Result<Arc<Self>> {
        let io = |e| Error::from_io(e, "the cache directory cannot be used").with("directory", path.display());
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_dir() {
            return Err(Error::config("the cache directory is a file: choose another `local`")
                .with("directory", path.display()));
        }
        let generation = claim::fork_generation();
        let mut known = KNOWN[generation as usize % KNOWN.len()].lock();
        let process = std::process::id();
        let known = match &mut *known {
            Some((of, known)) if *of == process => known,
            slot => &mut slot.insert((process, HashMap::new())).1,
        };
        known.retain(|_, directory| directory.strong_count() > 0);
        if let Some(directory) = known.get(&(meta.dev(), meta.ino())).and_then(Weak::upgrade) {
            if directory.shards != shards {
                return Err(Error::new(
                    ErrorKind::Stale,
                    "two data sets of this process use one directory with different indexes: give them separate `local`s",
                )
                .with("directory", path.display()));
            }
            return Ok(directory);
        }
        let directory = Arc::new(Self::new(std::path::absolute(path).map_err(io)?, shards)?);
        known.insert((meta.dev(), meta.ino()), Arc::downgrade(&directory));
        Ok(directory)
    }

    fn new(path: PathBuf, shards: Vec<ShardFiles>) -> Result<Self> {
        let mut names = HashMap::with_capacity(shards.len());
        u32::try_from(shards.len()).map_err(|_| Error::format("an index of more than 2^32 shards"))?;
        for (shard, files) in shards.iter().enumerate() {
            if files.raw.is_empty() || files.raw.len() > FILES_MAX || files.zip.len() > FILES_MAX {
                return Err(Error::format("a shard has no raw files, or too many").with("shard", shard));
            }
            for (i, file) in files.raw.iter().chain(&files.zip).enumerate() {
                check_name(&file.name).map_err(|e| e.with("shard", shard))?;
                if names.insert(file.name.clone(), (shard as u32, i as u8)).is_some() {
                    return Err(Error::format("two shards have a file of the same name")
                        .with("file", &file.name)
                        .with("shard", shard));
                }
            }
        }
        Ok(Self {
            path,
            process: std::process::id(),
            present: shards.iter().map(|_| AtomicU8::new(0)).collect(),
            open: Mutex::new(HashMap::new()),
            shards,
            names,
            table: Mutex::new(Table::default()),
            admission: Mutex::new(()),
            watch: Watch::new(),
            unnamed_files: AtomicBool::new(true),
            access_times: AtomicBool::new(true),
        })
    }

    /// Whether the running process may use this value.
    pub(super) fn is_own_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.is_own_process() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Closed, "this cache handle belongs to the parent process: open the cache again")
            .with("directory", self.path.display()))
    }

    /// The files of `shard`.
    pub(super) fn files(&self, shard: u32) -> Result<&ShardFiles> {
        self.shards.get(shard as usize).ok_or_else(|| {
            Error::internal("a shard that the index does not have")
                .with("shard", shard)
                .with("shards", self.shards.len())
        })
    }

    /// Where `file` lies.
    pub(super) fn path_of(&self, file: &CacheFile) -> PathBuf {
        self.path.join(&*file.name)
    }

    /// What was there when last looked at.
    pub(super) fn present(&self, shard: u32) -> u8 {
        self.present[shard as usize].load(Ordering::Acquire)
    }

    /// Sets what is there.
    pub(super) fn set_present(&self, shard: u32, bits: u8) {
        self.present[shard as usize].store(bits, Ordering::Release);
    }

    /// Looks at the disk: which of the shard's groups of files are complete.
    pub(super) fn look(&self, shard: u32) -> u8 {
        let files = &self.shards[shard as usize];
        let whole = |files: &[CacheFile]| {
            !files.is_empty()
                && files.iter().all(|f| {
                    std::fs::metadata(self.path_of(f)).is_ok_and(|meta| meta.is_file() && meta.len() == f.bytes)
                })
        };
        let bits = if whole(&files.raw) { RAW } else { 0 } | if whole(&files.zip) { ZIP } else { 0 };
        self.set_present(shard, bits);
        bits
    }

    /// Folders that hold shard files: the directory and, for merged indexes, those below it.
    pub(super) fn folders(&self) -> HashSet<PathBuf> {
        let mut folders = HashSet::from([self.path.clone()]);
        folders.extend(self.names.keys().filter_map(|n| n.rfind('/').map(|at| self.path.join(&n[..at]))));
        folders
    }

    /// The folder that `shard` appears in.
    pub(super) fn folder_of(&self, shard: u32) -> PathBuf {
        let path = self.path_of(&self.shards[shard as usize].raw[0]);
        path.parent().map_or_else(|| self.path.clone(), Path::to_owned)
    }
}

impl Table {
    /// The lock file, opened as soon as there is an index to open.
    pub(super) fn locks(&mut self, directory: &Directory) -> Option<&LockFile> {
        if self.locks.is_none() && self.no_locks.is_none() {
            match LockFile::open(&directory.path.join(INDEX_NAME)) {
                Ok(locks) => {
                    // What was wanted before there was an index to say it on.
                    let limits = self.limits.keys().map(|limit| claim::LIMIT + limit.min(&claim::LIMIT_MAX));
                    let keep_zip = (self.keep_zip > 0).then_some(claim::KEEP_ZIP);
                    let local_only = (self.local_only > 0).then_some(claim::LOCAL_ONLY);
                    for position in limits.chain(keep_zip).chain(local_only) {
                        locks.try_shared(position);
                    }
                    self.locks = Some(locks);
                }
                Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => self.give_up_locks(directory, errno),
            }
        }
        self.locks.as_ref()
    }

    fn give_up_locks(&mut self, directory: &Directory, errno: rustix::io::Errno) {
        if self.no_locks.replace(errno).is_none() {
            log::warn!(
                "no locks on {}/{INDEX_NAME} ({errno}): several processes may fetch the same shard",
                directory.path.display()
            );
        }
    }

    /// Locks a byte for this process alone. True also where locks do not work: then nobody can be in the way.
    pub(super) fn exclusive(&mut self, directory: &Directory, position: u64) -> bool {
        let Some(locks) = self.locks(directory) else { return true };
        match locks.try_exclusive(position) {
            Lock::Taken => true,
            Lock::Busy => false,
            Lock::Unavailable(errno) => {
                self.give_up_locks(directory, errno);
                true
            }
        }
    }

    /// Locks a byte together with others; as [`exclusive`](Self::exclusive).
    pub(super) fn shared(&mut self, directory: &Directory, position: u64) -> bool {
        let Some(locks) = self.locks(directory) else { return true };
        // Shared locks also work on an index that may only be read, so a refusal here says nothing about claims.
        locks.try_shared(position) != Lock::Busy
    }

    /// Gives a byte back.
    pub(super) fn release(&mut self, directory: &Directory, position: u64) {
        if let Some(locks) = self.locks(directory) {
            locks.release(position);
        }
    }

    /// Whether claims conflict between processes here.
    pub(super) fn locks_work(&mut self, directory: &Directory) -> bool {
        self.locks(directory).is_some() && self.no_locks.is_none()
    }

    /// Announces what a handle wants; undone by [`leave`](Self::leave).
    pub(super) fn announce(&mut self, directory: &Directory, wants: Wants) {
        if let Some(limit) = wants.limit {
            let count = self.limits.entry(limit).or_default();
            *count += 1;
            if *count == 1 {
                self.shared(directory, claim::LIMIT + limit.min(claim::LIMIT_MAX));
            }
        }
        if wants.keep_zip {
            self.keep_zip += 1;
            self.shared(directory, claim::KEEP_ZIP);
        }
        if wants.local_only {
            self.local_only += 1;
            self.shared(directory, claim::LOCAL_ONLY);
        }
    }

    /// Takes back what [`announce`](Self::announce) said.
    pub(super) fn leave(&mut self, directory: &Directory, wants: Wants) {
        if let Some(limit) = wants.limit
            && let Some(count) = self.limits.get_mut(&limit)
        {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&limit);
                self.release(directory, claim::LIMIT + limit.min(claim::LIMIT_MAX));
            }
        }
        if wants.keep_zip {
            self.keep_zip -= 1;
            if self.keep_zip == 0 {
                self.release(directory, claim::KEEP_ZIP);
            }
        }
        if wants.local_only {
            self.local_only -= 1;
            if self.local_only == 0 {
                self.release(directory, claim::LOCAL_ONLY);
            }
        }
    }

    /// The smallest `cache_limit` of all live jobs on this directory.
    pub(super) fn strictest_limit(&mut self, directory: &Directory) -> Option<u64> {
        let own = self.limits.keys().copied().min();
        let bound = own.unwrap_or(claim::LIMIT_MAX).min(claim::LIMIT_MAX);
        let others = self.others(directory, claim::LIMIT..claim::LIMIT + bound);
        others.iter().map(|r| r.start - claim::LIMIT).chain(own).min()
    }

    /// Whether a job wants compressed files to stay.
    pub(super) fn zips_stay(&mut self, directory: &Directory) -> bool {
        self.keep_zip > 0 || self.locks(directory).is_some_and(|l| l.locked_by_other(claim::KEEP_ZIP))
    }

    /// Whether a job has no remote to fetch shards from again.
    pub(super) fn nothing_may_go(&mut self, directory: &Directory) -> bool {
        self.local_only > 0 || self.locks(directory).is_some_and(|l| l.locked_by_other(claim::LOCAL_ONLY))
    }

    /// What other processes have locked within `range`.
    pub(super) fn others(&mut self, directory: &Directory, range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        self.locks(directory).map_or_else(Vec::new, |l| l.others(range))
    }

    /// Keeps `shard` from being evicted; false while another process evicts it.
    pub(super) fn hold(&mut self, directory: &Directory, shard: u32) -> bool {
        if !self.holds.contains_key(&shard) && !self.shared(directory, claim::HOLD + u64::from(shard)) {
            return false;
        }
        *self.holds.entry(shard).or_default() += 1;
        true
    }

    /// Undoes one [`hold`](Self::hold).
    pub(super) fn unhold(&mut self, directory: &Directory, shard: u32) {
        if count_down(&mut self.holds, shard) {
            self.release(directory, claim::HOLD + u64::from(shard));
        }
    }

    /// Counts open descriptors of `shard`.
    pub(super) fn opened(&mut self, directory: &Directory, shard: u32) {
        let count = self.opens.entry(shard).or_default();
        *count += 1;
        if *count == 1 {
            self.shared(directory, claim::OPEN + u64::from(shard));
        }
    }

    /// Undoes one [`opened`](Self::opened).
    pub(super) fn closed(&mut self, directory: &Directory, shard: u32) {
        if count_down(&mut self.opens, shard) {
            self.release(directory, claim::OPEN + u64::from(shard));
        }
    }
}

/// Takes one from `counts[shard]`; true when none is left.
fn count_down(counts: &mut HashMap<u32, u32>, shard: u32) -> bool {
    match counts.get_mut(&shard) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        Some(_) => counts.remove(&shard).is_some(),
        None => false,
    }
}

/// What one handle announces to the other jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) limit: Option<u64>,
    pub(super) keep_zip: bool,
    pub(super) local_only: bool,
}

/// A name must stay below the directory and must not be the index.
fn check_name(name: &str) -> Result<()> {
    let path = Path::new(name);
    let plain = !name.is_empty()
        && !name.contains('\0')
        && !name.ends_with('/')
        && path.components().all(|c| matches!(c, Component::Normal(_)));
    if plain && name != INDEX_NAME {
        return Ok(());
    }
    Err(Error::format("a shard's file name leads out of the cache directory").with("file", format!("{name:?}")))
}
