//! Decode threads: from a chunk of planned samples to rows in a batch.
//!
//! A thread takes a chunk, reads each sample and decodes it into its place. The page cache is asked first, without
//! waiting; a sample that is not there goes to the read thread with its place in the batch and comes back on a second
//! queue, which goes first. So hot data never changes threads, and cold data keeps the disk's queue deep.

use crate::batch::RowBytes;
use crate::decode::{Direct, DrawKey, FieldPlan, Output, Row, SampleDecoder};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Scratch;
use crate::memory::RowMut;
use crate::pipeline::epoch::Shared;
use crate::pipeline::open::OpenShard;
use crate::pipeline::sample::collate::Building;
use crate::pipeline::{Chunk, Loaded, Miss, Place, Task};
use crate::stats::{Spent, Stage};
use crate::sync::Arc;
use crossbeam::channel::{Receiver, Sender};
use std::time::Instant;

/// Bytes a thread reads samples into. A larger sample goes through the read thread, whose memory is a pool's.
const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// One decode thread's tools.
pub(crate) struct DecodeThread<'a> {
    shared: &'a Shared,
    /// One for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    misses: Sender<Miss>,
    /// Encoded bytes of the current sample.
    bytes: Vec<u8>,
    columns: Scratch,
    /// For each layout, the output that is read straight into place.
    direct: Vec<Option<DirectOutput>>,
    /// Whether the consumer gives memory for rows of bytes, and some layout can use it.
    wants_rows: bool,
    read: Arc<Stage>,
    decode: Arc<Stage>,
    place: Arc<Stage>,
}

impl<'a> DecodeThread<'a> {
    pub(crate) fn new(shared: &'a Shared, misses: Sender<Miss>) -> Self {
        let layouts = shared.fields.iter().zip(shared.open.layouts());
        let direct: Vec<_> =
            layouts.map(|(fields, layout)| DirectOutput::new(fields, |column| layout.around(column))).collect();
        Self {
            shared,
            wants_rows: shared.target.rows().is_some() && direct.iter().flatten().any(|d| d.is_list),
            direct,
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
    fn chunk(&mut self, mut chunk: Chunk) -> Result<()> {
        let given = match chunk.given.take() {
            Some(given) => given,
            None if self.wants_rows => {
                let lengths = chunk.samples.iter().map(|task| self.length(task)).collect();
                self.shared.want_rows(chunk, lengths);
                return Ok(());
            }
            None => Vec::new(),
        };
        let Chunk { batch, first_row, samples, mut rows, .. } = chunk;
        let row_bytes: Vec<usize> = batch.row_bytes().collect();
        let mut given = given.into_iter();
        let mut done = 0;
        let mut start = Instant::now();
        for (i, task) in samples.iter().enumerate() {
            if self.shared.run.is_stopped() {
                return Ok(());
            }
            let fixed: Vec<RowMut> = rows.iter_mut().zip(&row_bytes).map(|(r, n)| r.split_front(*n)).collect();
            let mut place = Place { fixed, given: given.next().flatten() };
            let row = first_row + i;
            let found = self.find(task, &mut place);
            let read = Instant::now();
            self.read.spend(Spent::Busy, read - start);
            match found {
                Ok(Found::Hot(open, bytes)) => {
                    self.read.done(1, bytes.all() as u64);
                    let kept = std::mem::take(&mut self.bytes);
                    let decoded = self.decode(&batch, row, task, &open, (&kept[..bytes.kept], bytes), place);
                    self.bytes = kept;
                    self.settle(&batch, row, task, decoded);
                    done += 1;
                }
                Ok(Found::Cold(open, offset, bytes)) => {
                    let miss = Miss { batch: batch.clone(), row, task: *task, place, open, offset, bytes };
                    if self.misses.send(miss).is_err() {
                        return self.shared.run.check();
                    }
                }
                Ok(Found::Gone) => {
                    // The shard left the disk between its announcement and now: this sample waits for it again.
                    self.shared.residency.lost(task.shard);
                    let Place { fixed, given } = place;
                    let again = Chunk {
                        batch: batch.clone(),
                        first_row: row,
                        samples: vec![*task],
                        rows: fixed,
                        given: given.map(|row| vec![Some(row)]),
                    };
                    batch.add_chunks(1);
                    self.shared.dispatch(again);
                }
                Err(error) => {
                    drop(place);
                    self.settle(&batch, row, task, Err(error));
                    done += 1;
                }
            }
            start = Instant::now();
            self.decode.spend(Spent::Busy, start - read);
        }
        drop(rows);
        // One more for the chunk itself, whose places have just gone.
        self.finish(&batch, done + 1);
        Ok(())
    }

    /// How long the row of bytes of `task` will be, where that shows before the sample is read. What is wrong with the
    /// shard or the sample comes up again when it is read.
    fn length(&self, task: &Task) -> Option<usize> {
        let open = self.shared.open.get(task.shard, &*self.shared.source).ok()??;
        let (_, bytes) = open.range(task.index).ok()?;
        let direct = self.direct[open.layout_number()].filter(|d| d.is_list)?;
        if bytes as u64 > self.shared.sample_bytes_max {
            return None;
        }
        bytes.checked_sub(direct.column.before + direct.column.after)
    }
}

/// The output that samples of one layout are read straight into.
#[derive(Clone, Copy)]
struct DirectOutput {
    column: Direct,
    /// Its number among the outputs with fixed rows, or else among the lists.
    number: usize,
    /// Whether its rows have no fixed size.
    is_list: bool,
}

impl DirectOutput {
    /// For samples of a layout that `fields` decodes and in which `around` stands around a column.
    fn new(fields: &FieldPlan, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<Self> {
        let column = fields.direct(around)?;
        let is_list = |output: &Output| output.row_bytes().is_none();
        let is_list_here = is_list(&fields.outputs()[column.output]);
        let number = fields.outputs()[..column.output].iter().filter(|o| is_list(o) == is_list_here).count();
        Some(Self { column, number, is_list: is_list_here })
    }

    /// The memory for its row of `bytes` bytes in `place`, if there is such memory.
    fn row<'a>(&self, place: &'a mut Place, bytes: usize) -> Option<Row<'a>> {
        match self.is_list {
            true => {
                let given = place.given.as_mut().map(|row| row.bytes_mut());
                given.filter(|row| row.len() == bytes).map(Row::Sized)
            }
            false => place.fixed.get_mut(self.number).filter(|row| row.len() == bytes).map(|row| Row::Fixed(row)),
        }
    }
}

/// Where a sample's bytes were found.
enum Found {
    /// In the page cache, and copied.
    Hot(Arc<OpenShard>, Copied),
    /// Not in memory, or more than the scratch buffer takes: this many bytes at this offset.
    Cold(Arc<OpenShard>, u64, usize),
    /// The shard is no longer on disk.
    Gone,
}

/// Where the bytes of a sample went.
#[derive(Clone, Copy)]
struct Copied {
    /// Into the scratch buffer.
    kept: usize,
    /// Straight into their row, without the scratch buffer.
    placed: Option<usize>,
}

impl Copied {
    fn all(self) -> usize {
        self.kept + self.placed.unwrap_or(0)
    }
}

impl DecodeThread<'_> {
    fn find(&mut self, task: &Task, place: &mut Place) -> Result<Found> {
        let Some(open) = self.shared.open.get(task.shard, &*self.shared.source)? else { return Ok(Found::Gone) };
        let (offset, bytes) = open.range(task.index)?;
        if bytes as u64 > self.shared.sample_bytes_max {
            return Err(Error::new(ErrorKind::Unsupported, "a sample is larger than sample_bytes_max")
                .with("bytes", bytes)
                .with("sample_bytes_max", self.shared.sample_bytes_max));
        }
        if let Some(direct) = self.direct[open.layout_number()]
            && let kept = direct.column.before + direct.column.after
            && kept <= SCRATCH_BYTES_MAX
            && let Some(placed) = bytes.checked_sub(kept)
            && let Some(mut row) = direct.row(place, placed)
        {
            let around = scratch(&mut self.bytes, kept);
            if open.read_hot_direct(offset, direct.column, around, &mut row) {
                return Ok(Found::Hot(open, Copied { kept, placed: Some(placed) }));
            }
            return Ok(Found::Cold(open, offset, bytes));
        }
        if bytes > SCRATCH_BYTES_MAX {
            return Ok(Found::Cold(open, offset, bytes));
        }
        if open.read_hot(offset, scratch(&mut self.bytes, bytes)) {
            Ok(Found::Hot(open, Copied { kept: bytes, placed: None }))
        } else {
            Ok(Found::Cold(open, offset, bytes))
        }
    }

    /// A sample that the read thread has brought.
    fn loaded(&mut self, sample: Loaded) -> Result<()> {
        let Loaded { miss, bytes } = sample;
        let Miss { batch, row, task, place, open, .. } = miss;
        let start = Instant::now();
        let decoded = bytes.and_then(|bytes| {
            let copied = Copied { kept: bytes.len(), placed: None };
            self.decode(&batch, row, &task, &open, (&bytes, copied), place)
        });
        self.settle(&batch, row, &task, decoded);
        self.decode.spend(Spent::Busy, start.elapsed());
        self.finish(&batch, 1);
        Ok(())
    }

    /// Decodes a sample into its places: the bytes that were kept, and how many of its bytes went where.
    fn decode(
        &mut self,
        batch: &Building,
        row: usize,
        task: &Task,
        open: &OpenShard,
        (bytes, copied): (&[u8], Copied),
        mut place: Place,
    ) -> Result<()> {
        let planned = &task.planned;
        let key = DrawKey { epoch: self.shared.epoch, stream: planned.stream.0, draw: planned.draw };
        let direct = self.direct[open.layout_number()];
        let columns = match (direct, copied.placed) {
            (Some(direct), Some(placed)) => {
                open.split_around(bytes, direct.column.column, placed, &mut self.columns)?
            }
            _ => open.split(bytes, &mut self.columns)?,
        };
        let columns: Vec<&[u8]> = columns.iter().collect();
        let mut lists: Vec<Vec<u8>> = batch.fixed().filter(|fixed| !fixed).map(|_| Vec::new()).collect();
        let (mut fixed, mut list) = (place.fixed.iter_mut(), lists.iter_mut());
        let mut rows: Vec<Row<'_>> = batch
            .fixed()
            .filter_map(|is_fixed| match is_fixed {
                true => fixed.next().map(|r| Row::Fixed(r)),
                false => list.next().map(Row::Var),
            })
            .collect();
        if let Some(direct) = direct {
            if copied.placed.is_some() {
                rows[direct.column.output] = Row::Filled;
            } else if let Some(given) = place.given.as_mut().filter(|_| direct.is_list) {
                rows[direct.column.output] = Row::Sized(given.bytes_mut());
            }
        }
        self.decoders[open.layout_number()].decode(&columns, key, &mut rows)?;
        self.decode.done(1, copied.all() as u64);
        if !lists.is_empty() {
            let mut lists: Vec<RowBytes> = lists.into_iter().map(RowBytes::Own).collect();
            if let (Some(given), Some(direct)) = (place.given, direct) {
                lists[direct.number] = RowBytes::Given(given);
            }
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

/// The first `bytes` bytes of `buffer`, which grows if it has to: to [`SCRATCH_BYTES_MAX`] at most, as callers see to.
fn scratch(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}
