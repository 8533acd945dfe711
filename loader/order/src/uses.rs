//! Uses of each shard by a node, which determine fetches and evictions.

use std::collections::BTreeSet;

use super::batching::{Method, Sequence};
use super::epoch::EpochPlan;
use super::ids::{Node, Rank, ShardId};
use super::partition::{Deal, Partition};
use super::shuffle::Stretch;

/// Use of a shard: a range of a node's sample stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardUse {
    /// The shard.
    pub shard: ShardId,
    /// The node needs no sample of this use before this cell of its stream.
    pub first: u64,
    /// The node needs no sample of this use after this cell of its stream (inclusive).
    pub last: u64,
}

impl EpochPlan {
    /// Returns the uses of each shard by `node`, as cells in its sample stream, which has its ranks' samples in turn,
    /// one of each rank, from the plan's start. There is one entry per used part of a shard, so several for a shard
    /// that is cut at canonical nodes or repeated. Sorted by `first`, then by `last`.
    ///
    /// The entries are bounds, computed per part and not per sample: exact to a part of a shard for `py1s` and `py2s`,
    /// to a block for `py1br`, to a few thousand samples for `py1e` (where one bound in 10^14 may be wrong), to a
    /// global batch for all batching methods but `random`. With `naive`, every shard is used all the time.
    ///
    /// # Panics
    /// `node` is not one of this world.
    pub fn shard_uses(&self, node: Node) -> Vec<ShardUse> {
        assert!(node.0 < self.world().nodes, "{node} of {}", self.world().nodes);
        let ranks = node.0 * self.world().ranks_per_node..(node.0 + 1) * self.world().ranks_per_node;
        let parallel: BTreeSet<u32> =
            ranks.map(|rank| self.parallel_world().node_of(self.parallel_rank(Rank(rank))).0).collect();
        let mut uses = Vec::new();
        for node in parallel {
            match self.0.batching.method {
                Method::Random => self.visit_random(u64::from(node), &mut uses),
                _ => self.visit_merged(u64::from(node), &mut uses),
            }
        }
        uses.sort_unstable_by_key(|u| (u.first, u.last, u.shard));
        uses
    }

    fn visit_random(&self, node: u64, uses: &mut Vec<ShardUse>) {
        let sequence = &self.0.sequences[0];
        let partition = &sequence.partition;
        let per_batch = self.node_batch();
        let end = (partition.batches() * per_batch).saturating_sub(1);
        visit(sequence, gets_from(partition, node), |shard, (mut first, mut last)| {
            if partition.is_recut() {
                // Only the global batch of a cell is known.
                let rows = partition.batch * u64::from(self.parallel_world().ranks_per_node);
                (first, last) = (first / rows * per_batch, (last / rows + 1) * per_batch - 1);
            }
            uses.push(ShardUse { shard, first: first.min(end), last: last.min(end) });
        });
    }

    /// For methods that merge streams, a use lasts from the global batch of its first sample to the global batch of its
    /// last.
    fn visit_merged(&self, node: u64, uses: &mut Vec<ShardUse>) {
        let ranks = u64::from(self.parallel_world().ranks_per_node);
        let per_batch = self.node_batch();
        let seen = self.0.batching.first;
        let mut push = |shard, batches: Option<(u64, u64)>| {
            if let Some((first, last)) = batches.filter(|&(_, last)| last >= seen) {
                let first = first.saturating_sub(seen) * per_batch;
                uses.push(ShardUse { shard, first, last: (last - seen + 1) * per_batch - 1 });
            }
        };
        for (stream, sequence) in self.0.sequences.iter().enumerate() {
            match &self.0.batching.method {
                Method::Random => {}
                Method::Stratified(method) => visit(
                    sequence,
                    |_| true,
                    |shard, (first, last)| push(shard, method.batches_between(stream, first, last)),
                ),
                Method::PerStream(method) => {
                    let batches = method.batches_of(stream);
                    let rows = sequence.partition.batch * ranks;
                    visit(sequence, gets_from(&sequence.partition, node), |shard, (first, last)| {
                        push(shard, between(&batches, first / rows, last / rows));
                    });
                }
                Method::DevicePerStream(method) => {
                    for source in method.sources_of(node) {
                        let batches = method.batches_of(stream, source);
                        let canonical_nodes = method.canonical_of(source);
                        let row = |index| method.node_sample_at(index) / self.batch_size();
                        // The cells of a canonical node alternate with cells of further nodes; one more row at the end
                        // covers them.
                        let is_selected = |canonical| canonical_nodes.contains(&canonical);
                        visit(sequence, is_selected, |shard, (first, last)| {
                            push(shard, between(&batches, row(first), row(last + ranks)));
                        });
                    }
                }
            }
        }
    }

    /// Cells of a node in a global batch.
    fn node_batch(&self) -> u64 {
        self.batch_size() * u64::from(self.parallel_world().ranks_per_node)
    }
}

/// The global batches of rows `first` to `last`; rows after the end of `batches` are dropped.
fn between(batches: &[u64], first: u64, last: u64) -> Option<(u64, u64)> {
    let first = *batches.get(first as usize)?;
    let last = batches[(last as usize).min(batches.len() - 1)];
    Some((first, last))
}

/// Returns a function that is true for canonical nodes with positions that `node` may get. After a recut it may get
/// positions of any.
fn gets_from(partition: &Partition, node: u64) -> impl Fn(u64) -> bool {
    move |canonical| partition.is_recut() || partition.deal.is_dealt(node, canonical)
}

/// Calls `visit` with the shard of each span of the selected canonical nodes, and the first and last index of its
/// samples in the lists of the nodes they are dealt to.
fn visit(sequence: &Sequence, is_selected: impl Fn(u64) -> bool, mut visit: impl FnMut(ShardId, (u64, u64))) {
    let deal = &sequence.partition.deal;
    let end = deal.node_len_padded.saturating_sub(1);
    if deal.node_len_padded == 0 {
        return;
    }
    let units = &sequence.draws.units;
    if deal.is_tiled {
        // With hardly more samples than nodes, every node uses every shard.
        (0..units.len()).for_each(|unit| visit(sequence.draws.shard(unit), (0, end)));
        return;
    }
    for canonical in (0..deal.starts.len() as u64 - 1).filter(|&c| is_selected(c)) {
        let part = deal.starts[canonical as usize]..deal.starts[canonical as usize + 1];
        let mut on_stretch = |stretch: Stretch| {
            let shard = sequence.draws.shard(units.find(stretch.draw));
            let places = (stretch.first - part.start, stretch.last - part.start);
            let places = sequence.arrangement.positions(canonical as u32, places, part.end - part.start);
            if let Some(indices) = places.and_then(|places| indices(deal, canonical, places, end)) {
                visit(shard, indices);
            }
        };
        sequence.shuffle.visit_spans(canonical as u32, part.clone(), units, &mut on_stretch);
    }
}

/// First and last index of a range of a canonical node's cells; `None` if all of them were dropped.
fn indices(deal: &Deal, canonical: u64, (first, last): (u64, u64), end: u64) -> Option<(u64, u64)> {
    // A short row repeats its last position.
    let last = deal.index_of(canonical, last + 1);
    let first = deal.index_of(canonical, first).unwrap_or(0);
    // Equalising ranks and rows repeats cells shortly before the end.
    let last = last?;
    let last = if last + deal.tail() > end { end } else { last };
    Some((first.min(end), last))
}
