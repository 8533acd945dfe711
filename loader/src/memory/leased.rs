//! Files that small samples are copied from without a system call.
//!
//! A read of 4 kB out of the page cache takes 1.7 microseconds, of which a copy from a mapping needs 0.7. But a page that
//! somebody cuts off the file while it is copied ends the process (SIGBUS), and what somebody overwrites meanwhile is a data
//! race. So a file is read through its mapping only under a read lease (`F_SETLEASE` of fcntl(2)), which the kernel grants
//! when nobody has the file open for writing. Whoever then wants to write or truncate has to wait until the lease is given
//! back, at most `/proc/sys/fs/lease-break-time` (45 s). A lease is looked at every [`LOOK_EVERY_MS`]; one that somebody
//! waits for is not used any more, and given back when every copy under way must have ended ([`GRACE_MS`]). Only a process
//! that is stopped in the middle of a copy for longer than all of that could still be hurt.
//!
//! Eviction and replacement of shards unlink and rename; they do not wait. A lease is no promise on network file systems,
//! where another machine may write, nor is it granted for other people's files: there is no mapping then.

use super::file_map::FileMap;
use crate::sync::{AtomicU64, AtomicUsize, OnceLock, Ordering};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Commands of fcntl(2); the numbers are the same on all architectures that we are built for.
const F_SETSIG: libc::c_int = 10;
const F_GETLEASE: libc::c_int = 1025;

/// How long a lease counts as held after it was looked at.
const LOOK_EVERY_MS: u64 = 5_000;

/// When a lease that somebody waits for is given back.
const GRACE_MS: u64 = 5_000;

/// A lease is of no use where the kernel takes it away sooner.
const BREAK_TIME_MIN_S: u64 = 30;

/// Mappings that are alive at once: a process may have 65,530, and others need them as well.
const MAPS_MAX: usize = 8_192;

/// In [`LeasedMap::state`]: the lease is lost, the lower bits say since when.
const LOST: u64 = 1 << 63;

/// In [`LeasedMap::state`]: it has been given back.
const GIVEN_BACK: u64 = u64::MAX;

static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A file that nobody changes as long as its lease is held.
///
/// Invariant: the file had at least as many bytes as the mapping when the lease had been taken.
#[derive(Debug)]
pub struct LeasedMap {
    map: FileMap,
    /// When the lease was last seen to be held, or lost; in milliseconds of the system's coarse clock.
    state: AtomicU64,
    _counted: Counted,
}

impl LeasedMap {
    /// Maps the first `len` bytes of `file`, which is open for reading; `None` where the kernel gives no lease, where a lease
    /// would mean nothing, or when there are too many mappings.
    pub fn new(file: BorrowedFd<'_>, len: u64) -> Option<Self> {
        if !is_local(file) || lease_break_time_s() < BREAK_TIME_MIN_S {
            return None;
        }
        let counted = Counted::new()?;
        let now = now_ms();
        take(file)?;
        // Only now nobody can cut the file off.
        let size = rustix::fs::fstat(file).map(|stat| stat.st_size);
        let map = match size {
            Ok(size) if u64::try_from(size).is_ok_and(|size| size >= len) => {
                FileMap::new(file, usize::try_from(len).ok()?)
            }
            _ => None,
        };
        if map.is_none() {
            give_back(file);
        }
        Some(Self { map: map?, state: AtomicU64::new(now), _counted: counted })
    }

    /// Copies what lies from `at` on into `into`; false, with nothing done, when the lease is lost or the file ends before.
    /// `file` is the one that was mapped.
    pub fn copy(&self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> bool {
        if !self.is_held(file) {
            return false;
        }
        // SAFETY: by the type's invariant the file had these bytes when the lease was taken, and nobody can have changed them:
        // the lease was held `LOOK_EVERY_MS` ago at most, and who wants to write waits for as long as it takes us to look
        // again and `GRACE_MS` more, both together less than `BREAK_TIME_MIN_S`.
        unsafe { self.map.copy(at, into) }
    }

    /// Has the CPU fetch the ends of what will be copied soon.
    pub fn expect(&self, at: u64, len: usize) {
        self.map.expect(at, len);
    }

    /// Whether the lease is held. One that is lost stays so, and is given back a while later.
    fn is_held(&self, file: BorrowedFd<'_>) -> bool {
        // Relaxed: a time on its own. Who misses that another thread has found the lease lost copies for a moment longer, which
        // is what the grace is for.
        let (now, state) = (now_ms(), self.state.load(Ordering::Relaxed));
        if state & LOST == 0 {
            if now.saturating_sub(state) < LOOK_EVERY_MS {
                return true;
            }
            let is_held = held(file);
            self.state.store(if is_held { now } else { LOST | now }, Ordering::Relaxed);
            return is_held;
        }
        if state != GIVEN_BACK && now.saturating_sub(state & !LOST) >= GRACE_MS {
            self.state.store(GIVEN_BACK, Ordering::Relaxed);
            give_back(file);
        }
        false
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

fn give_back(file: BorrowedFd<'_>) {
    let _ = fcntl(file, libc::F_SETLEASE, libc::F_UNLCK);
}

/// Whether the lease is held and nobody waits for it.
fn held(file: BorrowedFd<'_>) -> bool {
    fcntl(file, F_GETLEASE, 0) == libc::F_RDLCK
}

fn fcntl(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
    // SAFETY: the descriptor is open, and these commands take a number.
    unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, argument) }
}

/// Whether the file system is one whose files nobody changes but through this kernel.
fn is_local(file: BorrowedFd<'_>) -> bool {
    let local = [
        libc::EXT4_SUPER_MAGIC,
        libc::XFS_SUPER_MAGIC,
        libc::BTRFS_SUPER_MAGIC,
        libc::F2FS_SUPER_MAGIC,
        libc::TMPFS_MAGIC,
    ];
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

    /// A file of ours and its mapping, in a folder that lasts as long; `None` where there are no leases.
    fn mapped(bytes: &[u8]) -> Option<(tempfile::TempDir, std::fs::File, LeasedMap)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shard"), bytes).unwrap();
        let file = std::fs::File::open(folder.path().join("shard")).unwrap();
        let map = LeasedMap::new(file.as_fd(), bytes.len() as u64);
        if map.is_none() {
            eprintln!("skipped: the kernel gives no lease here");
        }
        Some((folder, file, map?))
    }

    /// Opens without waiting for a lease.
    fn open_for_writing(folder: &tempfile::TempDir) -> Result<std::os::fd::OwnedFd, Errno> {
        rustix::fs::open(folder.path().join("shard"), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
    }

    #[test]
    fn what_is_copied_is_the_file() {
        let bytes: Vec<u8> = (0..20_000_u32).map(|i| (i * 7) as u8).collect();
        let Some((_folder, file, map)) = mapped(&bytes) else { return };
        for (at, len) in [(0, 1), (4_090, 100), (0, 20_000), (19_999, 1), (20_000, 0)] {
            let mut into = vec![0; len];
            assert!(map.copy(file.as_fd(), at as u64, &mut into));
            assert_eq!(into, bytes[at..at + len]);
        }
        for (at, len) in [(0, 20_001), (20_000, 1), (u64::MAX, 1)] {
            assert!(!map.copy(file.as_fd(), at, &mut vec![0; len]), "behind the end");
        }
    }

    #[test]
    fn who_wants_to_write_waits_until_nobody_copies_any_more() {
        let Some((folder, file, map)) = mapped(&[1; 5_000]) else { return };
        let fd = file.as_fd();
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN);
        // It was looked at a moment ago: there is time.
        assert!(map.copy(fd, 0, &mut [0; 10]));
        map.state.store(now_ms() - LOOK_EVERY_MS, Ordering::Relaxed);
        assert!(!map.copy(fd, 0, &mut [0; 10]), "somebody waits");
        assert_eq!(open_for_writing(&folder).unwrap_err(), Errno::AGAIN, "a copy may be under way");
        map.state.store(LOST | (now_ms() - GRACE_MS), Ordering::Relaxed);
        assert!(!map.copy(fd, 0, &mut [0; 10]));
        let writer = open_for_writing(&folder).expect("given back");
        rustix::fs::ftruncate(&writer, 0).unwrap();
        assert!(!map.copy(fd, 0, &mut [0; 10]), "lost for good");
    }

    #[test]
    fn a_lease_that_nobody_wants_is_kept() {
        let Some((_folder, file, map)) = mapped(&[1; 5_000]) else { return };
        map.state.store(0, Ordering::Relaxed);
        assert!(map.copy(file.as_fd(), 0, &mut [0; 10]));
        assert!(now_ms() - map.state.load(Ordering::Relaxed) < LOOK_EVERY_MS);
    }

    #[test]
    fn files_that_can_change_are_not_mapped() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        written.write_all(&[1; 100]).unwrap();
        let file = std::fs::File::open(written.path()).unwrap();
        assert!(LeasedMap::new(file.as_fd(), 100).is_none(), "open for writing");
        let Some((folder, file, map)) = mapped(&[1; 100]) else { return };
        drop(map);
        assert!(LeasedMap::new(file.as_fd(), 101).is_none(), "shorter than it was");
        assert!(open_for_writing(&folder).is_ok(), "the lease of what was not mapped is given back");
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(LeasedMap::new(null.as_fd(), 0).is_none());
    }
}
