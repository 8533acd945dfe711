//! Next use of each shard by a rank, in this epoch and the next, for the choice of shards to evict.
//!
//! The next epoch's order is already known, so Belady's rule need not stop at the epoch's end: a shard that this epoch
//! no longer needs stays if the next one begins with it. Only the first use of each shard in the next epoch is kept;
//! later uses are too far away to matter.

use crate::order::{Rank, ShardId, ShardUse};
use crate::pipeline::plan::BatchPlan;

/// Uses of shards, in positions of the rank's own samples or packs. Positions count from the start of this epoch's plan
/// and continue into the next.
#[derive(Debug)]
pub(super) struct NextUses {
    /// This epoch's uses: shard, first and last position, sorted. A shard may be used more than once.
    this_epoch: Vec<(ShardId, u64, u64)>,
    /// First use of each shard in the next epoch, sorted by shard.
    next_epoch: Vec<(ShardId, u64)>,
}

impl NextUses {
    /// Uses of `rank`, derived from the uses of its node, in the epoch of `plan` and the epoch of `next`, if there is
    /// one.
    pub(super) fn of(plan: &BatchPlan, next: Option<&BatchPlan>, rank: Rank) -> Self {
        let mut this_epoch: Vec<_> = node_uses(plan, rank).collect();
        this_epoch.sort_unstable();
        let end = plan.cells().rank(rank).samples();
        let uses = next.into_iter().flat_map(|next| node_uses(next, rank));
        let mut next_epoch: Vec<_> = uses.map(|(shard, first, _)| (shard, end + first)).collect();
        next_epoch.sort_unstable();
        next_epoch.dedup_by_key(|(shard, _)| *shard);
        Self { this_epoch, next_epoch }
    }

    /// Returns the first position at or after `from` at which `shard` is used.
    pub(super) fn next(&self, shard: ShardId, from: u64) -> Option<u64> {
        let start = self.this_epoch.partition_point(|u| u.0 < shard);
        let uses = self.this_epoch[start..].iter().take_while(|u| u.0 == shard);
        let next = uses.filter(|u| u.2 >= from).map(|u| u.1.max(from)).min();
        let in_next_epoch = || self.next_epoch.binary_search_by_key(&shard, |u| u.0).ok();
        next.or_else(|| in_next_epoch().map(|found| self.next_epoch[found].1))
    }
}

/// Uses by the node of `rank`. Its positions are dealt to its ranks in turn.
fn node_uses(plan: &BatchPlan, rank: Rank) -> impl Iterator<Item = (ShardId, u64, u64)> {
    let ranks = u64::from(plan.cells().world().ranks_per_node);
    let uses = plan.shard_uses(plan.cells().world().node_of(rank));
    uses.into_iter().map(move |ShardUse { shard, first, last }| (shard, first / ranks, last / ranks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Candidate, choose};
    use crate::order::{DataSetShape, EpochPlan, OrderConfig, World};
    use std::collections::BTreeMap;

    const EPOCHS: u64 = 3;
    const SHARDS: u64 = 64;
    const SAMPLES: u64 = 100;

    #[test]
    fn the_next_use_of_a_shard_is_the_first_that_is_not_over() {
        let this_epoch = vec![(ShardId(1), 5, 9), (ShardId(1), 40, 50), (ShardId(2), 0, 3)];
        let uses = NextUses { this_epoch, next_epoch: vec![(ShardId(2), 70)] };
        assert_eq!(uses.next(ShardId(1), 0), Some(5));
        assert_eq!(uses.next(ShardId(1), 7), Some(7));
        assert_eq!(uses.next(ShardId(1), 10), Some(40));
        assert_eq!((uses.next(ShardId(1), 51), uses.next(ShardId(0), 0)), (None, None));
        assert_eq!((uses.next(ShardId(2), 3), uses.next(ShardId(2), 4)), (Some(3), Some(70)));
    }

    fn plans(config: &OrderConfig) -> Vec<EpochPlan> {
        let shape = DataSetShape::new(&[vec![SAMPLES; SHARDS as usize]]).expect("a shape");
        let world = World { nodes: 1, ranks_per_node: 1, workers_per_rank: 1 };
        (0..=EPOCHS).map(|epoch| EpochPlan::new(&shape, config, world, epoch, None).expect("a plan")).collect()
    }

    /// Shards of all samples of an epoch.
    fn accesses(plan: &EpochPlan) -> Vec<ShardId> {
        plan.rank(Rank(0)).map(|planned| plan.shape().locate(planned.sample).expect("of the data set").0).collect()
    }

    /// Number of shards that a cache of half the data set fetches with `next_use(epoch, position, shard)` as its
    /// knowledge.
    fn downloads(epochs: &[Vec<ShardId>], next_use: impl Fn(usize, usize, ShardId) -> Option<u64>) -> usize {
        let (mut resident, mut time, mut downloads) = (BTreeMap::<ShardId, u128>::new(), 0, 0);
        for (epoch, shards) in epochs.iter().enumerate() {
            for (position, shard) in shards.iter().enumerate() {
                time += 1;
                if resident.insert(*shard, time).is_some() {
                    continue;
                }
                downloads += 1;
                if resident.len() <= SHARDS as usize / 2 {
                    continue;
                }
                let candidate = |(other, used): (&ShardId, &u128)| Candidate {
                    member: 0,
                    shard: other.0,
                    bytes: 1,
                    next_use: next_use(epoch, position, *other),
                    accessed_ns: *used,
                    open: false,
                };
                let candidates = resident.iter().filter(|(other, _)| *other != shard).map(candidate).collect();
                for victim in choose(candidates, Some(position as u64), 1).expect("the rest are used later") {
                    resident.remove(&ShardId(victim.shard));
                }
            }
        }
        downloads
    }

    /// Downloads of three epochs with plans of one epoch, with plans of two, and the least possible number.
    fn compare(config: &OrderConfig) -> [usize; 3] {
        let plans = plans(config);
        let epochs: Vec<_> = plans[..EPOCHS as usize].iter().map(accesses).collect();
        let all: Vec<ShardId> = epochs.iter().flatten().copied().collect();
        let known = |next: bool| {
            let plans: Vec<_> = plans.iter().cloned().map(BatchPlan::Samples).collect();
            let uses: Vec<NextUses> =
                plans.windows(2).map(|p| NextUses::of(&p[0], next.then_some(&p[1]), Rank(0))).collect();
            downloads(&epochs, |epoch, position, shard| uses[epoch].next(shard, position as u64))
        };
        // With the whole future known, evicting the farthest next use is optimal.
        let best = downloads(&epochs, |epoch, position, shard| {
            let now = epochs[..epoch].iter().map(Vec::len).sum::<usize>() + position;
            all[now..].iter().position(|s| *s == shard).map(|ahead| (position + ahead) as u64)
        });
        [known(false), known(true), best]
    }

    #[test]
    fn a_data_set_in_order_is_fetched_as_rarely_as_possible() {
        let config = OrderConfig { batch_size: 10, ..OrderConfig::default() };
        assert_eq!(compare(&config), [132, 128, 128]);
    }

    #[test]
    fn a_shuffled_data_set_is_fetched_as_rarely_as_possible() {
        let config =
            OrderConfig { shuffle: true, shuffle_block_size: Some(800), batch_size: 10, ..OrderConfig::default() };
        assert_eq!(compare(&config), [138, 128, 128]);
    }
}
