//! Bounded table of open shards.

use crate::error::Result;
use crate::order::ShardId;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};
use std::collections::VecDeque;

/// Memory and descriptors that an open shard occupies, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardCost {
    /// Bytes of offset tables and indexes in memory.
    pub(crate) table_bytes: usize,
    pub(crate) descriptors: usize,
}

/// Open shards by number. While there are too many, the one that was opened first is closed; its readers keep it alive.
#[derive(Debug)]
pub(crate) struct ShardTable<T> {
    shards: Vec<Mutex<Option<Arc<T>>>>,
    /// Locked before an entry of `shards`, never while one is held.
    openings: Mutex<Openings<T>>,
    /// Number of times that shards were closed.
    closings: AtomicU64,
    cost_max: ShardCost,
    len_max: usize,
}

/// Openings of shards, the oldest first. Each is removed when it is closed.
#[derive(Debug)]
struct Openings<T> {
    order: VecDeque<Opening<T>>,
    cost: ShardCost,
    /// Opening at which the next [`ShardTable::close`] continues.
    next: usize,
}

#[derive(Debug)]
struct Opening<T> {
    id: ShardId,
    /// Distinguishes this opening from a later one of the same shard.
    shard: Weak<T>,
    cost: ShardCost,
}

impl<T> Opening<T> {
    /// Takes the shard out of `entry` if it is still this opening.
    fn take(&self, entry: &mut Option<Arc<T>>) -> Option<Arc<T>> {
        entry.take_if(|open| std::ptr::eq(Arc::as_ptr(open), self.shard.as_ptr()))
    }
}

impl<T> ShardTable<T> {
    /// An empty table for at most `len_max` of `shards` shards, which occupy at most `cost_max` together. A single one
    /// may occupy more.
    pub(crate) fn new(shards: usize, cost_max: ShardCost, len_max: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::new(None)).collect(),
            openings: Mutex::new(Openings { order: VecDeque::new(), cost: ShardCost::default(), next: 0 }),
            closings: AtomicU64::new(0),
            cost_max,
            len_max,
        }
    }

    /// Returns shard `id` if it is in the table and no thread opens or closes it now.
    pub(crate) fn get_open(&self, id: ShardId) -> Option<Arc<T>> {
        self.shards[id.index()].try_lock()?.clone()
    }

    /// Returns shard `id`, which `open` opens if it is not in the table; `None` if `open` returns that. Waits while a
    /// different thread opens it.
    pub(crate) fn get(
        &self,
        id: ShardId,
        open: impl FnOnce() -> Result<Option<(T, ShardCost)>>,
    ) -> Result<Option<Arc<T>>> {
        let mut entry = self.shards[id.index()].lock();
        if let Some(open) = &*entry {
            return Ok(Some(open.clone()));
        }
        let Some((shard, cost)) = open()? else { return Ok(None) };
        let shard = Arc::new(shard);
        *entry = Some(shard.clone());
        drop(entry);
        self.add(Opening { id, shard: Arc::downgrade(&shard), cost });
        Ok(Some(shard))
    }

    /// Adds a shard that was just opened; closes the oldest while there are too many.
    fn add(&self, opening: Opening<T>) {
        let mut openings = self.openings.lock();
        openings.cost.table_bytes += opening.cost.table_bytes;
        openings.cost.descriptors += opening.cost.descriptors;
        openings.order.push_back(opening);
        let count = openings.order.len();
        let (mut excess, mut cost) = (0, openings.cost);
        let is_exceeded = |excess, cost: ShardCost| {
            count - excess > self.len_max
                || cost.table_bytes > self.cost_max.table_bytes
                || cost.descriptors > self.cost_max.descriptors
        };
        while excess + 1 < count && is_exceeded(excess, cost) {
            cost.table_bytes -= openings.order[excess].cost.table_bytes;
            cost.descriptors -= openings.order[excess].cost.descriptors;
            excess += 1;
        }
        openings.cost = cost;
        let take = |oldest: Opening<T>| oldest.take(&mut self.shards[oldest.id.index()].lock());
        let closed = openings.order.drain(..excess).filter_map(take).collect();
        drop(openings);
        self.finish_closing(closed);
    }

    /// Closes the openings among the next `count` for which `is_closed` is true, and returns true if there were any.
    /// The call after it continues with the openings that follow.
    pub(crate) fn close(&self, count: usize, is_closed: impl Fn(ShardId, &T) -> bool) -> bool {
        let mut closed = Vec::new();
        let mut openings = self.openings.lock();
        let Openings { order, cost, next } = &mut *openings;
        let len = order.len();
        let start = if *next < len && count < len { *next } else { 0 };
        let end = len.min(start.saturating_add(count));
        let mut number = 0;
        order.retain(|opening| {
            number += 1;
            if !(start..end).contains(&(number - 1)) {
                return true;
            }
            let mut entry = self.shards[opening.id.index()].lock();
            let shard = opening.take(&mut entry);
            if shard.as_ref().is_some_and(|shard| !is_closed(opening.id, shard)) {
                *entry = shard;
                return true;
            }
            closed.extend(shard);
            cost.table_bytes -= opening.cost.table_bytes;
            cost.descriptors -= opening.cost.descriptors;
            false
        });
        *next = end - (len - order.len());
        drop(openings);
        self.finish_closing(closed)
    }

    /// Drops shards that were removed from the table, and returns true if there are any. Called without its lock, since
    /// the drop of a shard's last reader calls the cache.
    fn finish_closing(&self, shards: Vec<Arc<T>>) -> bool {
        if !shards.is_empty() {
            self.closings.fetch_add(1, Ordering::Release);
        }
        !shards.is_empty()
    }

    /// Returns the number of times that shards were closed. A thread that sees it also sees the table without them.
    pub(crate) fn closings(&self) -> u64 {
        self.closings.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> ShardTable<T> {
        /// Number of shards, and their cost.
        pub(crate) fn occupied(&self) -> (usize, ShardCost) {
            let openings = self.openings.lock();
            (openings.order.len(), openings.cost)
        }
    }

    fn cost(table_bytes: usize, descriptors: usize) -> ShardCost {
        ShardCost { table_bytes, descriptors }
    }

    /// Opens shard `id`, which costs `cost`, and returns the numbers of all open shards.
    fn open(table: &ShardTable<u32>, id: u32, cost: ShardCost) -> Vec<u32> {
        table.get(ShardId(id), || Ok(Some((id, cost)))).expect("opened");
        is_open(table)
    }

    fn is_open(table: &ShardTable<u32>) -> Vec<u32> {
        (0..8).filter(|id| table.get(ShardId(*id), || Ok(None)).expect("no error").is_some()).collect()
    }

    #[test]
    fn the_oldest_shards_are_closed_while_any_limit_is_exceeded() {
        let table = ShardTable::new(8, cost(10, 4), 3);
        assert_eq!(open(&table, 7, cost(11, 1)), [7], "the only shard stays, whatever its cost");
        assert_eq!(open(&table, 1, cost(3, 1)), [1]);
        assert_eq!(open(&table, 2, cost(1, 4)), [2]);
        assert_eq!(open(&table, 2, cost(9, 9)), [2], "it is not opened again");
        [3, 4].iter().for_each(|id| assert!(open(&table, *id, cost(0, 0)).contains(&2)));
        assert_eq!(open(&table, 5, cost(0, 0)), [3, 4, 5]);
        assert_eq!((table.occupied(), table.closings()), ((3, cost(0, 0)), 3));
    }

    #[test]
    fn a_shard_that_a_thread_opens_now_is_waited_for_by_the_rest() {
        let table = ShardTable::new(8, cost(10, 4), 3);
        assert_eq!(table.get_open(ShardId(1)), None);
        let open = || {
            assert_eq!(table.get_open(ShardId(1)), None, "its lock is held");
            Ok(Some((1, cost(1, 1))))
        };
        let opened = table.get(ShardId(1), open).expect("opened");
        assert_eq!((opened, table.get_open(ShardId(1))), (Some(Arc::new(1)), Some(Arc::new(1))));
    }

    #[test]
    fn closed_shards_no_longer_count_and_a_sweep_continues_where_the_last_one_ended() {
        let table = ShardTable::new(8, cost(100, 100), 100);
        (0..6).for_each(|id| drop(open(&table, id, cost(10, 1))));
        let reader = table.get(ShardId(4), || Ok(None)).expect("no error");
        table.close(usize::MAX, |id, _| id == ShardId(4));
        assert_eq!((is_open(&table), reader.as_deref()), (vec![0, 1, 2, 3, 5], Some(&4)), "readers keep it alive");
        table.close(2, |_, shard| *shard == 0);
        table.close(2, |_, _| true);
        assert_eq!((is_open(&table), table.occupied()), (vec![1, 5], (2, cost(20, 2))));
        assert_eq!(open(&table, 4, cost(1, 1)), [1, 4, 5], "it is opened again");
        table.close(usize::MAX, |_, _| true);
        assert_eq!((is_open(&table), table.occupied()), (vec![], (0, cost(0, 0))));
    }
}
