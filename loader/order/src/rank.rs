//! Samples of one rank.

use super::batching::{RankPosition, RowSource};
use super::epoch::EpochPlan;
use super::ids::{Rank, SampleId, StreamId};
use super::shuffle::Cursor;

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
    place: RankPosition,
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
        let place = RankPosition::new(node, of_node);
        let mut cursors = Vec::new();
        cursors.resize_with(plan.0.sequences.len(), || None);
        let batches = plan.0.batching.batches();
        let mut order = Self { place, batches, batch: 0, column: 0, cursors, plan };
        // Padding is at the end: drop the batches that consist of padding.
        while order.batches > 0 {
            order.move_to(order.batches - 1);
            if (0..order.plan.batch_size()).any(|column| order.row_source(&order.place, column).is_some()) {
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
        let mut place = self.place.clone();
        self.plan.0.batching.seek(&mut place, last);
        let rows = (0..self.plan.batch_size()).filter(|&column| self.row_source(&place, column).is_some());
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
        self.plan.0.batching.seek(&mut self.place, batch);
    }

    fn row_source(&self, place: &RankPosition, column: u64) -> Option<RowSource> {
        self.plan.0.batching.row_source(&self.plan.0.sequences, place, column)
    }

    /// The next row of the batch, with its canonical node; `None` for padding.
    fn next_row(&mut self) -> Option<(u32, PlannedSample)> {
        let slot = self.row_source(&self.place, self.column);
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

    #[test]
    fn plans_are_shared_between_threads_and_orders_move_to_theirs() {
        fn is_shared<T: Send + Sync>() {}
        fn moves<T: Send + 'static>() {}
        is_shared::<EpochPlan>();
        moves::<RankOrder>();
        moves::<WorkerOrder>();
    }
}
