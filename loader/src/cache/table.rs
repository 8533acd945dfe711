//! What one process does in one directory, and what it says about it to others.
//!
//! Locks of one process do not conflict with each other, so what its threads and data sets do is counted here, and a
//! lock is taken for the first of them and given back with the last.

use super::INDEX_NAME;
use super::claim::{self, Lock, LockFile};
use super::directory::Directory;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What this process's threads and data sets do in the directory.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// `None` until `index.json` is there to be opened.
    locks: Option<LockFile>,
    /// Why locks do not work here; told once.
    pub(super) no_locks: Option<Errno>,
    pub(super) claims: HashSet<u32>,
    pub(super) reserved: HashSet<u32>,
    /// Claimed shards whose pulse is up.
    pulses: HashSet<u32>,
    pub(super) holds: HashMap<u32, u32>,
    pub(super) opens: HashMap<u32, u32>,
    /// Descriptors of this process to files that are evicted, in bytes.
    pub(super) evicted_open_bytes: u64,
    /// Threads of this process that wait for room because a consumer waits.
    needs: u32,
    limits: HashMap<u64, u32>,
    keep_zip: u32,
    local_only: u32,
}

impl Table {
    /// The lock file, opened as soon as there is an index to open.
    pub(super) fn locks(&mut self, directory: &Directory) -> Option<&LockFile> {
        if self.locks.is_none() && self.no_locks.is_none() {
            match LockFile::open(&directory.path.join(INDEX_NAME)) {
                Ok(locks) => {
                    // What was wanted before there was an index to say it on.
                    let limits = self.limits.keys().map(|limit| claim::LIMIT + limit.min(&claim::LIMIT_MAX));
                    let keep_zip = (self.keep_zip > 0).then_some(claim::KEEP_ZIP);
                    let local_only = (self.local_only > 0).then_some(claim::LOCAL_ONLY);
                    for position in limits.chain(keep_zip).chain(local_only) {
                        locks.try_shared(position);
                    }
                    self.locks = Some(locks);
                }
                Err(Errno::NOENT) => {}
                Err(errno) => self.give_up_locks(directory, errno),
            }
        }
        self.locks.as_ref()
    }

    fn give_up_locks(&mut self, directory: &Directory, errno: Errno) {
        if self.no_locks.replace(errno).is_none() {
            log::warn!(
                "no locks on {}/{INDEX_NAME} ({errno}): several processes may fetch the same shard",
                directory.path.display()
            );
        }
    }

    /// Locks a byte for this process alone. True also where locks do not work: then nobody can be in the way.
    pub(super) fn exclusive(&mut self, directory: &Directory, position: u64) -> bool {
        let Some(locks) = self.locks(directory) else { return true };
        match locks.try_exclusive(position) {
            Lock::Taken => true,
            Lock::Busy => false,
            Lock::Unavailable(errno) => {
                self.give_up_locks(directory, errno);
                true
            }
        }
    }

    /// Locks a byte together with others; as [`exclusive`](Self::exclusive).
    pub(super) fn shared(&mut self, directory: &Directory, position: u64) -> bool {
        let Some(locks) = self.locks(directory) else { return true };
        // Shared locks also work on an index that may only be read, so a refusal here says nothing about claims.
        locks.try_shared(position) != Lock::Busy
    }

    /// Gives a byte back.
    pub(super) fn release(&mut self, directory: &Directory, position: u64) {
        if let Some(locks) = self.locks(directory) {
            locks.release(position);
        }
    }

    /// Whether claims conflict between processes here.
    pub(super) fn locks_work(&mut self, directory: &Directory) -> bool {
        self.locks(directory).is_some() && self.no_locks.is_none()
    }

    /// Announces what a handle wants; undone by [`leave`](Self::leave).
    pub(super) fn announce(&mut self, directory: &Directory, wants: Wants) {
        if let Some(limit) = wants.limit {
            let count = self.limits.entry(limit).or_default();
            *count += 1;
            if *count == 1 {
                self.shared(directory, claim::LIMIT + limit.min(claim::LIMIT_MAX));
            }
        }
        if wants.keep_zip {
            self.keep_zip += 1;
            self.shared(directory, claim::KEEP_ZIP);
        }
        if wants.local_only {
            self.local_only += 1;
            self.shared(directory, claim::LOCAL_ONLY);
        }
    }

    /// Takes back what [`announce`](Self::announce) said.
    pub(super) fn leave(&mut self, directory: &Directory, wants: Wants) {
        if let Some(limit) = wants.limit
            && let Some(count) = self.limits.get_mut(&limit)
        {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&limit);
                self.release(directory, claim::LIMIT + limit.min(claim::LIMIT_MAX));
            }
        }
        if wants.keep_zip {
            self.keep_zip -= 1;
            if self.keep_zip == 0 {
                self.release(directory, claim::KEEP_ZIP);
            }
        }
        if wants.local_only {
            self.local_only -= 1;
            if self.local_only == 0 {
                self.release(directory, claim::LOCAL_ONLY);
            }
        }
    }

    /// The smallest `cache_limit` of all live jobs on this directory.
    pub(super) fn strictest_limit(&mut self, directory: &Directory) -> Option<u64> {
        let own = self.limits.keys().copied().min();
        let bound = own.unwrap_or(claim::LIMIT_MAX).min(claim::LIMIT_MAX);
        let others = self.others(directory, claim::LIMIT..claim::LIMIT + bound);
        others.iter().map(|r| r.start - claim::LIMIT).chain(own).min()
    }

    /// Whether a job wants compressed files to stay.
    pub(super) fn zips_stay(&mut self, directory: &Directory) -> bool {
        self.keep_zip > 0 || self.locks(directory).is_some_and(|l| l.locked_by_other(claim::KEEP_ZIP))
    }

    /// Whether a job has no remote to fetch shards from again.
    pub(super) fn nothing_may_go(&mut self, directory: &Directory) -> bool {
        self.local_only > 0 || self.locks(directory).is_some_and(|l| l.locked_by_other(claim::LOCAL_ONLY))
    }

    /// What other processes have locked within `range`.
    pub(super) fn others(&mut self, directory: &Directory, range: Range<u64>) -> Vec<Range<u64>> {
        self.locks(directory).map_or_else(Vec::new, |l| l.others(range))
    }

    /// Keeps `shard` from being evicted; false while another process evicts it.
    pub(super) fn hold(&mut self, directory: &Directory, shard: u32) -> bool {
        if !self.holds.contains_key(&shard) && !self.shared(directory, claim::HOLD + u64::from(shard)) {
            return false;
        }
        *self.holds.entry(shard).or_default() += 1;
        true
    }

    /// Undoes one [`hold`](Self::hold).
    pub(super) fn unhold(&mut self, directory: &Directory, shard: u32) {
        if count_down(&mut self.holds, shard) {
            self.release(directory, claim::HOLD + u64::from(shard));
        }
    }

    /// Turns the pulse of `shard`, which this process has claimed, from down to up or from up to down.
    pub(super) fn beat(&mut self, directory: &Directory, shard: u32) {
        if !self.stop_pulse(directory, shard) {
            self.pulses.insert(shard);
            self.exclusive(directory, claim::PULSE + u64::from(shard));
        }
    }

    /// Takes the pulse of `shard` down; whether it was up.
    pub(super) fn stop_pulse(&mut self, directory: &Directory, shard: u32) -> bool {
        let up = self.pulses.remove(&shard);
        if up {
            self.release(directory, claim::PULSE + u64::from(shard));
        }
        up
    }

    /// Whether the pulse of `shard` is up, whoever fetches it.
    pub(super) fn pulse(&mut self, directory: &Directory, shard: u32) -> bool {
        let position = claim::PULSE + u64::from(shard);
        self.pulses.contains(&shard) || self.locks(directory).is_some_and(|l| l.locked_by_other(position))
    }

    /// A consumer of this process waits for room.
    pub(super) fn need(&mut self, directory: &Directory) {
        self.needs += 1;
        if self.needs == 1 {
            self.shared(directory, claim::NEED);
        }
    }

    /// Undoes one [`need`](Self::need).
    pub(super) fn unneed(&mut self, directory: &Directory) {
        self.needs -= 1;
        if self.needs == 0 {
            self.release(directory, claim::NEED);
        }
    }

    /// Whether a consumer waits for room, in whichever process, `own` ones of the asking data set aside.
    pub(super) fn room_needed(&mut self, directory: &Directory, own: u32) -> bool {
        self.needs > own || self.locks(directory).is_some_and(|l| l.locked_by_other(claim::NEED))
    }

    /// Counts open descriptors of `shard`.
    pub(super) fn opened(&mut self, directory: &Directory, shard: u32) {
        let count = self.opens.entry(shard).or_default();
        *count += 1;
        if *count == 1 {
            self.shared(directory, claim::OPEN + u64::from(shard));
        }
    }

    /// Undoes one [`opened`](Self::opened).
    pub(super) fn closed(&mut self, directory: &Directory, shard: u32) {
        if count_down(&mut self.opens, shard) {
            self.release(directory, claim::OPEN + u64::from(shard));
        }
    }
}

/// Takes one from `counts[shard]`; true when none is left.
fn count_down(counts: &mut HashMap<u32, u32>, shard: u32) -> bool {
    match counts.get_mut(&shard) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        Some(_) => counts.remove(&shard).is_some(),
        None => false,
    }
}

/// What one handle announces to the other jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) limit: Option<u64>,
    pub(super) keep_zip: bool,
    pub(super) local_only: bool,
}
