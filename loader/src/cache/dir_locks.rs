//! Locks of one process on one directory.
//!
//! Locks of one process do not conflict. So its threads and data sets are counted here: the first one
//! takes a lock and the last one releases it.

mod common_hold;

use super::claim::{self, LockFile, LockOutcome};
use crate::format::index::INDEX_BASENAME;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most locks in a row that can be open copies of shards: a longer run is a lock of another program.
const COPIES_IN_ROW_MAX: u64 = 1 << 16;

/// Reason why no limit can be kept in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    /// Its index belongs to a different user than this process, or than another process that uses it: the user that
    /// may only read it has no exclusive locks.
    DifferentUser,
    /// Its file system has no locks on bytes, and another process uses it.
    InUse(Errno),
    /// Its file system has no locks.
    NoLocks(Errno),
}

/// Locks of one process on a directory's `index.json`, and its bookkeeping that goes with them.
#[derive(Debug)]
pub(super) struct DirLocks {
    /// `None` for a directory that needs no locks.
    index: Option<PathBuf>,
    /// `None` until `index.json` can be opened.
    file: Option<LockFile>,
    /// The reason why locks do not work here, logged once: [`claim::READ_ONLY`] if only exclusive ones do not.
    pub(super) unavailable: Option<Errno>,
    /// A lock has worked, so that a failure is one of the moment.
    has_worked: bool,
    /// Lock on the whole index, where locks on bytes do not work: true for an exclusive one.
    whole: Option<bool>,
    /// Positions that this process has locked exclusively, also where locks do not work.
    exclusive: BTreeSet<u64>,
    /// Users of each shared lock, by position. Shared locks are kept for the first user to the last.
    shared: BTreeMap<u64, Users>,
    /// Users of a common hold, which may be impossible now.
    common_users: u32,
    /// Number of shards that the common hold covers, while there is one.
    common: Option<u64>,
}

/// Users of a shared lock.
#[derive(Debug, Default)]
struct Users {
    count: u32,
    /// The position itself is locked. False where the common hold makes that unnecessary.
    is_locked: bool,
}

impl DirLocks {
    /// Locks on the index of `dir`, in which shards are.
    pub(super) fn new(dir: &Path) -> Self {
        Self { index: Some(dir.join(INDEX_BASENAME)), ..Self::within_process() }
    }

    /// Locks only within this process, for shards that are read elsewhere.
    pub(super) fn within_process() -> Self {
        Self {
            index: None,
            file: None,
            unavailable: None,
            has_worked: false,
            whole: None,
            exclusive: BTreeSet::new(),
            shared: BTreeMap::new(),
            common_users: 0,
            common: None,
        }
    }

    /// Returns the lock file, which is opened as soon as there is an index; `None` where it has no locks.
    fn file(&mut self) -> Option<&LockFile> {
        if let Some(index) = &self.index
            && self.file.is_none()
            && self.unavailable.is_none()
        {
            match LockFile::open(index) {
                Ok(file) => {
                    // Users that came before there was an index to lock.
                    for (position, users) in &mut self.shared {
                        file.try_shared(*position);
                        users.is_locked = true;
                    }
                    self.file = Some(file);
                }
                Err(Errno::NOENT) => {}
                Err(errno) => self.set_unavailable(errno),
            }
        }
        let has_locks = self.unavailable.is_none_or(|errno| errno == claim::READ_ONLY || self.has_worked);
        self.file.as_ref().filter(|_| has_locks)
    }

    fn set_unavailable(&mut self, errno: Errno) {
        if self.unavailable.replace(errno).is_none() {
            let index = self.index.as_deref().unwrap_or(Path::new(INDEX_BASENAME));
            log::warn!("no locks on {} ({errno}): several processes may fetch the same shard", index.display());
        }
    }

    /// Notes whether locks work. Returns false for a lock that a different process has.
    fn note(&mut self, outcome: Option<LockOutcome>) -> bool {
        match outcome {
            Some(LockOutcome::Busy) => return false,
            Some(LockOutcome::Unavailable(errno)) => self.set_unavailable(errno),
            Some(LockOutcome::Taken) => self.has_worked = true,
            None => {}
        }
        true
    }

    /// Returns the reason why no limit can be kept in the directory, if it has one: `limits` is true for a limit of the
    /// calling data set. To be called after the limit was announced, as every process announces its own.
    pub(super) fn limit_refusal(&mut self, limits: bool) -> Option<LimitRefusal> {
        if self.try_exclusive(claim::PROBE) {
            self.release(claim::PROBE);
        }
        let Some(errno) = self.unavailable.filter(|_| !self.has_worked || !self.is_writable()) else {
            let has_guests = limits && self.is_locked_elsewhere(claim::GUEST);
            return has_guests.then_some(LimitRefusal::DifferentUser);
        };
        if errno == claim::READ_ONLY {
            if self.users(claim::GUEST) == 0 {
                self.share(claim::GUEST);
            }
            let is_limited = limits || self.strictest_limit().is_some();
            return is_limited.then_some(LimitRefusal::DifferentUser);
        }
        if self.whole.is_some_and(|exclusive| exclusive || !limits) {
            return None;
        }
        match self.file.as_ref()?.try_whole(limits) {
            LockOutcome::Taken => {
                self.whole = Some(limits);
                None
            }
            LockOutcome::Busy => Some(LimitRefusal::InUse(errno)),
            LockOutcome::Unavailable(_) => limits.then_some(LimitRefusal::NoLocks(errno)),
        }
    }

    fn is_writable(&self) -> bool {
        self.unavailable != Some(claim::READ_ONLY)
    }

    /// Locks a byte for one user in one process and returns false if it is locked, here or elsewhere. True also where
    /// locks do not work, if no second user in this process has it.
    pub(super) fn try_exclusive(&mut self, position: u64) -> bool {
        if self.exclusive.contains(&position) || self.shared.contains_key(&position) {
            return false;
        }
        let outcome = self.file().map(|file| file.try_exclusive(position));
        self.note(outcome) && self.exclusive.insert(position)
    }

    /// Releases a byte that this process has locked exclusively. Returns false if it has not.
    pub(super) fn release(&mut self, position: u64) -> bool {
        let is_locked = self.exclusive.remove(&position);
        if is_locked {
            let is_held = self.is_in_common_hold(position);
            let outcome =
                self.file().map(|file| if is_held { file.try_shared(position) } else { file.release(position) });
            self.note(outcome);
        }
        is_locked
    }

    /// Adds a user of a shared lock and returns false, without adding one, if a different process holds it exclusively.
    pub(super) fn try_share(&mut self, position: u64) -> bool {
        if !self.shared.contains_key(&position) {
            let is_locked = !self.needs_no_lock(position);
            if is_locked {
                let outcome = self.file().map(|file| file.try_shared(position));
                if !self.note(outcome) {
                    return false;
                }
            }
            self.shared.insert(position, Users { count: 0, is_locked });
        }
        self.shared.entry(position).or_default().count += 1;
        true
    }

    /// Adds a user of a shared lock that no process takes exclusively for long.
    pub(super) fn share(&mut self, position: u64) {
        if !self.try_share(position) {
            self.shared.entry(position).or_default().count += 1;
        }
    }

    /// Removes a user of a shared lock.
    pub(super) fn unshare(&mut self, position: u64) {
        match self.shared.get_mut(&position) {
            Some(users) if users.count > 1 => users.count -= 1,
            Some(users) => {
                let is_locked = users.is_locked;
                self.shared.remove(&position);
                if is_locked {
                    let outcome = self.file().map(|file| file.release(position));
                    self.note(outcome);
                }
            }
            None => {}
        }
    }

    /// Returns the shards, of `count`, with a lock of the kind at `start` in any process. Numbers that the index does
    /// not have belong to another program.
    pub(super) fn shards(&mut self, start: u64, count: usize) -> HashSet<u32> {
        let positions = self.positions(start..start + count as u64, count as u64);
        positions.into_iter().map(|position| (position - start) as u32).collect()
    }

    /// Returns the positions of all open copies (see [`claim::open_copy`]) of `count` shards, in any process.
    pub(super) fn open_copies(&mut self, count: usize) -> BTreeSet<u64> {
        self.positions(claim::OPEN..claim::OPEN + ((count as u64) << claim::COPY_BITS), COPIES_IN_ROW_MAX)
    }

    /// Returns true if a job fetches into the directory from a different remote than the one at `position`.
    pub(super) fn has_different_remote(&mut self, position: u64) -> bool {
        let remotes = self.positions(claim::REMOTE..claim::REMOTE + (1 << 32), 1 << 8);
        remotes.iter().any(|other| *other != position)
    }

    /// Returns the positions within `range` that any process has locked, without runs of more than `run_max`.
    fn positions(&mut self, range: Range<u64>, run_max: u64) -> BTreeSet<u64> {
        let others = self.locked_ranges(range.clone()).into_iter().filter(|run| run.end - run.start <= run_max);
        let mut positions: BTreeSet<u64> = others.flatten().collect();
        positions.extend(self.shared.range(range.clone()).map(|(position, _)| position));
        positions.extend(self.exclusive.range(range));
        positions
    }

    /// Returns true if any process has the shared lock at `position`.
    pub(super) fn is_shared(&mut self, position: u64) -> bool {
        self.users(position) > 0 || self.is_locked_elsewhere(position)
    }

    /// Returns true if this process fetches `shard`.
    pub(super) fn is_claimed(&self, shard: u32) -> bool {
        self.exclusive.contains(&(claim::CLAIM + u64::from(shard)))
    }

    /// Returns true if claims conflict between processes here.
    pub(super) fn is_available(&mut self) -> bool {
        self.file().is_some() && self.unavailable.is_none()
    }

    /// Returns the ranges that the remaining processes have locked within `range`.
    fn locked_ranges(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        self.file().map_or_else(Vec::new, |file| file.locked_ranges(range))
    }

    fn is_locked_elsewhere(&mut self, position: u64) -> bool {
        self.file().is_some_and(|file| file.locked_elsewhere(position))
    }

    fn users(&self, position: u64) -> u32 {
        self.shared.get(&position).map_or(0, |users| users.count)
    }

    /// Returns the smallest `cache_limit` of all running jobs on this directory.
    pub(super) fn strictest_limit(&mut self) -> Option<u64> {
        let own = self.shared.range(claim::LIMIT..).next().map(|(position, _)| position - claim::LIMIT);
        let bound = own.unwrap_or(claim::LIMIT_MAX);
        let others = self.locked_ranges(claim::LIMIT..claim::LIMIT + bound);
        others.iter().map(|range| range.start - claim::LIMIT).chain(own).min()
    }

    /// Returns true if a consumer waits for room, not counting the `own` ones of the calling data set.
    pub(super) fn is_room_requested(&mut self, own: u32) -> bool {
        self.users(claim::NEED) > own || self.is_locked_elsewhere(claim::NEED)
    }

    /// Inverts the pulse of `shard`, which this process has claimed.
    pub(super) fn toggle_pulse(&mut self, shard: u32) {
        let pulse = claim::PULSE + u64::from(shard);
        if !self.release(pulse) {
            self.try_exclusive(pulse);
        }
    }

    /// Returns true if the pulse of `shard` is up, in any process.
    pub(super) fn is_pulse_up(&mut self, shard: u32) -> bool {
        let pulse = claim::PULSE + u64::from(shard);
        self.exclusive.contains(&pulse) || self.is_locked_elsewhere(pulse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locks on the index of `dir`, on a file system without those on bytes.
    fn without_bytes(dir: &Path) -> DirLocks {
        let mut locks = DirLocks::new(dir);
        assert!(locks.is_available());
        locks.unavailable = Some(Errno::NOLCK);
        locks
    }

    #[test]
    fn without_locks_on_bytes_a_limit_belongs_to_one_process_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(INDEX_BASENAME), b"{}").unwrap();
        let (mut limited, mut other) = (without_bytes(folder.path()), without_bytes(folder.path()));
        assert_eq!([true, false, true].map(|limits| limited.limit_refusal(limits)), [None; 3]);
        let in_use = Some(LimitRefusal::InUse(Errno::NOLCK));
        assert_eq!([true, false].map(|limits| other.limit_refusal(limits)), [in_use; 2]);
        drop(limited);
        assert_eq!(other.limit_refusal(false), None);
        let mut third = without_bytes(folder.path());
        assert_eq!([true, false].map(|limits| third.limit_refusal(limits)), [in_use, None]);
    }

    #[test]
    fn where_locks_do_not_work_none_is_requested_again() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(INDEX_BASENAME), b"{}").unwrap();
        let mut locks = without_bytes(folder.path());
        assert!(locks.try_exclusive(7) && !locks.try_exclusive(7), "within the process they do");
        locks.share(9);
        let mut other = DirLocks::new(folder.path());
        assert!(other.try_exclusive(7) && other.try_exclusive(9));
        assert!(locks.release(7));
        locks.unshare(9);
    }
}
