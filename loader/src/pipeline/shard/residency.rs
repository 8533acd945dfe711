//! Which shards are on local disk, and who waits for one that is not.
//!
//! A chunk of samples whose shards are all resident goes straight to the decode threads. Otherwise it is cut, so that no
//! piece waits for more than one shard: where the disk holds fewer shards than a chunk touches, they would never be there
//! together. A piece that must wait is parked with its shard: it holds no read slot (DESIGN's second progress rule), only
//! its place in its batch. The shard plane takes wanted shards in the order of their first use.
//!
//! What samples a resident shard is still needed for decides which shard goes when room is short, and no sample is read or
//! planned without telling. Where shards stay, nobody asks: then that is not kept, which small samples notice.

use crate::order::ShardId;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

#[derive(Debug)]
enum State<T> {
    /// Nobody has asked yet.
    Unknown,
    /// Asked for; these wait.
    Wanted(Vec<T>),
    /// On disk, as far as we know.
    Resident,
}

#[derive(Debug)]
struct Entry<T> {
    state: State<T>,
    /// Plan positions of announced samples that have not been read, ascending.
    unread: VecDeque<u64>,
    /// Nobody has read a sample since the shard became resident.
    fresh: bool,
}

/// The table of one epoch. `T` is the work that waits.
#[derive(Debug)]
pub(crate) struct Residency<T> {
    /// Whether shards may leave the disk for others; if not, a resident one has no unread samples here.
    may_go: bool,
    shards: Vec<Mutex<Entry<T>>>,
    /// Whether each shard's state is [`State::Resident`], changed under its lock and read without it.
    is_resident: Vec<AtomicBool>,
    /// Shards with announced samples that have not been read: a handful of all, so that nobody has to look through
    /// 100,000 shards for them. Locked after an entry, never before one.
    unread: Mutex<BTreeSet<ShardId>>,
    /// Every sample before this position of the plan has been announced.
    announced: AtomicU64,
    /// Every sample before this position is on its way into a batch.
    dispatched: AtomicU64,
    wanted: Mutex<Wanted>,
    more: Condvar,
    /// Reads after which a shard may go wake those who wait for room.
    idle: Mutex<()>,
    idler: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    /// Smallest first use on top.
    queue: BinaryHeap<Reverse<(u64, ShardId)>>,
    closed: bool,
}

/// Sorts samples by shard, then position. One number for both compares without branches, which no CPU could predict in a
/// shuffle.
fn sort(samples: &mut [(ShardId, u64)]) {
    samples.sort_unstable_by_key(|(shard, position)| u128::from(shard.0) << 64 | u128::from(*position));
}

impl<T> Residency<T> {
    /// A table of `shards` shards, none of them asked for. They may leave the disk for others if `may_go` says so.
    pub(crate) fn new(shards: usize, may_go: bool) -> Self {
        let entry = || Mutex::new(Entry { state: State::Unknown, unread: VecDeque::new(), fresh: false });
        Self {
            may_go,
            shards: (0..shards).map(|_| entry()).collect(),
            is_resident: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            unread: Mutex::default(),
            announced: AtomicU64::new(0),
            dispatched: AtomicU64::new(0),
            wanted: Mutex::default(),
            more: Condvar::new(),
            idle: Mutex::new(()),
            idler: Condvar::new(),
        }
    }

    /// Announces the samples that follow those announced before: the shard and plan position of each, which are sorted
    /// here. Asks for the shards that nobody has asked for, the one that is needed first before the others.
    pub(crate) fn announce(&self, samples: &mut [(ShardId, u64)]) {
        let Some(last) = samples.iter().map(|(_, position)| *position).max() else { return };
        let samples = if self.may_go { samples } else { self.not_resident(samples) };
        sort(samples);
        let mut unknown = Vec::new();
        for of_shard in samples.chunk_by(|a, b| a.0 == b.0) {
            let (shard, first) = of_shard[0];
            let mut entry = self.shards[shard.index()].lock();
            if self.is_settled(&entry) {
                continue;
            }
            if entry.unread.is_empty() {
                self.unread.lock().insert(shard);
            }
            entry.unread.extend(of_shard.iter().map(|(_, position)| *position));
            if matches!(entry.state, State::Unknown) {
                entry.state = State::Wanted(Vec::new());
                unknown.push((first, shard));
            }
        }
        unknown.sort_unstable();
        // Release, and only now: who reads the position must find the samples before it, or it would take a shard whose
        // samples are on their way into the table for one that is not needed.
        self.announced.store(last + 1, Ordering::Release);
        for (first, shard) in unknown {
            self.want(shard, first);
        }
    }

    /// Those of `samples` whose shards are not resident, which come first from now on.
    fn not_resident<'a>(&self, samples: &'a mut [(ShardId, u64)]) -> &'a mut [(ShardId, u64)] {
        let mut count = 0;
        for at in 0..samples.len() {
            if !self.are_resident(std::iter::once(samples[at].0)) {
                samples.swap(count, at);
                count += 1;
            }
        }
        &mut samples[..count]
    }

    /// Whether the shard is here to stay.
    fn is_settled(&self, entry: &Entry<T>) -> bool {
        !self.may_go && matches!(entry.state, State::Resident)
    }

    /// As [`announce`](Self::announce) for a sample that takes the place of one at `position`, which was given up: its
    /// shard is needed as early as that.
    pub(crate) fn announce_again(&self, shard: ShardId, position: u64) {
        let mut entry = self.shards[shard.index()].lock();
        if self.is_settled(&entry) {
            return;
        }
        if entry.unread.is_empty() {
            self.unread.lock().insert(shard);
        }
        let is_earlier = entry.unread.front().is_none_or(|first| position < *first);
        if let Err(place) = entry.unread.binary_search(&position) {
            entry.unread.insert(place, position);
        }
        if matches!(entry.state, State::Unknown) {
            entry.state = State::Wanted(Vec::new());
        }
        let is_wanted = matches!(entry.state, State::Wanted(_));
        drop(entry);
        if is_earlier && is_wanted {
            // It may queue further behind already; whoever comes to it there finds it resident.
            self.want(shard, position);
        }
    }

    /// Samples have been read, or given up: the shard and announced position of each, which are sorted here. Calls `first`
    /// for shards of which none had been read since they became resident, if that matters to which of them goes.
    pub(crate) fn read(&self, samples: &mut [(ShardId, u64)], mut first: impl FnMut(ShardId)) {
        if !self.may_go {
            // They went from the table when their shard became resident.
            return;
        }
        sort(samples);
        let mut may_go = false;
        for of_shard in samples.chunk_by(|a, b| a.0 == b.0) {
            let shard = of_shard[0].0;
            let mut entry = self.shards[shard.index()].lock();
            for (_, position) in of_shard {
                // Samples are not always read in the order of their announcement. It must be the right one that goes: what
                // the shard is needed for next decides who has to wait.
                if entry.unread.front() == Some(position) {
                    entry.unread.pop_front();
                } else if let Ok(place) = entry.unread.binary_search(position) {
                    entry.unread.remove(place);
                }
            }
            let is_first = std::mem::take(&mut entry.fresh);
            let is_last = entry.unread.is_empty();
            if is_last {
                self.unread.lock().remove(&shard);
            }
            drop(entry);
            may_go |= is_first || is_last;
            if is_first {
                first(shard);
            }
        }
        if may_go {
            self.idler.notify_all();
        }
    }

    /// Waits until a shard may have become free to go, or another one is wanted; at most `limit`.
    pub(crate) fn wait_idle(&self, limit: Duration) {
        drop(self.idler.wait_timeout(self.idle.lock(), limit));
    }

    /// Shards with announced samples that have not been read: each with the position of the next one, and whether we
    /// take it for resident. Costs as much as there are such shards.
    pub(crate) fn unread(&self) -> Vec<(ShardId, u64, bool)> {
        let shards: Vec<ShardId> = self.unread.lock().iter().copied().collect();
        let look = |shard: ShardId| {
            let entry = self.shards[shard.index()].lock();
            let next = *entry.unread.front()?;
            Some((shard, next, matches!(entry.state, State::Resident)))
        };
        shards.into_iter().filter_map(look).collect()
    }

    /// Plan position of the next announced sample of `shard`; `None` for a resident one that stays.
    pub(crate) fn next_read(&self, shard: ShardId) -> Option<u64> {
        self.shards[shard.index()].lock().unread.front().copied()
    }

    /// Every sample before this plan position has been announced.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Every sample before this plan position is on its way into a batch; those behind wait for the consumer.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Relaxed)
    }

    /// Samples before `position` are on their way.
    pub(crate) fn set_dispatched(&self, position: u64) {
        self.dispatched.store(position, Ordering::Relaxed);
    }

    fn want(&self, shard: ShardId, position: u64) {
        self.wanted.lock().queue.push(Reverse((position, shard)));
        self.more.notify_one();
        // Who waits for room may have to give way to this one.
        self.idler.notify_all();
    }

    /// Whether all of `shards` are resident, as far as we know.
    pub(crate) fn are_resident(&self, mut shards: impl Iterator<Item = ShardId>) -> bool {
        // Acquire: what made the shard resident came before. It may be lost right after, and under its lock as well.
        shards.all(|shard| self.is_resident[shard.index()].load(Ordering::Acquire))
    }

    /// Gives `work` back if `shard` is resident; otherwise keeps it until it is.
    pub(crate) fn park(&self, work: T, shard: ShardId) -> Option<T> {
        let mut entry = self.shards[shard.index()].lock();
        match &mut entry.state {
            State::Resident => return Some(work),
            State::Wanted(waiting) => waiting.push(work),
            State::Unknown => {
                entry.state = State::Wanted(vec![work]);
                let position = entry.unread.front().copied().unwrap_or(0);
                drop(entry);
                self.want(shard, position);
            }
        }
        None
    }

    /// The next shard to make resident, in order of first use; waits for one. `None` once closed.
    pub(crate) fn next_wanted(&self) -> Option<(u64, ShardId)> {
        let mut wanted = self.wanted.lock();
        loop {
            if wanted.closed {
                return None;
            }
            let Some(Reverse((position, shard))) = wanted.queue.pop() else {
                wanted = self.more.wait(wanted);
                continue;
            };
            drop(wanted);
            if self.is_needed(shard) {
                return Some((position, shard));
            }
            wanted = self.wanted.lock();
        }
    }

    /// Whether samples still wait for a wanted shard: all may have been read from descriptors of a copy that was evicted,
    /// or it was made resident when it stood further in front.
    fn is_needed(&self, shard: ShardId) -> bool {
        let mut entry = self.shards[shard.index()].lock();
        let State::Wanted(waiting) = &entry.state else { return false };
        let needed = !entry.unread.is_empty() || !waiting.is_empty();
        if !needed {
            entry.state = State::Unknown;
        }
        needed
    }

    /// Takes the wanted shard with the earliest use in exchange for `shard`, which then waits in its stead; `None` when
    /// no shard that is still needed is wanted before `position`, the next use of `shard`.
    pub(crate) fn exchange_for_earlier(&self, shard: ShardId, position: u64) -> Option<ShardId> {
        loop {
            let mut wanted = self.wanted.lock();
            let Reverse((first, _)) = *wanted.queue.peek()?;
            if first >= position {
                return None;
            }
            let Reverse((_, earlier)) = wanted.queue.pop()?;
            drop(wanted);
            // Looked at outside of the queue's lock: no entry is locked under that.
            if self.is_needed(earlier) {
                self.wanted.lock().queue.push(Reverse((position, shard)));
                self.more.notify_one();
                return Some(earlier);
            }
        }
    }

    /// `shard` is on disk: the work that waited for it.
    #[must_use]
    pub(crate) fn resident(&self, shard: ShardId) -> Vec<T> {
        let mut entry = self.shards[shard.index()].lock();
        entry.fresh = true;
        let old = std::mem::replace(&mut entry.state, State::Resident);
        self.is_resident[shard.index()].store(true, Ordering::Release);
        if !self.may_go {
            entry.unread = VecDeque::new();
            self.unread.lock().remove(&shard);
        }
        drop(entry);
        match old {
            State::Wanted(waiting) => waiting,
            State::Unknown | State::Resident => Vec::new(),
        }
    }

    /// `shard` turned out not to be on disk (evicted, or deleted by somebody): it is asked for again.
    pub(crate) fn lost(&self, shard: ShardId) {
        let mut entry = self.shards[shard.index()].lock();
        if !matches!(entry.state, State::Resident) {
            return;
        }
        self.is_resident[shard.index()].store(false, Ordering::Release);
        // Samples that are announced will need it: it queues where the first of them stands.
        let Some(position) = entry.unread.front().copied() else {
            entry.state = State::Unknown;
            return;
        };
        entry.state = State::Wanted(Vec::new());
        drop(entry);
        self.want(shard, position);
    }

    /// Of the shards that work waits for, the one that is needed first.
    pub(crate) fn awaited(&self) -> Option<ShardId> {
        let is_awaited = |shard: ShardId| {
            let entry = self.shards[shard.index()].lock();
            matches!(&entry.state, State::Wanted(waiting) if !waiting.is_empty())
        };
        let awaited = self.unread().into_iter().filter(|(shard, ..)| is_awaited(*shard));
        awaited.min_by_key(|(_, next, _)| *next).map(|(shard, ..)| shard)
    }

    /// Ends the table: nobody waits for wanted shards any more, and what was parked is dropped.
    pub(crate) fn close(&self) {
        self.wanted.lock().closed = true;
        self.more.notify_all();
        self.idler.notify_all();
        for entry in &self.shards {
            let mut entry = entry.lock();
            if let State::Wanted(waiting) = &mut entry.state {
                let parked = std::mem::take(waiting);
                drop(entry);
                drop(parked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(i: u32) -> ShardId {
        ShardId(i)
    }

    fn announce<T>(table: &Residency<T>, shard: ShardId, position: u64) {
        table.announce(&mut [(shard, position)]);
    }

    /// Whether it was the first sample read.
    fn read<T>(table: &Residency<T>, shard: ShardId, position: u64) -> bool {
        let mut first = false;
        table.read(&mut [(shard, position)], |_| first = true);
        first
    }

    #[test]
    fn work_waits_for_its_shard_and_no_other() {
        let table = Residency::new(3, true);
        assert_eq!(table.park("work", s(0)), None);
        assert!(table.resident(s(2)).is_empty());
        assert!(!table.are_resident([s(2), s(0)].into_iter()));
        assert_eq!(table.resident(s(0)), ["work"]);
        assert!(table.are_resident([s(2), s(0)].into_iter()));
        assert_eq!(table.park("next", s(0)), Some("next"));
    }

    #[test]
    fn shards_are_wanted_once_and_in_order_of_first_use() {
        let table = Residency::<()>::new(4, true);
        for (shard, position) in [(3, 7), (1, 2), (3, 1), (0, 5)] {
            announce(&table, s(shard), position);
        }
        assert_eq!(table.next_wanted(), Some((2, s(1))));
        assert_eq!(table.next_wanted(), Some((5, s(0))));
        assert_eq!(table.next_wanted(), Some((7, s(3))));
        table.close();
        assert_eq!(table.next_wanted(), None);
    }

    #[test]
    fn samples_announced_and_read_together_count_one_by_one() {
        let table = Residency::<()>::new(3, true);
        table.announce(&mut [(s(2), 0), (s(1), 1), (s(2), 2), (s(1), 3), (s(1), 4)]);
        assert_eq!(table.announced(), 5);
        assert_eq!((table.next_wanted(), table.next_wanted()), (Some((0, s(2))), Some((1, s(1)))));
        assert!(table.resident(s(1)).is_empty());
        let mut first = Vec::new();
        table.read(&mut [(s(1), 4), (s(2), 0), (s(1), 1)], |shard| first.push(shard));
        assert_eq!(first, [s(1)], "nobody has made the other one resident");
        assert_eq!(table.unread(), [(s(1), 3, true), (s(2), 2, false)]);
    }

    #[test]
    fn a_shard_knows_its_next_use_and_its_first_read() {
        let table = Residency::<()>::new(1, true);
        announce(&table, s(0), 3);
        announce(&table, s(0), 8);
        assert_eq!((table.next_read(s(0)), table.announced()), (Some(3), 9));
        assert!(table.resident(s(0)).is_empty());
        assert!(read(&table, s(0), 3));
        assert_eq!(table.next_read(s(0)), Some(8));
        assert!(!read(&table, s(0), 8));
        assert_eq!(table.next_read(s(0)), None);
    }

    #[test]
    fn a_shard_stays_needed_for_its_earliest_sample_when_a_later_one_is_read_first() {
        let table = Residency::<()>::new(1, true);
        for position in [10, 30, 50] {
            announce(&table, s(0), position);
        }
        assert_eq!(table.next_wanted(), Some((10, s(0))));
        assert!(table.resident(s(0)).is_empty());
        assert!(read(&table, s(0), 50));
        table.lost(s(0));
        assert_eq!(table.next_wanted(), Some((10, s(0))));
    }

    #[test]
    fn a_lost_shard_is_asked_for_again() {
        let table = Residency::new(1, true);
        assert_eq!(table.park(1, s(0)), None);
        assert_eq!(table.next_wanted(), Some((0, s(0))));
        assert_eq!(table.resident(s(0)), [1]);
        table.lost(s(0));
        assert_eq!(table.park(2, s(0)), None);
        assert_eq!(table.next_wanted(), Some((0, s(0))));
    }

    #[test]
    fn a_shard_whose_samples_were_all_read_meanwhile_is_not_fetched() {
        let table = Residency::<()>::new(2, true);
        for (shard, position) in [(0, 1), (1, 2)] {
            announce(&table, s(shard), position);
        }
        read(&table, s(0), 1);
        assert_eq!(table.next_wanted(), Some((2, s(1))));
        announce(&table, s(0), 3);
        assert_eq!(table.next_wanted(), Some((3, s(0))), "it is asked for again when it is needed again");
    }

    #[test]
    fn of_a_shard_that_stays_nothing_is_kept_while_it_is_resident() {
        let table = Residency::new(2, false);
        table.announce(&mut [(s(0), 0), (s(1), 1), (s(0), 2)]);
        assert_eq!((table.next_wanted(), table.next_wanted()), (Some((0, s(0))), Some((1, s(1)))));
        assert_eq!(table.park("waits", s(1)), None);
        assert!(table.resident(s(0)).is_empty());
        table.announce(&mut [(s(0), 3), (s(1), 4), (s(0), 5)]);
        table.announce_again(s(0), 3);
        assert_eq!((table.next_read(s(0)), table.announced()), (None, 6));
        assert_eq!(table.unread(), [(s(1), 1, false)]);
        assert_eq!(table.awaited(), Some(s(1)));
        assert_eq!(table.resident(s(1)), ["waits"]);
        assert!(!read(&table, s(1), 4), "it has been let go when it became resident");
        assert_eq!(table.unread(), []);
        // Deleted by somebody: asked for by whoever comes to it.
        table.lost(s(1));
        table.announce(&mut [(s(1), 6)]);
        assert_eq!(table.next_wanted(), Some((6, s(1))));
        assert_eq!(table.park("again", s(1)), None);
        assert_eq!(table.resident(s(1)), ["again"]);
        assert_eq!(table.unread(), []);
    }

    #[test]
    fn the_shard_that_is_awaited_is_the_one_needed_first() {
        let table = Residency::new(3, true);
        for (shard, position) in [(2, 3), (0, 8), (1, 1)] {
            announce(&table, s(shard), position);
        }
        assert_eq!(table.awaited(), None, "they are wanted, but no work waits yet");
        assert!(table.resident(s(1)).is_empty());
        assert_eq!((table.park("late", s(0)), table.park("soon", s(2))), (None, None));
        assert_eq!(table.awaited(), Some(s(2)));
    }

    #[test]
    fn a_shard_in_hand_is_exchanged_for_one_that_is_needed_earlier() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 4);
        announce(&table, s(1), 9);
        assert_eq!(table.next_wanted(), Some((4, s(0))));
        assert_eq!(table.exchange_for_earlier(s(0), 4), None, "the other one is needed later");
        announce(&table, s(2), 2);
        assert_eq!(table.exchange_for_earlier(s(0), 4), Some(s(2)));
        assert_eq!(table.exchange_for_earlier(s(2), 2), None);
        assert_eq!((table.next_wanted(), table.next_wanted()), (Some((4, s(0))), Some((9, s(1)))));
    }

    #[test]
    fn a_shard_in_hand_is_not_exchanged_for_one_whose_samples_were_all_read() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 4);
        assert_eq!(table.next_wanted(), Some((4, s(0))));
        for (shard, position) in [(1, 1), (2, 3)] {
            announce(&table, s(shard), position);
        }
        // Read from the descriptors of a copy that was evicted.
        read(&table, s(1), 1);
        assert_eq!(table.exchange_for_earlier(s(0), 4), Some(s(2)));
        read(&table, s(2), 3);
        assert_eq!(table.exchange_for_earlier(s(2), 4), None);
        announce(&table, s(1), 7);
        assert_eq!((table.next_wanted(), table.next_wanted()), (Some((4, s(0))), Some((7, s(1)))));
    }

    #[test]
    fn a_shard_that_is_needed_earlier_than_announced_is_wanted_there_and_once() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 5);
        announce(&table, s(1), 9);
        table.announce_again(s(1), 2);
        table.announce_again(s(2), 2);
        assert_eq!(table.unread(), [(s(0), 5, false), (s(1), 2, false), (s(2), 2, false)]);
        assert_eq!(table.announced(), 10, "nothing further on has been announced");
        assert_eq!((table.next_wanted(), table.next_wanted()), (Some((2, s(1))), Some((2, s(2)))));
        let _ = table.resident(s(1));
        assert_eq!(table.next_wanted(), Some((5, s(0))));
        let _ = table.resident(s(0));
        read(&table, s(1), 2);
        assert_eq!(table.next_read(s(1)), Some(9));
        assert_eq!(table.exchange_for_earlier(s(2), 100), None, "it is resident where it queued further behind");
    }

    #[test]
    fn looking_for_unread_shards_costs_as_much_as_there_are_and_not_as_the_data_set_has() {
        let table = Residency::<()>::new(100_000, true);
        for (position, shard) in [70_000, 3, 70_000, 99_999].into_iter().enumerate() {
            announce(&table, s(shard), position as u64);
        }
        // Somebody is busy with a shard that has nothing unread: who looked at all shards would wait for it.
        let _busy = table.shards[50_000].lock();
        assert_eq!(table.unread(), [(s(3), 1, false), (s(70_000), 0, false), (s(99_999), 3, false)]);
        read(&table, s(70_000), 0);
        read(&table, s(3), 1);
        assert_eq!(table.unread(), [(s(70_000), 2, false), (s(99_999), 3, false)]);
    }
}
