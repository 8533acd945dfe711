//! Samples that one rank gets, in the order of its steps.

use super::batching::{RankPosition, RowSource};
use super::epoch::EpochPlan;
use super::ids::{Rank, SampleId, StreamId};
use super::partition::Cell;
use super::shuffle::Cursor;

/// Positions of a stretch of a canonical node's part of the epoch. The partners of a sample are in its stretch: their
/// shards are in use at about the same time, and the stretch does not depend on the world or on a checkpoint.
pub const NEIGHBOURS: u64 = 1024;

/// First bit of the number of a partner in its key of draws. Draws are smaller: an epoch has at most 2^48 samples, each
/// of at most 2^10 rows.
const PARTNER_BIT: u32 = 60;

impl EpochPlan {
    /// Returns the samples of `rank`, batch by batch.
    ///
    /// # Panics
    /// `rank` is not one of this world.
    pub fn rank(&self, rank: Rank) -> RankOrder {
        RankOrder::new(self.clone(), rank)
    }

    /// Returns the sample ids that the reference assigns to worker process `worker` of `rank`, batch after batch,
    /// padded with -1.
    ///
    /// # Panics
    /// `rank` or `worker` is not one of this world.
    pub fn worker(&self, rank: Rank, worker: u32) -> WorkerOrder {
        WorkerOrder::new(self.clone(), rank, worker)
    }
}

/// Planned row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSample {
    /// The sample.
    pub sample: SampleId,
    /// Its stream.
    pub stream: StreamId,
    /// Index in the epoch's resampled list before partitioning (the stream's own list for all batching methods but
    /// `random`): it distinguishes occurrences of an oversampled sample, and does not depend on the world. With
    /// [`OrderConfig::repeat_augment`](super::OrderConfig::repeat_augment), that index times the repeats, plus the
    /// number of the repeat.
    pub draw: u64,
    /// True if the row only makes ranks or canonical nodes equal; the same draw is elsewhere in the epoch.
    pub repeat: bool,
}

/// Iterator over a rank's samples in the order of its batches, from the plan's start.
pub struct RankOrder {
    plan: EpochPlan,
    position: RankPosition,
    batches: u64,
    /// The batch and the row of it that the iterator yields next.
    batch: u64,
    column: u64,
    /// One per sequence, made on first use.
    cursors: Vec<Option<Box<dyn Cursor>>>,
}

impl RankOrder {
    fn new(plan: EpochPlan, rank: Rank) -> Self {
        let rank = plan.parallel_rank(rank);
        let world = plan.parallel_world();
        let (node, of_node) = (u64::from(rank.0 / world.ranks_per_node), u64::from(rank.0 % world.ranks_per_node));
        let position = RankPosition::new(node, of_node);
        let mut cursors = Vec::new();
        cursors.resize_with(plan.0.sequences.len(), || None);
        let batches = plan.0.batching.batches();
        let mut order = Self { position, batches, batch: 0, column: 0, cursors, plan };
        // Padding is at the end: drop the batches that consist of padding.
        while order.batches > 0 {
            order.move_to(order.batches - 1);
            if (0..order.plan.batch_size()).any(|column| order.row_source(&order.position, column).is_some()) {
                break;
            }
            order.batches -= 1;
        }
        order.move_to(0);
        order
    }

    /// Number of batches with at least one sample, which are those that the reference's loader yields.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Number of samples of all batches, with repeats and without padding.
    pub fn samples(&self) -> u64 {
        let Some(last) = self.batches.checked_sub(1) else { return 0 };
        let mut position = self.position.clone();
        self.plan.0.batching.seek(&mut position, last);
        let rows = (0..self.plan.batch_size()).filter(|&column| self.row_source(&position, column).is_some());
        last * self.plan.batch_size() + rows.count() as u64
    }

    /// The next batch, from 0 at the plan's start.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Moves to the start of a batch. Moving forward is cheap.
    pub fn seek(&mut self, batch: u64) {
        self.move_to(batch.min(self.batches));
    }

    /// Replaces the content of `rows` with the next batch; returns `false` when there is none. The last batch may have
    /// fewer rows than the batch size, but no batch is empty.
    pub fn next_batch(&mut self, rows: &mut Vec<PlannedSample>) -> bool {
        rows.clear();
        self.visit_batch(|_, planned| rows.push(planned));
        !rows.is_empty()
    }

    /// Replaces the content of `rows` with the next batch, each sample followed by its partners, and the content of
    /// `starts` with the index of each sample; returns `false` when there is none.
    ///
    /// `choose` gets a sample and the number of its neighbours, which are numbered from 0, and adds the numbers of the
    /// partners. A sample without neighbours is its own partner. Each partner has a key of draws that depends on the
    /// sample, not on its own row of the epoch.
    pub fn next_groups(
        &mut self,
        rows: &mut Vec<PlannedSample>,
        starts: &mut Vec<u32>,
        mut choose: impl FnMut(&PlannedSample, u64, &mut Vec<u64>),
    ) -> bool {
        rows.clear();
        starts.clear();
        let mut chosen = Vec::new();
        while rows.is_empty() && self.batch < self.batches {
            for column in self.column..self.plan.batch_size() {
                let Some(source) = self.row_source(&self.position, column) else { continue };
                let planned = self.planned(source);
                starts.push(rows.len() as u32);
                rows.push(planned);
                let (first, neighbours) = self.stretch(source);
                chosen.clear();
                choose(&planned, neighbours, &mut chosen);
                for (number, neighbour) in (1_u64..).zip(&chosen) {
                    let position = first + neighbour.min(&neighbours.saturating_sub(1));
                    // The sample is not its own neighbour.
                    let position = position + u64::from(neighbours > 0 && position >= source.cell.position);
                    let cell = Cell { position, ..source.cell };
                    let partner = self.planned(RowSource { cell, ..source });
                    rows.push(PlannedSample { draw: planned.draw | number << PARTNER_BIT, ..partner });
                }
            }
            self.move_to(self.batch + 1);
        }
        !rows.is_empty()
    }

    /// Returns the first position of the stretch that a row is in, and the number of the remaining ones.
    fn stretch(&self, RowSource { sequence, cell }: RowSource) -> (u64, u64) {
        let starts = &self.plan.0.sequences[sequence].partition.deal.starts;
        let (start, end) = (starts[cell.canonical as usize], starts[cell.canonical as usize + 1]);
        let first = start + (cell.position - start) / NEIGHBOURS * NEIGHBOURS;
        (first, (end - first).min(NEIGHBOURS) - 1)
    }

    /// Visits the rows of the next batch that has some, each with the canonical node that has it.
    pub(super) fn visit_batch(&mut self, mut visit: impl FnMut(u32, PlannedSample)) {
        let mut is_empty = true;
        while is_empty && self.batch < self.batches {
            while self.column < self.plan.batch_size() {
                if let Some((canonical, planned)) = self.next_row() {
                    is_empty = false;
                    visit(canonical, planned);
                }
            }
            self.move_to(self.batch + 1);
        }
    }

    fn move_to(&mut self, batch: u64) {
        (self.batch, self.column) = (batch, 0);
        self.plan.0.batching.seek(&mut self.position, batch);
    }

    fn row_source(&self, position: &RankPosition, column: u64) -> Option<RowSource> {
        self.plan.0.batching.row_source(&self.plan.0.sequences, position, column)
    }

    /// The next row of the batch, with its canonical node; `None` for padding.
    fn next_row(&mut self) -> Option<(u32, PlannedSample)> {
        let slot = self.row_source(&self.position, self.column);
        self.column += 1;
        slot.map(|slot| (slot.cell.canonical, self.planned(slot)))
    }

    fn planned(&mut self, slot: RowSource) -> PlannedSample {
        let sequence = &self.plan.0.sequences[slot.sequence];
        let cursor =
            self.cursors[slot.sequence].get_or_insert_with(|| sequence.cursor(self.plan.shape(), self.plan.buckets()));
        let draw = cursor.draw(slot.cell.canonical, slot.cell.position);
        let sample = sequence.sample(self.plan.shape(), draw);
        let stream = sequence.stream.unwrap_or_else(|| self.plan.shape().stream_of_sample(sample));
        PlannedSample { sample, stream, draw, repeat: slot.cell.repeat }
    }
}

impl Iterator for RankOrder {
    type Item = PlannedSample;

    fn next(&mut self) -> Option<PlannedSample> {
        while self.batch < self.batches {
            if self.column == self.plan.batch_size() {
                self.move_to(self.batch + 1);
            } else if let Some((_, row)) = self.next_row() {
                return Some(row);
            }
        }
        None
    }
}

/// Sample ids of a worker process of the reference: every `workers_per_rank`-th batch of its rank, from the batch with
/// the worker's number on, padded with -1 to the same length for all workers.
pub struct WorkerOrder {
    order: RankOrder,
    workers: u64,
    remaining: u64,
}

impl WorkerOrder {
    fn new(plan: EpochPlan, rank: Rank, worker: u32) -> Self {
        let workers = plan.world().workers_per_rank;
        assert!(worker < workers, "worker {worker} of {workers}");
        let batches = plan.0.batching.batches().div_ceil(u64::from(workers));
        let remaining = batches * plan.batch_size();
        let mut order = plan.rank(rank);
        // Padding counts here.
        order.batches = plan.0.batching.batches();
        order.move_to(u64::from(worker));
        Self { order, workers: u64::from(workers), remaining }
    }
}

impl Iterator for WorkerOrder {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.remaining = self.remaining.checked_sub(1)?;
        let order = &mut self.order;
        if order.column == order.plan.batch_size() {
            order.move_to(order.batch + self.workers);
        }
        if order.batch >= order.batches {
            order.column += 1;
            return Some(-1);
        }
        // The shape bounds sample ids to 2^48.
        Some(order.next_row().map_or(-1, |(_, row)| row.sample.0 as i64))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining as usize, Some(self.remaining as usize))
    }
}

impl ExactSizeIterator for WorkerOrder {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataSetShape, OrderConfig, World};
    use std::collections::{BTreeMap, BTreeSet};

    /// The partners of each sample of an epoch's global batches from `start` on, by its draw.
    fn groups(ranks: u32, start: u64) -> Vec<BTreeMap<u64, Vec<(u64, u64)>>> {
        let shape = DataSetShape::new(&[vec![720; 5]]).expect("a shape");
        let config = OrderConfig {
            shuffle: true,
            num_canonical_nodes: Some(2),
            batch_size: u64::from(12 / ranks),
            ..OrderConfig::default()
        };
        let world = World { ranks_per_node: ranks, ..World::single() };
        let whole = EpochPlan::new(&shape, &config, world, 3, None).expect("a plan");
        let plan = EpochPlan::new(&shape, &config, world, 3, Some(&whole.state(start))).expect("a plan");
        let mut batches = Vec::new();
        for rank in 0..ranks {
            let (mut order, mut rows, mut starts) = (plan.rank(Rank(rank)), Vec::new(), Vec::new());
            let choose = |planned: &PlannedSample, neighbours: u64, chosen: &mut Vec<u64>| {
                assert!(neighbours > 0);
                chosen.extend((0..planned.draw % 4).map(|part| (planned.draw * 31 + part * 77) % neighbours));
            };
            for number in 0.. {
                if !order.next_groups(&mut rows, &mut starts, choose) {
                    break;
                }
                if batches.len() == number {
                    batches.push(BTreeMap::new());
                }
                starts.push(rows.len() as u32);
                for group in starts.windows(2).map(|ends| &rows[ends[0] as usize..ends[1] as usize]) {
                    let partners = group[1..].iter().map(|partner| (partner.sample.0, partner.draw)).collect();
                    batches[number].insert(group[0].draw, partners);
                }
            }
        }
        batches
    }

    #[test]
    fn partners_depend_on_the_sample_and_not_on_the_ranks_or_a_checkpoint() {
        let one = groups(1, 0);
        assert_eq!(one.len(), 300);
        assert_eq!(groups(3, 0), one);
        assert_eq!(groups(2, 12 * 100), one[100..]);
        let all: Vec<_> = one.iter().flatten().collect();
        assert!(all.iter().all(|(draw, partners)| partners.len() as u64 == **draw % 4));
        assert!(all.iter().all(|(draw, partners)| partners.iter().all(|(sample, _)| sample != *draw)));
        let keys: BTreeSet<u64> = all.iter().flat_map(|(_, partners)| partners.iter().map(|(_, key)| *key)).collect();
        assert_eq!(keys.len(), all.iter().map(|(_, partners)| partners.len()).sum::<usize>());
    }

    #[test]
    fn a_sample_without_neighbours_is_its_own_partner() {
        let shape = DataSetShape::new(&[vec![1]]).expect("a shape");
        let plan = EpochPlan::new(&shape, &OrderConfig::default(), World::single(), 0, None).expect("a plan");
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        assert!(plan.rank(Rank(0)).next_groups(&mut rows, &mut starts, |_, neighbours, chosen| {
            assert_eq!(neighbours, 0);
            chosen.extend([0, 0]);
        }));
        assert_eq!(
            rows.iter().map(|row| (row.sample.0, row.draw)).collect::<Vec<_>>(),
            [(0, 0), (0, 1 << PARTNER_BIT), (0, 2 << PARTNER_BIT)]
        );
    }

    #[test]
    fn plans_are_shared_between_threads_and_orders_move_to_theirs() {
        fn is_shared<T: Send + Sync>() {}
        fn moves<T: Send + 'static>() {}
        is_shared::<EpochPlan>();
        moves::<RankOrder>();
        moves::<WorkerOrder>();
    }
}
