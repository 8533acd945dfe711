//! What of a file the page cache holds.
//!
//! It lives here because it is about memory and needs unsafe calls; its user is `io`. A read with RWF_NOWAIT would tell
//! as well, but its miss starts readahead of the whole range: 60 microseconds, and every byte fetched twice if O_DIRECT
//! follows. The two calls here start nothing and take 0.2 (cachestat) and about a microsecond (mincore).

use super::file_map::FileMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `cachestat(2)`, Linux 6.5; the number is the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// How one file's residency is asked.
#[derive(Debug)]
pub enum PageCache {
    /// By cachestat.
    Stat,
    /// By mincore on a mapping of the file.
    Map(FileMap),
    /// Not at all.
    Unknown,
}

impl PageCache {
    /// Finds out how `file` of `len` bytes can be asked. The kernel answers for files that are ours only, by both calls:
    /// cachestat refuses others, mincore calls all of their pages resident.
    pub fn of(file: BorrowedFd<'_>, len: u64) -> Self {
        if !is_stacked(file) && cachestat(file, 0, 1).is_some() {
            return Self::Stat;
        }
        let euid = rustix::process::geteuid();
        let ours = || rustix::fs::fstat(file).is_ok_and(|stat| euid.is_root() || stat.st_uid == euid.as_raw());
        match usize::try_from(len) {
            Ok(len) if len > 0 && ours() => FileMap::new(file, len).map_or(Self::Unknown, Self::Map),
            _ => Self::Unknown,
        }
    }

    /// Whether all of `at .. at + len` is in the page cache; `None` where the kernel does not tell.
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

/// Whether the file's pages belong to a file beneath: cachestat then looks at the upper one, which has none, and calls
/// everything absent (measured on Linux 6.18). A mapping goes to the file beneath. Containers live on such file systems.
fn is_stacked(file: BorrowedFd<'_>) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    const ECRYPTFS: u64 = 0xf15f;
    rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u64, OVERLAYFS | ECRYPTFS))
}

/// How many pages of the range are cached. ENOSYS before Linux 6.5 and in sandboxes, EPERM for a file that is not ours,
/// EOPNOTSUPP on hugetlbfs.
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

    /// Whole pages: where blocks are smaller than a page, mincore counts a page that was written in part as absent.
    const PAGE: usize = 64 << 10;
    const LEN: u64 = 46 * PAGE as u64;

    fn ways(file: BorrowedFd<'_>) -> Vec<PageCache> {
        let mut ways = vec![PageCache::Map(FileMap::new(file, LEN as usize).unwrap())];
        match cachestat(file, 0, 1) {
            Some(_) => ways.push(PageCache::Stat),
            None => eprintln!("skipped: cachestat: this kernel has none"),
        }
        ways
    }

    #[test]
    fn both_ways_know_what_is_cached_and_what_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; LEN as usize]).unwrap();
        let fd = file.as_fd();
        for way in ways(fd) {
            assert_eq!(way.is_cached(fd, 0, LEN as usize), Some(true), "{way:?}");
            assert_eq!(way.is_cached(fd, LEN - 1, 1), Some(true));
            assert_eq!(way.is_cached(fd, LEN - 1, 100_000), Some(false), "behind the end");
            assert_eq!(way.is_cached(fd, u64::MAX, 0), Some(true));
            assert_ne!(way.is_cached(fd, u64::MAX, 1), Some(true));
        }
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        for way in ways(fd) {
            if way.is_cached(fd, 0, LEN as usize) == Some(true) {
                eprintln!("skipped: this file system keeps everything in memory");
                return;
            }
        }
        let mut byte = [0];
        rustix::io::pread(&file, &mut byte, 2_000_000).unwrap();
        for way in ways(fd) {
            assert_eq!(way.is_cached(fd, 2_000_000, 1), Some(true), "{way:?}");
            assert_eq!(way.is_cached(fd, 0, LEN as usize), Some(false), "{way:?}");
        }
    }

    /// The root of a container is an overlay: what is hot there must be known to be hot.
    #[test]
    fn what_is_hot_on_an_overlay_is_known_to_be_hot() {
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
        let way = PageCache::of(file.as_fd(), PAGE as u64);
        let cached = way.is_cached(file.as_fd(), 0, PAGE);
        drop((way, file));
        let unmounted = std::process::Command::new("umount").arg(path("merged")).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        assert_eq!(cached, Some(true));
    }

    #[test]
    fn a_file_of_ours_can_always_be_asked() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; PAGE]).unwrap();
        let way = PageCache::of(file.as_fd(), PAGE as u64);
        assert_eq!(way.is_cached(file.as_fd(), 0, PAGE), Some(true), "{way:?}");
        assert!(!matches!(way, PageCache::Unknown));
    }
}
