//! Shards on local disk, and the work that waits for the rest.
//!
//! Work without its shard is parked with the shard. It holds no read slot, only its memory in its batch. The shard
//! plane takes requested shards in the order of their first use.
//!
//! Eviction needs to know which announced samples of a shard are still unread, so every announcement and read is
//! recorded here. Shards that cannot be evicted (no remote) are not recorded once they are resident, which saves time
//! with small samples.

use crate::order::ShardId;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

#[derive(Debug)]
enum Presence<T> {
    /// Not requested yet.
    Unknown,
    /// In the queue or in progress; this work waits for it.
    Requested(Vec<T>),
    /// On disk, as far as is known.
    Resident,
}

#[derive(Debug)]
struct ShardEntry<T> {
    presence: Presence<T>,
    /// Plan positions of announced samples that have not been read, ascending.
    unread: VecDeque<u64>,
    /// No sample has been read since the shard became resident.
    is_fresh: bool,
}

/// Residency of all shards in one epoch. `T` is the work that waits.
#[derive(Debug)]
pub(crate) struct Residency<T> {
    /// Shards may be evicted. If not, resident shards have no unread samples here.
    may_be_evicted: bool,
    shards: Vec<Mutex<ShardEntry<T>>>,
    /// True for each shard that is [`Presence::Resident`]. Written under the shard's lock, read without it.
    is_resident: Vec<AtomicBool>,
    /// The few shards with announced samples that have not been read, so that a search does not visit 100,000 shards.
    /// Locked after an entry, never before one.
    unread: Mutex<BTreeSet<ShardId>>,
    /// Every sample before this position of the plan has been announced.
    announced: AtomicU64,
    /// Every sample before this plan position has been dispatched into a batch.
    dispatched: AtomicU64,
    queue: Mutex<RequestQueue>,
    /// Notified when a shard is requested.
    requested: Condvar,
    /// Notified when a read allows the eviction of a shard, for threads that wait for room.
    released: Condvar,
    /// Locked after an entry, never before one.
    parked: Mutex<Parked>,
}

#[derive(Debug, Default)]
struct RequestQueue {
    /// Position of the first use and shard, smallest on top.
    shards: BinaryHeap<Reverse<(u64, ShardId)>>,
    is_closed: bool,
}

/// Work that waits for shards.
#[derive(Debug, Default)]
struct Parked {
    count: usize,
    /// Start of the time with work, which `time` does not contain yet.
    since: Option<Instant>,
    time: Duration,
}

impl Parked {
    fn add(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn remove(&mut self, count: usize) {
        self.count -= count;
        if self.count == 0 {
            self.time += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

/// Sorts samples by shard, then position. Both are packed into one number, which compares without branches: no CPU
/// could predict them in a shuffle.
fn sort(samples: &mut [(ShardId, u64)]) {
    samples.sort_unstable_by_key(|(shard, position)| u128::from(shard.0) << 64 | u128::from(*position));
}

impl<T> Residency<T> {
    /// Residency of `shards` shards, none of them requested yet.
    pub(crate) fn new(shards: usize, may_be_evicted: bool) -> Self {
        let entry = || Mutex::new(ShardEntry { presence: Presence::Unknown, unread: VecDeque::new(), is_fresh: false });
        Self {
            may_be_evicted,
            shards: (0..shards).map(|_| entry()).collect(),
            is_resident: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            unread: Mutex::default(),
            announced: AtomicU64::new(0),
            dispatched: AtomicU64::new(0),
            queue: Mutex::default(),
            requested: Condvar::new(),
            released: Condvar::new(),
            parked: Mutex::default(),
        }
    }

    /// Announces the samples that follow those announced before: the shard and plan position of each, which are sorted
    /// here. Adds shards that are not requested yet to the queue, in the order of their first use.
    pub(crate) fn announce(&self, samples: &mut [(ShardId, u64)]) {
        let Some(last) = samples.iter().map(|(_, position)| *position).max() else { return };
        let samples = if self.may_be_evicted { samples } else { self.not_resident(samples) };
        sort(samples);
        let mut unknown = Vec::new();
        for of_shard in samples.chunk_by(|a, b| a.0 == b.0) {
            let (shard, first) = of_shard[0];
            let mut entry = self.shards[shard.index()].lock();
            if self.is_permanent(&entry) {
                continue;
            }
            if entry.unread.is_empty() {
                self.unread.lock().insert(shard);
            }
            entry.unread.extend(of_shard.iter().map(|(_, position)| *position));
            if matches!(entry.presence, Presence::Unknown) {
                entry.presence = Presence::Requested(Vec::new());
                unknown.push((first, shard));
            }
        }
        unknown.sort_unstable();
        // Release, and after the entries were written: a thread that reads the position must find the samples before
        // it, or it would take a shard whose samples are just being added for one that is not needed.
        self.announced.store(last + 1, Ordering::Release);
        for (first, shard) in unknown {
            self.request(shard, first);
        }
    }

    /// Moves the samples without resident shards to the front and returns them.
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

    /// True if the shard is resident and will not be evicted.
    fn is_permanent(&self, entry: &ShardEntry<T>) -> bool {
        !self.may_be_evicted && matches!(entry.presence, Presence::Resident)
    }

    /// As [`announce`](Self::announce) for a sample that replaces a skipped one at `position`, where its shard is
    /// needed.
    pub(crate) fn announce_again(&self, shard: ShardId, position: u64) {
        let mut entry = self.shards[shard.index()].lock();
        if self.is_permanent(&entry) {
            return;
        }
        if entry.unread.is_empty() {
            self.unread.lock().insert(shard);
        }
        let is_earlier = entry.unread.front().is_none_or(|first| position < *first);
        if let Err(place) = entry.unread.binary_search(&position) {
            entry.unread.insert(place, position);
        }
        if matches!(entry.presence, Presence::Unknown) {
            entry.presence = Presence::Requested(Vec::new());
        }
        let is_requested = matches!(entry.presence, Presence::Requested(_));
        drop(entry);
        if is_earlier && is_requested {
            // It may also be in the queue at a later position; it is then found resident there.
            self.request(shard, position);
        }
    }

    /// Records that samples have been read or skipped: the shard and announced position of each, which are sorted here.
    /// Calls `first` for shards without a read sample since they became resident, if shards may be evicted.
    pub(crate) fn read(&self, samples: &mut [(ShardId, u64)], mut first: impl FnMut(ShardId)) {
        if !self.may_be_evicted {
            // They were removed when their shard became resident.
            return;
        }
        sort(samples);
        let mut may_release = false;
        for of_shard in samples.chunk_by(|a, b| a.0 == b.0) {
            let shard = of_shard[0].0;
            let mut entry = self.shards[shard.index()].lock();
            for (_, position) in of_shard {
                // Samples are not always read in the order of their announcement. The right one must be removed: the
                // shard's next use decides which shard has to wait for room.
                if entry.unread.front() == Some(position) {
                    entry.unread.pop_front();
                } else if let Ok(place) = entry.unread.binary_search(position) {
                    entry.unread.remove(place);
                }
            }
            let is_first = std::mem::take(&mut entry.is_fresh);
            let is_last = entry.unread.is_empty();
            if is_last {
                self.unread.lock().remove(&shard);
            }
            drop(entry);
            may_release |= is_first || is_last;
            if is_first {
                first(shard);
            }
        }
        if may_release {
            self.released.notify_all();
        }
    }

    /// Ends [`wait_for_release`](Self::wait_for_release): a different process may have released something.
    pub(crate) fn notify_release(&self) {
        self.released.notify_all();
    }

    /// Waits until a shard may be evicted or a further one is requested, at most `limit`.
    pub(crate) fn wait_for_release(&self, limit: Duration) {
        drop(self.released.wait_timeout(self.queue.lock(), limit));
    }

    /// Returns the shards with announced samples that have not been read: each with the position of the next one, and
    /// true if the shard is taken for resident. The cost grows with the number of such shards, not of all.
    pub(crate) fn unread(&self) -> Vec<(ShardId, u64, bool)> {
        let shards: Vec<ShardId> = self.unread.lock().iter().copied().collect();
        let look = |shard: ShardId| {
            let entry = self.shards[shard.index()].lock();
            let next = *entry.unread.front()?;
            Some((shard, next, matches!(entry.presence, Presence::Resident)))
        };
        shards.into_iter().filter_map(look).collect()
    }

    /// Returns the plan position of the next announced sample of `shard`; `None` for a resident shard that cannot be
    /// evicted.
    pub(crate) fn next_read(&self, shard: ShardId) -> Option<u64> {
        self.shards[shard.index()].lock().unread.front().copied()
    }

    /// Returns the plan position before which every sample has been announced.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Returns the plan position before which every sample has been dispatched; later ones wait for the consumer.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Relaxed)
    }

    /// Records that the samples before `position` have been dispatched.
    pub(crate) fn set_dispatched(&self, position: u64) {
        self.dispatched.store(position, Ordering::Relaxed);
    }

    fn request(&self, shard: ShardId, position: u64) {
        self.queue.lock().shards.push(Reverse((position, shard)));
        self.requested.notify_one();
        // A shard that waits for room may have to be exchanged for this one.
        self.released.notify_all();
    }

    /// True if all of `shards` are resident, as far as is known.
    pub(crate) fn are_resident(&self, mut shards: impl Iterator<Item = ShardId>) -> bool {
        // Acquire: pairs with the store that made the shard resident. It may be lost right after, as it may be under
        // its lock.
        shards.all(|shard| self.is_resident[shard.index()].load(Ordering::Acquire))
    }

    /// Returns `work` if `shard` is resident; otherwise parks it until the shard is.
    pub(crate) fn park(&self, work: T, shard: ShardId) -> Option<T> {
        let mut entry = self.shards[shard.index()].lock();
        match &mut entry.presence {
            Presence::Resident => return Some(work),
            Presence::Requested(waiting) => {
                waiting.push(work);
                self.parked.lock().add();
            }
            Presence::Unknown => {
                entry.presence = Presence::Requested(vec![work]);
                self.parked.lock().add();
                let position = entry.unread.front().copied().unwrap_or(0);
                drop(entry);
                self.request(shard, position);
            }
        }
        None
    }

    /// Time so far in which work was parked.
    pub(crate) fn parked_time(&self) -> Duration {
        let parked = self.parked.lock();
        parked.time + parked.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits for the next shard to make resident, in the order of first use. `None` once closed.
    pub(crate) fn next_requested(&self) -> Option<(u64, ShardId)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            let Some(Reverse((position, shard))) = queue.shards.pop() else {
                queue = self.requested.wait(queue);
                continue;
            };
            drop(queue);
            if self.is_needed(shard) {
                return Some((position, shard));
            }
            queue = self.queue.lock();
        }
    }

    /// True if samples still wait for a requested shard. All may have been read from descriptors of a copy that was
    /// evicted later, or the shard became resident at an earlier position in the queue.
    fn is_needed(&self, shard: ShardId) -> bool {
        let mut entry = self.shards[shard.index()].lock();
        let Presence::Requested(waiting) = &entry.presence else { return false };
        let needed = !entry.unread.is_empty() || !waiting.is_empty();
        if !needed {
            entry.presence = Presence::Unknown;
        }
        needed
    }

    /// Exchanges `shard` for the requested shard with the earliest use and adds `shard` to the queue; `None` when no
    /// shard that is still needed is requested before `position`, the next use of `shard`.
    pub(crate) fn exchange_for_earlier(&self, shard: ShardId, position: u64) -> Option<ShardId> {
        loop {
            let mut queue = self.queue.lock();
            let Reverse((first, _)) = *queue.shards.peek()?;
            if first >= position {
                return None;
            }
            let Reverse((_, earlier)) = queue.shards.pop()?;
            drop(queue);
            // Checked without the queue's lock, under which no entry is locked.
            if self.is_needed(earlier) {
                self.queue.lock().shards.push(Reverse((position, shard)));
                self.requested.notify_one();
                return Some(earlier);
            }
        }
    }

    /// Records that `shard` is on disk and returns the work that waited for it.
    #[must_use]
    pub(crate) fn set_resident(&self, shard: ShardId) -> Vec<T> {
        let mut entry = self.shards[shard.index()].lock();
        entry.is_fresh = true;
        let old = std::mem::replace(&mut entry.presence, Presence::Resident);
        self.is_resident[shard.index()].store(true, Ordering::Release);
        if !self.may_be_evicted {
            entry.unread = VecDeque::new();
            self.unread.lock().remove(&shard);
        }
        drop(entry);
        match old {
            Presence::Requested(waiting) => {
                self.parked.lock().remove(waiting.len());
                waiting
            }
            Presence::Unknown | Presence::Resident => Vec::new(),
        }
    }

    /// Records that `shard` is not on disk any more (evicted, or deleted from outside). If samples need it, it is
    /// requested again.
    pub(crate) fn set_lost(&self, shard: ShardId) {
        let mut entry = self.shards[shard.index()].lock();
        if !matches!(entry.presence, Presence::Resident) {
            return;
        }
        self.is_resident[shard.index()].store(false, Ordering::Release);
        // Announced samples need it: it enters the queue at the position of the first of them.
        let Some(position) = entry.unread.front().copied() else {
            entry.presence = Presence::Unknown;
            return;
        };
        entry.presence = Presence::Requested(Vec::new());
        drop(entry);
        self.request(shard, position);
    }

    /// Returns the shard that is needed first among those that work waits for.
    pub(crate) fn awaited(&self) -> Option<ShardId> {
        let is_awaited = |shard: ShardId| {
            let entry = self.shards[shard.index()].lock();
            matches!(&entry.presence, Presence::Requested(waiting) if !waiting.is_empty())
        };
        let awaited = self.unread().into_iter().filter(|(shard, ..)| is_awaited(*shard));
        awaited.min_by_key(|(_, next, _)| *next).map(|(shard, ..)| shard)
    }

    /// Ends all waits for requested shards and drops parked work.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.requested.notify_all();
        self.released.notify_all();
        for entry in &self.shards {
            let mut entry = entry.lock();
            if let Presence::Requested(waiting) = &mut entry.presence {
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

    /// Records a read and returns true if it was the shard's first.
    fn read<T>(table: &Residency<T>, shard: ShardId, position: u64) -> bool {
        let mut first = false;
        table.read(&mut [(shard, position)], |_| first = true);
        first
    }

    #[test]
    fn work_waits_for_its_shard_and_no_other() {
        let table = Residency::new(3, true);
        assert_eq!(table.park("work", s(0)), None);
        assert!(table.set_resident(s(2)).is_empty());
        assert!(!table.are_resident([s(2), s(0)].into_iter()));
        assert_eq!(table.set_resident(s(0)), ["work"]);
        assert!(table.are_resident([s(2), s(0)].into_iter()));
        assert_eq!(table.park("next", s(0)), Some("next"));
    }

    #[test]
    fn shards_are_requested_once_and_in_order_of_first_use() {
        let table = Residency::<()>::new(4, true);
        for (shard, position) in [(3, 7), (1, 2), (3, 1), (0, 5)] {
            announce(&table, s(shard), position);
        }
        assert_eq!(table.next_requested(), Some((2, s(1))));
        assert_eq!(table.next_requested(), Some((5, s(0))));
        assert_eq!(table.next_requested(), Some((7, s(3))));
        table.close();
        assert_eq!(table.next_requested(), None);
    }

    #[test]
    fn samples_announced_and_read_together_count_one_by_one() {
        let table = Residency::<()>::new(3, true);
        table.announce(&mut [(s(2), 0), (s(1), 1), (s(2), 2), (s(1), 3), (s(1), 4)]);
        assert_eq!(table.announced(), 5);
        assert_eq!((table.next_requested(), table.next_requested()), (Some((0, s(2))), Some((1, s(1)))));
        assert!(table.set_resident(s(1)).is_empty());
        let mut first = Vec::new();
        table.read(&mut [(s(1), 4), (s(2), 0), (s(1), 1)], |shard| first.push(shard));
        assert_eq!(first, [s(1)], "the second one has not become resident");
        assert_eq!(table.unread(), [(s(1), 3, true), (s(2), 2, false)]);
    }

    #[test]
    fn a_shard_has_a_next_use_and_a_first_read() {
        let table = Residency::<()>::new(1, true);
        announce(&table, s(0), 3);
        announce(&table, s(0), 8);
        assert_eq!((table.next_read(s(0)), table.announced()), (Some(3), 9));
        assert!(table.set_resident(s(0)).is_empty());
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
        assert_eq!(table.next_requested(), Some((10, s(0))));
        assert!(table.set_resident(s(0)).is_empty());
        assert!(read(&table, s(0), 50));
        table.set_lost(s(0));
        assert_eq!(table.next_requested(), Some((10, s(0))));
    }

    #[test]
    fn a_lost_shard_is_requested_again() {
        let table = Residency::new(1, true);
        assert_eq!(table.park(1, s(0)), None);
        assert_eq!(table.next_requested(), Some((0, s(0))));
        assert_eq!(table.set_resident(s(0)), [1]);
        table.set_lost(s(0));
        assert_eq!(table.park(2, s(0)), None);
        assert_eq!(table.next_requested(), Some((0, s(0))));
    }

    #[test]
    fn a_shard_whose_samples_were_all_read_meanwhile_is_not_fetched() {
        let table = Residency::<()>::new(2, true);
        for (shard, position) in [(0, 1), (1, 2)] {
            announce(&table, s(shard), position);
        }
        read(&table, s(0), 1);
        assert_eq!(table.next_requested(), Some((2, s(1))));
        announce(&table, s(0), 3);
        assert_eq!(table.next_requested(), Some((3, s(0))), "it is requested again when it is needed again");
    }

    #[test]
    fn nothing_is_recorded_for_resident_shards_that_cannot_be_evicted() {
        let table = Residency::new(2, false);
        table.announce(&mut [(s(0), 0), (s(1), 1), (s(0), 2)]);
        assert_eq!((table.next_requested(), table.next_requested()), (Some((0, s(0))), Some((1, s(1)))));
        assert_eq!(table.park("waits", s(1)), None);
        assert!(table.set_resident(s(0)).is_empty());
        table.announce(&mut [(s(0), 3), (s(1), 4), (s(0), 5)]);
        table.announce_again(s(0), 3);
        assert_eq!((table.next_read(s(0)), table.announced()), (None, 6));
        assert_eq!(table.unread(), [(s(1), 1, false)]);
        assert_eq!(table.awaited(), Some(s(1)));
        assert_eq!(table.set_resident(s(1)), ["waits"]);
        assert!(!read(&table, s(1), 4), "nothing has been recorded since it became resident");
        assert_eq!(table.unread(), []);
        // Deleted from outside: requested at its next announcement.
        table.set_lost(s(1));
        table.announce(&mut [(s(1), 6)]);
        assert_eq!(table.next_requested(), Some((6, s(1))));
        assert_eq!(table.park("again", s(1)), None);
        assert_eq!(table.set_resident(s(1)), ["again"]);
        assert_eq!(table.unread(), []);
    }

    #[test]
    fn the_shard_that_is_awaited_is_the_one_needed_first() {
        let table = Residency::new(3, true);
        for (shard, position) in [(2, 3), (0, 8), (1, 1)] {
            announce(&table, s(shard), position);
        }
        assert_eq!(table.awaited(), None, "they are requested, but no work waits yet");
        assert!(table.set_resident(s(1)).is_empty());
        assert_eq!((table.park("late", s(0)), table.park("soon", s(2))), (None, None));
        assert_eq!(table.awaited(), Some(s(2)));
    }

    #[test]
    fn a_shard_in_progress_is_exchanged_for_one_that_is_needed_earlier() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 4);
        announce(&table, s(1), 9);
        assert_eq!(table.next_requested(), Some((4, s(0))));
        assert_eq!(table.exchange_for_earlier(s(0), 4), None, "the second one is needed later");
        announce(&table, s(2), 2);
        assert_eq!(table.exchange_for_earlier(s(0), 4), Some(s(2)));
        assert_eq!(table.exchange_for_earlier(s(2), 2), None);
        assert_eq!((table.next_requested(), table.next_requested()), (Some((4, s(0))), Some((9, s(1)))));
    }

    #[test]
    fn a_shard_in_progress_is_not_exchanged_for_one_whose_samples_were_all_read() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 4);
        assert_eq!(table.next_requested(), Some((4, s(0))));
        for (shard, position) in [(1, 1), (2, 3)] {
            announce(&table, s(shard), position);
        }
        // Read from the descriptors of a copy that was evicted.
        read(&table, s(1), 1);
        assert_eq!(table.exchange_for_earlier(s(0), 4), Some(s(2)));
        read(&table, s(2), 3);
        assert_eq!(table.exchange_for_earlier(s(2), 4), None);
        announce(&table, s(1), 7);
        assert_eq!((table.next_requested(), table.next_requested()), (Some((4, s(0))), Some((7, s(1)))));
    }

    #[test]
    fn a_shard_that_is_needed_earlier_than_announced_is_requested_there_and_once() {
        let table = Residency::<()>::new(3, true);
        announce(&table, s(0), 5);
        announce(&table, s(1), 9);
        table.announce_again(s(1), 2);
        table.announce_again(s(2), 2);
        assert_eq!(table.unread(), [(s(0), 5, false), (s(1), 2, false), (s(2), 2, false)]);
        assert_eq!(table.announced(), 10, "no later position has been announced");
        assert_eq!((table.next_requested(), table.next_requested()), (Some((2, s(1))), Some((2, s(2)))));
        let _ = table.set_resident(s(1));
        assert_eq!(table.next_requested(), Some((5, s(0))));
        let _ = table.set_resident(s(0));
        read(&table, s(1), 2);
        assert_eq!(table.next_read(s(1)), Some(9));
        assert_eq!(table.exchange_for_earlier(s(2), 100), None, "it is resident at its later position in the queue");
    }

    #[test]
    fn finding_unread_shards_costs_as_much_as_their_number_and_not_that_of_all_shards() {
        let table = Residency::<()>::new(100_000, true);
        for (position, shard) in [70_000, 3, 70_000, 99_999].into_iter().enumerate() {
            announce(&table, s(shard), position as u64);
        }
        // The lock of a shard without unread samples is held: a search of all shards would wait for it.
        let _busy = table.shards[50_000].lock();
        assert_eq!(table.unread(), [(s(3), 1, false), (s(70_000), 0, false), (s(99_999), 3, false)]);
        read(&table, s(70_000), 0);
        read(&table, s(3), 1);
        assert_eq!(table.unread(), [(s(70_000), 2, false), (s(99_999), 3, false)]);
    }
}
