//! An open shard.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::BLOCK_BYTES;
use crate::memory::leased::LeasedMap;
use crate::memory::page_cache::PageCache;
use crate::sync::{Arc, AtomicBool, AtomicU32, OnceLock, Ordering};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// After so many reads in a row out of the page cache, a file is no longer asked before it is read.
const HOT_STREAK: u32 = 32;

/// Samples of up to so many bytes may be copied from a mapping once a file is hot: for more, what the system call takes besides
/// copying no longer counts.
const MAPPED_BYTES_MAX: usize = 16 << 10;

/// Of so many samples in a hot mapping one is asked whether the page cache still has it; touching one that it has not waits
/// for the disk.
const ASKED_OF: u64 = 16;

/// What has been learnt about the file system under a folder of shards. One per folder, shared by its files.
#[derive(Debug)]
pub struct Directory {
    /// O_DIRECT has not been refused here.
    direct: AtomicBool,
    /// RWF_NOWAIT has not been refused here.
    nowait: AtomicBool,
}

impl Default for Directory {
    fn default() -> Self {
        Self { direct: AtomicBool::new(true), nowait: AtomicBool::new(true) }
    }
}

impl Directory {
    /// A folder of which nothing is known yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A folder whose files are never read past the page cache.
    pub fn buffered_only() -> Arc<Self> {
        let directory = Self::default();
        directory.direct.store(false, Ordering::Relaxed);
        Arc::new(directory)
    }

    /// Whether O_DIRECT is still tried.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Lets misses fill the page cache from now on: for data that fits there and is read again.
    pub fn keep_in_page_cache(&self) {
        self.direct.store(false, Ordering::Relaxed);
    }

    /// Turns O_DIRECT off for all files of the folder.
    pub(super) fn refuse_direct(&self) {
        if self.direct.swap(false, Ordering::Relaxed) {
            log::info!("the file system refuses O_DIRECT: reads go through the page cache");
        }
    }

    fn is_nowait(&self) -> bool {
        self.nowait.load(Ordering::Relaxed)
    }

    fn refuse_nowait(&self) {
        self.nowait.store(false, Ordering::Relaxed);
    }
}

/// A shard opened for reading. The file may be unlinked while it is open; its bytes stay readable.
#[derive(Debug)]
pub struct ShardFile {
    buffered: Arc<OwnedFd>,
    /// The same file with O_DIRECT, where that can be aligned to our blocks.
    direct: Option<OwnedFd>,
    directory: Arc<Directory>,
    path: PathBuf,
    len: u64,
    /// Reads in a row that the page cache answered.
    hot: AtomicU32,
    /// How the page cache is asked; found out by the first read.
    page_cache: OnceLock<PageCache>,
    /// Its mapping, if it may have one; made when the file is hot.
    mapped: OnceLock<Option<LeasedMap>>,
}

/// Opens a shard in a folder of which nothing is known. A set of shards shares one [`Directory`]:
/// [`ShardFile::open`].
///
/// # Errors
///
/// As [`ShardFile::open`].
pub fn open(path: impl Into<PathBuf>) -> Result<ShardFile> {
    ShardFile::open(path, &Directory::new())
}

impl ShardFile {
    /// Opens the shard at `path`, close-on-exec.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Permission`]; [`ErrorKind::Full`] when the process has too many open
    /// files; [`ErrorKind::Format`] for something that is no regular file.
    pub fn open(path: impl Into<PathBuf>, directory: &Arc<Directory>) -> Result<Self> {
        let path = path.into();
        let failed = |errno: Errno| match errno {
            Errno::MFILE | Errno::NFILE => Error::new(
                ErrorKind::Full,
                "too many files are open: raise the limit (ulimit -n), each resident shard takes two",
            )
            .caused_by(std::io::Error::from(errno)),
            _ => Error::from_io(errno.into(), "a shard cannot be opened"),
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        // NONBLOCK: a FIFO in a shard's place must not stop the loader; for a regular file it means nothing.
        let buffered = open_retrying(&path, flags | OFlags::NONBLOCK)
            .map_err(|errno| failed(errno).with("path", path.display()))?;
        let stat = rustix::fs::fstat(&buffered).map_err(|errno| failed(errno).with("path", path.display()))?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Error::format("a shard is not a regular file").with("path", path.display()));
        }
        let direct = if directory.is_direct() { open_direct(&path, &buffered, directory) } else { None };
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Self {
            buffered: Arc::new(buffered),
            direct,
            directory: directory.clone(),
            path,
            len,
            hot: AtomicU32::new(0),
            page_cache: OnceLock::new(),
            mapped: OnceLock::new(),
        })
    }

    /// Length in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Descriptors that it holds: one, and another for reads past the page cache.
    pub fn descriptors(&self) -> usize {
        1 + usize::from(self.direct.is_some())
    }

    /// Whether misses go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some() && self.directory.is_direct()
    }

    /// The descriptor that goes through the page cache.
    pub fn buffered(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// Opens the file once more with O_DIRECT, for somebody who reads it elsewhere: whatever has been learnt about reads here.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the file system refuses O_DIRECT, `NotFound` when the name has gone or is another file's by now; as
    /// [`open`](Self::open).
    pub fn open_direct_again(&self) -> Result<OwnedFd> {
        let failed = |message: &str, kind| Error::new(kind, message).with("path", self.path.display());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::DIRECT;
        let file = open_retrying(&self.path, flags).map_err(|errno| match errno {
            Errno::INVAL => failed("the file system refuses O_DIRECT", ErrorKind::Unsupported),
            _ => {
                Error::from_io(errno.into(), "a shard cannot be opened with O_DIRECT").with("path", self.path.display())
            }
        })?;
        let identity = |file: BorrowedFd<'_>| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        match identity(file.as_fd()).filter(|it| identity(self.buffered()).as_ref() == Some(it)) {
            Some(_) => Ok(file),
            None => Err(failed("the shard was replaced while it was open", ErrorKind::NotFound)),
        }
    }

    /// The descriptor that goes past it, while that is allowed.
    pub(super) fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.direct.as_ref().filter(|_| self.directory.is_direct()).map(AsFd::as_fd)
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Whether the page cache has all of the range; `None` where the kernel does not tell.
    fn is_cached(&self, offset: u64, len: usize) -> Option<bool> {
        let page_cache = self.page_cache.get_or_init(|| PageCache::of(self.buffered(), self.len));
        page_cache.is_cached(self.buffered(), offset, len)
    }

    /// Fills `into` from `offset` if the page cache has all of it, on the calling thread and without waiting for a disk;
    /// false, with `into` unspecified, if not.
    pub fn read_cached(&self, offset: u64, into: &mut [u8]) -> bool {
        self.copy_cached(offset, &mut [IoSliceMut::new(into)]) == into.len()
    }

    /// The same for a range that goes to several places, one behind another in the file.
    pub fn read_cached_parts(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
        let len: usize = into.iter().map(|part| part.len()).sum();
        self.copy_cached(offset, into) == len
    }

    /// The same for a range whose middle goes to memory that nothing was written to yet. All of `middle` is written when
    /// the answer is true.
    pub fn read_cached_around(
        &self,
        offset: u64,
        before: &mut [u8],
        middle: &mut [MaybeUninit<u8>],
        after: &mut [u8],
    ) -> bool {
        let (head, middle_len, tail) = (before.len(), middle.len(), after.len());
        // There is no call that writes to such memory and never waits for the disk: the page cache is asked every time.
        if self.is_cached(offset, head + middle_len + tail) != Some(true) {
            self.remember(false);
            return false;
        }
        let middle_at = offset + head as u64;
        let after_at = middle_at + middle_len as u64;
        // A result that is not the length, errors too, comes again by the ordinary way, which tells what it means.
        (head == 0 || rustix::io::pread(&self.buffered, before, offset) == Ok(head))
            && rustix::io::pread(&self.buffered, middle, middle_at).is_ok_and(|(_, rest)| rest.is_empty())
            && (tail == 0 || rustix::io::pread(&self.buffered, after, after_at) == Ok(tail))
    }

    /// Has the CPU fetch the ends of a range that [`read_mapped`](Self::read_mapped) will soon be called for.
    pub fn prefetch(&self, offset: u64, len: usize) {
        if len <= MAPPED_BYTES_MAX
            && let Some(Some(mapped)) = self.mapped.get()
        {
            mapped.prefetch(offset, len);
        }
    }

    /// As [`read_cached`](Self::read_cached) for a small range of a hot file, from a mapping; false where the range is not
    /// small, the file not hot or not to be mapped. A page that has left the page cache since the file became hot may be waited
    /// for, and a disk that fails then ends the process.
    pub fn read_mapped(&self, offset: u64, into: &mut [u8]) -> bool {
        if into.len() > MAPPED_BYTES_MAX || !self.is_hot() {
            return false;
        }
        let mapped = self.mapped.get_or_init(|| LeasedMap::new(&self.buffered, self.len));
        let Some(mapped) = mapped else { return false };
        // By a hash, so that it is another sixteenth for other lengths of samples.
        let is_asked = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) < u64::MAX / ASKED_OF;
        if is_asked && self.is_cached(offset, into.len()) != Some(true) {
            self.remember(false);
            return false;
        }
        mapped.copy(offset, into)
    }

    /// Copies what the page cache has of the range, if it seems to have all of it; how much that was.
    pub(super) fn copy_cached(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> usize {
        let len = into.iter().map(|part| part.len()).sum();
        let nowait = self.directory.is_nowait();
        let mut known = false;
        // A file that keeps being hot is not asked: if it turns cold, the first read costs some readahead.
        if !(nowait && self.is_hot()) {
            match self.is_cached(offset, len) {
                Some(true) => known = true,
                Some(false) => {
                    self.remember(false);
                    return 0;
                }
                // The kernel does not tell. Hot data must not be read from the disk, and asking by RWF_NOWAIT would
                // fetch what is cold twice (its miss starts readahead of the range): everything goes through the cache.
                None => {
                    self.directory.refuse_direct();
                    if !nowait {
                        return 0;
                    }
                }
            }
        }
        let mut flags = if nowait { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
        let copied = loop {
            match rustix::io::preadv2(&self.buffered, into, offset, flags) {
                Ok(read) => break read.min(len),
                Err(Errno::INTR) => {}
                // The file system (tmpfs, NFS) or the kernel does not know the flag. What is known to be cached is read
                // without it.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if !flags.is_empty() => {
                    self.directory.refuse_nowait();
                    if !known {
                        break 0;
                    }
                    flags = ReadWriteFlags::empty();
                }
                // EAGAIN: not there. Anything else comes again by the ordinary way, which tells what it means.
                Err(_) => break 0,
            }
        };
        self.remember(copied == len);
        copied
    }

    /// Whether the last reads all came out of the page cache.
    fn is_hot(&self) -> bool {
        self.hot.load(Ordering::Relaxed) >= HOT_STREAK
    }

    /// Remembers whether the page cache had a read. A lost update between threads costs one question more or less. Nothing is
    /// written once a file is hot or as long as it is cold: all threads read here, each for every sample.
    fn remember(&self, cached: bool) {
        let streak = self.hot.load(Ordering::Relaxed);
        let now = if cached { streak.saturating_add(1).min(HOT_STREAK) } else { 0 };
        if now != streak {
            self.hot.store(now, Ordering::Relaxed);
        }
    }
}

/// The descriptor that goes through the page cache.
impl AsFd for ShardFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.buffered()
    }
}

fn open_retrying(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::io::retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens the file once more with O_DIRECT; `None`, and the folder remembers, where that is refused or wants an
/// alignment above a block.
fn open_direct(path: &Path, buffered: &OwnedFd, directory: &Directory) -> Option<OwnedFd> {
    // DIOALIGN tells (Linux 6.1, few file systems) what O_DIRECT needs; 0 means that the file cannot do it at all.
    if let Ok(stat) = rustix::fs::statx(buffered, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let aligned = |align: u32| align > 0 && (align as usize) <= BLOCK_BYTES;
        if !(aligned(stat.stx_dio_mem_align) && aligned(stat.stx_dio_offset_align)) {
            directory.refuse_direct();
            return None;
        }
    }
    match open_retrying(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::DIRECT) {
        Ok(fd) => Some(fd),
        // EINVAL: the file system cannot do it.
        Err(Errno::INVAL) => {
            directory.refuse_direct();
            None
        }
        // EMFILE, ENFILE: one descriptor has to do. ENOENT: evicted between the two calls; the first still reads.
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_shard_is_told_by_kind() {
        let folder = tempfile::tempdir().unwrap();
        let missing = open(folder.path().join("shard.00000.mds")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("shard.00000.mds"), "{missing}");
        assert_eq!(open(folder.path()).unwrap_err().kind(), ErrorKind::Format);
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(open(fifo).unwrap_err().kind(), ErrorKind::Format);
    }

    #[test]
    fn a_folder_that_refuses_o_direct_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, b"bytes").unwrap();
        let directory = Directory::new();
        let first = ShardFile::open(&path, &directory).unwrap();
        directory.refuse_direct();
        assert!(!first.is_direct(), "files that are open already obey");
        assert!(ShardFile::open(&path, &directory).unwrap().direct.is_none());
        assert_eq!(first.len(), 5);
    }

    #[test]
    fn a_file_is_hot_after_a_streak_and_cold_after_one_miss() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let shard = open(file.path()).unwrap();
        (0..HOT_STREAK).for_each(|_| shard.remember(true));
        assert!(shard.is_hot());
        shard.remember(false);
        assert!(!shard.is_hot());
    }

    #[test]
    fn small_samples_of_a_hot_file_come_from_its_mapping_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
        std::fs::write(folder.path().join("shard"), &bytes).unwrap();
        let shard = open(folder.path().join("shard")).unwrap();
        let mut small = [0; 4_096];
        assert!(!shard.read_mapped(0, &mut small) && shard.mapped.get().is_none(), "not hot");
        (0..HOT_STREAK).for_each(|_| shard.remember(true));
        if shard.mapped.get_or_init(|| LeasedMap::new(&shard.buffered, shard.len)).is_none() {
            eprintln!("skipped: the kernel gives no lease here");
            return;
        }
        for at in (0..90_000).step_by(777) {
            shard.prefetch(at as u64, small.len());
            assert!(shard.read_mapped(at as u64, &mut small));
            assert_eq!(small, bytes[at..at + small.len()]);
            assert!(shard.read_cached(at as u64, &mut small));
        }
        assert!(!shard.read_mapped(0, &mut vec![0; MAPPED_BYTES_MAX + 1]));
        assert!(!shard.read_mapped(99_999, &mut small), "behind the end");
    }
}
