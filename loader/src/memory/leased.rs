//! Files that small samples are copied from without a system call.
//!
//! A read of 4 kB out of the page cache takes 1.7 microseconds, of which a copy from a mapping needs 0.6. But a page that
//! somebody cuts off the file while it is copied ends the process (SIGBUS), and what somebody overwrites meanwhile is a data
//! race. So a file is read through its mapping only under a read lease (`F_SETLEASE` of fcntl(2)), which the kernel grants
//! when nobody has the file open for writing. Whoever then opens it for writing or truncates it has to wait, for as long as
//! `/proc/sys/fs/lease-break-time` says, 45 seconds. A lease is looked at every [`LOOK_EVERY_MS`]; one that somebody waits for
//! is not used any more. It is not given back: the kernel takes it when the time is over, and until then every copy has ended.
//!
//! What a lease cannot rule out ends the process, and this is why mappings have to be asked for: the disk fails while a page
//! is fetched again that had left the page cache, or takes longer for it than the lease lasts; the process is stopped in the
//! middle of a copy for as long; somebody cuts the file off past the lease, below an overlay or by opening it with O_TRUNC for
//! reading alone, which POSIX leaves undefined and Linux lets pass. A forked child keeps the lease with its copy of the
//! descriptor. Network file systems, where another machine may write, and tmpfs, which may find no page for a hole, are not
//! mapped, nor are files that the process does not own or may not take leases on.
//!
//! Eviction and replacement of shards unlink and rename; they do not wait.

use super::file_map::FileMap;
use crate::sync::{Arc, AtomicU64, AtomicUsize, OnceLock, Ordering};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Commands of fcntl(2); the numbers are the same on all architectures that we are built for.
const F_SETSIG: libc::c_int = 10;
const F_GETLEASE: libc::c_int = 1025;

/// How long a lease counts as held after it was looked at.
const LOOK_EVERY_MS: u64 = 5_000;

/// A lease is of no use where the kernel takes it away sooner: a copy may begin `LOOK_EVERY_MS` after somebody has begun to
/// wait, and has the rest of the time to end.
const BREAK_TIME_MIN_S: u64 = 30;

/// Mappings that are alive at once: a process may have 65,530, and others need them as well.
const MAPS_MAX: usize = 8_192;

/// [`LeasedMap::seen_ms`] of a lease that is lost.
const LOST: u64 = u64::MAX;

static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A file that nobody changes as long as its lease is held.
///
/// Invariants: the file had at least as many bytes as the mapping when the lease was taken. `seen_ms` is a time at which it was
/// still held and nobody waited for it, or `LOST`.
#[derive(Debug)]
pub(crate) struct LeasedMap {
    map: FileMap,
    file: Arc<OwnedFd>,
    /// In milliseconds of the system's coarse clock.
    seen_ms: AtomicU64,
    _counted: Counted,
}

impl LeasedMap {
    /// Maps the first `len` bytes of `file`, which is open for reading; `None` where the kernel gives no lease, where a lease
    /// would mean nothing, or when mappings are scarce.
    pub(crate) fn new(file: &Arc<OwnedFd>, len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        if !is_local(file.as_fd())
            || lease_break_time_s() < BREAK_TIME_MIN_S
            || getrlimit(Resource::As).current.is_some()
        {
            return None;
        }
        let counted = Counted::new()?;
        // Read before, so that it is true whenever it is used.
        let seen_ms = AtomicU64::new(now_ms());
        take(file.as_fd())?;
        // Only now nobody can cut the file off.
        let size = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size);
        let map =
            if usize::try_from(size).is_ok_and(|size| size >= len) { FileMap::new(file.as_fd(), len) } else { None };
        if map.is_none() {
            // Nothing was copied yet.
            let _ = fcntl(file.as_fd(), libc::F_SETLEASE, libc::F_UNLCK);
        }
        Some(Self { map: map?, file: file.clone(), seen_ms, _counted: counted })
    }

    /// Copies what lies from `at` on into `into`; false, with nothing done, when the lease is lost or the mapping ends before.
    pub(crate) fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        if !self.is_held() {
            return false;
        }
        // SAFETY: by the type's invariants the file had these bytes when the lease was taken, and nobody waited to change them
        // `LOOK_EVERY_MS` ago. Who has begun to wait since then does so for more than 25 s yet, and a copy is over before.
        // What would have to happen otherwise the module says, and it is why mappings have to be asked for.
        unsafe { self.map.copy(at, into) }
    }

    /// Has the CPU fetch the ends of what will be copied soon.
    pub(crate) fn prefetch(&self, at: u64, len: usize) {
        self.map.prefetch(at, len);
    }

    /// Whether the lease is held. One that is lost stays so.
    fn is_held(&self) -> bool {
        // Relaxed: a time on its own. The clock is read before the lease is looked at, so that what is stored is true whenever
        // that happens.
        let (now, seen) = (now_ms(), self.seen_ms.load(Ordering::Relaxed));
        if seen == LOST {
            return false;
        }
        // A clock that went back, as in a process that was restored elsewhere, is a reason to look.
        if now.checked_sub(seen).is_some_and(|since| since < LOOK_EVERY_MS) {
            return true;
        }
        let is_held = fcntl(self.file.as_fd(), F_GETLEASE, 0) == libc::F_RDLCK;
        // Who looked before and stores after us has only a time that was right.
        self.seen_ms.store(if is_held { now } else { LOST }, Ordering::Relaxed);
        is_held
    }
}

/// One of [`MAPS_MAX`].
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Option<Self> {
        // Relaxed: a number that guards nothing.
        let one_more = |maps| (maps < MAPS_MAX).then_some(maps + 1);
        MAPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok().then_some(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        MAPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a read lease; `None` where that is refused: somebody has the file open for writing, it is not ours, the file system
/// has no leases.
fn take(file: BorrowedFd<'_>) -> Option<()> {
    // Who has to wait would otherwise end us by SIGIO. Most processes have no use for SIGURG, and it does nothing by itself;
    // without an owner no signal is sent at all, but a lease takes its taker for the owner.
    let signal = fcntl(file, F_SETSIG, libc::SIGURG);
    (signal == 0 && fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) == 0).then_some(())?;
    let _ = fcntl(file, libc::F_SETOWN, 0);
    Some(())
}

fn fcntl(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
    // SAFETY: the descriptor is open, and these commands take a number.
    unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
}

/// Whether the file system is one on a disk of this machine.
fn is_local(file: BorrowedFd<'_>) -> bool {
    let local = [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC, libc::F2FS_SUPER_MAGIC];
    rustix::fs::fstatfs(file).is_ok_and(|stat| local.iter().any(|magic| *magic as u64 == stat.f_type as u64))
}

/// How long the kernel lets somebody wait for a lease; 0 where it does not tell.
fn lease_break_time_s() -> u64 {
    static SECONDS: OnceLock<u64> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/fs/lease-break-time").ok()?.trim().parse().ok();
    *SECONDS.get_or_init(|| read().unwrap_or(0))
}

/// The system's coarse clock: some milliseconds behind, and read in a few nanoseconds.
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

    /// A file of ours and its mapping, in a folder that lasts as long; `None` where there are no leases.
    fn mapped(bytes: &[u8]) -> Option<(tempfile::TempDir, LeasedMap)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shard"), bytes).unwrap();
        let map = LeasedMap::new(&open(&folder.path().join("shard")), bytes.len() as u64);
        if map.is_none() {
            eprintln!("skipped: the kernel gives no lease here");
        }
        Some((folder, map?))
    }

    /// Opens without waiting for a lease.
    fn open_for_writing(folder: &tempfile::TempDir) -> Result<OwnedFd, Errno> {
        rustix::fs::open(folder.path().join("shard"), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
    }

    #[test]
    fn what_is_copied_is_the_file() {
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
            assert!(!map.copy(at, &mut vec![0; len]), "behind the end");
        }
    }

    #[test]
    fn a_lease_that_somebody_waits_for_is_lost_and_held_until_the_kernel_takes_it() {
        let Some((folder, map)) = mapped(&[1; 5_000]) else { return };
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN);
        assert!(map.copy(0, &mut [0; 10]), "it was looked at a moment ago: there is time");
        map.seen_ms.store(now_ms() - LOOK_EVERY_MS, Ordering::Relaxed);
        assert!(!map.copy(0, &mut [0; 10]), "somebody waits");
        assert!(!map.copy(0, &mut [0; 10]), "lost for good");
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN, "a copy may be under way");
        drop(map);
        assert!(open_for_writing(&folder).is_ok(), "nobody has the file open any more");
    }

    #[test]
    fn a_lease_that_nobody_wants_is_kept() {
        let Some((_folder, map)) = mapped(&[1; 5_000]) else { return };
        for seen in [0, now_ms() + 1_000_000] {
            map.seen_ms.store(seen, Ordering::Relaxed);
            assert!(map.copy(0, &mut [0; 10]));
            assert!(now_ms() - map.seen_ms.load(Ordering::Relaxed) < LOOK_EVERY_MS);
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
        assert!(open_for_writing(&folder).is_ok(), "the lease of what was not mapped is given back");
        assert!(LeasedMap::new(&open(Path::new("/dev/null")), 0).is_none());
    }
}
