//! Descriptors of resident shards.

use super::CacheFile;
use super::dir::CacheDir;
use super::directory::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{self, ShardFile};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Access times are set this often at most, in seconds; eviction by least recent use needs no better.
const TOUCH_EVERY_S: u64 = 10;

/// One open file of a shard.
#[derive(Debug)]
pub struct OpenFile {
    /// Where it was opened.
    pub path: PathBuf,
    /// All readers share it. Only the data file is also read past the page cache.
    pub file: Arc<ShardFile>,
    /// Its size, as the index and the file system agree.
    pub bytes: u64,
}

/// The open raw files of one shard. They stay readable when the shard is evicted.
#[derive(Debug)]
pub struct OpenShard {
    /// The data file first, then the meta file of split formats.
    pub files: Vec<OpenFile>,
    shard: u32,
    bytes: u64,
    directory: Arc<Directory>,
    /// Set by an eviction in this process, under the directory's table lock.
    evicted: AtomicBool,
    touched: Touched,
}

impl OpenShard {
    /// The shard.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// Descriptors of all its files together.
    pub fn descriptors(&self) -> usize {
        self.files.iter().map(|file| file.file.descriptors()).sum()
    }

    /// Whether the shard was evicted, here or by another process: its bytes are freed when the last reader drops it.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
            || self.files.iter().any(|f| rustix::fs::fstat(f.file.buffered()).is_ok_and(|stat| stat.st_nlink == 0))
    }

    /// Notes an eviction by this process; the table is locked by the caller.
    pub(super) fn set_evicted(&self) -> bool {
        !self.evicted.swap(true, Ordering::AcqRel)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn touch(&self, dir: &CacheDir) {
        if let Some(data) = self.files.first() {
            self.touched.now(dir, data.file.buffered());
        }
    }
}

impl Drop for OpenShard {
    fn drop(&mut self) {
        if !self.directory.is_own_process() {
            return;
        }
        let mut table = self.directory.table.lock();
        // Closed before the lock goes, so that nobody counts the bytes as free too early.
        self.files.clear();
        table.closed(&self.directory, self.shard);
        if *self.evicted.get_mut() {
            table.evicted_open_bytes = table.evicted_open_bytes.saturating_sub(self.bytes);
        }
        drop(table);
        self.directory.watch.wake();
    }
}

pub(super) fn open_shard(dir: &Arc<CacheDir>, shard: u32) -> Result<Option<Arc<OpenShard>>> {
    let directory = &dir.directory;
    directory.check_process()?;
    let files = directory.files(shard)?;
    let mut open = directory.open.lock();
    if let Some(known) = open.get(&shard).and_then(crate::sync::Weak::upgrade) {
        if !known.is_evicted() {
            known.touch(dir);
            return Ok(Some(known));
        }
        open.remove(&shard);
    }
    // Said before the files are opened: an evictor that looks in between leaves the shard for another one.
    directory.table.lock().opened(directory, shard);
    let opened: Result<Option<Vec<OpenFile>>> = files.raw.iter().map(|file| open_file(dir, shard, file)).collect();
    match opened {
        Ok(Some(files)) => {
            let bytes = files.iter().map(|f| f.bytes).sum();
            let directory = directory.clone();
            let new = Arc::new(OpenShard {
                files,
                shard,
                bytes,
                directory,
                evicted: AtomicBool::new(false),
                touched: Touched::default(),
            });
            new.touch(dir);
            // Dead entries go now and then, so the table stays as small as the number of open shards.
            if open.len() >= 64 && open.len().is_power_of_two() {
                open.retain(|_, known| known.strong_count() > 0);
            }
            open.insert(shard, Arc::downgrade(&new));
            Ok(Some(new))
        }
        other => {
            directory.table.lock().closed(directory, shard);
            if matches!(other, Ok(None)) {
                directory.look(shard);
            }
            other.map(|_| None)
        }
    }
}

fn open_file(dir: &CacheDir, shard: u32, file: &CacheFile) -> Result<Option<OpenFile>> {
    let path = dir.directory.path_of(file);
    // The other files are small and read once; they need no second descriptor.
    let table = io::Directory::buffered_only();
    let is_data = std::ptr::eq(file, &raw const dir.directory.shards[shard as usize].raw[0]);
    let opened = match ShardFile::open(&path, if is_data { &dir.directory.reads } else { &table }) {
        Ok(opened) => opened,
        Err(e) if e.kind() == ErrorKind::NotFound && dir.has_remote => return Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(dir.absent(shard)),
        Err(e) => return Err(e.with("shard", shard)),
    };
    let bytes = opened.len();
    if bytes == file.bytes {
        return Ok(Some(OpenFile { path, file: Arc::new(opened), bytes }));
    }
    if dir.has_remote {
        return Ok(None);
    }
    Err(dir.absent(shard))
}

/// Opens the data file of `shard` for one read; `None` when it is not here.
///
/// Nobody counts this descriptor: the bytes of an evicted shard are free as soon as the read is over. So a process that
/// sleeps between two reads, as a worker does while its consumer is busy, is in nobody's way.
pub(super) fn open_once(dir: &CacheDir, shard: u32, touched: &Touched) -> Result<Option<OwnedFd>> {
    dir.directory.check_process()?;
    let path = dir.directory.path_of(&dir.directory.files(shard)?.raw[0]);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match rustix::io::retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
        Ok(file) => {
            touched.now(dir, &file);
            Ok(Some(file))
        }
        Err(Errno::NOENT) if dir.has_remote => Ok(None),
        Err(Errno::NOENT) => Err(dir.absent(shard)),
        Err(errno) => Err(Error::from_io(errno.into(), "a shard cannot be opened").with("path", path.display())),
    }
}

/// When a shard's access time was last set: seconds of the data set's clock plus one, 0 for never.
#[derive(Debug, Default)]
pub struct Touched(AtomicU64);

impl Touched {
    /// Sets the access time of `file`, which other jobs' evictions go by, unless that was done a moment ago.
    fn now(&self, dir: &CacheDir, file: impl AsFd) {
        let directory = &dir.directory;
        // Without a remote nothing is evicted, and a user's own files keep their times.
        if !dir.has_remote || !directory.access_times.load(Ordering::Relaxed) {
            return;
        }
        let now = dir.clock.now().as_secs() + 1;
        let last = self.0.load(Ordering::Relaxed);
        if last != 0 && now < last + TOUCH_EVERY_S {
            return;
        }
        self.0.store(now, Ordering::Relaxed);
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        if let Err(errno) = rustix::fs::futimens(file, &times) {
            // Read-only, or another user's file: the kernel's own access times have to do.
            log::debug!("access times cannot be set in {}: {errno}", directory.path.display());
            directory.access_times.store(false, Ordering::Relaxed);
        }
    }
}
