//! One directory in one process, shared by all its handles and threads.

use super::claim;
use super::open::OpenShard;
use super::table::Table;
use super::watch::Watch;
use super::{CacheFile, ShardFiles, ShardSet};
use crate::error::{Error, ErrorKind, Result};
use crate::io;
use crate::sync::{Arc, AtomicBool, AtomicU8, Mutex, Ordering, Weak};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All raw files are there.
pub(super) const RAW: u8 = 1;
/// All compressed files are there.
pub(super) const ZIP: u8 = 2;
/// Nobody has looked yet.
const UNKNOWN: u8 = u8::MAX;

/// One directory in one process.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The process that made this value; a forked child must not use it.
    process: u32,
    pub(super) shards: Arc<ShardSet>,
    /// [`RAW`] and [`ZIP`] as last seen, or [`UNKNOWN`], per shard. The file system has the truth: other processes evict too.
    present: Vec<AtomicU8>,
    /// Descriptors that readers of this process have.
    pub(super) open: Mutex<HashMap<u32, Weak<OpenShard>>>,
    pub(super) table: Mutex<Table>,
    /// Makes room, one thread at a time.
    pub(super) admission: Mutex<()>,
    pub(super) watch: Watch,
    /// Folders that hold shard files, with the prefix of names in them: the directory itself first, then, for merged
    /// indexes, those below it.
    pub(super) folders: Vec<(PathBuf, String)>,
    /// What reading has learnt about the file system.
    pub(super) reads: Arc<io::Directory>,
    /// What tests say is left on the disk.
    #[cfg(test)]
    pub(super) disk_available: Mutex<Option<u64>>,
    /// False once the file system refused an unnamed file.
    pub(super) unnamed_files: AtomicBool,
    /// False once access times could not be set.
    pub(super) access_times: AtomicBool,
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
    /// `Stale` when another data set of this process uses the directory with different shards; what the file system says.
    pub(super) fn join(path: &Path, shards: Arc<ShardSet>) -> Result<Arc<Self>> {
        let failed = |e| Error::from_io(e, "the cache directory cannot be used").with("directory", path.display());
        let meta = std::fs::metadata(path).map_err(failed)?;
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
            if !Arc::ptr_eq(&directory.shards, &shards) && directory.shards != shards {
                return Err(Error::new(
                    ErrorKind::Stale,
                    "two data sets of this process use one directory with different indexes: give them separate `local`s",
                )
                .with("directory", path.display()));
            }
            return Ok(directory);
        }
        let directory = Arc::new(Self::new(std::path::absolute(path).map_err(failed)?, shards));
        known.insert((meta.dev(), meta.ino()), Arc::downgrade(&directory));
        Ok(directory)
    }

    fn new(path: PathBuf, shards: Arc<ShardSet>) -> Self {
        let below: BTreeSet<&str> = shards.names().filter_map(|n| n.rfind('/').map(|at| &n[..=at])).collect();
        let below = below.into_iter().map(|prefix| (path.join(prefix), prefix.to_owned()));
        let folders = std::iter::once((path.clone(), String::new())).chain(below).collect();
        Self {
            path,
            process: std::process::id(),
            present: shards.iter().map(|_| AtomicU8::new(UNKNOWN)).collect(),
            open: Mutex::new(HashMap::new()),
            shards,
            table: Mutex::new(Table::default()),
            admission: Mutex::new(()),
            watch: Watch::new(),
            folders,
            reads: io::Directory::new(),
            #[cfg(test)]
            disk_available: Mutex::default(),
            unnamed_files: AtomicBool::new(true),
            access_times: AtomicBool::new(true),
        }
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

    /// What was there when last looked at, which is now if nobody has.
    pub(super) fn present(&self, shard: u32) -> u8 {
        match self.present[shard as usize].load(Ordering::Acquire) {
            UNKNOWN => self.look(shard),
            bits => bits,
        }
    }

    /// Notes that a listing did not show `shard`, unless more is known by now.
    pub(super) fn set_unlisted(&self, shard: u32) {
        // Fails where somebody has looked or published meanwhile, which is newer.
        let _ = self.present[shard as usize].compare_exchange(UNKNOWN, 0, Ordering::AcqRel, Ordering::Acquire);
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

    /// Bytes that the file system has left for this user; `None` when it does not say.
    pub(super) fn disk_available_bytes(&self) -> Option<u64> {
        #[cfg(test)]
        if let Some(bytes) = *self.disk_available.lock() {
            return Some(bytes);
        }
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        // Some network file systems report no size at all.
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// The folder that `shard` appears in.
    pub(super) fn folder_of(&self, shard: u32) -> PathBuf {
        let path = self.path_of(&self.shards[shard as usize].raw[0]);
        path.parent().map_or_else(|| self.path.clone(), Path::to_owned)
    }
}
