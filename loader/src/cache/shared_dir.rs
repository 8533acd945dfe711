//! State of one directory that all data sets and threads of a process share.

use super::access_time::AccessTime;
use super::blocks::Blocks;
use super::claim;
use super::dir_locks::DirLocks;
use super::shards::{ShardSet, disk_bytes, raw_files, zip_files};
use super::watch::Watch;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{FileInfo, Shard};
use crate::io::{self, ShardFile};
use crate::sync::{Arc, AtomicBool, AtomicU8, Mutex, Ordering, Weak};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All raw files are on disk.
pub(super) const RAW: u8 = 1;
/// All compressed files are on disk.
pub(super) const ZIP: u8 = 2;
/// The disk has not been checked.
const UNKNOWN: u8 = u8::MAX;

/// One directory in one process.
#[derive(Debug)]
pub(super) struct SharedDir {
    pub(super) path: PathBuf,
    /// Folder of the shards: the same one, unless they are read elsewhere.
    pub(super) files: PathBuf,
    /// The process that made this value; a forked child must not use it.
    process: u32,
    pub(super) shards: Arc<ShardSet>,
    /// [`RAW`] and [`ZIP`] as last seen, or [`UNKNOWN`], per shard. All processes evict, so this may be outdated.
    present: Vec<AtomicU8>,
    /// Shards that readers of this process have open.
    pub(super) open: Mutex<HashMap<u32, Weak<OpenFiles>>>,
    pub(super) locks: Mutex<DirLocks>,
    /// Held by the thread that makes room.
    pub(super) admission: Mutex<()>,
    pub(super) watch: Arc<Watch>,
    /// Folders that contain shard files, with the prefix of the names in them: the directory itself first, then, for
    /// merged indexes, those below it.
    pub(super) folders: Vec<(PathBuf, String)>,
    /// Features of the file system, learned from reads.
    pub(super) features: Arc<io::DirFeatures>,
    /// Blocks of the file system, by which the limit counts.
    pub(super) blocks: Blocks,
    /// Free disk space as set by tests.
    #[cfg(test)]
    pub(super) disk_available: Mutex<Option<u64>>,
    /// Shards that this user may not remove.
    pub(super) unremovable: Mutex<HashSet<u32>>,
    /// False once the file system has rejected an unnamed file.
    pub(super) unnamed_files: AtomicBool,
    /// False once setting an access time has failed.
    pub(super) access_times: AtomicBool,
}

/// One open file of a shard.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Path at which it was opened.
    pub(crate) path: PathBuf,
    /// Descriptor that all readers share. Only the data file is also read with O_DIRECT.
    pub(crate) file: Arc<ShardFile>,
    /// Size, on which the index and the file system agree.
    pub(crate) bytes: u64,
}

/// The open raw files of one shard. They stay readable when the shard is evicted.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// The data file first, then the meta file of split formats.
    pub(crate) files: Vec<OpenFile>,
    /// Position of the lock that announces them.
    copy: u64,
    dir: Arc<SharedDir>,
    pub(super) access_time: AccessTime,
}

impl OpenFiles {
    /// Announces the open `files` of `shard` to all processes, until this value is dropped.
    pub(super) fn new(dir: &Arc<SharedDir>, shard: u32, files: Vec<OpenFile>) -> Arc<Self> {
        let stat = files.first().and_then(|data| rustix::fs::fstat(data.file.buffered()).ok());
        let copy = claim::open_copy(shard, stat.map_or(0, |stat| stat.st_ino));
        dir.locks.lock().share(copy);
        Arc::new(Self { files, copy, dir: dir.clone(), access_time: AccessTime::default() })
    }

    /// Returns the number of descriptors of all its files.
    pub(crate) fn descriptors(&self) -> usize {
        self.files.iter().map(|file| file.file.descriptors()).sum()
    }

    /// Returns true if the shard was evicted, by any process. Its bytes are freed when the last reader
    /// drops it.
    pub(crate) fn is_evicted(&self) -> bool {
        self.files.iter().any(|f| rustix::fs::fstat(f.file.buffered()).is_ok_and(|stat| stat.st_nlink == 0))
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        if !self.dir.is_own_process() {
            return;
        }
        let is_evicted = self.is_evicted();
        let mut locks = self.dir.locks.lock();
        // Closed before the lock is released, so that no process counts the bytes as free too early.
        self.files.clear();
        locks.unshare(self.copy);
        drop(locks);
        self.dir.watch.wake();
        if is_evicted {
            self.dir.wake_waiters();
        }
    }
}

/// Identity of a directory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DirKey {
    /// Device and inode, so that two paths to one directory share their state.
    Inode(u64, u64),
    /// Absolute path, of a directory that does not exist.
    Path(PathBuf),
}

/// Directories of one process.
struct KnownDirs {
    process: u32,
    /// A tree, because checkers of leaks find its memory by its start: they take a hash table of a process for lost.
    dirs: BTreeMap<DirKey, Weak<SharedDir>>,
    /// One for all of them, so that a thread can wait for a change in any.
    watch: Arc<Watch>,
}

/// A forked child must not use its parent's table, since a thread of the parent may have held its lock during the fork.
/// Each generation of forks uses the next slot; 64 nested forks return to the first.
static KNOWN: [Mutex<Option<KnownDirs>>; 64] = [const { Mutex::new(None) }; 64];

impl Drop for SharedDir {
    fn drop(&mut self) {
        if self.is_own_process() {
            self.folders.iter().for_each(|(folder, _)| self.watch.forget(folder));
        }
    }
}

impl SharedDir {
    /// Returns the process's state of `path`, which exists.
    ///
    /// # Errors
    ///
    /// `Stale` when a second data set of this process uses the directory with different shards; errors of the file
    /// system.
    pub(super) fn join(
        path: &Path,
        files: Option<&Path>,
        shards: Arc<ShardSet>,
        blocks: Option<Blocks>,
    ) -> Result<Arc<Self>> {
        let failed = |e| Error::from_io(e, "the cache directory cannot be used").with("directory", path.display());
        // Where the shards are elsewhere, the directory may be one that cannot be made.
        let key = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => DirKey::Inode(meta.dev(), meta.ino()),
            Ok(_) | Err(_) if files.is_some() => DirKey::Path(std::path::absolute(path).map_err(failed)?),
            Ok(_) => {
                return Err(Error::config("the cache directory is a file: choose a different `local`")
                    .with("directory", path.display()));
            }
            Err(e) => return Err(failed(e)),
        };
        let generation = claim::fork_generation();
        let mut known = KNOWN[generation as usize % KNOWN.len()].lock();
        let process = std::process::id();
        let KnownDirs { dirs, watch, .. } = match &mut *known {
            Some(known) if known.process == process => known,
            slot => slot.insert(KnownDirs { process, dirs: BTreeMap::new(), watch: Arc::new(Watch::new()) }),
        };
        dirs.retain(|_, dir| dir.strong_count() > 0);
        if let Some(dir) = dirs.get(&key).and_then(Weak::upgrade) {
            if !Arc::ptr_eq(dir.shards.index(), shards.index()) && dir.shards.index() != shards.index() {
                return Err(Error::new(
                    ErrorKind::Stale,
                    "two data sets of this process use one directory with different indexes: close the loader of the \
                     one that is no longer needed, or give them separate `local`s",
                )
                .with("directory", path.display()));
            }
            return Ok(dir);
        }
        let path = std::path::absolute(path).map_err(failed)?;
        let blocks = blocks.unwrap_or_else(|| Blocks::of(&path));
        let dir = Arc::new(Self::new(path, files, shards, blocks, watch.clone()));
        dirs.insert(key, Arc::downgrade(&dir));
        Ok(dir)
    }

    fn new(path: PathBuf, files: Option<&Path>, shards: Arc<ShardSet>, blocks: Blocks, watch: Arc<Watch>) -> Self {
        let below: BTreeSet<&str> = shards.names().filter_map(|n| n.rfind('/').map(|at| &n[..=at])).collect();
        let below = below.into_iter().map(|prefix| (path.join(prefix), prefix.to_owned()));
        let folders = std::iter::once((path.clone(), String::new())).chain(below).collect();
        Self {
            process: std::process::id(),
            present: shards.iter().map(|_| AtomicU8::new(UNKNOWN)).collect(),
            open: Mutex::new(HashMap::new()),
            shards,
            locks: Mutex::new(files.map_or_else(|| DirLocks::new(&path), |_| DirLocks::within_process())),
            files: files.map_or_else(|| path.clone(), Path::to_owned),
            path,
            admission: Mutex::new(()),
            watch,
            folders,
            features: io::DirFeatures::new(),
            blocks,
            #[cfg(test)]
            disk_available: Mutex::default(),
            unremovable: Mutex::default(),
            unnamed_files: AtomicBool::new(true),
            access_times: AtomicBool::new(true),
        }
    }

    /// Returns true in the process that made this value.
    pub(super) fn is_own_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Checks that the running process may use this value.
    ///
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

    /// Returns the files of `shard`.
    pub(super) fn files(&self, shard: u32) -> Result<&Shard> {
        self.shards.get(shard as usize).ok_or_else(|| {
            Error::internal("a shard that the index does not have")
                .with("shard", shard)
                .with("shards", self.shards.len())
        })
    }

    /// Returns the bytes that `shard` occupies once it is published, with its compressed files if `keep_zip`.
    pub(super) fn disk_bytes(&self, shard: u32, keep_zip: bool) -> u64 {
        disk_bytes(&self.shards[shard as usize], keep_zip, self.blocks)
    }

    /// Returns the path of `file`.
    pub(super) fn path_of(&self, file: &FileInfo) -> PathBuf {
        self.files.join(&*file.basename)
    }

    /// Returns the last known state of `shard` on disk, which is read now if it is not known.
    pub(super) fn present(&self, shard: u32) -> u8 {
        match self.present[shard as usize].load(Ordering::Acquire) {
            UNKNOWN => self.refresh_present(shard),
            bits => bits,
        }
    }

    /// Notes that a listing did not contain `shard`, unless newer knowledge is there.
    pub(super) fn set_unlisted(&self, shard: u32) {
        // Fails after a check of the disk or a publication, which are newer.
        let _ = self.present[shard as usize].compare_exchange(UNKNOWN, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sets the known state of `shard` on disk.
    pub(super) fn set_present(&self, shard: u32, bits: u8) {
        self.present[shard as usize].store(bits, Ordering::Release);
    }

    /// Checks on disk which of the shard's groups of files are complete.
    pub(super) fn refresh_present(&self, shard: u32) -> u8 {
        let files = &self.shards[shard as usize];
        if self.is_assembled(files) {
            self.set_present(shard, RAW);
            return RAW;
        }
        let is_there = |file| {
            std::fs::metadata(self.path_of(file)).is_ok_and(|meta| meta.is_file() && files.accepts(file, meta.len()))
        };
        let has_zip = files.zip_data.is_some() && zip_files(files).all(is_there);
        let bits = if raw_files(files).all(is_there) { RAW } else { 0 } | if has_zip { ZIP } else { 0 };
        self.set_present(shard, bits);
        bits
    }

    /// Returns true if the data file of `shard` exists nowhere: its samples are put together from files that are read
    /// where they are.
    pub(super) fn is_assembled(&self, shard: &Shard) -> bool {
        shard.recipe.is_some() && self.files != self.path
    }

    /// Returns the free bytes that the file system has for this user; `None` if it does not report any.
    pub(super) fn disk_available_bytes(&self) -> Option<u64> {
        #[cfg(test)]
        if let Some(bytes) = *self.disk_available.lock() {
            return Some(bytes);
        }
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        // Some network file systems report no size at all.
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Returns the position that announces readers of the copy of `shard` that is on disk, if there is one.
    pub(super) fn copy_on_disk(&self, shard: u32) -> Option<u64> {
        std::fs::metadata(self.data_path(shard)).ok().map(|meta| claim::open_copy(shard, meta.ino()))
    }

    /// Wakes the threads of all processes that wait for a change in the directory: the release of a lock is no event.
    pub(super) fn wake_waiters(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // Without permission these threads find the change by themselves, a little later.
        let _ = rustix::fs::utimensat(CWD, &self.path, &times, AtFlags::empty());
    }

    /// Returns the path of the data file of `shard`.
    pub(super) fn data_path(&self, shard: u32) -> PathBuf {
        self.path_of(&self.shards[shard as usize].raw_data)
    }
}
