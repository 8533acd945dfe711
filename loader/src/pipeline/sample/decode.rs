//! Decode threads: from a chunk of planned samples to rows in a batch.
//!
//! A thread takes a chunk, reads each sample and decodes it into its place. The page cache is asked first, without
//! waiting; a sample that is not there goes to the read thread with its place in the batch and comes back on a second
//! queue, which goes first. So hot data never changes threads, and cold data keeps the disk's queue deep.

use super::page_cache::{Copied, DirectOutput, Early, Found, HotReader, Rows};
use crate::batch::RowBytes;
use crate::decode::jpeg::RowIndexCounts;
use crate::decode::{DrawKey, EncodedPicture, PictureCounts, PictureTaker, Row, SampleDecoder};
use crate::delivery::RowMemory;
use crate::error::{Error, Result};
use crate::format::{OmittedColumn, Scratch};
use crate::memory::{ReadLease, RowMut};
use crate::order::ShardId;
use crate::pipeline::device::split::HostShare;
use crate::pipeline::epoch::Shared;
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::pipeline::shard::open_shards::OpenShard;
use crate::pipeline::{Brought, Chunk, Loaded, Miss, Place, Task};
use crate::stats::{Counter, Stage, TimeKind};
use crate::sync::Arc;
use crossbeam::channel::{Receiver, Sender};
use std::time::{Duration, Instant};

/// One decode thread's tools.
pub(crate) struct DecodeThread<'a> {
    shared: &'a Shared,
    hot: HotReader,
    decoder: Decoder,
    misses: Sender<Miss>,
    /// Samples of which the target reads rows.
    stored: Sender<Miss>,
    /// Whether the consumer gives memory for rows of bytes, and some layout can use it.
    wants_rows: bool,
    settled: Settled,
    read: Arc<Stage>,
    decode: Arc<Stage>,
    place: Arc<Stage>,
}

/// What has been done with samples and not yet been told to the epoch's tables and statistics, which all threads share:
/// that happens once for each chunk.
#[derive(Default)]
struct Settled {
    /// Shard and position of samples that are decoded or given up.
    samples: Vec<(ShardId, u64)>,
    read: Done,
    decoded: Done,
}

/// Work of one stage.
#[derive(Default)]
struct Done {
    samples: u64,
    bytes: u64,
    time: Duration,
}

impl Done {
    fn add(&mut self, bytes: usize) {
        self.samples += 1;
        self.bytes += bytes as u64;
    }

    fn tell(&mut self, stage: &Stage) {
        let Self { samples, bytes, time } = std::mem::take(self);
        stage.add_time(TimeKind::Busy, time);
        stage.done(samples, bytes);
    }
}

impl<'a> DecodeThread<'a> {
    pub(crate) fn new(shared: &'a Shared, misses: Sender<Miss>, stored: Sender<Miss>) -> Self {
        let hot = HotReader::new(shared);
        Self {
            shared,
            wants_rows: shared.target.row_allocator().is_some() && hot.has_lists(),
            hot,
            decoder: Decoder {
                epoch: shared.epoch,
                decoders: shared.fields.iter().map(|f| f.decoder()).collect(),
                columns: Scratch::default(),
                leaves_pictures: false,
                share: shared.host_share.clone(),
                row_indexes_used: shared.stats.counter("row_indexes_used"),
                row_indexes_refused: shared.stats.counter("row_indexes_refused"),
                damaged: shared.stats.counter("pictures_damaged"),
                scaled: shared.stats.counter("pictures_scaled"),
                taken: shared.stats.counter("pictures_shared"),
                not_for_device: shared.stats.counter("pictures_not_for_device"),
            },
            misses,
            stored,
            settled: Settled::default(),
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
            if let Ok(chunk) = chunks.try_recv() {
                self.chunk(chunk)?;
                continue;
            }
            // Evicted shards take room on disk for as long as somebody has them open.
            self.hot.rest();
            let waiting = Instant::now();
            crossbeam::channel::select! {
                recv(loaded) -> sample => {
                    self.decode.add_time_since(TimeKind::Input, waiting);
                    let Ok(sample) = sample else { return Ok(()) };
                    self.loaded(sample)?;
                }
                recv(chunks) -> chunk => {
                    self.decode.add_time_since(TimeKind::Input, waiting);
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
                let lengths = chunk.samples.iter().map(|task| self.hot.length(self.shared, task)).collect();
                self.shared.want_rows(chunk, lengths);
                return Ok(());
            }
            None => Vec::new(),
        };
        let Chunk { batch, first_row, samples, mut rows, .. } = chunk;
        let mut given = given.into_iter();
        self.decoder.leaves_pictures = self.shared.leaves_pictures();
        let mut done = 0;
        let mut start = Instant::now();
        self.hot.look_up(self.shared, &samples);
        for (i, task) in samples.iter().enumerate() {
            if self.shared.run.is_stopped() {
                return Ok(());
            }
            let row = first_row + i;
            let mut given = given.next().flatten();
            // The rows of the samples before have been cut off.
            let mut into = Rows { fixed: &mut rows, row_bytes: batch.row_bytes(), given: given.as_deref_mut() };
            match self.hot.find(self.shared, i, task, &mut into) {
                Ok(Found::Hot(open, copied, direct)) => {
                    self.settled.read.add(copied.bytes());
                    let bytes = copied.bytes();
                    let mut decoded = Ok(Vec::new());
                    if !(copied.placed.is_some() && direct.is_some_and(|direct| direct.is_all)) {
                        lap(&mut start, &mut self.settled.read, &self.read);
                        decoded = self.decoder.decode((&batch, row), task, open, copied, direct, into);
                        lap(&mut start, &mut self.settled.decoded, &self.decode);
                    }
                    rows.iter_mut().zip(batch.row_bytes()).for_each(|(rows, bytes)| rows.skip_front(*bytes));
                    let decoded = decoded.map(|lists| {
                        self.settled.decoded.add(bytes);
                        keep(&batch, row, lists, given.zip(direct));
                    });
                    self.settle(&batch, row, task, decoded);
                    done += 1;
                }
                Ok(Found::Cold(open, offset, bytes, stored)) => {
                    let place = Place { fixed: split_row(&mut rows, &batch), given };
                    let reader = if stored.is_some() { &self.stored } else { &self.misses };
                    let miss = Miss { batch: batch.clone(), row, task: *task, place, open, offset, bytes, stored };
                    if reader.send(miss).is_err() {
                        return self.shared.run.check();
                    }
                }
                Ok(Found::Gone) => {
                    // The shard left the disk between its announcement and now: this sample waits for it again. Those
                    // that have been read are told first, so that it queues for the first that has not.
                    self.tell();
                    self.shared.residency.lost(task.shard);
                    let again = Chunk {
                        batch: batch.clone(),
                        first_row: row,
                        samples: vec![*task],
                        rows: split_row(&mut rows, &batch),
                        given: given.map(|row| vec![Some(row)]),
                    };
                    batch.add_chunks(1);
                    self.shared.dispatch(again);
                }
                Err(error) => {
                    drop(split_row(&mut rows, &batch));
                    self.settle(&batch, row, task, Err(error));
                    done += 1;
                }
            }
        }
        lap(&mut start, &mut self.settled.read, &self.read);
        drop(rows);
        self.tell();
        // One more for the chunk itself, whose places have just gone.
        self.finish(&batch, done + 1)
    }

    /// A sample that the read thread or a storage thread has brought.
    fn loaded(&mut self, sample: Loaded) -> Result<()> {
        let Loaded { mut miss, brought } = sample;
        match (brought, &mut miss.stored) {
            (Ok(Brought::Bytes(bytes)), None) => self.arrived_in(bytes, miss),
            (Ok(Brought::Bytes(bytes)), Some(stored)) => {
                stored.kept.extend_from_slice(&bytes);
                // Given back before another one is waited for.
                drop(bytes);
                self.rest_of(miss)
            }
            (Ok(Brought::AtTarget), _) => self.rest_of(miss),
            (Ok(Brought::Refused), _) => self.miss(Miss { stored: None, ..miss }),
            (Err(error), _) => self.arrived(miss, Err(error)),
        }
    }

    /// Has the read thread read a sample, or what is missing of it.
    fn miss(&self, miss: Miss) -> Result<()> {
        if self.misses.send(miss).is_err() { self.shared.run.check() } else { Ok(()) }
    }

    /// Reads what else is needed of a sample whose rows are at the target: from the page cache, or by the read thread.
    fn rest_of(&mut self, mut miss: Miss) -> Result<()> {
        let Some(stored) = &mut miss.stored else {
            return Err(Error::internal("nothing of a sample is at the target"));
        };
        while let Some((offset, bytes)) = stored.rest.pop_front() {
            let at = stored.kept.len();
            stored.kept.resize(at + bytes, 0);
            if !miss.open.read_hot(offset, &mut stored.kept[at..]) {
                stored.kept.truncate(at);
                return self.miss(Miss { offset, bytes, ..miss });
            }
        }
        let kept = std::mem::take(&mut stored.kept);
        self.arrived(miss, Ok(&kept))
    }

    /// Decodes a sample of which `kept` has been read, but for what is at the target.
    fn arrived(&mut self, mut miss: Miss, kept: Result<&[u8]>) -> Result<()> {
        let start = Instant::now();
        let stored = miss.stored.take();
        let early = stored.as_ref().map(|stored| Early { columns: &stored.columns, is_kept: false });
        let decoded = kept.and_then(|kept| self.decode(&mut miss, Copied { kept, placed: None, early }));
        self.end(miss, start, decoded)
    }

    /// Decodes a sample that has been read to `slot`, but for the rows that the target copies right from there.
    fn arrived_in(&mut self, slot: ReadLease, mut miss: Miss) -> Result<()> {
        let copies = self.shared.slot_copies.as_deref();
        let begun = copies.and_then(|copies| copies.begin(self.shared, &miss, &slot).map(|begun| (copies, begun)));
        let Some((copies, (sample, memory))) = begun else { return self.arrived(miss, Ok(&slot)) };
        let start = Instant::now();
        let early = Some(Early { columns: &sample.columns, is_kept: true });
        // First what else there is: a sample may turn out to be none.
        let decoded = self.decode(&mut miss, Copied { kept: &slot, placed: None, early });
        let decoded = decoded.and_then(|()| copies.copy((&miss.batch, miss.row), &sample, &*memory, slot));
        self.end(miss, start, decoded)
    }

    /// Decodes what has been `copied` of a sample into its places.
    fn decode(&mut self, miss: &mut Miss, copied: Copied<'_>) -> Result<()> {
        let Miss { batch, row, task, place: Place { fixed, given }, open, .. } = miss;
        self.decoder.leaves_pictures = self.shared.leaves_pictures();
        if copied.early.is_some_and(|early| !early.columns.needs_rest()) {
            self.settled.decoded.add(0);
            return Ok(());
        }
        let direct = self.hot.direct(open.layout_number());
        let direct = direct.filter(|direct| copied.early.is_none() || direct.is_list);
        let into = Rows { fixed, row_bytes: batch.row_bytes(), given: given.as_deref_mut() };
        let lists = self.decoder.decode((batch, *row), task, open, copied, direct, into)?;
        self.settled.decoded.add(copied.kept.len());
        keep(batch, *row, lists, given.take().zip(direct));
        Ok(())
    }

    /// Ends with a sample that another thread has brought.
    fn end(&mut self, miss: Miss, mut start: Instant, decoded: Result<()>) -> Result<()> {
        let Miss { batch, row, task, place, .. } = miss;
        // A batch is done when nobody has a place in it.
        drop(place);
        self.settle(&batch, row, &task, decoded);
        lap(&mut start, &mut self.settled.decoded, &self.decode);
        self.tell();
        self.finish(&batch, 1)
    }

    /// Books a sample's outcome: decoded, skipped within the budget, or the batch's failure.
    fn settle(&mut self, batch: &BatchBuilder, row: usize, task: &Task, outcome: Result<()>) {
        self.settled.samples.push((task.shard, task.position));
        let Err(error) = outcome else { return };
        let error = self.shared.describe(error, task);
        match self.shared.forgive(error) {
            Ok(()) => batch.skip(row),
            Err(error) => batch.fail(row, error),
        }
    }

    /// Tells what has been settled.
    fn tell(&mut self) {
        let shared = self.shared;
        let Settled { samples, read, decoded } = &mut self.settled;
        shared.residency.read(samples, |shard| shared.source.first_read(shard));
        samples.clear();
        read.tell(&self.read);
        decoded.tell(&self.decode);
        shared.run.advance();
    }

    /// Hands the batch on when these were its last rows, unless it waits for another sample then.
    fn finish(&self, batch: &Arc<BatchBuilder>, rows_and_chunks: usize) -> Result<()> {
        if batch.done(rows_and_chunks) && !self.shared.refill(batch)? {
            if batch.has_encoded() {
                self.shared.place_later(batch.clone());
            } else {
                // Nothing is left to the target's decoder that it could refuse.
                self.shared.deliver(batch, &self.place);
            }
        }
        Ok(())
    }
}

/// Adds the time since `start` to `done`, shows it in the trace as the work of `stage`, and starts anew.
fn lap(start: &mut Instant, done: &mut Done, stage: &Stage) {
    let now = Instant::now();
    done.time += now - *start;
    stage.trace(TimeKind::Busy, *start, now - *start);
    *start = now;
}

/// The next row of each of `rows`, for another thread.
fn split_row(rows: &mut [RowMut], batch: &BatchBuilder) -> Vec<RowMut> {
    rows.iter_mut().zip(batch.row_bytes()).map(|(rows, bytes)| rows.split_front(*bytes)).collect()
}

/// Keeps a row's `lists`, the one with the consumer's memory in that memory.
fn keep(batch: &BatchBuilder, row: usize, lists: Vec<Vec<u8>>, given: Option<(Box<dyn RowMemory>, DirectOutput)>) {
    if lists.is_empty() {
        return;
    }
    let mut lists: Vec<RowBytes> = lists.into_iter().map(RowBytes::Own).collect();
    if let Some((given, direct)) = given {
        lists[direct.number] = RowBytes::Given(given);
    }
    batch.put_lists(row, lists);
}

/// From a sample's bytes to its rows.
struct Decoder {
    epoch: u64,
    /// One for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    columns: Scratch,
    /// Whether the target's decoder gets the pictures that look as it likes them.
    leaves_pictures: bool,
    /// Which samples it does not get all the same.
    share: Option<Arc<HostShare>>,
    row_indexes_used: Arc<Counter>,
    row_indexes_refused: Arc<Counter>,
    /// Pictures that are not all there, in fields that take such.
    damaged: Arc<Counter>,
    scaled: Arc<Counter>,
    /// Pictures that were not left to the target's decoder because of the share.
    taken: Arc<Counter>,
    /// Those that it does not take, or that found no room.
    not_for_device: Arc<Counter>,
}

impl Decoder {
    /// Decodes a sample of `open` into its places; gives the rows of the outputs without fixed shape.
    fn decode(
        &mut self,
        (batch, row): (&BatchBuilder, usize),
        task: &Task,
        open: &OpenShard,
        copied: Copied<'_>,
        direct: Option<DirectOutput>,
        mut into: Rows<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let planned = &task.planned;
        let key = DrawKey { epoch: self.epoch, stream: planned.stream.0, draw: planned.draw };
        let columns = match (direct, copied.placed, copied.early) {
            (Some(direct), Some(bytes), _) => {
                let apart = OmittedColumn { column: direct.column.column, bytes };
                open.split_around(copied.kept, &[apart], &mut self.columns)?
            }
            (_, _, Some(early)) if !early.is_kept => {
                open.split_around(copied.kept, early.columns.apart(), &mut self.columns)?
            }
            _ => open.split(copied.kept, &mut self.columns)?,
        };
        let mut lists: Vec<Vec<u8>> = batch.fixed().filter(|fixed| !fixed).map(|_| Vec::new()).collect();
        let mut given = into.given.take().map(|given| given.bytes_mut());
        let (mut fixed, mut list) = (into.fixed(), lists.iter_mut());
        let takes = self.leaves_pictures && self.share.as_ref().is_some_and(|share| share.takes(task.position));
        if takes {
            self.taken.add(batch.has_pictures().filter(|has| *has).count() as u64);
        }
        let mut left: Vec<Option<LeftTo<'_>>> = Vec::new();
        if self.leaves_pictures && !takes {
            left.extend(batch.has_pictures().map(|has| has.then_some(LeftTo { batch, picture: None })));
        }
        let mut takers = left.iter_mut();
        let rows = batch.fixed().enumerate().filter_map(|(output, is_fixed)| {
            let row = match is_fixed {
                true => match (fixed.next()?, takers.next()) {
                    (place, Some(Some(taker))) => Row::Encodable(place, taker),
                    (place, _) => Row::Fixed(place),
                },
                false => Row::Var(list.next()?),
            };
            if copied.early.is_some_and(|early| early.columns.has_output(output)) {
                return Some(Row::Filled);
            }
            match direct.filter(|direct| direct.column.output == output) {
                Some(_) if copied.placed.is_some() => Some(Row::Filled),
                Some(direct) if direct.is_list => Some(given.take().map_or(row, Row::Sized)),
                _ => Some(row),
            }
        });
        let decoder = &mut self.decoders[open.layout_number()];
        let column = |column| (column < columns.len()).then(|| columns.get(column));
        let decoded = decoder.decode_indexed(column, |column| open.index_entry(task.index, column), key, rows);
        let counts = decoder.take_row_index_counts();
        if counts != RowIndexCounts::default() {
            self.row_indexes_used.add(counts.used);
            self.row_indexes_refused.add(counts.refused);
        }
        let pictures = decoder.take_picture_counts();
        decoded?;
        if pictures != PictureCounts::default() {
            self.damaged.add(pictures.damaged);
            self.scaled.add(pictures.scaled);
        }
        let kept = left.iter().flatten().filter(|left| left.picture.is_none()).count();
        if kept > 0 {
            self.not_for_device.add(kept as u64);
        }
        for (output, left) in left.iter().enumerate() {
            if let Some(picture) = left.as_ref().and_then(|left| left.picture) {
                batch.put_encoded((output, row), picture, *task, open.layout_number());
            }
        }
        Ok(lists)
    }
}

/// Leaves a sample's picture to the target's decoder.
struct LeftTo<'a> {
    batch: &'a BatchBuilder,
    /// The picture if it is left, and where its file lies in the slot if not in its row.
    picture: Option<(EncodedPicture, Option<usize>)>,
}

impl PictureTaker for LeftTo<'_> {
    fn take(&mut self, picture: EncodedPicture, file: &[u8], row: &mut [u8]) -> bool {
        if let Some(place) = row.get_mut(..file.len()) {
            place.copy_from_slice(file);
            self.picture = Some((picture, None));
        } else if let Some(mut room) = self.batch.room(file.len()) {
            room.copy_from_slice(file);
            self.picture = Some((picture, Some(room.offset())));
        }
        self.picture.is_some()
    }
}
