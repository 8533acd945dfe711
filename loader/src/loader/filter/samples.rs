//! Answers from the samples of shards, which are read as for an epoch: of MDS, text formats, tars, LitData's chunks and
//! more.
//!
//! A shard of a remote is fetched into the cache and stays there for the epochs. Of large samples with columns that
//! have a known offset, such as a class after a picture, only these bytes are read. The rest are read several at once.

use super::answer::{Answer, Bits};
use super::columns::{ColumnValue, FilterColumn, find_of, reply_of};
use super::context::FilteredStream;
use super::sizes::{Sizes, fetch_table};
use crate::cache::{ClaimOutcome, OpenFiles, ResidencyGuard, WaitPolicy};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{Layout, OffsetTable, ReadAt, Scratch};
use crate::pipeline::{FetchEvent, Origin, ShardFetch, read_offsets};
use crate::subsets::question::{Question, Reply};
use crate::sync::Arc;
use std::ops::Range;

/// Bytes that are read at once.
const READ_BYTES: u64 = 4 << 20;

/// Samples of at least this size are read only at the offsets of their columns: smaller ones are faster in one piece.
const LARGE_BYTES: u32 = 32 << 10;

/// Attempts to read a shard that another program removes each time before it can be opened.
const ATTEMPTS: u32 = 8;

/// Shards with samples to read.
pub(super) struct Samples<'a> {
    of: &'a FilteredStream<'a>,
    layouts: Vec<Reading>,
}

/// Columns in the shards of a layout.
struct Reading {
    /// Layout in the index.
    indexed: Arc<Layout>,
    /// The columns that are read of it.
    layout: Arc<Layout>,
    /// Columns of the filter, each with its number in `layout`.
    columns: Vec<(usize, FilterColumn)>,
    /// Numbers of tokens that follow from the sizes of the samples, if the question is about them.
    sizes: Option<Sizes>,
}

impl<'a> Samples<'a> {
    /// Finds the columns of the filter in the layouts of the shards.
    ///
    /// # Errors
    ///
    /// As [`find`].
    pub(super) fn new(of: &'a FilteredStream<'a>) -> Result<Self> {
        let shards = || of.stream.index.shards.iter().filter(|shard| shard.samples > 0);
        let mut distinct: Vec<&Arc<Layout>> = Vec::new();
        for shard in shards() {
            if !distinct.iter().rev().any(|known| is_same(known, &shard.layout)) {
                distinct.push(&shard.layout);
            }
        }
        let layouts = distinct.iter().map(|layout| Reading::new(of, layout, &distinct)).collect::<Result<_>>()?;
        Ok(Self { of, layouts })
    }

    /// Makes a shard resident, as long as the guard lives.
    fn make_resident(&self, number: u32, progress: &dyn Fn()) -> Result<Option<ResidencyGuard>> {
        let FilteredStream { stream, run, stats, .. } = self.of;
        let shard = self.of.shard(number);
        if !stream.dir.has_remote() && stream.dir.is_resident(number) {
            return Ok(None);
        }
        let stopped = || run.is_stopped();
        let policy = WaitPolicy::new(&stopped, self.of.stall_timeout());
        match stream.dir.claim(number, policy)? {
            ClaimOutcome::Resident(guard) => Ok(Some(guard)),
            ClaimOutcome::Claimed(claim) => {
                let _memory = self.of.reserve(shard.fetch_bytes())?;
                let packed = claim.packed_files();
                let watch = |_: FetchEvent<'_>| {
                    claim.report_progress();
                    progress();
                };
                let origin = stream.remote.as_ref().map(Origin::Store);
                let fetch = ShardFetch { stream, origin, run, stats, watch: &watch };
                let fetched = fetch.fetch(shard, packed.as_deref())?;
                // No sample of the plan is known yet, so any shard may make room.
                fetched.publish(claim.admit(&|_| None, policy)?, stats).map(Some)
            }
            ClaimOutcome::Busy => Err(Error::internal("a claim that waits was answered with busy")),
        }
    }

    /// Returns the columns in shard number `number`.
    fn reading_of(&self, number: u32) -> Result<&Reading> {
        let shard = self.of.shard(number);
        let reading = self.layouts.iter().find(|known| is_same(&known.indexed, &shard.layout));
        reading.ok_or_else(|| Error::internal("a shard has a layout that its index has not"))
    }

    /// Returns the answers for a shard that is not fetched for them.
    fn known(&self, number: u32, progress: &dyn Fn()) -> Result<Option<Bits>> {
        let shard = self.of.shard(number);
        match &self.reading_of(number)?.sizes {
            Some(sizes @ Sizes::Equal(_)) => {
                let mut bits = self.of.no_answers(number);
                let reply = sizes.reply(0)?;
                (0..shard.samples).for_each(|_| bits.add(reply));
                Ok(Some(bits))
            }
            Some(sizes) if !self.of.stream.dir.is_resident(number) => {
                let table = fetch_table(self.of, shard, progress)?;
                table.map(|table| self.sized(number, sizes, &table)).transpose()
            }
            _ => Ok(None),
        }
    }

    /// Returns the answers that the sizes of samples in `table` show.
    fn sized(&self, number: u32, sizes: &Sizes, table: &OffsetTable) -> Result<Bits> {
        let mut bits = self.of.no_answers(number);
        for sample in 0..table.len() {
            let (_, bytes) = table.range(sample)?;
            bits.add(sizes.reply(bytes).context("sample", || sample)?);
        }
        Ok(bits)
    }

    fn read(&self, number: u32, open: &OpenFiles, progress: &dyn Fn()) -> Result<Bits> {
        let shard = self.of.shard(number);
        let reading = self.reading_of(number)?;
        let data = open.files.first().ok_or_else(|| Error::internal("a shard without files"))?;
        let table = read_offsets(shard, open)?;
        if let Some(sizes) = &reading.sizes {
            return self.sized(number, sizes, &table);
        }
        let (mut bits, mut scratch) = (self.of.no_answers(number), Scratch::default());
        let mut number = 0;
        while number < table.len() {
            progress();
            let (start, bytes) = table.range(number)?;
            if u64::from(bytes) > self.of.config.engine.sample_bytes_max {
                let message = "a sample is larger than sample_bytes_max";
                let error = Error::new(ErrorKind::Unsupported, message).with("bytes", bytes);
                return Err(error.with("sample", number));
            }
            if bytes >= LARGE_BYTES
                && let Some(places) = reading.ranges(bytes as usize)
            {
                let reply = reading.reply_at(self.of.question, &places, start, data);
                bits.add(reply.context("sample", || number)?);
                number += 1;
                continue;
            }
            let end = end_of_piece(&table, number)?;
            reading.add_piece(self.of.question, &table, number..end, data, (&mut bits, &mut scratch))?;
            number = end;
        }
        Ok(bits)
    }
}

impl Answer for Samples<'_> {
    fn of_shard(&self, number: u32, progress: &dyn Fn()) -> Result<Bits> {
        if let Some(known) = self.known(number, progress)? {
            return Ok(known);
        }
        for _ in 0..ATTEMPTS {
            let guard = self.make_resident(number, progress)?;
            if let Some(open) = self.of.stream.dir.open_shard(number)? {
                let bits = self.read(number, &open, progress);
                drop(guard);
                return bits;
            }
        }
        let message = "a shard was removed again each time before it could be read: find the program that deletes it";
        Err(Error::new(ErrorKind::Full, message).with("attempts", ATTEMPTS))
    }
}

impl Reading {
    /// Finds the columns of the question in the layout `indexed`. A tar may lack fields that the samples of the
    /// remaining layouts have.
    fn new(of: &FilteredStream<'_>, indexed: &Arc<Layout>, all: &[&Arc<Layout>]) -> Result<Self> {
        let is_free = indexed.format.has_free_columns();
        let projected = |name: &str| {
            let has_column = |layout: &&Arc<Layout>| layout.has_column(name);
            // Tars with some counted samples may have any.
            let may_appear = of.question.is_about_presence_of(name) && indexed.may_have_more_columns();
            let usable = if is_free { may_appear || all.iter().any(has_column) } else { has_column(&indexed) };
            let uses = of.uses([name].into_iter());
            usable.then(|| indexed.projected(Some(&uses)).map_or_else(|| indexed.clone(), Arc::new))
        };
        let encoding = |name: &str| {
            let layout = projected(name)?;
            layout.column(name).map(|column| layout.columns[column].encoding.clone())
        };
        let columns = || indexed.columns.iter().map(|column| (column.name.clone(), column.encoding.clone())).collect();
        let found = find_of(of, encoding, columns)?;
        let uses = of.uses(found.iter().map(|column| &*column.name));
        let layout = indexed.projected(Some(&uses)).map_or_else(|| indexed.clone(), Arc::new);
        let numbered = |column: FilterColumn| {
            let number = layout.column(&column.name).ok_or_else(|| Error::internal("a column was lost"))?;
            Ok((number, column))
        };
        let columns = found.into_iter().map(numbered).collect::<Result<Vec<(usize, FilterColumn)>>>()?;
        let sizes = columns.first().and_then(|(number, column)| Sizes::of(&layout, *number, column));
        Ok(Self { indexed: indexed.clone(), layout, columns, sizes })
    }

    /// Offsets of the columns in a sample of `bytes`, if they do not depend on the sample.
    fn ranges(&self, bytes: usize) -> Option<Vec<Range<usize>>> {
        self.columns.iter().map(|(column, _)| self.layout.fixed_range(*column, bytes)).collect()
    }

    /// Returns the answer for the sample at `offset`, where only `places` are read.
    fn reply_at(&self, question: &Question, places: &[Range<usize>], offset: u64, data: &dyn ReadAt) -> Result<Reply> {
        let start = places.iter().map(|place| place.start).min().unwrap_or(0);
        let end = places.iter().map(|place| place.end).max().unwrap_or(0);
        let mut bytes = vec![0; end - start];
        data.read_at(&mut bytes, offset + start as u64)?;
        let value = |place: &Range<usize>| ColumnValue::Stored(&bytes[place.start - start..place.end - start]);
        reply_of(question, &self.columns, &places.iter().map(value).collect::<Vec<_>>())
    }

    /// Adds the answers for the samples `numbers` of `table`, which are read together.
    fn add_piece(
        &self,
        question: &Question,
        table: &OffsetTable,
        numbers: Range<usize>,
        data: &dyn ReadAt,
        (bits, scratch): (&mut Bits, &mut Scratch),
    ) -> Result<()> {
        let (start, _) = table.range(numbers.start)?;
        let mut end = start;
        for number in numbers.clone() {
            let (first, bytes) = table.range(number)?;
            end = end.max(first + u64::from(bytes));
        }
        let mut bytes = vec![0; (end - start) as usize];
        data.read_at(&mut bytes, start)?;
        for number in numbers {
            let (first, length) = table.range(number)?;
            let sample = &bytes[(first - start) as usize..][..length as usize];
            bits.add(self.reply(question, sample, scratch).context("sample", || number)?);
        }
        Ok(())
    }

    fn reply(&self, question: &Question, sample: &[u8], scratch: &mut Scratch) -> Result<Reply> {
        let format = &self.layout.format;
        let counts_tokens = self.columns.iter().any(|(_, column)| column.tokens.is_some());
        let document = if counts_tokens { None } else { format.document(sample)? };
        if let Some(document) = document {
            // A value that is null, or is not there, is no error here.
            let cells = self.columns.iter().map(|(_, column)| column.cell_of_key(document));
            return Ok(question.reply(&cells.collect::<Result<Vec<_>>>()?));
        }
        let may_be_empty = format.has_empty_numbers();
        let values = self.layout.split(sample, scratch)?;
        let value = |(number, column): &(usize, FilterColumn)| match values.find(*number) {
            None => ColumnValue::Absent,
            Some([]) if may_be_empty && column.is_number() => ColumnValue::Absent,
            Some(bytes) => ColumnValue::Stored(bytes),
        };
        reply_of(question, &self.columns, &self.columns.iter().map(value).collect::<Vec<_>>())
    }
}

/// Returns the sample after those that are read with sample `first`.
fn end_of_piece(table: &OffsetTable, first: usize) -> Result<usize> {
    let (start, _) = table.range(first)?;
    let mut end = first + 1;
    while end < table.len() {
        let (next, bytes) = table.range(end)?;
        if next < start || next + u64::from(bytes) - start > READ_BYTES {
            break;
        }
        end += 1;
    }
    Ok(end)
}

fn is_same(a: &Arc<Layout>, b: &Arc<Layout>) -> bool {
    Arc::ptr_eq(a, b) || **a == **b
}
