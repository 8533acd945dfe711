//! Checks which parts of a file are in the page cache.
//!
//! The module is part of `memory` because it needs unsafe calls; `io` uses it. A read with RWF_NOWAIT would give the
//! same answer, but a miss starts readahead of the whole range: it takes 60 microseconds, and every byte is read twice
//! if O_DIRECT follows. The two calls used here start no I/O and take 0.2 (cachestat) and about 1 microsecond
//! (mincore).

use super::file_map::FileMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `cachestat(2)`, Linux 6.5; the number is the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// Method of checking one file.
#[derive(Debug)]
pub enum PageCache {
    /// cachestat.
    Stat,
    /// mincore on a mapping of the file.
    Map(FileMap),
    /// None: the kernel gives no answer for this file.
    Unknown,
}

impl PageCache {
    /// Selects the method for `file`, which has `len` bytes. Both calls work only for files of this process's user: for
    /// the rest cachestat fails, and mincore reports all pages as resident.
    pub fn of(file: BorrowedFd<'_>, len: u64) -> Self {
        if !is_stacked(file) && cachestat(file, 0, 1).is_some() {
            return Self::Stat;
        }
        let euid = rustix::process::geteuid();
        let is_own = || rustix::fs::fstat(file).is_ok_and(|stat| euid.is_root() || stat.st_uid == euid.as_raw());
        match usize::try_from(len) {
            Ok(len) if len > 0 && is_own() => FileMap::new(file, len).map_or(Self::Unknown, Self::Map),
            _ => Self::Unknown,
        }
    }

    /// True if all of `at .. at + len` is in the page cache; `None` if the kernel does not report it.
    pub fn is_cached(&self, file: BorrowedFd<'_>, at: u64, len: usize) -> Option<bool> {
        if len == 0 {
            return Some(true);
        }
        match self {
            Self::Stat => {
                let page = rustix::param::page_size() as u64;
                let end = at.checked_add(len as u64)?;
                Some(cachestat(file, at, len as u64)? >= end.div_ceil(page) - at / page)
            }
            Self::Map(map) => map.is_cached(at, len),
            Self::Unknown => None,
        }
    }
}

/// True if the file system is stacked and the pages belong to a file of the lower one. cachestat then checks the upper
/// file, which has no pages, and reports everything as absent (measured on Linux 6.18); a mapping uses the lower file.
/// The root of a container is such a file system.
fn is_stacked(file: BorrowedFd<'_>) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    const ECRYPTFS: u64 = 0xf15f;
    rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u64, OVERLAYFS | ECRYPTFS))
}

/// Number of cached pages in the range. Errors are ENOSYS (before Linux 6.5 and in sandboxes), EPERM (a file of a
/// different user) and EOPNOTSUPP (hugetlbfs).
fn cachestat(file: BorrowedFd<'_>, at: u64, len: u64) -> Option<u64> {
    #[repr(C)]
    struct Range {
        at: u64,
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Counts {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let range = Range { at, len };
    let mut counts = Counts::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, which writes to `counts` only.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const range, &raw mut counts, 0 as libc::c_uint)
    };
    (result == 0).then_some(counts.cached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Whole pages: with blocks smaller than a page, mincore reports a partly written page as absent.
    const PAGE: usize = 64 << 10;
    const LEN: u64 = 46 * PAGE as u64;

    fn methods(file: BorrowedFd<'_>) -> Vec<PageCache> {
        let mut methods = vec![PageCache::Map(FileMap::new(file, LEN as usize).unwrap())];
        match cachestat(file, 0, 1) {
            Some(_) => methods.push(PageCache::Stat),
            None => eprintln!("skipped: this kernel has no cachestat"),
        }
        methods
    }

    #[test]
    fn both_methods_find_cached_pages_and_absent_ones() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; LEN as usize]).unwrap();
        let fd = file.as_fd();
        for method in methods(fd) {
            assert_eq!(method.is_cached(fd, 0, LEN as usize), Some(true), "{method:?}");
            assert_eq!(method.is_cached(fd, LEN - 1, 1), Some(true));
            assert_eq!(method.is_cached(fd, LEN - 1, 100_000), Some(false), "after the end");
            assert_eq!(method.is_cached(fd, u64::MAX, 0), Some(true));
            assert_ne!(method.is_cached(fd, u64::MAX, 1), Some(true));
        }
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        for method in methods(fd) {
            if method.is_cached(fd, 0, LEN as usize) == Some(true) {
                eprintln!("skipped: this file system keeps everything in memory");
                return;
            }
        }
        let mut byte = [0];
        rustix::io::pread(&file, &mut byte, 2_000_000).unwrap();
        for method in methods(fd) {
            assert_eq!(method.is_cached(fd, 2_000_000, 1), Some(true), "{method:?}");
            assert_eq!(method.is_cached(fd, 0, LEN as usize), Some(false), "{method:?}");
        }
    }

    /// The root of a container is an overlay, so cached files must be recognised there.
    #[test]
    fn a_cached_file_on_an_overlay_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let layers = format!("lowerdir={},upperdir={},workdir={}", path("lower"), path("upper"), path("work"));
        let mount = std::process::Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &layers, &path("merged")])
            .output();
        if !mount.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this process may not mount an overlay");
            return;
        }
        let name = path("merged/file");
        std::fs::write(&name, [1; PAGE]).unwrap();
        let file = std::fs::File::open(&name).unwrap();
        let method = PageCache::of(file.as_fd(), PAGE as u64);
        let cached = method.is_cached(file.as_fd(), 0, PAGE);
        drop((method, file));
        let unmounted = std::process::Command::new("umount").arg(path("merged")).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        assert_eq!(cached, Some(true));
    }

    #[test]
    fn a_file_of_this_user_can_always_be_checked() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; PAGE]).unwrap();
        let method = PageCache::of(file.as_fd(), PAGE as u64);
        assert_eq!(method.is_cached(file.as_fd(), 0, PAGE), Some(true), "{method:?}");
        assert!(!matches!(method, PageCache::Unknown));
    }
}
