//! Samples that the page cache has, on the thread that decodes them.
//!
//! Where a row is a column's stored bytes, they are read right into the row; everything else goes through a buffer. For the
//! smallest samples nothing may cost more than the read itself: no lock, no memory got, no count that other threads share.

use crate::decode::{DirectColumn, FieldPlan, Output, Row};
use crate::delivery::RowMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::RowMut;
use crate::pipeline::Task;
use crate::pipeline::device::direct_rows::{EarlyColumns, EarlySample};
use crate::pipeline::epoch::Shared;
use crate::pipeline::shard::open_shards::{OpenShard, ShardHandleCache};
use crate::sync::Arc;

/// Bytes a thread reads samples into. A larger sample goes through the read thread, whose memory is a pool's.
const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// Where one sample goes: borrowed from a chunk, or from a sample that was read elsewhere.
pub(crate) struct Rows<'a> {
    /// For each fixed output, memory that begins with the sample's row.
    pub(crate) fixed: &'a mut [RowMut],
    /// Bytes of a row of each.
    pub(crate) row_bytes: &'a [usize],
    /// The consumer's memory for its row of bytes.
    pub(crate) given: Option<&'a mut (dyn RowMemory + 'static)>,
}

impl Rows<'_> {
    /// The row of each fixed output.
    pub(crate) fn fixed(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.fixed.iter_mut().zip(self.row_bytes).map(|(row, bytes)| &mut row[..*bytes])
    }
}

/// The output that samples of one layout are read straight into.
#[derive(Clone, Copy)]
pub(crate) struct DirectOutput {
    pub(crate) column: DirectColumn,
    /// Its number among the outputs with fixed rows, or else among the lists.
    pub(crate) number: usize,
    /// Whether its rows have no fixed size.
    pub(crate) is_list: bool,
    /// Whether it is the only output and a sample is nothing but its column: what has been read is decoded.
    pub(crate) is_all: bool,
}

impl DirectOutput {
    /// For samples of a layout that `fields` decodes and in which `around` stands around a column.
    pub(crate) fn new(fields: &FieldPlan, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<Self> {
        let column = fields.direct(around)?;
        let is_list = |output: &Output| output.row_bytes().is_none();
        let is_list_here = is_list(&fields.outputs()[column.output]);
        let number = fields.outputs()[..column.output].iter().filter(|o| is_list(o) == is_list_here).count();
        let is_all = fields.outputs().len() == 1 && !is_list_here && column.before + column.after == 0;
        Some(Self { column, number, is_list: is_list_here, is_all })
    }

    /// The memory for its row of `bytes` bytes, if there is such memory.
    fn row<'r>(&self, rows: &'r mut Rows<'_>, bytes: usize) -> Option<Row<'r>> {
        match self.is_list {
            true => {
                let given = rows.given.as_mut().map(|row| row.bytes_mut());
                given.filter(|row| row.len() == bytes).map(Row::Sized)
            }
            false => rows.fixed().nth(self.number).filter(|row| row.len() == bytes).map(Row::Fixed),
        }
    }
}

/// Where a sample's bytes were found.
pub(crate) enum Found<'a> {
    /// In the page cache, and copied; with the output that samples of its layout are read straight into.
    Hot(&'a OpenShard, Copied<'a>, Option<DirectOutput>),
    /// Not in memory, or more than the buffer takes: this many bytes at this offset; or, with a [`EarlySample`], the target
    /// reads some of its rows.
    Cold(Arc<OpenShard>, u64, usize, Option<EarlySample>),
    /// The shard is no longer on disk.
    Gone,
}

/// Where the bytes of a sample went.
#[derive(Clone, Copy)]
pub(crate) struct Copied<'a> {
    /// Into a buffer.
    pub(crate) kept: &'a [u8],
    /// Straight into their row.
    pub(crate) placed: Option<usize>,
    /// Rows that go to the target by themselves.
    pub(crate) early: Option<Early<'a>>,
}

/// Which rows of a sample go to the target by themselves.
#[derive(Clone, Copy)]
pub(crate) struct Early<'a> {
    pub(crate) columns: &'a EarlyColumns,
    /// Whether what was copied has their bytes all the same.
    pub(crate) is_kept: bool,
}

impl Copied<'_> {
    /// Bytes of the sample.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.len() + self.placed.unwrap_or(0)
    }
}

/// One thread's way to the page cache.
pub(crate) struct HotReader {
    /// For each layout, the output that is read straight into place.
    direct: Vec<Option<DirectOutput>>,
    handy: ShardHandleCache,
    /// Where the samples of the current chunk lie, as far as that is known: offset and length in the data file.
    ranges: Vec<Option<(u64, usize)>>,
    /// Encoded bytes of the current sample.
    buffer: Vec<u8>,
}

impl HotReader {
    pub(crate) fn new(shared: &Shared) -> Self {
        let layouts = shared.fields.iter().zip(shared.open.layouts());
        let direct =
            layouts.map(|(fields, layout)| DirectOutput::new(fields, |column| layout.around(column))).collect();
        Self { direct, handy: ShardHandleCache::default(), ranges: Vec::new(), buffer: Vec::new() }
    }

    /// The output that samples of layout number `layout` are read straight into.
    pub(crate) fn direct(&self, layout: usize) -> Option<DirectOutput> {
        self.direct[layout]
    }

    /// Whether rows of bytes can be read straight into memory that the consumer gives.
    pub(crate) fn has_lists(&self) -> bool {
        self.direct.iter().flatten().any(|direct| direct.is_list)
    }

    /// Lets go of all shards, before a wait.
    pub(crate) fn rest(&mut self) {
        self.handy.clear();
    }

    /// Looks up where the samples of a chunk lie. In a shuffle every look is a miss of the CPU's caches: one behind another
    /// they overlap, between two reads each would be waited for. What is wrong comes up in [`find`](Self::find).
    pub(crate) fn look_up(&mut self, shared: &Shared, chunk: &[Task]) {
        let Self { handy, ranges, .. } = self;
        let mut range = |task: &Task| {
            let open = handy.get(task.shard, &shared.open, &*shared.source).ok()??;
            open.range(task.index).ok().inspect(|range| open.prefetch(*range))
        };
        ranges.clear();
        ranges.extend(chunk.iter().map(&mut range));
    }

    /// Looks for sample `i` of the chunk that was [looked up](Self::look_up) last, and reads it if it is there.
    ///
    /// # Errors
    ///
    /// What is wrong with the shard or the sample.
    pub(crate) fn find(&mut self, shared: &Shared, i: usize, task: &Task, rows: &mut Rows<'_>) -> Result<Found<'_>> {
        let Self { direct, handy, ranges, buffer } = self;
        let Some(open) = handy.get(task.shard, &shared.open, &*shared.source)? else { return Ok(Found::Gone) };
        let (offset, bytes) = match ranges[i] {
            Some(range) => range,
            None => open.range(task.index)?,
        };
        if bytes as u64 > shared.sample_bytes_max {
            return Err(Error::new(ErrorKind::Unsupported, "a sample is larger than sample_bytes_max: raise it")
                .with("bytes", bytes)
                .with("sample_bytes_max", shared.sample_bytes_max));
        }
        if let Some(storage) = &shared.storage
            && let Some(columns) = storage.columns(open.layout_number())
            && !open.refuses_storage()
            && let Some(sample) = columns.sample(offset, bytes)
        {
            return Ok(Found::Cold(open.clone(), offset, bytes, Some(sample)));
        }
        let direct = direct[open.layout_number()];
        let copied = if let Some(direct) = direct
            && let kept = direct.column.before + direct.column.after
            && kept <= SCRATCH_BYTES_MAX
            && let Some(placed) = bytes.checked_sub(kept)
            && let Some(mut row) = direct.row(rows, placed)
        {
            let around = first(buffer, kept);
            let is_hot = open.read_hot_direct(offset, direct.column, around, &mut row);
            is_hot.then_some(Copied { kept: around, placed: Some(placed), early: None })
        } else if bytes <= SCRATCH_BYTES_MAX {
            let kept = first(buffer, bytes);
            open.read_hot(offset, kept).then_some(Copied { kept, placed: None, early: None })
        } else {
            None
        };
        Ok(match copied {
            Some(copied) => Found::Hot(open, copied, direct),
            None => Found::Cold(open.clone(), offset, bytes, None),
        })
    }

    /// How long the row of bytes of `task` will be, where that shows before the sample is read. What is wrong with the
    /// shard or the sample comes up again when it is read.
    pub(crate) fn length(&mut self, shared: &Shared, task: &Task) -> Option<usize> {
        let open = self.handy.get(task.shard, &shared.open, &*shared.source).ok()??;
        let (_, bytes) = open.range(task.index).ok()?;
        let direct = self.direct[open.layout_number()].filter(|d| d.is_list)?;
        if bytes as u64 > shared.sample_bytes_max {
            return None;
        }
        bytes.checked_sub(direct.column.before + direct.column.after)
    }
}

/// The first `bytes` bytes of `buffer`, which grows if it has to: to [`SCRATCH_BYTES_MAX`] at most, as callers see to.
fn first(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}
