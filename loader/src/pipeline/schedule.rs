//! Schedule stage: from the plan to chunks.
//!
//! The scheduler walks the plan once. Samples enter a window that reaches `predownload` samples ahead, which announces
//! their shards. When a batch may begin (see [`ReorderQueue`]), its samples leave the window as chunks, each with its
//! memory in the batch's slot. Only this thread takes batch slots, so they are granted in plan order.

use super::chunk::Chunk;
use super::dispatch::Dispatcher;
use super::reorder::ReorderQueue;
use super::run::Run;
use super::sample::batch_builder::BatchBuilder;
use super::sample::batch_layout::BatchLayout;
use super::shard::residency::Residency;
use super::task::Task;
use crate::batch::Batch;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::memory::BatchPool;
use crate::order::RankOrder;
use crate::stats::{Counter, Stage, TimeKind};
use crate::sync::Arc;
use std::collections::VecDeque;
use std::ops::Range;

/// Sizes of the steps in which the plan is walked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rows of a full batch.
    pub(crate) batch: usize,
    /// Leave out a last batch that is not full.
    pub(crate) drop_last: bool,
    /// Batches that are announced ahead of the one being scheduled.
    pub(crate) predownload: usize,
    /// Samples per chunk.
    pub(crate) chunk: usize,
}

/// Schedule stage.
pub(crate) struct Scheduler {
    pub(crate) pace: Pace,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) batches: BatchPool,
    pub(crate) residency: Arc<Residency<Chunk>>,
    pub(crate) reorder: Arc<ReorderQueue<Result<Batch>>>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) run: Arc<Run>,
    pub(crate) stage: Arc<Stage>,
    /// Counts batches whose memory is not from the pool.
    pub(crate) batches_unpooled: Arc<Counter>,
}

impl Scheduler {
    /// Walks `order` to its end, or until the run stops.
    pub(crate) fn run(&self, mut order: RankOrder) -> Result<()> {
        let Self { pace, stage, .. } = self;
        let mut window = VecDeque::<Vec<Task>>::new();
        let (mut rows, mut announced) = (Vec::new(), Vec::new());
        let mut position = 0;
        for number in 0.. {
            if !stage.timed(TimeKind::Output, || self.reorder.wait_turn(number)) {
                return Ok(());
            }
            stage.timed(TimeKind::Busy, || {
                while window.len() <= pace.predownload && order.next_batch(&mut rows) {
                    if pace.drop_last && rows.len() < pace.batch {
                        // The last batch is not delivered, so its shards are not announced.
                        break;
                    }
                    let mut tasks = Vec::with_capacity(rows.len());
                    for planned in rows.drain(..) {
                        tasks.push(Task::new(planned, position, self.catalog.shape())?);
                        position += 1;
                    }
                    announced.clear();
                    announced.extend(tasks.iter().map(|task: &Task| (task.shard, task.position)));
                    self.residency.announce(&mut announced);
                    window.push_back(tasks);
                }
                Ok::<_, Error>(())
            })?;
            let Some(tasks) = window.pop_front() else {
                self.reorder.end(number);
                return Ok(());
            };
            stage.timed(TimeKind::Busy, || self.begin_batch(number, tasks))?;
            stage.done(1, 0);
        }
        Ok(())
    }

    /// Takes a slot for batch `number` and dispatches its samples in chunks.
    fn begin_batch(&self, number: u64, tasks: Vec<Task>) -> Result<()> {
        let repeats: Vec<bool> = tasks.iter().map(|t| t.planned.repeat).collect();
        // Slots that a failed device holds may never return.
        let slot = self.batches.take_unless(self.layout.slot_bytes(), || self.run.is_stopped())?;
        let Some(slot) = slot else { return Ok(()) };
        self.batches_unpooled.add(u64::from(slot.is_unpooled()));
        if let Some(last) = tasks.last() {
            self.residency.set_dispatched(last.position + 1);
        }
        let first_position = tasks.first().map_or(0, |task| task.position);
        let batch = BatchBuilder::begin((number, first_position), self.layout.clone(), slot, &repeats);
        let len = self.pace.chunk;
        let ranges: Vec<Range<usize>> =
            (0..tasks.len()).step_by(len).map(|first| first..(first + len).min(tasks.len())).collect();
        batch.add_chunks(ranges.len());
        let memory = batch.split_rows(&ranges)?;
        for (range, rows) in ranges.into_iter().zip(memory) {
            let samples = tasks[range.clone()].to_vec();
            let batch = Arc::clone(&batch);
            self.dispatcher.dispatch(Chunk { batch, first_row: range.start, samples, rows, consumer_rows: None });
        }
        Ok(())
    }
}
