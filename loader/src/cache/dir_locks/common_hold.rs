//! One hold of all shards.
//!
//! The kernel looks through all locks of a file for each new one. A process with a lock for each shard that it will
//! read soon, and for each that it has open, would need a time that grows with their square: a tenth of a second for
//! the first batch from a cache of 10,000 small shards. Yet the only process that needs to know them is one that
//! evicts or replaces a shard. So, while no job limits the directory, an epoch holds all shards together with one lock
//! on a range, and their users are counted only in this process: no other process evicts any shard meanwhile.
//!
//! A process that finds a common hold in its way locks [`EXACT`](claim::EXACT); a job with a limit has announced that.
//! Then a thread of each epoch, which sleeps until something changes in the directory, makes the hold exact: it locks
//! the open copies first, and then releases the shards that are not in use. So these are locked at every moment, and
//! until a stopped process continues, all of its shards are.

use super::{DirLocks, Users};
use crate::cache::claim::{self, LockOutcome};
use std::collections::BTreeSet;
use std::ops::Range;

impl DirLocks {
    /// Adds a user of a hold of all `shards` shards, and takes it if no process needs exact holds.
    pub(in crate::cache) fn begin_common_hold(&mut self, shards: usize) {
        self.common_users += 1;
        let range = claim::HOLD..claim::HOLD + shards as u64;
        // A shared lock would replace an exclusive one of this process.
        let is_possible =
            self.common.is_none() && !range.is_empty() && self.exclusive.range(range.clone()).next().is_none();
        if !is_possible || self.needs_exact_holds() {
            return;
        }
        if self.file().is_some_and(|file| file.try_shared_range(range.clone()) == LockOutcome::Taken) {
            self.common = Some(range.end - range.start);
            self.shared.range_mut(range).for_each(|(_, users)| users.is_locked = false);
            self.share(claim::COMMON);
        }
    }

    /// Removes a user of the common hold. Returns true if that ends it.
    pub(in crate::cache) fn end_common_hold(&mut self) -> bool {
        self.common_users -= 1;
        self.common_users == 0 && self.make_holds_exact()
    }

    /// Makes the common hold exact if any process needs that. Returns true if this changed something.
    pub(in crate::cache) fn make_holds_exact_if_needed(&mut self) -> bool {
        self.common.is_some() && self.needs_exact_holds() && self.make_holds_exact()
    }

    /// Requests exact holds, for as long as this process uses the directory, from processes with a common one. Returns
    /// true if there are any.
    pub(in crate::cache) fn request_exact_holds(&mut self) -> bool {
        let has_common = self.is_locked_elsewhere(claim::COMMON);
        if has_common && self.users(claim::EXACT) == 0 {
            self.share(claim::EXACT);
        }
        has_common
    }

    /// Locks an evicted copy that this process has open, which the common hold has left without a lock.
    pub(in crate::cache) fn announce_evicted(&mut self, copy: u64) {
        if self.shared.get_mut(&copy).is_some_and(Users::take_unlocked) {
            self.lock_copy(copy);
        }
    }

    #[cfg(test)]
    pub(in crate::cache) fn has_common_hold(&self) -> bool {
        self.common.is_some()
    }

    /// True for the position of a shard that this process holds in common with all.
    pub(super) fn is_in_common_hold(&self, position: u64) -> bool {
        self.common.is_some_and(|shards| (claim::HOLD..claim::HOLD + shards).contains(&position))
    }

    /// True for a position that the common hold makes unnecessary: no copy of a shard is evicted, so none needs to be
    /// announced.
    pub(super) fn needs_no_lock(&self, position: u64) -> bool {
        let is_copy = (claim::OPEN..claim::OPEN_END).contains(&position);
        self.is_in_common_hold(position) || (is_copy && self.common.is_some())
    }

    fn lock_copy(&mut self, copy: u64) {
        let outcome = self.file().map(|file| file.try_shared(copy));
        self.note(outcome);
    }

    fn needs_exact_holds(&mut self) -> bool {
        self.strictest_limit().is_some() || self.is_locked_elsewhere(claim::EXACT)
    }

    fn make_holds_exact(&mut self) -> bool {
        let Some(shards) = self.common.take() else { return false };
        let range = claim::HOLD..claim::HOLD + shards;
        let copies = self.shared.range_mut(claim::OPEN..claim::OPEN_END);
        let copies: Vec<u64> = copies.filter_map(|(at, users)| users.take_unlocked().then_some(*at)).collect();
        copies.into_iter().for_each(|copy| self.lock_copy(copy));
        let mut held: BTreeSet<u64> = self.exclusive.range(range.clone()).copied().collect();
        for (position, users) in self.shared.range_mut(range.clone()) {
            users.is_locked = true;
            held.insert(*position);
        }
        for gap in gaps(range, &held) {
            let outcome = self.file().map(|file| file.release_range(gap));
            self.note(outcome);
        }
        self.unshare(claim::COMMON);
        true
    }
}

impl Users {
    /// Returns true if the position has no lock yet, and notes that it has one from now on.
    fn take_unlocked(&mut self) -> bool {
        !std::mem::replace(&mut self.is_locked, true)
    }
}

/// Returns the parts of `range` between the positions `held`.
fn gaps(range: Range<u64>, held: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let ends = held.iter().copied().chain([range.end]);
    let starts = std::iter::once(range.start).chain(held.iter().map(|position| position + 1));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::INDEX_BASENAME;
    use std::collections::HashSet;

    const SHARDS: usize = 5;

    /// Locks of two processes on one directory: locks of two open files conflict like theirs.
    fn two() -> (tempfile::TempDir, DirLocks, DirLocks) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(INDEX_BASENAME), b"{}").unwrap();
        let locks = || DirLocks::new(folder.path());
        let (own, other) = (locks(), locks());
        (folder, own, other)
    }

    fn hold(shard: u64) -> u64 {
        claim::HOLD + shard
    }

    /// The shards that a different process finds held.
    fn held(other: &mut DirLocks) -> Vec<u32> {
        let mut held: Vec<u32> = other.shards(claim::HOLD, SHARDS).into_iter().collect();
        held.sort_unstable();
        held
    }

    #[test]
    fn a_common_hold_covers_all_shards_until_it_is_made_exact_and_then_those_in_use() {
        let (_folder, mut own, mut other) = two();
        own.begin_common_hold(SHARDS);
        let copy = claim::open_copy(4, 77);
        [hold(1), hold(2), copy].iter().for_each(|position| own.share(*position));
        assert_eq!(held(&mut other), [0, 1, 2, 3, 4]);
        assert!(!other.try_exclusive(hold(0)) && !other.try_exclusive(hold(4)));
        assert!(other.open_copies(SHARDS).is_empty(), "no copy has to be known");
        assert!(!own.make_holds_exact_if_needed());
        assert!(other.request_exact_holds());
        assert!(own.make_holds_exact_if_needed() && !own.make_holds_exact_if_needed());
        assert_eq!((held(&mut other), other.open_copies(SHARDS)), (vec![1, 2], [copy].into()));
        assert!(!other.request_exact_holds());
        [hold(1), copy].iter().for_each(|position| own.unshare(*position));
        assert!(other.try_exclusive(hold(1)) && !other.try_exclusive(hold(2)));
        assert!(other.open_copies(SHARDS).is_empty());
        own.begin_common_hold(SHARDS);
        assert_eq!(held(&mut other), [1, 2], "the other process needs exact holds");
    }

    #[test]
    fn a_common_hold_is_refused_to_a_directory_with_a_limit_and_ends_with_a_later_one() {
        let (_folder, mut own, mut other) = two();
        other.share(claim::LIMIT + 1_000);
        own.begin_common_hold(SHARDS);
        assert!(held(&mut other).is_empty());
        own.end_common_hold();
        other.unshare(claim::LIMIT + 1_000);
        own.begin_common_hold(SHARDS);
        assert_eq!(held(&mut other).len(), SHARDS);
        other.share(claim::LIMIT + 1_000);
        assert!(own.make_holds_exact_if_needed());
        assert!(held(&mut other).is_empty());
    }

    #[test]
    fn a_common_hold_ends_with_its_last_user_and_leaves_the_shards_in_use_locked() {
        let (_folder, mut own, mut other) = two();
        let (early, late) = (claim::open_copy(0, 5), claim::open_copy(3, 5));
        [hold(0), early].iter().for_each(|position| own.share(*position));
        own.begin_common_hold(SHARDS);
        own.begin_common_hold(SHARDS);
        own.unshare(hold(0));
        [hold(3), late].iter().for_each(|position| own.share(*position));
        own.end_common_hold();
        assert_eq!(held(&mut other), [0, 1, 2, 3, 4], "a lock from before is part of it");
        own.end_common_hold();
        assert_eq!((held(&mut other), other.open_copies(SHARDS)), (vec![3], [early, late].into()));
        [hold(3), early, late].iter().for_each(|position| own.unshare(*position));
        assert!(held(&mut other).is_empty() && other.open_copies(SHARDS).is_empty());
        assert!(!other.request_exact_holds());
    }

    #[test]
    fn a_process_that_evicts_within_its_common_hold_keeps_it() {
        let (_folder, mut own, mut other) = two();
        own.begin_common_hold(SHARDS);
        let copy = claim::open_copy(2, 9);
        own.share(copy);
        assert!(own.try_exclusive(hold(2)) && !other.try_share(hold(2)));
        assert!(own.release(hold(2)));
        assert!(other.try_share(hold(2)) && !other.try_exclusive(hold(1)));
        other.unshare(hold(2));
        assert!(!other.try_exclusive(hold(2)));
        own.announce_evicted(copy);
        assert_eq!(other.open_copies(SHARDS), [copy].into());
        own.unshare(copy);
        assert!(other.open_copies(SHARDS).is_empty());
    }

    #[test]
    fn two_processes_hold_all_shards_in_common_and_each_makes_its_hold_exact() {
        let (_folder, mut own, mut other) = two();
        [&mut own, &mut other].into_iter().for_each(|locks| locks.begin_common_hold(SHARDS));
        own.share(hold(1));
        other.share(hold(2));
        assert!(!own.try_exclusive(hold(4)) && own.request_exact_holds());
        assert!(other.make_holds_exact_if_needed());
        assert!(own.try_exclusive(hold(4)) && !own.try_exclusive(hold(2)));
        assert!(own.release(hold(4)) && !other.try_exclusive(hold(4)));
        assert!(other.request_exact_holds() && own.make_holds_exact_if_needed());
        let both: HashSet<u32> = [1, 2].into();
        assert_eq!([own.shards(claim::HOLD, SHARDS), other.shards(claim::HOLD, SHARDS)], [both.clone(), both]);
    }
}
