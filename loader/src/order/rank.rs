//! The plan as one rank sees it.

use super::batching::{RankPlace, RowSource};
use super::epoch::EpochPlan;
use super::ids::{Rank, SampleId, StreamId};
use super::shuffle::Cursor;

impl EpochPlan {
    /// The samples of `rank`, batch by batch.
    ///
    /// # Panics
    /// `rank` is not one of this world.
    pub fn rank(&self, rank: Rank) -> RankOrder {
        RankOrder::new(self.clone(), rank)
    }

    /// What the reference's worker process `worker` of `rank` is given: sample ids batch after batch, padded with -1.
    ///
    /// # Panics
    /// `rank` or `worker` is not one of this world.
    pub fn worker(&self, rank: Rank, worker: u32) -> WorkerOrder {
        WorkerOrder::new(self.clone(), rank, worker)
    }

    /// Batches of a rank with at least one sample: what the reference's loader yields.
    pub fn batches(&self, rank: Rank) -> u64 {
        self.rank(rank).batches()
    }

    /// Samples of a rank, repeats included, padding not.
    pub fn len_of_rank(&self, rank: Rank) -> u64 {
        self.rank(rank).len_of_rank()
    }
}

/// A row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSample {
    /// The sample.
    pub sample: SampleId,
    /// Its stream.
    pub stream: StreamId,
    /// Index in the epoch's resampled list before partitioning (the stream's own list for all batching methods but
    /// `random`): occurrences of an oversampled sample differ in it, and the world does not change it.
    pub draw: u64,
    /// The row only makes ranks or canonical nodes equal; the same draw stands elsewhere in the epoch.
    pub repeat: bool,
}

/// A rank's samples in the order of its batches, from the plan's start. `Send`, and independent of the plan's borrow.
pub struct RankOrder {
    plan: EpochPlan,
    place: RankPlace,
    batches: u64,
    /// The row of the batch that the iterator yields next.
    column: u64,
    /// One per sequence, made when first needed.
    cursors: Vec<Option<Box<dyn Cursor>>>,
}

impl RankOrder {
    pub(super) fn new(plan: EpochPlan, rank: Rank) -> Self {
        let rank = plan.parallel_rank(rank);
        let world = plan.parallel_world();
        let place = RankPlace::new(u64::from(rank.0 / world.ranks_per_node), u64::from(rank.0 % world.ranks_per_node));
        let mut cursors = Vec::new();
        cursors.resize_with(plan.sequences().len(), || None);
        let mut order = Self { place, batches: plan.batching().batches(), column: 0, cursors, plan };
        // Padding stands at the end: drop the batches that hold nothing else.
        while order.batches > 0 {
            order.move_to(order.batches - 1);
            if (0..order.plan.batch_size()).any(|column| order.row_source(column).is_some()) {
                break;
            }
            order.batches -= 1;
        }
        order.move_to(0);
        order
    }

    /// Batches with at least one sample.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Samples of all batches, repeats included.
    pub fn len_of_rank(&self) -> u64 {
        let Some(last) = self.batches.checked_sub(1) else { return 0 };
        let mut place = self.place.clone();
        self.plan.batching().seek(&mut place, last);
        let slots = |column| self.plan.batching().row_source(self.plan.sequences(), &place, column);
        let in_last = (0..self.plan.batch_size()).filter(|&column| slots(column).is_some()).count();
        last * self.plan.batch_size() + in_last as u64
    }

    /// The batch that comes next, from 0 at the plan's start.
    pub fn batch(&self) -> u64 {
        self.place.batch
    }

    /// Goes to the start of a batch. Going forward is cheap; what is made of the shuffle does not depend on the way.
    pub fn seek(&mut self, batch: u64) {
        self.move_to(batch.min(self.batches));
    }

    /// Puts the rows of the next batch into `rows`, which is cleared first; `false` when there are no more. The last
    /// batch may have fewer rows than the batch size, none has no row.
    pub fn next_batch(&mut self, rows: &mut Vec<PlannedSample>) -> bool {
        rows.clear();
        if self.place.batch >= self.batches {
            return false;
        }
        while self.column < self.plan.batch_size() {
            let slot = self.row_source(self.column);
            self.column += 1;
            if let Some(slot) = slot {
                rows.push(self.planned(slot));
            }
        }
        self.move_to(self.place.batch + 1);
        !rows.is_empty() || self.next_batch(rows)
    }

    fn move_to(&mut self, batch: u64) {
        self.column = 0;
        self.plan.batching().seek(&mut self.place, batch);
    }

    fn row_source(&self, column: u64) -> Option<RowSource> {
        self.plan.batching().row_source(self.plan.sequences(), &self.place, column)
    }

    fn planned(&mut self, slot: RowSource) -> PlannedSample {
        let sequence = &self.plan.sequences()[slot.sequence];
        let cursor = self.cursors[slot.sequence].get_or_insert_with(|| sequence.shuffle.cursor());
        let draw = cursor.draw(slot.cell.canonical, slot.cell.position);
        let sample = sequence.draws.sample(self.plan.shape(), draw);
        let stream = sequence.stream.unwrap_or_else(|| self.plan.shape().stream_of_sample(sample));
        PlannedSample { sample, stream, draw, repeat: slot.cell.repeat }
    }
}

impl Iterator for RankOrder {
    type Item = PlannedSample;

    fn next(&mut self) -> Option<PlannedSample> {
        while self.place.batch < self.batches {
            if self.column == self.plan.batch_size() {
                self.move_to(self.place.batch + 1);
                continue;
            }
            let slot = self.row_source(self.column);
            self.column += 1;
            if let Some(slot) = slot {
                return Some(self.planned(slot));
            }
        }
        None
    }
}

/// What a worker process of the reference is given: every `workers_per_rank`-th batch of its rank, from its own
/// number on, padded with -1 to the same length for all workers.
pub struct WorkerOrder {
    order: RankOrder,
    workers: u64,
    left: u64,
}

impl WorkerOrder {
    pub(super) fn new(plan: EpochPlan, rank: Rank, worker: u32) -> Self {
        let workers = plan.world().workers_per_rank;
        assert!(worker < workers, "worker {worker} of {workers}");
        let batches = plan.batching().batches().div_ceil(u64::from(workers));
        let left = batches * plan.batch_size();
        let mut order = plan.rank(rank);
        // Padding counts here.
        order.batches = plan.batching().batches();
        order.move_to(u64::from(worker));
        Self { order, workers: u64::from(workers), left }
    }
}

impl Iterator for WorkerOrder {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let order = &mut self.order;
        if order.column == order.plan.batch_size() {
            order.move_to(order.place.batch + self.workers);
        }
        let slot = match order.place.batch < order.batches {
            true => order.row_source(order.column),
            false => None,
        };
        order.column += 1;
        // The shape bounds sample ids to 2^48.
        Some(slot.map_or(-1, |slot| order.planned(slot).sample.0 as i64))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
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
