//! Open files of shards, and the way in which each is read.

use super::compare::Content;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::BLOCK_BYTES;
use crate::memory::leased::LeasedMap;
use crate::memory::page_cache::PageCache;
use crate::sync::{Arc, AtomicBool, AtomicU32, OnceLock, Ordering};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Reads in a row from the page cache after which a file is hot: the page cache is no longer queried before a read.
const HOT_STREAK: u32 = 32;

/// Largest sample that is copied from a mapping of a hot file. For larger ones the cost of a system call is negligible.
const MAPPED_BYTES_MAX: usize = 16 << 10;

/// One of this many samples in a hot mapping is checked against the page cache, because an access to a page that has
/// left it waits for the disk.
const CHECK_ONE_OF: u64 = 16;

/// Features of the file system under a folder of shards, learned from reads. One per folder, shared by its files.
#[derive(Debug)]
pub struct DirFeatures {
    /// O_DIRECT has not failed here.
    direct: AtomicBool,
    /// RWF_NOWAIT has not failed here.
    nowait: AtomicBool,
    /// RESOLVE_CACHED has not failed here.
    resolve_cached: AtomicBool,
}

impl Default for DirFeatures {
    fn default() -> Self {
        let [direct, nowait, resolve_cached] = [true; 3].map(AtomicBool::new);
        Self { direct, nowait, resolve_cached }
    }
}

impl DirFeatures {
    /// Creates the features of a folder, all unknown yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates the features of a folder with files that are never read with O_DIRECT.
    pub fn buffered_only() -> Arc<Self> {
        let features = Self::new();
        features.keep_in_page_cache();
        features
    }

    /// Returns true if O_DIRECT is tried.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Lets misses fill the page cache from now on: for data that fits there and is read again.
    pub fn keep_in_page_cache(&self) {
        self.direct.store(false, Ordering::Relaxed);
    }

    /// Turns O_DIRECT off for all files of the folder.
    pub(super) fn disable_direct(&self) {
        if self.direct.swap(false, Ordering::Relaxed) {
            log::info!("the file system does not support O_DIRECT: reads go through the page cache");
        }
    }
}

/// Shard opened for reading. The file may be unlinked while it is open; its bytes stay readable.
#[derive(Debug)]
pub struct ShardFile {
    buffered: Arc<OwnedFd>,
    /// Descriptor with O_DIRECT, if its alignment fits our blocks.
    direct: Option<OwnedFd>,
    features: Arc<DirFeatures>,
    path: PathBuf,
    len: u64,
    /// Content when it was opened.
    content: Content,
    /// Number of reads in a row from the page cache.
    hot: AtomicU32,
    /// Query of the page cache, set up by the first read.
    page_cache: OnceLock<PageCache>,
    /// Mapping, if possible; created when the file is hot.
    mapped: OnceLock<Option<LeasedMap>>,
}

/// Returns the limit of the process's open files.
pub(crate) fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20)
}

/// Opens a shard in a folder with unknown features. A set of shards should share one [`DirFeatures`], with
/// [`ShardFile::open`].
///
/// # Errors
///
/// The errors of [`ShardFile::open`].
pub fn open(path: impl Into<PathBuf>) -> Result<ShardFile> {
    ShardFile::open(path, &DirFeatures::new())
}

impl ShardFile {
    /// Opens the shard at `path`, close-on-exec.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Permission`]; [`ErrorKind::Full`] when the process has too many open
    /// files; [`ErrorKind::Format`] if it is not a regular file.
    pub fn open(path: impl Into<PathBuf>, features: &Arc<DirFeatures>) -> Result<Self> {
        let path = path.into();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        // NONBLOCK: a FIFO instead of a shard must not block the loader; for a regular file it has no effect.
        let opened = open_retrying(&path, flags | OFlags::NONBLOCK);
        Self::of_descriptor(path, opened, features)
    }

    /// Opens a file like [`open`](Self::open) if the kernel has its name in memory; `None` if it would have to be
    /// looked up. Kernels that cannot distinguish them (before Linux 5.12, in sandboxes) open every file.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_known(path: impl Into<PathBuf>, features: &Arc<DirFeatures>) -> Result<Option<Self>> {
        let path = path.into();
        if features.resolve_cached.load(Ordering::Relaxed) {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
            let open = || rustix::fs::openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::CACHED);
            match rustix::io::retry_on_intr(open) {
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NOSYS | Errno::INVAL | Errno::PERM | Errno::TOOBIG) => {
                    features.resolve_cached.store(false, Ordering::Relaxed);
                }
                opened => return Self::of_descriptor(path, opened, features).map(Some),
            }
        }
        Self::open(path, features).map(Some)
    }

    fn of_descriptor(path: PathBuf, opened: rustix::io::Result<OwnedFd>, features: &Arc<DirFeatures>) -> Result<Self> {
        let failed = |errno: Errno| match errno {
            Errno::MFILE | Errno::NFILE => Error::new(
                ErrorKind::Full,
                "too many files are open: raise the limit (ulimit -n), each resident shard takes two",
            )
            .with("limit", descriptors_max())
            .caused_by(std::io::Error::from(errno)),
            _ => Error::from_io(errno.into(), "a shard cannot be opened"),
        };
        let buffered = opened.map_err(|errno| failed(errno).with("path", path.display()))?;
        let stat = rustix::fs::fstat(&buffered).map_err(|errno| failed(errno).with("path", path.display()))?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Error::format("a shard is not a regular file").with("path", path.display()));
        }
        let direct = if features.is_direct() { open_direct(&path, &buffered, features) } else { None };
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Self {
            buffered: Arc::new(buffered),
            direct,
            features: features.clone(),
            path,
            len,
            content: Content::of(&stat),
            hot: AtomicU32::new(0),
            page_cache: OnceLock::new(),
            mapped: OnceLock::new(),
        })
    }

    /// Returns true if the bytes of the file were changed after it was opened. A file that cannot be queried counts as
    /// unchanged: its read returns the error.
    pub fn is_changed(&self) -> bool {
        rustix::fs::fstat(&*self.buffered).is_ok_and(|stat| Content::of(&stat) != self.content)
    }

    /// Returns the length in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true for a file without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the path at which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of descriptors: one, and a second one for O_DIRECT.
    pub fn descriptors(&self) -> usize {
        1 + usize::from(self.direct.is_some())
    }

    /// Returns true if misses are read with O_DIRECT.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some() && self.features.is_direct()
    }

    /// Returns the descriptor that goes through the page cache.
    pub fn buffered(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// Opens the file again with O_DIRECT, for further ways to read it. Ignores the features learned here.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system does not support O_DIRECT, `NotFound` if the path no longer exists or belongs
    /// to a different file by now; the errors of [`open`](Self::open).
    pub fn open_direct_again(&self) -> Result<OwnedFd> {
        let failed = |message: &str, kind| Error::new(kind, message).with("path", self.path.display());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::DIRECT;
        let file = open_retrying(&self.path, flags).map_err(|errno| match errno {
            Errno::INVAL => failed("the file system does not support O_DIRECT", ErrorKind::Unsupported),
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

    /// Returns the descriptor with O_DIRECT, unless that is disabled.
    pub(super) fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.direct.as_ref().filter(|_| self.features.is_direct()).map(AsFd::as_fd)
    }

    pub(super) fn features(&self) -> &DirFeatures {
        &self.features
    }

    /// Returns true if the page cache has all of the range; `None` if the kernel does not report it.
    fn is_cached(&self, offset: u64, len: usize) -> Option<bool> {
        let page_cache = self.page_cache.get_or_init(|| PageCache::of(self.buffered(), self.len));
        page_cache.is_cached(self.buffered(), offset, len)
    }

    /// Fills `into` from `offset` if the page cache has all of it, on the calling thread and without waiting for a
    /// disk. Otherwise returns false, with `into` unspecified.
    pub fn read_cached(&self, offset: u64, into: &mut [u8]) -> bool {
        self.copy_cached(offset, &mut [IoSliceMut::new(into)]) == into.len()
    }

    /// Reads like [`read_cached`](Self::read_cached) a range into several buffers, consecutive in the file.
    pub fn read_cached_parts(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
        let len: usize = into.iter().map(|part| part.len()).sum();
        self.copy_cached(offset, into) == len
    }

    /// Reads like [`read_cached`](Self::read_cached) a range with a middle that goes to uninitialised memory. If it
    /// returns true, all of `middle` is initialised.
    pub fn read_cached_around(
        &self,
        offset: u64,
        before: &mut [u8],
        middle: &mut [MaybeUninit<u8>],
        after: &mut [u8],
    ) -> bool {
        let (head, middle_len, tail) = (before.len(), middle.len(), after.len());
        // No available call can both fill uninitialised memory and refuse to wait for the disk, so the page cache is
        // queried every time.
        if self.is_cached(offset, head + middle_len + tail) != Some(true) {
            self.remember(false);
            return false;
        }
        let middle_at = offset + head as u64;
        let after_at = middle_at + middle_len as u64;
        // Short reads and errors are repeated by the ordinary read, which interprets them.
        (head == 0 || rustix::io::pread(&self.buffered, before, offset) == Ok(head))
            && rustix::io::pread(&self.buffered, middle, middle_at).is_ok_and(|(_, rest)| rest.is_empty())
            && (tail == 0 || rustix::io::pread(&self.buffered, after, after_at) == Ok(tail))
    }

    /// Prefetches into the CPU's cache the ends of a range that [`read_mapped`](Self::read_mapped) will read soon.
    pub fn prefetch(&self, offset: u64, len: usize) {
        if len <= MAPPED_BYTES_MAX
            && let Some(Some(mapped)) = self.mapped.get()
        {
            mapped.prefetch(offset, len);
        }
    }

    /// Reads like [`read_cached`](Self::read_cached) a small range of a hot file from a mapping. Returns false if the
    /// range is not small, or the file is not hot or cannot be mapped. It may wait for a page that has left the page
    /// cache since the file became hot, and a disk that fails then ends the process.
    pub fn read_mapped(&self, offset: u64, into: &mut [u8]) -> bool {
        if into.len() > MAPPED_BYTES_MAX || !self.is_hot() {
            return false;
        }
        let mapped = self.mapped.get_or_init(|| LeasedMap::new(&self.buffered, self.len));
        let Some(mapped) = mapped else { return false };
        // By a hash, so that samples of any length are checked at the same rate.
        let is_checked = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) < u64::MAX / CHECK_ONE_OF;
        if is_checked && self.is_cached(offset, into.len()) != Some(true) {
            self.remember(false);
            return false;
        }
        mapped.copy(offset, into)
    }

    /// Copies the range from the page cache, if it seems to have all of it. Returns the number of bytes.
    pub(super) fn copy_cached(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> usize {
        let len = into.iter().map(|part| part.len()).sum();
        let nowait = self.features.nowait.load(Ordering::Relaxed);
        let mut is_known = false;
        // For a hot file the query is skipped: if it turns cold, the first read costs some readahead.
        if !(nowait && self.is_hot()) {
            match self.is_cached(offset, len) {
                Some(true) => is_known = true,
                Some(false) => {
                    self.remember(false);
                    return 0;
                }
                // The kernel does not report it. Hot data must not be read from the disk, and a query with RWF_NOWAIT
                // would fetch cold data twice (its miss starts readahead of the range), so everything goes through the
                // cache.
                None => {
                    self.features.disable_direct();
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
                // The file system (tmpfs, NFS) or the kernel does not support the flag. Data that is known to be cached
                // is read without it.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if !flags.is_empty() => {
                    self.features.nowait.store(false, Ordering::Relaxed);
                    if !is_known {
                        break 0;
                    }
                    flags = ReadWriteFlags::empty();
                }
                // EAGAIN: not cached. All remaining errors are repeated by the ordinary read, which interprets them.
                Err(_) => break 0,
            }
        };
        self.remember(copied == len);
        copied
    }

    /// Returns true if the last reads all came from the page cache.
    fn is_hot(&self) -> bool {
        self.hot.load(Ordering::Relaxed) >= HOT_STREAK
    }

    /// Records whether the page cache had a read. A lost update between threads costs one query more or less. Nothing
    /// is written while a file stays hot or cold, because all threads read this for every sample.
    fn remember(&self, cached: bool) {
        let streak = self.hot.load(Ordering::Relaxed);
        let now = if cached { streak.saturating_add(1).min(HOT_STREAK) } else { 0 };
        if now != streak {
            self.hot.store(now, Ordering::Relaxed);
        }
    }
}

impl AsFd for ShardFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.buffered()
    }
}

fn open_retrying(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::io::retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens the file again with O_DIRECT. Returns `None`, and disables it for the folder, if that fails or needs an
/// alignment above a block.
fn open_direct(path: &Path, buffered: &OwnedFd, features: &DirFeatures) -> Option<OwnedFd> {
    // DIOALIGN (Linux 6.1, few file systems) is the alignment that O_DIRECT needs; 0 means that the file does not
    // support it.
    if let Ok(stat) = rustix::fs::statx(buffered, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let aligned = |align: u32| align > 0 && (align as usize) <= BLOCK_BYTES;
        if !(aligned(stat.stx_dio_mem_align) && aligned(stat.stx_dio_offset_align)) {
            features.disable_direct();
            return None;
        }
    }
    match open_retrying(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::DIRECT) {
        Ok(fd) => Some(fd),
        // EINVAL: the file system does not support it.
        Err(Errno::INVAL) => {
            features.disable_direct();
            None
        }
        // EMFILE, ENFILE: one descriptor has to suffice. ENOENT: evicted between the two calls; the first one still
        // reads.
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_shard_is_an_error_of_its_kind() {
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
    fn a_file_that_the_kernel_knows_is_opened_and_an_absent_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let features = DirFeatures::buffered_only();
        let opened = ShardFile::open_known(&path, &features).unwrap();
        assert_eq!(opened.map_or(5, |file| file.len()), 5);
        features.resolve_cached.store(false, Ordering::Relaxed);
        assert_eq!(ShardFile::open_known(&path, &features).unwrap().unwrap().len(), 5);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(ShardFile::open_known(&path, &features).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn o_direct_is_not_tried_again_where_it_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, b"bytes").unwrap();
        let features = DirFeatures::new();
        let first = ShardFile::open(&path, &features).unwrap();
        features.disable_direct();
        assert!(!first.is_direct(), "it holds for open files too");
        assert!(ShardFile::open(&path, &features).unwrap().direct.is_none());
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
    fn only_small_samples_of_a_hot_file_come_from_its_mapping() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
        std::fs::write(folder.path().join("shard"), &bytes).unwrap();
        let shard = open(folder.path().join("shard")).unwrap();
        let mut small = [0; 4_096];
        assert!(!shard.read_mapped(0, &mut small) && shard.mapped.get().is_none(), "not hot");
        (0..HOT_STREAK).for_each(|_| shard.remember(true));
        if shard.mapped.get_or_init(|| LeasedMap::new(&shard.buffered, shard.len)).is_none() {
            eprintln!("skipped: the kernel grants no lease here");
            return;
        }
        for at in (0..90_000).step_by(777) {
            shard.prefetch(at as u64, small.len());
            assert!(shard.read_mapped(at as u64, &mut small));
            assert_eq!(small, bytes[at..at + small.len()]);
            assert!(shard.read_cached(at as u64, &mut small));
        }
        assert!(!shard.read_mapped(0, &mut vec![0; MAPPED_BYTES_MAX + 1]));
        assert!(!shard.read_mapped(99_999, &mut small), "beyond the end");
    }
}
