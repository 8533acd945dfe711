//! Decode stage: from chunks to rows in batches.
//!
//! A decode thread takes a chunk, reads each sample from the page cache, without waiting, and decodes it into its row.
//! A sample that is not there goes to the read thread with its memory, and returns on a second queue, which has
//! precedence. So hot data never changes threads, and cold data keeps the disk's queue deep.

use super::batch_builder::BatchBuilder;
use super::batch_layout::BatchLayout;
use super::consumer_memory::ConsumerMemory;
use super::decoder::{LargeRowSource, RowDecoder, RowSources};
use super::large::LargeValue;
use super::miss::{LoadedSample, Miss};
use super::page_cache::{PageCacheRead, PageCacheReader, SampleBytes};
use super::place::PlaceStage;
use super::read::ReadQueues;
use crate::batch::RowBytes;
use crate::decode::FieldPlan;
use crate::error::{Error, Result};
use crate::memory::ReadLease;
use crate::order::ShardId;
use crate::pipeline::schedule::{Chunk, ConsumerRows, SampleRow, Task};
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::shard::source::ShardSource;
use crate::pipeline::skip::SkipBudget;
use crate::stats::{Stage, Stats, TimeKind, working_on};
use crate::sync::Arc;
use crossbeam::channel::Receiver;
use forebay_core::flow::Run;
use std::time::{Duration, Instant};

/// Decode stage.
pub(crate) struct DecodeStage {
    /// Plan of the fields for each layout.
    pub(crate) fields: Vec<Arc<FieldPlan>>,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) sample_bytes_max: u64,
    pub(crate) source: Arc<ShardSource>,
    /// Allocates rows of bytes in the consumer's memory.
    pub(crate) consumer_memory: Arc<ConsumerMemory>,
    pub(crate) skip: Arc<SkipBudget>,
    pub(crate) place: Arc<PlaceStage>,
    pub(crate) run: Arc<Run>,
    pub(crate) stats: Arc<Stats>,
}

/// Queues of the decode threads of one NUMA node.
#[derive(Clone)]
pub(crate) struct DecodeQueues {
    /// Chunks, for the decode threads of all nodes.
    pub(crate) chunks: Receiver<Chunk>,
    /// Samples that the read thread has read.
    pub(crate) loaded: Receiver<LoadedSample>,
    pub(crate) reads: ReadQueues,
}

/// One decode thread.
pub(crate) struct DecodeThread<'a> {
    stage: &'a DecodeStage,
    queues: DecodeQueues,
    page_cache: PageCacheReader,
    decoder: RowDecoder,
    /// The consumer allocates rows of bytes, and some layout can use them.
    uses_consumer_memory: bool,
    /// The consumer allocates rows of bytes, and large samples of some layout can use them.
    uses_consumer_memory_if_large: bool,
    /// Shard and position of samples that are decoded or skipped, and the work since the last chunk. All threads share
    /// the epoch's tables and statistics: an update per sample would be a point of contention.
    settled: Vec<(ShardId, u64)>,
    reading: Tally,
    decoding: Tally,
}

impl<'a> DecodeThread<'a> {
    pub(crate) fn new(stage: &'a DecodeStage, queues: DecodeQueues) -> Self {
        let DecodeStage { fields, place, stats, .. } = stage;
        let page_cache = PageCacheReader::new(fields, stage.source.open_shards.clone(), stage.sample_bytes_max);
        let has_stored_list = (0..fields.len()).any(|layout| page_cache.stored_list(layout).is_some());
        let has_large_bytes = (0..fields.len()).any(|layout| page_cache.has_large_bytes(layout));
        let stored_list = |layout| page_cache.stored_list(layout);
        let has_consumer_memory = stage.consumer_memory.is_available();
        Self {
            decoder: RowDecoder::new(place.epoch, fields, &stage.layout, stored_list, place.offload.clone(), stats),
            uses_consumer_memory: has_consumer_memory && has_stored_list,
            uses_consumer_memory_if_large: has_consumer_memory && has_large_bytes && place.offload.is_none(),
            settled: Vec::new(),
            reading: Tally::new(stats.stage("read")),
            decoding: Tally::new(stats.stage("decode")),
            page_cache,
            queues,
            stage,
        }
    }

    /// Decodes until the queue of chunks ends or the run stops.
    pub(crate) fn run(&mut self) -> Result<()> {
        let DecodeQueues { chunks, loaded, .. } = self.queues.clone();
        loop {
            if self.stage.run.is_stopped() {
                return Ok(());
            }
            if let Ok(sample) = loaded.try_recv() {
                self.decode_loaded(sample)?;
                continue;
            }
            if let Ok(chunk) = chunks.try_recv() {
                self.decode_chunk(chunk)?;
                continue;
            }
            // Evicted shards occupy the disk for as long as they are open.
            self.page_cache.release();
            working_on(None);
            let waiting = Instant::now();
            crossbeam::channel::select! {
                recv(loaded) -> sample => {
                    self.decoding.stage.add_time_since(TimeKind::Input, waiting);
                    let Ok(sample) = sample else { return Ok(()) };
                    self.decode_loaded(sample)?;
                }
                recv(chunks) -> chunk => {
                    self.decoding.stage.add_time_since(TimeKind::Input, waiting);
                    let Ok(chunk) = chunk else { return Ok(()) };
                    self.decode_chunk(chunk)?;
                }
            }
        }
    }

    /// Reads and decodes the samples of a chunk that are in the page cache, and passes the rest on.
    fn decode_chunk(&mut self, chunk: Chunk) -> Result<()> {
        let mut start = Instant::now();
        let Some((chunk, consumer_rows)) = self.with_consumer_rows(chunk, &mut start) else { return Ok(()) };
        let mut consumer_rows = consumer_rows.into_iter();
        let Chunk { batch, first_row, samples, mut rows, .. } = chunk;
        let PlaceStage { dispatcher, offload, first_batch, .. } = &*self.stage.place;
        working_on(Some(first_batch + batch.number));
        let offload = offload.as_deref();
        self.decoder.begin();
        let mut done = 0;
        for (i, task) in samples.iter().enumerate() {
            if self.stage.run.is_stopped() {
                return Ok(());
            }
            let row = first_row + i;
            let mut consumer = consumer_rows.next().flatten();
            // `rows` begins with this sample's: the rows of earlier samples were cut off.
            let is_elsewhere = |open: &OpenShard| offload.is_some_and(|offload| offload.reads(open));
            let into = (&*batch, &mut rows[..], consumer.as_deref_mut());
            match self.page_cache.read(i, task, into, is_elsewhere) {
                Ok(PageCacheRead::Hot { open, sample, bytes }) => {
                    self.reading.add(bytes);
                    let mut decoded = Ok(());
                    if !sample.is_done() {
                        self.reading.lap(&mut start);
                        let at = SampleRow { batch: &batch, row, task, layout_number: open.layout_number };
                        let consumer = consumer.map(RowBytes::Consumer);
                        let memory = RowSources { consumer, large: None };
                        decoded = self.decoder.decode(at, open, sample, &mut rows, memory);
                        self.decoding.lap(&mut start);
                    }
                    rows.iter_mut().zip(&batch.layout.row_bytes).for_each(|(rows, bytes)| rows.skip_front(*bytes));
                    if decoded.is_ok() {
                        self.decoding.add(bytes);
                    }
                    self.settle(&batch, row, task, decoded);
                    done += 1;
                }
                Ok(PageCacheRead::Cold { open, offset, bytes }) => {
                    let rows = batch.split_front(&mut rows, 1);
                    let (batch, task) = (batch.clone(), *task);
                    // A device has its own ways to read rows.
                    let mut consumer = consumer.map(RowBytes::Consumer);
                    let large =
                        offload.is_none().then(|| self.large_value(&batch, (&open, offset, bytes), &mut consumer));
                    let large = large.flatten();
                    let miss = Miss { batch, row, task, rows, consumer, open, offset, bytes, rest: None, large };
                    match offload.filter(|offload| offload.reads(&miss.open)) {
                        Some(offload) => offload.read(miss, &self.queues.reads),
                        None => self.send_miss(miss)?,
                    }
                }
                Ok(PageCacheRead::Evicted) => {
                    // The shard left the disk after its announcement: this sample waits for it again. The counts are
                    // flushed first, so that the shard is queued for its first unread sample.
                    self.flush();
                    dispatcher.residency.set_lost(task.shard);
                    batch.add_chunks(1);
                    dispatcher.dispatch(Chunk {
                        batch: batch.clone(),
                        first_row: row,
                        samples: vec![*task],
                        rows: batch.split_front(&mut rows, 1),
                        consumer_rows: consumer.map(|row| vec![Some(row)]),
                    });
                }
                Err(error) => {
                    drop(batch.split_front(&mut rows, 1));
                    self.settle(&batch, row, task, Err(error));
                    done += 1;
                }
            }
        }
        self.reading.lap(&mut start);
        drop(rows);
        self.flush();
        // One more for the chunk itself, which no longer borrows the slot.
        self.stage.place.done(&batch, done + 1)
    }

    /// Returns the value of a sample of `open` that is read directly into its row because it is large. It takes the
    /// memory of the `consumer` if that is for its row.
    fn large_value(
        &self,
        batch: &BatchBuilder,
        (open, offset, bytes): (&OpenShard, u64, usize),
        consumer: &mut Option<RowBytes>,
    ) -> Option<LargeValue> {
        let large = self.page_cache.large_value(open, offset, bytes);
        let mut large = large.filter(|large| large.fits(&batch.layout.row_bytes))?;
        let list = self.page_cache.stored_list(open.layout_number);
        if large.is_bytes()
            && list.is_none_or(|list| list == large.output())
            && let Some(memory) = consumer.take()
        {
            large.set_memory(memory);
        }
        Some(large)
    }

    /// Takes the consumer's memory for the rows of `chunk`, and looks up the ranges of its samples; `None` if the chunk
    /// is parked until the consumer has allocated the memory. The time since `start` then counts as reading.
    fn with_consumer_rows(&mut self, mut chunk: Chunk, start: &mut Instant) -> Option<(Chunk, ConsumerRows)> {
        let lengths = match chunk.consumer_rows.take() {
            Some(rows) => {
                self.page_cache.find_ranges(&chunk.samples);
                return Some((chunk, rows));
            }
            None if self.uses_consumer_memory => {
                Some(chunk.samples.iter().map(|task| self.page_cache.length(task)).collect())
            }
            None if self.uses_consumer_memory_if_large => {
                self.page_cache.find_ranges(&chunk.samples);
                self.page_cache.large_lengths(&chunk.samples)
            }
            None => {
                self.page_cache.find_ranges(&chunk.samples);
                None
            }
        };
        match lengths {
            Some(lengths) => {
                // The look-up has opened the shards.
                self.reading.lap(start);
                self.reading.flush();
                self.stage.consumer_memory.request(chunk, lengths);
                None
            }
            None => Some((chunk, Vec::new())),
        }
    }

    /// Passes a sample, or the missing part of it, to the read thread.
    fn send_miss(&self, miss: Miss) -> Result<()> {
        if self.queues.reads.misses.send(miss).is_err() { self.stage.run.check() } else { Ok(()) }
    }

    /// Decodes a sample that a different thread has read.
    fn decode_loaded(&mut self, LoadedSample { mut miss, slot }: LoadedSample) -> Result<()> {
        working_on(Some(self.stage.place.first_batch + miss.batch.number));
        let mut start = Instant::now();
        let decoded = match (slot, miss.rest.take()) {
            (Err(error), _) => Err(error),
            (Ok(Some(slot)), None) => self.decode_slot(&mut miss, slot),
            (Ok(None), None) => return Err(Error::internal("a sample was loaded that has no bytes")),
            (Ok(slot), Some(mut rest)) => {
                // The slot returns to the pool before the next one is waited for.
                slot.into_iter().for_each(|slot| rest.bytes.extend_from_slice(&slot));
                if let Some((offset, bytes)) = rest.read_hot(&miss.open) {
                    return self.send_miss(Miss { offset, bytes, rest: Some(rest), ..miss });
                }
                let sample = SampleBytes { bytes: &rest.bytes, stored: Some(&rest.stored), is_whole: false };
                self.decode(&mut miss, sample, None)
            }
        };
        let Miss { batch, row, task, rows, consumer, .. } = miss;
        // A batch is done when no thread borrows its slot.
        drop((rows, consumer));
        self.settle(&batch, row, &task, decoded);
        self.decoding.lap(&mut start);
        self.flush();
        self.stage.place.done(&batch, 1)
    }

    /// Decodes a whole sample in `slot`.
    fn decode_slot(&mut self, miss: &mut Miss, slot: ReadLease) -> Result<()> {
        let layout_number = miss.open.layout_number;
        let offload = self.stage.place.offload.as_deref();
        let copied = offload.and_then(|offload| offload.begin_copy(&miss.batch, layout_number, &slot));
        let mut large = miss.large.take();
        let memory = large.as_mut().and_then(LargeValue::take_memory);
        let stored = copied.as_deref().or_else(|| large.as_ref().map(LargeValue::columns));
        let large = large.as_ref().zip(memory).map(|(large, memory)| LargeRowSource {
            output: large.output(),
            memory,
            is_stored: large.is_in_place(),
        });
        // Decoded first: the sample may turn out to be invalid.
        self.decode(miss, SampleBytes { bytes: &slot, stored, is_whole: true }, large)?;
        let at = SampleRow { batch: &miss.batch, row: miss.row, task: &miss.task, layout_number };
        offload.filter(|_| copied.is_some()).map_or(Ok(()), |offload| offload.copy(at, slot))
    }

    /// Decodes the bytes of `sample` into the rows of `miss`, and into the row that has a `large` value.
    fn decode(&mut self, miss: &mut Miss, sample: SampleBytes<'_>, large: Option<LargeRowSource>) -> Result<()> {
        let Miss { batch, row, task, rows, consumer, open, .. } = miss;
        self.decoder.begin();
        if sample.is_done() {
            self.decoding.add(0);
            return Ok(());
        }
        let at = SampleRow { batch, row: *row, task, layout_number: open.layout_number };
        self.decoder.decode(at, open, sample, rows, RowSources { consumer: consumer.take(), large })?;
        self.decoding.add(sample.bytes.len());
        Ok(())
    }

    /// Records a sample's outcome: decoded, skipped within the budget, or the batch's failure.
    fn settle(&mut self, batch: &BatchBuilder, row: usize, task: &Task, outcome: Result<()>) {
        self.settled.push((task.shard, task.position));
        if let Err(error) = outcome {
            self.stage.skip.settle(batch, row, task, error);
        }
    }

    /// Adds the thread's counts to the epoch's, and clears them.
    fn flush(&mut self) {
        let DecodeStage { place, source, run, .. } = self.stage;
        place.dispatcher.residency.read(&mut self.settled, |shard| source.release(shard));
        self.settled.clear();
        self.reading.flush();
        self.decoding.flush();
        run.advance();
    }
}

/// Work of one stage in one thread.
struct Tally {
    stage: Arc<Stage>,
    samples: u64,
    bytes: u64,
    time: Duration,
}

impl Tally {
    fn new(stage: Arc<Stage>) -> Self {
        Self { stage, samples: 0, bytes: 0, time: Duration::ZERO }
    }

    /// Adds a sample of `bytes` bytes.
    fn add(&mut self, bytes: usize) {
        self.samples += 1;
        self.bytes += bytes as u64;
    }

    /// Adds the time since `start`, records it in the trace, and sets `start` to now.
    fn lap(&mut self, start: &mut Instant) {
        let now = Instant::now();
        self.time += now - *start;
        self.stage.trace(TimeKind::Busy, *start, now - *start);
        *start = now;
    }

    fn flush(&mut self) {
        self.stage.add_time(TimeKind::Busy, std::mem::take(&mut self.time));
        self.stage.done(std::mem::take(&mut self.samples), std::mem::take(&mut self.bytes));
    }
}
