//! Order in which shards were opened, limited in what they occupy.

use std::collections::VecDeque;
use std::ops::Range;

/// Memory and descriptors that an open shard occupies, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardCost {
    /// Bytes of offset tables and indexes in memory.
    pub(crate) table_bytes: usize,
    pub(crate) descriptors: usize,
}

/// Queue of open shards, the oldest first, with the sum of their costs.
#[derive(Debug)]
pub(crate) struct OpeningOrder<T> {
    shards: VecDeque<(T, ShardCost)>,
    total: ShardCost,
    cost_max: ShardCost,
    len_max: usize,
}

impl<T> OpeningOrder<T> {
    /// An empty queue for at most `len_max` shards of at most `cost_max` in total.
    pub(crate) fn new(cost_max: ShardCost, len_max: usize) -> Self {
        Self { shards: VecDeque::new(), total: ShardCost::default(), cost_max, len_max }
    }

    /// Number of shards.
    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Adds a shard that was just opened. [`pop_excess`](Self::pop_excess) may then have to be called.
    pub(crate) fn push(&mut self, shard: T, cost: ShardCost) {
        self.total.table_bytes += cost.table_bytes;
        self.total.descriptors += cost.descriptors;
        self.shards.push_back((shard, cost));
    }

    /// Removes the oldest shard if the limits are exceeded and it is not the only one.
    pub(crate) fn pop_excess(&mut self) -> Option<T> {
        let Self { shards, total, cost_max, len_max } = self;
        let is_exceeded = shards.len() > *len_max
            || total.table_bytes > cost_max.table_bytes
            || total.descriptors > cost_max.descriptors;
        if shards.len() > 1 && is_exceeded { self.remove_at(0) } else { None }
    }

    /// Removes the first shard for which `is_removed` is true, usually the oldest.
    pub(crate) fn remove(&mut self, is_removed: impl Fn(&T) -> bool) -> Option<T> {
        let number = self.shards.iter().position(|(shard, _)| is_removed(shard))?;
        self.remove_at(number)
    }

    /// Removes the shards in `range` for which `is_kept` is false.
    pub(crate) fn retain_in(&mut self, range: Range<usize>, mut is_kept: impl FnMut(&T) -> bool) {
        let Self { shards, total, .. } = self;
        let mut number = 0;
        shards.retain(|(shard, cost)| {
            number += 1;
            if !range.contains(&(number - 1)) || is_kept(shard) {
                return true;
            }
            total.table_bytes -= cost.table_bytes;
            total.descriptors -= cost.descriptors;
            false
        });
    }

    /// Removes all shards.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.total = ShardCost::default();
        std::mem::take(&mut self.shards).into_iter().map(|(shard, _)| shard)
    }

    /// Cost of all shards.
    #[cfg(test)]
    pub(crate) fn cost(&self) -> ShardCost {
        self.total
    }

    fn remove_at(&mut self, number: usize) -> Option<T> {
        let (shard, cost) = self.shards.remove(number)?;
        self.total.table_bytes -= cost.table_bytes;
        self.total.descriptors -= cost.descriptors;
        Some(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(table_bytes: usize, descriptors: usize) -> ShardCost {
        ShardCost { table_bytes, descriptors }
    }

    #[test]
    fn the_oldest_shards_are_removed_while_any_limit_is_exceeded() {
        let mut order = OpeningOrder::new(cost(10, 4), 3);
        order.push('a', cost(11, 1));
        assert_eq!(order.pop_excess(), None, "the only shard stays, whatever its cost");
        order.push('b', cost(3, 1));
        assert_eq!((order.pop_excess(), order.pop_excess()), (Some('a'), None));
        order.push('c', cost(1, 4));
        assert_eq!((order.pop_excess(), order.pop_excess()), (Some('b'), None));
        ["d", "e", "f"].iter().for_each(|_| order.push('d', cost(0, 0)));
        assert_eq!((order.pop_excess(), order.pop_excess(), order.len()), (Some('c'), None, 3));
    }

    #[test]
    fn removed_shards_no_longer_count() {
        let mut order = OpeningOrder::new(cost(100, 100), 100);
        (0..6).for_each(|shard| order.push(shard, cost(10, 1)));
        assert_eq!((order.remove(|shard| *shard == 4), order.remove(|shard| *shard == 4)), (Some(4), None));
        order.retain_in(1..3, |shard| *shard == 2);
        assert_eq!(order.cost(), cost(40, 4));
        assert_eq!(order.take_all().collect::<Vec<_>>(), [0, 2, 3, 5]);
        assert_eq!((order.len(), order.cost()), (0, ShardCost::default()));
    }
}
