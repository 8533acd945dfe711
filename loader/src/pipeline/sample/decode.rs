//! Decode stage: from chunks to rows in batches.
//!
//! A decode thread takes a chunk, reads each sample and decodes it into its row. Unless the device reads the shard, it
//! looks in the page cache first, without waiting. A sample that is not there goes to the read thread with its memory,
//! and returns on a second queue, which has precedence. So hot data never changes threads, and cold data keeps the
//! disk's queue deep.

use super::batch_builder::BatchBuilder;
use super::consumer_memory::ConsumerMemory;
use super::decoder::RowDecoder;
use super::deliver::DeliverStage;
use super::miss::{LoadedSample, Miss, ReadOutcome};
use super::page_cache::{PageCacheLookup, PageCacheReader, SampleRows};
use super::sample_bytes::{PlacedRows, SampleBytes};
use super::tally::Tally;
use crate::batch::RowBytes;
use crate::decode::FieldPlan;
use crate::delivery::RowMemory;
use crate::error::{Error, Result};
use crate::memory::{ReadLease, RowMut};
use crate::pipeline::chunk::Chunk;
use crate::pipeline::device::encoded::PictureRouter;
use crate::pipeline::device::features::DeviceFeatures;
use crate::pipeline::dispatch::Dispatcher;
use crate::pipeline::run::Run;
use crate::pipeline::shard::open_shards::OpenShards;
use crate::pipeline::shard::residency::Residency;
use crate::pipeline::shard::source::ShardSource;
use crate::pipeline::skip::SkipBudget;
use crate::pipeline::task::Task;
use crate::stats::Stats;
use crate::sync::Arc;
use crossbeam::channel::{Receiver, Sender};
use std::time::Instant;

/// Decode stage.
pub(crate) struct DecodeStage {
    pub(crate) epoch: u64,
    /// Plan of the fields for each layout.
    pub(crate) fields: Vec<Arc<FieldPlan>>,
    pub(crate) sample_bytes_max: u64,
    pub(crate) open_shards: Arc<OpenShards>,
    pub(crate) residency: Arc<Residency<Chunk>>,
    pub(crate) source: Arc<ShardSource>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// Allocates rows of bytes in the consumer's memory.
    pub(crate) consumer_memory: Arc<ConsumerMemory>,
    pub(crate) skip: Arc<SkipBudget>,
    pub(crate) deliver: Arc<DeliverStage>,
    pub(crate) run: Arc<Run>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) device: DeviceFeatures,
}

/// Queues between the decode threads of one NUMA node and the threads that read for them.
#[derive(Clone)]
pub(crate) struct DecodeQueues {
    /// Chunks, for the decode threads of all nodes.
    pub(crate) chunks: Receiver<Chunk>,
    /// Samples for the read thread.
    pub(crate) misses: Sender<Miss>,
    /// Samples for the storage threads.
    pub(crate) direct: Sender<Miss>,
    /// Samples from both.
    pub(crate) loaded: Receiver<LoadedSample>,
}

impl DecodeStage {
    /// Decodes until both input queues end or the run stops.
    pub(crate) fn run(&self, queues: DecodeQueues) -> Result<()> {
        DecodeThread::new(self, queues).run()
    }
}

/// One decode thread.
struct DecodeThread<'a> {
    stage: &'a DecodeStage,
    queues: DecodeQueues,
    page_cache: PageCacheReader,
    decoder: RowDecoder,
    tally: Tally,
    /// The consumer allocates rows of bytes, and some layout can use them.
    uses_consumer_memory: bool,
}

impl<'a> DecodeThread<'a> {
    fn new(stage: &'a DecodeStage, queues: DecodeQueues) -> Self {
        let DecodeStage { fields, stats, device, .. } = stage;
        let storage = device.storage.clone();
        let page_cache = PageCacheReader::new(fields, stage.open_shards.clone(), stage.sample_bytes_max, storage);
        let router = |pictures| PictureRouter::new(pictures, device.host_share.clone(), stats);
        let pictures = device.pictures.clone().map(router);
        let shards = (stage.residency.clone(), stage.source.clone());
        Self {
            decoder: RowDecoder::new(stage.epoch, fields, |layout| page_cache.direct(layout), pictures, stats),
            tally: Tally::new(shards, stage.run.clone(), (stats.stage("read"), stats.stage("decode"))),
            uses_consumer_memory: stage.consumer_memory.is_available() && page_cache.has_lists(),
            page_cache,
            queues,
            stage,
        }
    }

    fn run(&mut self) -> Result<()> {
        let DecodeQueues { chunks, loaded, .. } = self.queues.clone();
        loop {
            if self.stage.run.is_stopped() {
                return Ok(());
            }
            if let Ok(sample) = loaded.try_recv() {
                self.loaded(sample)?;
                continue;
            }
            if let Ok(chunk) = chunks.try_recv() {
                self.chunk(chunk)?;
                continue;
            }
            // Evicted shards occupy the disk for as long as they are open.
            self.page_cache.release();
            let waiting = Instant::now();
            crossbeam::channel::select! {
                recv(loaded) -> sample => {
                    self.tally.decode.waited(waiting);
                    let Ok(sample) = sample else { return Ok(()) };
                    self.loaded(sample)?;
                }
                recv(chunks) -> chunk => {
                    self.tally.decode.waited(waiting);
                    let Ok(chunk) = chunk else { return Ok(()) };
                    self.chunk(chunk)?;
                }
            }
        }
    }

    /// Reads and decodes the samples of a chunk that are in the page cache, and passes the others on.
    fn chunk(&mut self, mut chunk: Chunk) -> Result<()> {
        let consumer_rows = match chunk.consumer_rows.take() {
            Some(rows) => rows,
            None if self.uses_consumer_memory => {
                let lengths = chunk.samples.iter().map(|task| self.page_cache.length(task)).collect();
                self.stage.consumer_memory.request(chunk, lengths);
                return Ok(());
            }
            None => Vec::new(),
        };
        let Chunk { batch, first_row, samples, mut rows, .. } = chunk;
        let mut consumer_rows = consumer_rows.into_iter();
        self.decoder.begin();
        let mut done = 0;
        let mut start = Instant::now();
        self.page_cache.look_up(&samples);
        for (i, task) in samples.iter().enumerate() {
            if self.stage.run.is_stopped() {
                return Ok(());
            }
            let row = first_row + i;
            let mut consumer = consumer_rows.next().flatten();
            // `rows` begins with this sample's: those of earlier samples were cut off.
            let row_bytes = batch.row_bytes();
            let mut memory = SampleRows { fixed: &mut rows, row_bytes, consumer: consumer.as_deref_mut() };
            match self.page_cache.read(i, task, &mut memory) {
                Ok(PageCacheLookup::Hot(open, sample, direct)) => {
                    let bytes = sample.len();
                    self.tally.read.add(bytes);
                    let mut decoded = Ok(Vec::new());
                    let is_placed = matches!(sample.placed, PlacedRows::Direct(..));
                    if !(is_placed && direct.is_some_and(|direct| direct.is_all)) {
                        self.tally.read.lap(&mut start);
                        decoded = self.decoder.decode((&batch, row), task, open, sample, memory);
                        self.tally.decode.lap(&mut start);
                    }
                    rows.iter_mut().zip(row_bytes).for_each(|(rows, bytes)| rows.skip_front(*bytes));
                    let decoded = decoded.map(|lists| {
                        self.tally.decode.add(bytes);
                        put_lists(&batch, row, lists, consumer.zip(direct.map(|direct| direct.number)));
                    });
                    self.settle(&batch, row, task, decoded);
                    done += 1;
                }
                Ok(PageCacheLookup::Cold { open, offset, bytes, direct }) => {
                    let rows = split_row(&mut rows, &batch);
                    let queue = if direct.is_some() { &self.queues.direct } else { &self.queues.misses };
                    let (batch, task) = (batch.clone(), *task);
                    if queue.send(Miss { batch, row, task, rows, consumer, open, offset, bytes, direct }).is_err() {
                        return self.stage.run.check();
                    }
                }
                Ok(PageCacheLookup::Evicted) => {
                    // The shard left the disk after its announcement: this sample waits for it again. The counts are
                    // flushed first, so that the shard is queued for its first unread sample.
                    self.tally.flush();
                    self.stage.residency.set_lost(task.shard);
                    batch.add_chunks(1);
                    let rows = split_row(&mut rows, &batch);
                    self.stage.dispatcher.dispatch(Chunk {
                        batch: batch.clone(),
                        first_row: row,
                        samples: vec![*task],
                        rows,
                        consumer_rows: consumer.map(|row| vec![Some(row)]),
                    });
                }
                Err(error) => {
                    drop(split_row(&mut rows, &batch));
                    self.settle(&batch, row, task, Err(error));
                    done += 1;
                }
            }
        }
        self.tally.read.lap(&mut start);
        drop(rows);
        self.tally.flush();
        // One more for the chunk itself, which no longer borrows the slot.
        self.stage.deliver.done(&batch, done + 1)
    }

    /// Decodes a sample that the read thread or a storage thread has read.
    fn loaded(&mut self, sample: LoadedSample) -> Result<()> {
        let LoadedSample { mut miss, outcome } = sample;
        match outcome {
            Err(error) => self.finish(miss, Instant::now(), Err(error)),
            Ok(ReadOutcome::Slot(slot)) => match &mut miss.direct {
                None => self.loaded_in(slot, miss),
                Some(direct) => {
                    direct.add_rest(&slot);
                    // Returned to the pool before another one is waited for.
                    drop(slot);
                    self.loaded_on_device(miss)
                }
            },
            Ok(ReadOutcome::OnDevice) => self.loaded_on_device(miss),
            Ok(ReadOutcome::Refused) => self.read_again(Miss { direct: None, ..miss }),
        }
    }

    /// Decodes a whole sample in `slot`. The device copies its direct rows, if it has any.
    fn loaded_in(&mut self, slot: ReadLease, mut miss: Miss) -> Result<()> {
        let start = Instant::now();
        let copies = self.stage.device.slot_copies.as_deref();
        let begun =
            copies.and_then(|copies| Some((copies, copies.begin(&miss.batch, miss.open.layout_number(), &slot)?)));
        let decoded = match begun {
            None => self.decode(&mut miss, SampleBytes::whole(&slot)),
            Some((copies, (direct, memory))) => {
                let sample = SampleBytes { bytes: &slot, placed: PlacedRows::CopiedByDevice(&direct.columns) };
                // Decoded first: the sample may turn out to be invalid.
                let decoded = self.decode(&mut miss, sample);
                decoded.and_then(|()| copies.copy((&miss.batch, miss.row), &direct, &*memory, slot))
            }
        };
        self.finish(miss, start, decoded)
    }

    /// Reads and decodes the rest of a sample whose direct rows are on the device.
    fn loaded_on_device(&mut self, mut miss: Miss) -> Result<()> {
        let Some(mut direct) = miss.direct.take() else {
            return Err(Error::internal("a sample on the device has no direct rows"));
        };
        if let Some((offset, bytes)) = direct.read_rest(&miss.open) {
            return self.read_again(Miss { offset, bytes, direct: Some(direct), ..miss });
        }
        let start = Instant::now();
        let rest = direct.take_rest();
        let sample = SampleBytes { bytes: &rest, placed: PlacedRows::OnDevice(&direct.columns) };
        let decoded = self.decode(&mut miss, sample);
        self.finish(miss, start, decoded)
    }

    /// Passes a sample, or the missing part of it, to the read thread.
    fn read_again(&self, miss: Miss) -> Result<()> {
        if self.queues.misses.send(miss).is_err() { self.stage.run.check() } else { Ok(()) }
    }

    /// Decodes a sample that another thread has read.
    fn decode(&mut self, miss: &mut Miss, sample: SampleBytes<'_>) -> Result<()> {
        let Miss { batch, row, task, rows, consumer, open, .. } = miss;
        self.decoder.begin();
        if sample.is_done() {
            self.tally.decode.add(0);
            return Ok(());
        }
        let direct = self.page_cache.direct(open.layout_number());
        let memory = SampleRows { fixed: rows, row_bytes: batch.row_bytes(), consumer: consumer.as_deref_mut() };
        let lists = self.decoder.decode((batch, *row), task, open, sample, memory)?;
        self.tally.decode.add(sample.bytes.len());
        put_lists(batch, *row, lists, consumer.take().zip(direct.map(|direct| direct.number)));
        Ok(())
    }

    /// Ends a sample that another thread has read.
    fn finish(&mut self, miss: Miss, mut start: Instant, decoded: Result<()>) -> Result<()> {
        let Miss { batch, row, task, rows, consumer, .. } = miss;
        // A batch is done when no thread borrows its slot.
        drop((rows, consumer));
        self.settle(&batch, row, &task, decoded);
        self.tally.decode.lap(&mut start);
        self.tally.flush();
        self.stage.deliver.done(&batch, 1)
    }

    /// Records a sample's outcome: decoded, skipped within the budget, or the batch's failure.
    fn settle(&mut self, batch: &BatchBuilder, row: usize, task: &Task, outcome: Result<()>) {
        self.tally.samples.push((task.shard, task.position));
        if let Err(error) = outcome {
            self.stage.skip.settle(batch, row, task, error);
        }
    }
}

/// Splits off the next row of each of `rows`, for another thread.
fn split_row(rows: &mut [RowMut], batch: &BatchBuilder) -> Vec<RowMut> {
    rows.iter_mut().zip(batch.row_bytes()).map(|(rows, bytes)| rows.split_front(*bytes)).collect()
}

/// Stores a row's `lists`. The consumer's memory replaces the list of its number.
fn put_lists(batch: &BatchBuilder, row: usize, lists: Vec<Vec<u8>>, consumer: Option<(Box<dyn RowMemory>, usize)>) {
    if lists.is_empty() {
        return;
    }
    let mut lists: Vec<RowBytes> = lists.into_iter().map(RowBytes::Engine).collect();
    if let Some((memory, number)) = consumer {
        lists[number] = RowBytes::Consumer(memory);
    }
    batch.put_lists(row, lists);
}
