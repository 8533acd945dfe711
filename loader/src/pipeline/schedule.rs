//! Schedule stage: from the plan to chunks at the decode threads.
//!
//! The scheduler walks the plan once. Samples enter a window that reaches `predownload` samples ahead, which announces
//! their shards. When a batch may begin (see [`ReorderQueue`]), its samples leave the window as chunks, each with its
//! memory in the batch's slot. Only this thread takes batch slots, so they are granted in plan order. The dispatcher
//! sends a chunk to the decode threads when its shards are resident.

use super::done_batch::DoneBatch;
use super::plan::{BatchOrder, PackedRows, PlannedBatch, RowGroups, key_of};
use super::sample::batch_builder::{BatchBuilder, MakeExtension};
use super::sample::batch_layout::BatchLayout;
use super::sample::row_marks::RowMark;
use super::shard::residency::Residency;
use crate::batch::Batch;
use crate::catalog::Catalog;
use crate::decode::DrawKey;
use crate::delivery::RowMemory;
use crate::error::{Error, Result};
use crate::memory::{BatchPool, BatchSlot, RowMut};
use crate::order::{PlannedSample, ShardId};
use crate::stats::{Counter, Stage, TimeKind, working_on};
use crate::sync::{Arc, Mutex};
use crossbeam::channel::Sender;
use forebay_core::flow::ReorderQueue;
use forebay_core::flow::Run;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// A planned sample and its position in the data set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) planned: PlannedSample,
    pub(crate) shard: ShardId,
    /// Index of the sample in its shard.
    pub(crate) index: u32,
    /// Position among the rank's samples of this run, from 0; of packs, the position of the first one that needs it.
    pub(crate) position: u64,
}

impl Task {
    /// Locates `planned` in the shards of `catalog`.
    ///
    /// # Errors
    ///
    /// `Internal` for a sample that the data set does not have.
    pub(crate) fn new(planned: PlannedSample, position: u64, catalog: &Catalog) -> Result<Self> {
        let (shard, index) = catalog.locate_sample(planned.sample).ok_or_else(|| {
            Error::internal("the plan contains a sample that the data set does not have")
                .with("sample", planned.sample.0)
        })?;
        Ok(Self { planned, shard, index, position })
    }

    /// Values of the sample's row in `epoch` that the plan gives.
    pub(crate) fn mark(&self, epoch: u64, catalog: &Catalog) -> RowMark {
        RowMark::new(self.planned.repeat, (self.shard, self.index), self.draw_key(epoch), catalog)
    }

    /// Key of the sample's random draws in `epoch`.
    pub(crate) fn draw_key(&self, epoch: u64) -> DrawKey {
        key_of(&self.planned, epoch)
    }
}

/// A sample and its row of a batch.
#[derive(Clone, Copy)]
pub(crate) struct SampleRow<'a> {
    pub(crate) batch: &'a BatchBuilder,
    pub(crate) row: usize,
    pub(crate) task: &'a Task,
    /// Layout of the sample's shard.
    pub(crate) layout_number: usize,
}

/// Memory of the consumer for each row of a chunk.
pub(crate) type ConsumerRows = Vec<Option<Box<dyn RowMemory>>>;

/// Consecutive rows of one batch. All their shards are resident when a decode thread takes the chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) batch: Arc<BatchBuilder>,
    /// Row of the first sample in the batch.
    pub(crate) first_row: usize,
    pub(crate) samples: Vec<Task>,
    /// Memory of the rows: one entry per fixed output, for all samples of the chunk.
    pub(crate) rows: Vec<RowMut>,
    /// The consumer's memory for each sample's row of bytes, once it was allocated: see
    /// [`ConsumerMemory`](super::sample::consumer_memory::ConsumerMemory).
    pub(crate) consumer_rows: Option<ConsumerRows>,
}

impl Chunk {
    /// Splits the chunk at each change of shard. The batch counts the pieces.
    fn split_by_shard(self) -> Vec<(ShardId, Chunk)> {
        let Self { batch, mut first_row, samples, mut rows, mut consumer_rows } = self;
        let runs: Vec<&[Task]> = samples.chunk_by(|a, b| a.shard == b.shard).collect();
        // The chunk itself is already counted.
        batch.add_chunks(runs.len() - 1);
        let pieces = runs.into_iter().map(|run| {
            let piece = Chunk {
                batch: batch.clone(),
                first_row,
                samples: run.to_vec(),
                rows: batch.split_front(&mut rows, run.len()),
                consumer_rows: consumer_rows.as_mut().map(|rows| rows.drain(..run.len()).collect()),
            };
            first_row += run.len();
            (run[0].shard, piece)
        });
        pieces.collect()
    }
}

/// Sends chunks to the decode threads once their shards are resident.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) residency: Arc<Residency<Chunk>>,
    /// Queue of the decode threads, for chunks with resident shards.
    pub(crate) chunks: StageSender<Chunk>,
}

impl Dispatcher {
    /// Sends `chunk` to the decode threads, now or when its shards are resident.
    ///
    /// A chunk with missing shards is split so that no piece waits for more than one: the disk may hold fewer shards
    /// than a chunk uses, which would then never be resident together.
    pub(crate) fn dispatch(&self, chunk: Chunk) {
        if self.residency.are_resident(chunk.samples.iter().map(|task| task.shard)) {
            self.chunks.send(chunk);
            return;
        }
        for (shard, piece) in chunk.split_by_shard() {
            if let Some(ready) = self.residency.park(piece, shard) {
                self.chunks.send(ready);
            }
        }
    }
}

/// Sends work to a stage until the run stops. Closing it ends the stage's queue, so that its threads return.
#[derive(Debug)]
pub(crate) struct StageSender<T>(Mutex<Option<Sender<T>>>);

impl<T> StageSender<T> {
    /// Wraps the sending half of a channel. There must be only one.
    pub(crate) fn new(sender: Sender<T>) -> Self {
        Self(Mutex::new(Some(sender)))
    }

    /// Sends `work`, or drops it after the run has stopped.
    pub(crate) fn send(&self, work: T) {
        if let Some(sender) = &*self.0.lock() {
            // Fails only when the receiving threads have returned, which they do after a stop.
            let _ = sender.send(work);
        }
    }

    /// Ends the queue.
    pub(crate) fn close(&self) {
        self.0.lock().take();
    }
}

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

/// Batches that are left out: they count for the position, and nothing of them is read.
pub(crate) struct LeftOut {
    /// Their numbers in the epoch.
    pub(crate) batches: HashSet<u64>,
    pub(crate) epoch: u64,
    /// Number of the run's first batch in the epoch.
    pub(crate) first_batch: u64,
    /// Counts them.
    pub(crate) count: Arc<Counter>,
}

impl LeftOut {
    /// True for a batch with this number in the run.
    fn contains(&self, number: u64) -> bool {
        self.batches.contains(&(self.first_batch + number))
    }

    /// The batch without rows instead of one of `planned_rows`.
    fn batch(&self, number: u64, planned_rows: u64) -> Batch {
        self.count.add(1);
        let (epoch, number) = (self.epoch, self.first_batch + number);
        Batch { epoch, number, rows: 0, outputs: Vec::new(), numbers: Vec::new(), planned_rows }
    }
}

/// Batch of the window.
enum Ahead {
    Tasks(Vec<Task>, Option<PackedRows>, Option<RowGroups>),
    /// A batch of this many rows that is left out.
    LeftOut(u64),
}

/// Schedule stage.
pub(crate) struct Scheduler {
    pub(crate) left_out: LeftOut,
    pub(crate) pace: Pace,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) batches: BatchPool,
    pub(crate) reorder: Arc<ReorderQueue<DoneBatch>>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) run: Arc<Run>,
    pub(crate) stage: Arc<Stage>,
    /// Makes the device's part of each batch.
    pub(crate) extension: Option<MakeExtension>,
    /// Counts batches with memory that is not from the pool.
    pub(crate) batches_unpooled: Arc<Counter>,
}

impl Scheduler {
    /// Walks `order` to its end, or until the run stops.
    pub(crate) fn run(&self, mut order: BatchOrder) -> Result<()> {
        let Self { pace, stage, .. } = self;
        let mut window = VecDeque::<Ahead>::new();
        let (mut planned, mut announced) = (PlannedBatch::default(), Vec::new());
        let (mut position, mut planned_batches) = (0, 0);
        for number in 0.. {
            working_on(Some(self.left_out.first_batch + number));
            if !stage.timed(TimeKind::Output, || self.reorder.wait_turn(number)) {
                return Ok(());
            }
            stage.timed(TimeKind::Busy, || {
                while window.len() <= pace.predownload && order.next_batch(&mut planned)? {
                    let cells = planned.cells as u64;
                    if pace.drop_last && planned.cells < pace.batch {
                        // The last batch is not delivered, so its shards are not announced.
                        break;
                    }
                    planned_batches += 1;
                    if self.left_out.contains(planned_batches - 1) {
                        position += cells;
                        window.push_back(Ahead::LeftOut(cells));
                        continue;
                    }
                    let mut tasks = Vec::with_capacity(planned.samples.len());
                    for (sample, cell) in planned.samples.iter().zip(planned.cells_of_rows()) {
                        tasks.push(Task::new(*sample, position + cell, &self.catalog)?);
                    }
                    position += cells;
                    announced.clear();
                    announced.extend(tasks.iter().map(|task: &Task| (task.shard, task.position)));
                    self.dispatcher.residency.announce(&mut announced);
                    window.push_back(Ahead::Tasks(tasks, planned.packs.take(), planned.groups.take()));
                }
                Ok::<_, Error>(())
            })?;
            match window.pop_front() {
                Some(Ahead::Tasks(tasks, packs, groups)) => {
                    // Slots that a failed device holds may never return.
                    let slot = stage.timed(TimeKind::Input, || {
                        self.batches.take_unless(self.layout.slot_bytes(), || self.run.is_stopped())
                    });
                    let Some(slot) = slot? else { return Ok(()) };
                    stage.timed(TimeKind::Busy, || self.begin_batch((number, slot), tasks, packs, groups))?;
                }
                Some(Ahead::LeftOut(rows)) => self.reorder.put(number, self.left_out.batch(number, rows).into()),
                None => {
                    self.reorder.end(number);
                    return Ok(());
                }
            }
            stage.done(1, 0);
        }
        Ok(())
    }

    /// Dispatches the samples of batch `number` in chunks, with their rows in `slot`.
    fn begin_batch(
        &self,
        (number, slot): (u64, BatchSlot),
        tasks: Vec<Task>,
        packs: Option<PackedRows>,
        groups: Option<RowGroups>,
    ) -> Result<()> {
        let marks: Vec<RowMark> = tasks.iter().map(|task| task.mark(self.left_out.epoch, &self.catalog)).collect();
        self.batches_unpooled.add(u64::from(slot.is_unpooled()));
        if let Some(last) = tasks.last() {
            self.dispatcher.residency.set_dispatched(last.position + 1);
        }
        let first_position = tasks.first().map_or(0, |task| task.position);
        let key = tasks.first().map_or_else(DrawKey::default, |task| task.draw_key(self.left_out.epoch));
        let extension = self.extension.as_ref().map(|make| make());
        let numbers = (number, first_position, key);
        let batch = BatchBuilder::begin(numbers, self.layout.clone(), slot, (&marks, packs, groups), extension);
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
