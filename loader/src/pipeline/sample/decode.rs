//! Decode threads: from a chunk of planned samples to rows in a batch.
//!
//! A thread takes a chunk, reads each sample and decodes it into its place. The page cache is asked first, without
//! waiting; a sample that is not there goes to the read thread with its place in the batch and comes back on a second
//! queue, which goes first. So hot data never changes threads, and cold data keeps the disk's queue deep.

use crate::decode::{DrawKey, Row, SampleDecoder};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Scratch;
use crate::memory::RowMut;
use crate::pipeline::epoch::Shared;
use crate::pipeline::open::OpenShard;
use crate::pipeline::sample::collate::Building;
use crate::pipeline::{Chunk, Loaded, Miss, Task};
use crate::stats::{Spent, Stage};
use crate::sync::Arc;
use crossbeam::channel::{Receiver, Sender};
use std::time::Instant;

/// Bytes a thread keeps for reading between samples; a larger sample's memory goes back at once.
const SCRATCH_BYTES_KEPT: usize = 16 << 20;

/// One decode thread's tools.
pub(crate) struct DecodeThread<'a> {
    shared: &'a Shared,
    /// One for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    misses: Sender<Miss>,
    /// Encoded bytes of the current sample.
    bytes: Vec<u8>,
    columns: Scratch,
    read: Arc<Stage>,
    decode: Arc<Stage>,
    place: Arc<Stage>,
}

impl<'a> DecodeThread<'a> {
    pub(crate) fn new(shared: &'a Shared, misses: Sender<Miss>) -> Self {
        Self {
            shared,
            decoders: shared.fields.iter().map(|f| f.decoder()).collect(),
            misses,
            bytes: Vec::new(),
            columns: Scratch::default(),
            read: shared.stats.stage("read"),
            decode: shared.stats.stage("decode"),
            place: shared.stats.stage("place"),
        }
    }

    /// Works until both queues end or the run stops.
    pub(crate) fn run(&mut self, chunks: &Receiver<Chunk>, loaded: &Receiver<Loaded>) -> Result<()> {
        loop {
            if self.shared.run.is_stopped() {
                return Ok(());
            }
            if let Ok(sample) = loaded.try_recv() {
                self.loaded(sample)?;
                continue;
            }
            let waiting = Instant::now();
            crossbeam::channel::select! {
                recv(loaded) -> sample => {
                    self.decode.spend(Spent::Input, waiting.elapsed());
                    let Ok(sample) = sample else { return Ok(()) };
                    self.loaded(sample)?;
                }
                recv(chunks) -> chunk => {
                    self.decode.spend(Spent::Input, waiting.elapsed());
                    let Ok(chunk) = chunk else { return Ok(()) };
                    self.chunk(chunk)?;
                }
            }
        }
    }

    /// Reads and decodes what is in the page cache, and passes the rest on.
    fn chunk(&mut self, chunk: Chunk) -> Result<()> {
        let Chunk { batch, first_row, samples, mut rows } = chunk;
        let row_bytes: Vec<usize> = batch.row_bytes().collect();
        let mut done = 0;
        for (i, task) in samples.iter().enumerate() {
            if self.shared.run.is_stopped() {
                return Ok(());
            }
            let place: Vec<RowMut> = rows.iter_mut().zip(&row_bytes).map(|(r, n)| r.split_front(*n)).collect();
            let row = first_row + i;
            let start = Instant::now();
            let found = self.find(task);
            let read = Instant::now();
            self.read.spend(Spent::Busy, read - start);
            match found {
                Ok(Found::Hot(open, bytes)) => {
                    self.read.done(1, bytes as u64);
                    let kept = std::mem::take(&mut self.bytes);
                    let decoded = self.decode(&batch, row, task, &open, &kept[..bytes], place);
                    self.bytes = kept;
                    self.settle(&batch, row, task, decoded);
                    done += 1;
                }
                Ok(Found::Cold(open, offset, bytes)) => {
                    let miss = Miss { batch: batch.clone(), row, task: *task, place, open, offset, bytes };
                    if self.misses.send(miss).is_err() {
                        return self.shared.run.check();
                    }
                    continue;
                }
                Ok(Found::Gone) => {
                    // The shard left the disk between its announcement and now: this sample waits for it again.
                    self.shared.residency.lost(task.shard);
                    let samples = vec![*task];
                    batch.add_chunks(1);
                    self.shared.dispatch(Chunk { batch: batch.clone(), first_row: row, samples, rows: place });
                    continue;
                }
                Err(error) => {
                    drop(place);
                    self.settle(&batch, row, task, Err(error));
                    done += 1;
                }
            }
            self.decode.spend(Spent::Busy, read.elapsed());
        }
        drop(rows);
        if self.bytes.capacity() > SCRATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        // One more for the chunk itself, whose places have just gone.
        self.finish(&batch, done + 1);
        Ok(())
    }
}

/// Where a sample's bytes were found.
enum Found {
    /// In the scratch buffer: this many bytes.
    Hot(Arc<OpenShard>, usize),
    /// Not in memory: this many bytes at this offset.
    Cold(Arc<OpenShard>, u64, usize),
    /// The shard is no longer on disk.
    Gone,
}

impl DecodeThread<'_> {
    fn find(&mut self, task: &Task) -> Result<Found> {
        let Some(open) = self.shared.open.get(task.shard, &*self.shared.source)? else { return Ok(Found::Gone) };
        let (offset, bytes) = open.range(task.index)?;
        if bytes as u64 > self.shared.sample_bytes_max {
            return Err(Error::new(ErrorKind::Unsupported, "a sample is larger than sample_bytes_max")
                .with("bytes", bytes)
                .with("sample_bytes_max", self.shared.sample_bytes_max));
        }
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        if open.read_hot(offset, &mut self.bytes[..bytes]) {
            Ok(Found::Hot(open, bytes))
        } else {
            Ok(Found::Cold(open, offset, bytes))
        }
    }

    /// A sample that the read thread has brought.
    fn loaded(&mut self, sample: Loaded) -> Result<()> {
        let Loaded { miss, bytes } = sample;
        let start = Instant::now();
        let decoded =
            bytes.and_then(|bytes| self.decode(&miss.batch, miss.row, &miss.task, &miss.open, &bytes, miss.place));
        self.settle(&miss.batch, miss.row, &miss.task, decoded);
        self.decode.spend(Spent::Busy, start.elapsed());
        self.finish(&miss.batch, 1);
        Ok(())
    }

    /// Decodes the sample `bytes` into its places.
    fn decode(
        &mut self,
        batch: &Building,
        row: usize,
        task: &Task,
        open: &OpenShard,
        bytes: &[u8],
        mut place: Vec<RowMut>,
    ) -> Result<()> {
        let planned = &task.planned;
        let key = DrawKey { epoch: self.shared.epoch, stream: planned.stream.0, draw: planned.draw };
        let columns = open.split(bytes, &mut self.columns)?;
        let columns: Vec<&[u8]> = columns.iter().collect();
        let mut lists: Vec<Vec<u8>> = batch.fixed().filter(|fixed| !fixed).map(|_| Vec::new()).collect();
        let (mut fixed, mut list) = (place.iter_mut(), lists.iter_mut());
        let mut rows: Vec<Row<'_>> = batch
            .fixed()
            .filter_map(|is_fixed| match is_fixed {
                true => fixed.next().map(|r| Row::Fixed(r)),
                false => list.next().map(Row::Var),
            })
            .collect();
        self.decoders[open.layout_number()].decode(&columns, key, &mut rows)?;
        self.decode.done(1, bytes.len() as u64);
        if !lists.is_empty() {
            batch.put_lists(row, lists);
        }
        Ok(())
    }

    /// Books a sample's outcome: decoded, skipped within the budget, or the batch's failure.
    fn settle(&self, batch: &Building, row: usize, task: &Task, outcome: Result<()>) {
        if self.shared.residency.read(task.shard, task.position) {
            self.shared.source.first_read(task.shard);
        }
        self.shared.run.advance();
        let Err(error) = outcome else { return };
        let error = self.shared.describe(error, task);
        if self.shared.may_skip(&error) {
            log::warn!("a sample was skipped: {error}");
            batch.skip(row);
        } else {
            batch.fail(row, error);
        }
    }

    /// Hands the batch on when these were its last rows.
    fn finish(&self, batch: &Building, rows_and_chunks: usize) {
        if batch.done(rows_and_chunks) {
            let shared = self.shared;
            let finished = self.place.timed(Spent::Busy, || {
                batch.finish(shared.epoch, shared.first_batch, &*shared.target, shared.is_alone)
            });
            self.place.done(1, self.shared.layout.bytes() as u64);
            self.shared.reorder.put(batch.number, finished);
        }
    }
}
