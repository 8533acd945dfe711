//! Mapped files from which small samples are copied without a system call.
//!
//! A read of 4 kB from the page cache takes 1.7 microseconds; a copy from a mapping takes 0.6. But if another process
//! truncates the file during the copy, the process ends (SIGBUS), and if it overwrites the bytes, there is a data race.
//! So a file is read through its mapping only under a read lease (`F_SETLEASE` of fcntl(2)), which the kernel grants
//! when the file is not open for writing. A process that then opens it for writing or truncates it has to wait for up
//! to `/proc/sys/fs/lease-break-time`, 45 seconds by default. A lease is checked every [`LEASE_CHECK_MS`], and no
//! longer used once a process waits for it. It is not released: the kernel revokes it after the time is over, and by
//! then every copy has ended.
//!
//! Some events that a lease cannot prevent end the process, which is why mappings are opt-in:
//!
//! * The disk fails while a page is read again that had been evicted from the page cache, or that read takes longer
//!   than the lease lasts.
//! * The process is stopped in the middle of a copy for that long.
//! * The file is truncated past the lease, below an overlay or by an open with O_TRUNC for reading only, which POSIX
//!   leaves undefined and Linux permits.
//!
//! A forked child keeps the lease with its copy of the descriptor. These files are not mapped: files on network file
//! systems, where a second machine may write; files on tmpfs, which may find no page for a hole; and files that the
//! process does not own or may not take leases on.
//!
//! Eviction and replacement of shards unlink and rename; they do not wait for a lease.

use super::file_map::FileMap;
use crate::sync::{Arc, AtomicU64, AtomicUsize, OnceLock, Ordering};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Commands of fcntl(2); the numbers are the same on all supported architectures.
const F_SETSIG: libc::c_int = 10;
const F_GETLEASE: libc::c_int = 1025;

/// Time for which a lease counts as held after a check.
const LEASE_CHECK_MS: u64 = 5_000;

/// Shortest usable lease-break time. A copy may begin `LEASE_CHECK_MS` after another process has begun to wait, and
/// must end in the rest of the time.
const BREAK_TIME_MIN_S: u64 = 30;

/// Most mappings at a time. A process may have 65,530, and further code needs some too.
const MAPS_MAX: usize = 8_192;

/// [`LeasedMap::seen_ms`] of a lease that is lost.
const LOST: u64 = u64::MAX;

static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A mapped file that cannot change while its lease is held.
///
/// Invariants: the file had at least as many bytes as the mapping when the lease was taken. `seen_ms` is a time at
/// which it was still held and no process waited for it, or `LOST`.
#[derive(Debug)]
pub(crate) struct LeasedMap {
    map: FileMap,
    file: Arc<OwnedFd>,
    /// In milliseconds of the system's coarse clock.
    seen_ms: AtomicU64,
    _permit: MapPermit,
}

impl LeasedMap {
    /// Maps the first `len` bytes of `file`, which is open for reading; `None` if the kernel grants no lease, if a
    /// lease would not protect the file, or if there are too many mappings.
    pub(crate) fn new(file: &Arc<OwnedFd>, len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        if !is_local(file.as_fd())
            || lease_break_time_s() < BREAK_TIME_MIN_S
            || getrlimit(Resource::As).current.is_some()
        {
            return None;
        }
        let permit = MapPermit::new()?;
        // The clock is read before the lease is taken, so that the lease was held at that time or later.
        let seen_ms = AtomicU64::new(now_ms());
        take(file.as_fd())?;
        // From here on the file cannot be truncated.
        let size = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size);
        let map =
            if usize::try_from(size).is_ok_and(|size| size >= len) { FileMap::new(file.as_fd(), len) } else { None };
        if map.is_none() {
            // The lease may be released, since nothing has been copied.
            let _ = fcntl(file.as_fd(), libc::F_SETLEASE, libc::F_UNLCK);
        }
        Some(Self { map: map?, file: file.clone(), seen_ms, _permit: permit })
    }

    /// Fills `into` with the bytes from `at` on. Returns false, and copies nothing, if the lease is lost or the bytes
    /// exceed the mapping.
    pub(crate) fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        if !self.is_held() {
            return false;
        }
        // SAFETY: by the type's invariants the file had these bytes when the lease was taken, and no process waited to
        // change them `LEASE_CHECK_MS` ago. A process that has begun to wait since then waits for at least 25 s more,
        // and the copy ends before that. The module's documentation lists the exceptions, which the user accepts by
        // enabling mappings.
        unsafe { self.map.copy(at, into) }
    }

    /// Prefetches the ends of a range that will be copied soon into the CPU's caches.
    pub(crate) fn prefetch(&self, at: u64, len: usize) {
        self.map.prefetch(at, len);
    }

    /// True while the lease is held. A lost lease stays lost.
    fn is_held(&self) -> bool {
        // Relaxed: the time guards no further data. The clock is read before the lease is checked, so the stored time
        // is correct even if the thread is delayed in between.
        let (now, seen) = (now_ms(), self.seen_ms.load(Ordering::Relaxed));
        if seen == LOST {
            return false;
        }
        // If the clock went back, as in a process restored on a different machine, the lease is checked.
        if now.checked_sub(seen).is_some_and(|since| since < LEASE_CHECK_MS) {
            return true;
        }
        let is_held = fcntl(self.file.as_fd(), F_GETLEASE, 0) == libc::F_RDLCK;
        // A thread that checked earlier and stores later stores an older time, which is also correct.
        self.seen_ms.store(if is_held { now } else { LOST }, Ordering::Relaxed);
        is_held
    }
}

/// Permit for one of [`MAPS_MAX`] mappings.
#[derive(Debug)]
struct MapPermit;

impl MapPermit {
    fn new() -> Option<Self> {
        // Relaxed: the count guards no further data.
        let one_more = |maps| (maps < MAPS_MAX).then_some(maps + 1);
        MAPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok().then_some(Self)
    }
}

impl Drop for MapPermit {
    fn drop(&mut self) {
        MAPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a read lease. `None` if it is refused: the file is open for writing or belongs to a different user, or the
/// file system has no leases.
fn take(file: BorrowedFd<'_>) -> Option<()> {
    // A process that waits for the lease makes the kernel send a signal, by default SIGIO, which would end this
    // process. SIGURG is ignored by default and rarely used. Without an owner no signal is sent at all, but taking the
    // lease sets the owner, so it is cleared afterwards.
    let signal = fcntl(file, F_SETSIG, libc::SIGURG);
    (signal == 0 && fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) == 0).then_some(())?;
    let _ = fcntl(file, libc::F_SETOWN, 0);
    Some(())
}

fn fcntl(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
    // SAFETY: the descriptor is open, and these commands take a number.
    unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
}

/// True if the file is on a local disk's file system.
fn is_local(file: BorrowedFd<'_>) -> bool {
    let local = [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC, libc::F2FS_SUPER_MAGIC];
    rustix::fs::fstatfs(file).is_ok_and(|stat| local.iter().any(|magic| *magic as u64 == stat.f_type as u64))
}

/// Longest time for which the kernel makes a process wait for a lease, in seconds; 0 if unknown.
fn lease_break_time_s() -> u64 {
    static SECONDS: OnceLock<u64> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/fs/lease-break-time").ok()?.trim().parse().ok();
    *SECONDS.get_or_init(|| read().unwrap_or(0))
}

/// Time of the system's coarse clock, which is some milliseconds late and takes a few nanoseconds to read.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;
    use std::io::Write;
    use std::path::Path;

    fn open(path: &Path) -> Arc<OwnedFd> {
        Arc::new(rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap())
    }

    /// A file of this process and its mapping, in a folder that exists as long; `None` if there are no leases.
    fn mapped(bytes: &[u8]) -> Option<(tempfile::TempDir, LeasedMap)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shard"), bytes).unwrap();
        let map = LeasedMap::new(&open(&folder.path().join("shard")), bytes.len() as u64);
        if map.is_none() {
            eprintln!("skipped: the kernel grants no lease here");
        }
        Some((folder, map?))
    }

    /// Opens without waiting for a lease.
    fn open_for_writing(folder: &tempfile::TempDir) -> Result<OwnedFd, Errno> {
        rustix::fs::open(folder.path().join("shard"), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
    }

    #[test]
    fn a_copy_equals_the_file() {
        let bytes: Vec<u8> = (0..20_000_u32).map(|i| (i * 7) as u8).collect();
        let Some((_folder, map)) = mapped(&bytes) else { return };
        for (at, len) in [(0, 1), (4_090, 100), (0, 20_000), (19_999, 1), (20_000, 0)] {
            let mut into = vec![0; len];
            map.prefetch(at as u64, len);
            assert!(map.copy(at as u64, &mut into));
            assert_eq!(into, bytes[at..at + len]);
        }
        for (at, len) in [(0, 20_001), (20_000, 1), (u64::MAX, 1)] {
            map.prefetch(at, len);
            assert!(!map.copy(at, &mut vec![0; len]), "after the end");
        }
    }

    #[test]
    fn a_lease_that_a_writer_waits_for_is_lost_and_held_until_the_kernel_revokes_it() {
        let Some((folder, map)) = mapped(&[1; 5_000]) else { return };
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN);
        assert!(map.copy(0, &mut [0; 10]), "it was checked a moment ago: there is time");
        map.seen_ms.store(now_ms() - LEASE_CHECK_MS, Ordering::Relaxed);
        assert!(!map.copy(0, &mut [0; 10]), "a writer waits");
        assert!(!map.copy(0, &mut [0; 10]), "lost for good");
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN, "a copy may be in progress");
        drop(map);
        assert!(open_for_writing(&folder).is_ok(), "the file is not open any more");
    }

    #[test]
    fn a_lease_without_waiting_writers_is_kept() {
        let Some((_folder, map)) = mapped(&[1; 5_000]) else { return };
        for seen in [0, now_ms() + 1_000_000] {
            map.seen_ms.store(seen, Ordering::Relaxed);
            assert!(map.copy(0, &mut [0; 10]));
            assert!(now_ms() - map.seen_ms.load(Ordering::Relaxed) < LEASE_CHECK_MS);
        }
    }

    #[test]
    fn files_that_can_change_are_not_mapped() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        written.write_all(&[1; 100]).unwrap();
        assert!(LeasedMap::new(&open(written.path()), 100).is_none(), "open for writing");
        let Some((folder, map)) = mapped(&[1; 100]) else { return };
        drop(map);
        let file = open(&folder.path().join("shard"));
        assert!(LeasedMap::new(&file, 101).is_none(), "shorter than it was");
        assert!(open_for_writing(&folder).is_ok(), "the lease of a file that was not mapped is released");
        assert!(LeasedMap::new(&open(Path::new("/dev/null")), 0).is_none());
    }
}
