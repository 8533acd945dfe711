//! Locks on single bytes of the stream's `index.json`: the communication between processes.
//!
//! The locks belong to an open file description (`F_OFD_SETLK`), taken through one descriptor per
//! directory and process. They conflict between processes and between containers that share the file, they vanish with
//! the process, and they leave nothing on disk. Within a process they do not conflict, so `dir_locks` counts their
//! users there. A lock needs no byte to exist at its position, so positions are free to carry meaning:
//!
//! | position | held by | kind |
//! | --- | --- | --- |
//! | [`CLAIM`] + shard | the process that fetches the shard; an evictor for a moment | exclusive |
//! | [`RESERVE`] + shard | the process that has room reserved for a shard not yet published | exclusive |
//! | [`HOLD`] + shard | processes that wait to read the shard; an evictor for a moment, exclusively | shared |
//! | [`HOLD`] + every shard, and [`COMMON`] | processes with one hold of all shards (see `common_hold`) | shared |
//! | [`EXACT`] | processes that must know the shards in use of those with such a hold | shared |
//! | [`open_copy`] | processes with open descriptors of that copy of the shard | shared |
//! | [`PULSE`] + shard | one second of two, the process that makes progress with its fetch of the shard | exclusive |
//! | [`ADMISSION`] | the process that is making room | exclusive |
//! | [`KEEP_ZIP`] | processes that keep compressed files | shared |
//! | [`NEED`] | processes with a consumer that waits for room | shared |
//! | [`LOCAL_ONLY`] | processes that have no remote to fetch evicted shards from | shared |
//! | [`GUEST`] | processes of users that may only read the index, so that they have only shared locks | shared |
//! | [`PROBE`] | for a moment, a process that finds out if it can lock exclusively | exclusive |
//! | [`remote`] | processes that fetch from that remote, if the index has no hashes | shared |
//! | [`LIMIT`] + limit in bytes | processes with a `cache_limit` | shared |
//!
//! An evicted shard occupies the disk until its last reader closes it, and may have been fetched again meanwhile. So
//! the position of a reader has the number of the file too: the copies count separately, and one that several processes
//! have open counts once.
//!
//! Positions from 2^61 to [`LIMIT`] belong to `forebay.streaming`, which locks shards there that a program prepares
//! itself (`streaming/base/_locks.py`).
//!
//! **Fork.** A child inherits the descriptor and with it the locks, which would outlive the parent. So a handler that
//! runs in every forked child closes them, and every use compares the process's id first.

use crate::format::hash::HashAlgo;
use crate::sync::{AtomicI32, AtomicU32, OnceLock, Ordering};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

// Positions of the table above. Shard numbers are below 2^32.
pub(super) const CLAIM: u64 = 0;
pub(super) const RESERVE: u64 = 1 << 32;
pub(super) const HOLD: u64 = 2 << 32;
pub(super) const ADMISSION: u64 = 4 << 32;
pub(super) const KEEP_ZIP: u64 = ADMISSION + 1;
pub(super) const LOCAL_ONLY: u64 = ADMISSION + 2;
pub(super) const NEED: u64 = ADMISSION + 3;
pub(super) const GUEST: u64 = ADMISSION + 4;
pub(super) const PROBE: u64 = ADMISSION + 5;
pub(super) const COMMON: u64 = ADMISSION + 6;
pub(super) const EXACT: u64 = ADMISSION + 7;
pub(super) const PULSE: u64 = 5 << 32;
/// First position of remotes, of 2^32.
pub(super) const REMOTE: u64 = 1 << 59;
/// First position of readers.
pub(super) const OPEN: u64 = 1 << 60;
/// End of the positions of readers.
pub(super) const OPEN_END: u64 = 1 << 61;
/// Positions end at 2^63, which leaves 2^62 for the limit itself.
pub(super) const LIMIT: u64 = 1 << 62;
/// Largest limit that is announced; a larger one limits nothing.
pub(super) const LIMIT_MAX: u64 = (1 << 62) - 2;

/// Bits of a file's number in the position of a reader. Numbers that differ only in higher bits are taken for one copy.
pub(super) const COPY_BITS: u32 = 24;

/// Returns the position for readers of the copy of `shard` with the data file `inode`.
pub(super) fn open_copy(shard: u32, inode: u64) -> u64 {
    OPEN + (u64::from(shard) << COPY_BITS | inode & ((1 << COPY_BITS) - 1))
}

/// Returns the shard of a position from [`open_copy`].
pub(super) fn shard_of_copy(position: u64) -> u32 {
    ((position - OPEN) >> COPY_BITS) as u32
}

/// Returns the position for processes that fetch from the remote `name`.
pub(super) fn remote(name: &str) -> u64 {
    let hash = HashAlgo::Xxh3_64.hex(name.as_bytes());
    REMOTE + u64::from_str_radix(&hash[..8], 16).expect("hexadecimal digits")
}

/// Descriptors that a forked child closes. With more directories in one process, the remaining descriptors stay
/// open in the child.
const FORK_SLOTS: usize = 256;
static FORK_FDS: [AtomicI32; FORK_SLOTS] = [const { AtomicI32::new(-1) }; FORK_SLOTS];
/// Number of forks between the first process and this one.
static FORK_GENERATION: AtomicU32 = AtomicU32::new(0);
static FORK_HANDLER: OnceLock<()> = OnceLock::new();

/// Most ranges in one query; for a directory with more locks the answer is incomplete.
const RANGES_MAX: usize = 65_536;

/// Runs first in a forked child: only stores and `close`, which are safe there.
extern "C" fn close_in_child() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &FORK_FDS {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the slot holds a descriptor that a `LockFile` of the parent owns. The child's copy of that value
            // never uses or closes it, since it compares process ids first.
            unsafe { libc::close(fd) };
        }
    }
}

/// Returns the number of forks since the handler was set. It differs between a process and its children.
pub(super) fn fork_generation() -> u32 {
    FORK_HANDLER.get_or_init(|| {
        // SAFETY: the handler is a function without arguments that lives as long as the program.
        let rc = unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
        if rc != 0 {
            log::warn!("no fork handler ({}): a forked child keeps cache locks", Errno::from_raw_os_error(rc));
        }
    });
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// Reason why an index that this user may only read has no exclusive locks. Its shared ones work.
pub(super) const READ_ONLY: Errno = Errno::ACCESS;

/// Result of an attempt to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockOutcome {
    /// This process has it.
    Taken,
    /// A different process holds it.
    Busy,
    /// Locks do not work on this file.
    Unavailable(Errno),
}

/// Descriptor for the locks of one process on one `index.json`.
///
/// Invariant: `fd` is open and owned by this value while `process` is the running process. In a forked child it is
/// closed by [`close_in_child`] and never touched again.
#[derive(Debug)]
pub(super) struct LockFile {
    fd: RawFd,
    process: u32,
    slot: Option<usize>,
    is_writable: bool,
}

impl LockFile {
    /// Opens `path` for locking. A file that may not be written allows shared locks only.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        fork_generation();
        let open = |access| rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
        let (fd, is_writable): (OwnedFd, bool) = match open(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => (open(OFlags::RDONLY)?, false),
            other => (other?, true),
        };
        let fd = fd.into_raw_fd();
        let free = |slot: &AtomicI32| slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Ok(Self { fd, process: std::process::id(), slot: FORK_FDS.iter().position(free), is_writable })
    }

    /// Tries to lock the byte at `position` for this process alone.
    pub(super) fn try_exclusive(&self, position: u64) -> LockOutcome {
        self.set(libc::F_WRLCK, position..position + 1)
    }

    /// Tries to lock the byte at `position`, shared with all processes.
    pub(super) fn try_shared(&self, position: u64) -> LockOutcome {
        self.try_shared_range(position..position + 1)
    }

    /// Tries to lock the bytes of `range`, which has some, shared with all processes. Either all of them are locked or
    /// none.
    pub(super) fn try_shared_range(&self, range: Range<u64>) -> LockOutcome {
        self.set(libc::F_RDLCK, range)
    }

    /// Releases the byte at `position`.
    ///
    /// Unlocking fails if the kernel has no memory to split a range, or the server of a network file system has lost
    /// its locks. The lock may then stay until the process ends, and no process can claim the shard for as
    /// long.
    pub(super) fn release(&self, position: u64) -> LockOutcome {
        self.release_range(position..position + 1)
    }

    /// Releases the bytes of `range`, which has some.
    pub(super) fn release_range(&self, range: Range<u64>) -> LockOutcome {
        self.set(libc::F_UNLCK, range)
    }

    /// Tries to lock the whole file by `flock`, which some file systems and systems have that lack locks of bytes. A
    /// shared lock becomes an exclusive one, if it is the only one.
    pub(super) fn try_whole(&self, exclusively: bool) -> LockOutcome {
        if self.process != std::process::id() {
            return LockOutcome::Unavailable(Errno::BADF);
        }
        let kind = if exclusively { libc::LOCK_EX } else { libc::LOCK_SH };
        let lock = || {
            // SAFETY: `fd` is open by the type's invariant; the process was compared above.
            let done = unsafe { libc::flock(self.fd, kind | libc::LOCK_NB) } == 0;
            if done { Ok(()) } else { Err(last_errno()) }
        };
        match rustix::io::retry_on_intr(lock) {
            Ok(()) => LockOutcome::Taken,
            Err(Errno::WOULDBLOCK) => LockOutcome::Busy,
            Err(errno) => LockOutcome::Unavailable(errno),
        }
    }

    /// Returns the ranges that the remaining processes have locked within `range`, unordered.
    pub(super) fn locked_ranges(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut open = vec![range];
        while let Some(range) = open.pop() {
            if found.len() >= RANGES_MAX {
                break;
            }
            if let Some(hit) = self.lock_elsewhere(range.clone()) {
                // The kernel reports any conflicting lock, not the first, so both sides of it are queried too.
                open.push(range.start..hit.start);
                open.push(hit.end..range.end);
                found.push(hit);
            }
        }
        found
    }

    /// Returns true if a different process has locked the byte at `position`.
    pub(super) fn locked_elsewhere(&self, position: u64) -> bool {
        self.lock_elsewhere(position..position + 1).is_some()
    }

    /// Returns some lock of a different process within `range`, cut to it.
    fn lock_elsewhere(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut lock = request(libc::F_WRLCK, range.clone());
        if range.is_empty() || self.command(libc::F_OFD_GETLK, &mut lock).is_err() {
            return None;
        }
        if i32::from(lock.l_type) == libc::F_UNLCK {
            return None;
        }
        let start = u64::try_from(lock.l_start).unwrap_or(0);
        // A length of 0 means "to the end". The engine has no such locks, but another program may.
        let end = match u64::try_from(lock.l_len) {
            Ok(0) | Err(_) => range.end,
            Ok(len) => start.saturating_add(len),
        };
        let hit = start.max(range.start)..end.min(range.end);
        (!hit.is_empty()).then_some(hit)
    }

    fn set(&self, kind: i32, range: Range<u64>) -> LockOutcome {
        debug_assert!(!range.is_empty(), "a length of 0 is the rest of the file");
        if kind == libc::F_WRLCK && !self.is_writable {
            return LockOutcome::Unavailable(READ_ONLY);
        }
        match self.command(libc::F_OFD_SETLK, &mut request(kind, range)) {
            Ok(()) => LockOutcome::Taken,
            Err(Errno::AGAIN | Errno::ACCESS) => LockOutcome::Busy,
            // EINVAL: a kernel without such locks (gVisor). ENOLCK, EOPNOTSUPP, EIO: a network file system without a
            // lock service.
            Err(errno) => LockOutcome::Unavailable(errno),
        }
    }

    /// Executes a lock command; `BADF` in a forked child.
    fn command(&self, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
        if self.process != std::process::id() {
            return Err(Errno::BADF);
        }
        rustix::io::retry_on_intr(|| {
            // SAFETY: `fd` is open by the type's invariant (the process was compared above), and `lock` is a `flock`
            // that outlives the call.
            if unsafe { libc::fcntl(self.fd, command, &raw mut *lock) } == 0 { Ok(()) } else { Err(last_errno()) }
        })
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // The slot first: a fork in between then leaks a descriptor into the child. In the reverse order the child
        // might close a number that belongs to a different file by then.
        if let Some(slot) = self.slot {
            FORK_FDS[slot].store(-1, Ordering::Relaxed);
        }
        // SAFETY: `fd` is open and owned by this value by the type's invariant, and it is not used after this.
        unsafe { libc::close(self.fd) };
    }
}

fn request(kind: i32, range: Range<u64>) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        // All positions are below 2^63 (see the table above).
        l_start: range.start as libc::off_t,
        l_len: (range.end - range.start) as libc::off_t,
        l_pid: 0,
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// `flock` on the directory itself, held while a file is made there that several processes wait for, such as
/// `index.json`, which has no bytes to lock yet.
/// Released when dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "the descriptor is the lock")] OwnedFd);

impl DirectoryLock {
    /// Tries to lock `dir`; `Ok(None)` means that a different process has it.
    pub(super) fn try_lock(dir: &Path) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty())?;
        match rustix::fs::flock(&fd, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(fd))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns true if a lock that this process releases stays with a child that was forked before. Must run in a
    /// process without further threads that matter.
    pub(in crate::cache) fn lock_outlives_its_process_in_a_child(index: &Path) -> bool {
        let locks = LockFile::open(index).unwrap();
        assert_eq!(locks.try_exclusive(CLAIM), LockOutcome::Taken);
        let (stay, go) = rustix::pipe::pipe().unwrap();
        let (started, start) = rustix::pipe::pipe().unwrap();
        // SAFETY: the child only makes only calls that are safe between `fork` and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(go);
            let _ = rustix::io::write(&start, b"!");
            let _ = rustix::io::read(&stay, &mut [0u8; 1]);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        // The child's handler runs before `fork` returns there, so it has run when the child writes.
        rustix::io::read(&started, &mut [0u8; 1]).unwrap();
        drop(locks);
        let outlived = LockFile::open(index).unwrap().try_exclusive(CLAIM) == LockOutcome::Busy;
        drop(go);
        let mut status = 0;
        // SAFETY: waits for a child of ours; `status` outlives the call.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        outlived
    }

    #[test]
    fn locks_of_all_processes_are_found_at_any_position() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (a, b) = (LockFile::open(file.path()).unwrap(), LockFile::open(file.path()).unwrap());
        for shard in [0, 3, 4, 9, 100] {
            assert_eq!(a.try_shared(OPEN + shard), LockOutcome::Taken);
        }
        assert_eq!(a.try_shared(LIMIT + LIMIT_MAX), LockOutcome::Taken);
        let mut found: Vec<u64> = b.locked_ranges(OPEN..OPEN + 50).into_iter().flatten().map(|at| at - OPEN).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 3, 4, 9]);
        assert!(a.locked_ranges(0..LIMIT + LIMIT_MAX + 1).is_empty(), "one's own locks do not count");
        assert!(b.locked_elsewhere(LIMIT + LIMIT_MAX));
        assert_eq!(b.try_exclusive(OPEN + 3), LockOutcome::Busy);
        assert_eq!(b.try_shared(OPEN + 3), LockOutcome::Taken);
        assert_eq!(a.release(OPEN + 4), LockOutcome::Taken);
        assert_eq!(b.try_exclusive(OPEN + 4), LockOutcome::Taken);
        drop(a);
        assert!(b.locked_ranges(OPEN..OPEN + 200).is_empty(), "locks end with their descriptor");
    }
}
