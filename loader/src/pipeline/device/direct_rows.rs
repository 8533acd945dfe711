//! Direct rows: rows that go to the device before their batch is filled. They are the stored bytes of columns of fixed
//! size.
//!
//! [`direct_storage`](super::direct_storage) lets the device read them from their shards. Otherwise a sample that comes
//! from disk is in a read slot, from which the device copies its rows at once; a decode thread would copy them to the
//! batch slot first. Samples in the page cache are read directly into the batch slot. So the host copies each byte at
//! most once.

use crate::decode::FieldPlan;
use crate::delivery::{Delivery, DeviceRows, DirectBatch, DirectRows, PartialBatch, TensorMemory};
use crate::error::Result;
use crate::format::{Layout, OmittedColumn};
use crate::memory::{BatchSlot, ReadLease};
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::pipeline::sample::batch_layout::BatchLayout;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicBool, Ordering};
use std::collections::VecDeque;

/// Shorter rows are copied by the host: each device copy takes driver calls of some microseconds, in which a CPU copies
/// as many bytes. Not measured on hardware.
pub(crate) const COPIED_BYTES_MIN: usize = 64 << 10;

/// Delivers a batch of which the device already has rows.
///
/// # Errors
///
/// Errors of the device.
pub(crate) fn deliver(
    direct_rows: &dyn DirectRows,
    layout: &BatchLayout,
    slot: BatchSlot,
    kept: &[usize],
    on_device: DeviceRows,
) -> Result<Arc<dyn TensorMemory>> {
    direct_rows.deliver(PartialBatch { slot, outputs: &layout.places, rows: kept, on_device })
}

/// Columns of one layout whose rows go directly to the device.
#[derive(Debug)]
pub(crate) struct DirectColumns {
    layout: Arc<Layout>,
    /// Ascending by column.
    columns: Vec<DirectColumn>,
    /// Numbers and sizes of the columns.
    apart: Vec<OmittedColumn>,
    /// The rest of a sample is needed too, if only to validate it.
    needs_rest: bool,
}

#[derive(Clone, Copy, Debug)]
struct DirectColumn {
    column: usize,
    /// Number among all outputs.
    output: usize,
    /// Number among the fixed outputs.
    fixed_output: usize,
}

impl DirectColumns {
    /// Returns the columns with rows of at least `row_bytes_min` bytes for each of the catalogue's `layouts`, whose
    /// samples `fields` decode; `None` where no layout has any.
    pub(crate) fn of_layouts(
        fields: &[Arc<FieldPlan>],
        layouts: &[Arc<Layout>],
        row_bytes_min: usize,
    ) -> Option<Vec<Option<Arc<Self>>>> {
        let columns = fields.iter().zip(layouts).map(|(fields, layout)| Self::new(fields, layout, row_bytes_min));
        let columns: Vec<_> = columns.map(|columns| columns.map(Arc::new)).collect();
        columns.iter().any(Option::is_some).then_some(columns)
    }

    /// Columns of samples of `layout`, which `fields` decodes; `None` where there are none.
    fn new(fields: &FieldPlan, layout: &Arc<Layout>, row_bytes_min: usize) -> Option<Self> {
        let row_bytes = |output: usize| fields.outputs()[output].row_bytes();
        let is_long = |(output, column): &(usize, usize)| {
            let place = layout.fixed_place(*column, isize::MAX as usize);
            place.is_some_and(|place| row_bytes(*output) == Some(place.len()) && place.len() >= row_bytes_min)
        };
        let column = |(output, column): (usize, usize)| {
            let fixed_output = (0..output).filter(|output| row_bytes(*output).is_some()).count();
            DirectColumn { column, output, fixed_output }
        };
        let mut columns: Vec<DirectColumn> = fields.stored_outputs().filter(is_long).map(column).collect();
        columns.sort_unstable_by_key(|column| column.column);
        let apart = columns
            .iter()
            .map(|c| OmittedColumn { column: c.column, bytes: row_bytes(c.output).unwrap_or(0) })
            .collect();
        // The sizes in a sample are validated against the rest of it.
        let needs_rest = columns.len() < fields.outputs().len() || layout.sample_bytes().is_none();
        (!columns.is_empty()).then(|| Self { layout: layout.clone(), columns, apart, needs_rest })
    }

    /// Locates the rows of the sample of `bytes` bytes at `offset` of its shard; `None` for a sample that cannot be
    /// valid, which the host reports with a better error.
    pub(crate) fn sample(self: &Arc<Self>, offset: u64, bytes: usize) -> Option<DirectSample> {
        if self.layout.sample_bytes().is_some_and(|all| all != bytes) {
            return None;
        }
        let (mut offsets, mut rest, mut done) = (Vec::with_capacity(self.columns.len()), VecDeque::new(), 0);
        for column in &self.columns {
            let place = self.layout.fixed_place(column.column, bytes).filter(|place| place.start >= done)?;
            offsets.push(offset + place.start as u64);
            if self.needs_rest && place.start > done {
                rest.push_back((offset + done as u64, place.start - done));
            }
            done = place.end;
        }
        if self.needs_rest && bytes > done {
            rest.push_back((offset + done as u64, bytes - done));
        }
        Some(DirectSample { columns: self.clone(), offsets, rest, rest_bytes: Vec::new() })
    }

    /// The columns that a sample's remaining bytes lack.
    pub(crate) fn apart(&self) -> &[OmittedColumn] {
        &self.apart
    }

    /// True if rows of this output go directly to the device.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.columns.iter().any(|column| column.output == output)
    }

    /// True if the host has to decode the rest of a sample.
    pub(crate) fn needs_rest(&self) -> bool {
        self.needs_rest
    }
}

/// One sample with direct rows.
#[derive(Debug)]
pub(crate) struct DirectSample {
    pub(crate) columns: Arc<DirectColumns>,
    /// Offset of each of the columns.
    offsets: Vec<u64>,
    /// Ranges of the shard (offset, length) that the host has yet to read.
    rest: VecDeque<(u64, usize)>,
    /// Bytes of such ranges that it has read.
    rest_bytes: Vec<u8>,
}

/// One direct row of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectRow {
    /// Number among the fixed outputs.
    pub(crate) fixed_output: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

impl DirectSample {
    /// Direct rows of the sample.
    pub(crate) fn rows(&self) -> impl Iterator<Item = DirectRow> + '_ {
        let columns = self.columns.columns.iter().zip(&self.columns.apart).zip(&self.offsets);
        columns.map(|((column, apart), offset)| DirectRow {
            fixed_output: column.fixed_output,
            offset: *offset,
            bytes: apart.bytes,
        })
    }

    /// Reads the rest of the sample from the page cache as far as possible. Returns the range that must be read from
    /// disk; `None` when the rest is complete.
    pub(crate) fn read_rest(&mut self, open: &OpenShard) -> Option<(u64, usize)> {
        while let Some((offset, bytes)) = self.rest.pop_front() {
            let start = self.rest_bytes.len();
            self.rest_bytes.resize(start + bytes, 0);
            if !open.read_hot(offset, &mut self.rest_bytes[start..]) {
                self.rest_bytes.truncate(start);
                return Some((offset, bytes));
            }
        }
        None
    }

    /// Adds a range of the rest that was read from disk.
    pub(crate) fn add_rest(&mut self, bytes: &[u8]) {
        self.rest_bytes.extend_from_slice(bytes);
    }

    /// Takes the bytes of the rest.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest_bytes)
    }
}

/// Lets the device copy rows from read slots.
#[derive(Debug)]
pub(crate) struct SlotCopies {
    /// By the catalogue's layouts.
    columns: Vec<Option<Arc<DirectColumns>>>,
    delivery: Arc<dyn Delivery>,
    stats: Arc<Stats>,
    /// The device had no memory in this epoch: the host copies.
    is_refused: AtomicBool,
    /// Counts rows.
    copied: Arc<Counter>,
}

impl SlotCopies {
    /// Copies rows of `columns`, given for each of the catalogue's layouts.
    pub(crate) fn new(
        columns: Vec<Option<Arc<DirectColumns>>>,
        delivery: Arc<dyn Delivery>,
        stats: Arc<Stats>,
    ) -> Self {
        let copied = stats.counter("rows_copied_early");
        Self { columns, delivery, stats, is_refused: AtomicBool::new(false), copied }
    }

    /// Begins an epoch, in which there may be memory again.
    pub(crate) fn retry(&self) {
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// Returns the rows that the device can copy of a sample of layout number `layout`, which was read to `slot`, and
    /// the batch's memory on the device; `None` if there are none.
    pub(crate) fn begin(
        &self,
        batch: &BatchBuilder,
        layout: usize,
        slot: &ReadLease,
    ) -> Option<(DirectSample, Arc<dyn DirectBatch>)> {
        let columns = self.columns[layout].as_ref().filter(|_| slot.is_registered())?;
        let direct_rows = self.delivery.direct_rows().filter(|_| !self.is_refused.load(Ordering::Relaxed))?;
        let sample = columns.sample(0, slot.len())?;
        let memory = batch.device.direct_memory(direct_rows, batch.layout.bytes(), false).unwrap_or_else(|error| {
            if !self.is_refused.swap(true, Ordering::Relaxed) {
                self.stats.note(format!("rows are copied by the host before they go to the device: {error}"));
            }
            None
        });
        memory.map(|memory| (sample, memory))
    }

    /// Lets the device copy the rows of `sample`, which are row `row` of `batch`, from the slot that it was read to.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn copy(
        &self,
        (batch, row): (&BatchBuilder, usize),
        sample: &DirectSample,
        memory: &dyn DirectBatch,
        slot: ReadLease,
    ) -> Result<()> {
        let place = |direct: DirectRow| {
            let start = direct.offset as usize;
            (start..start + direct.bytes, batch.row_offset(direct.fixed_output, row))
        };
        let rows: Vec<_> = sample.rows().map(place).collect();
        memory.copy(slot, &rows)?;
        batch.device.add_direct_rows(sample.rows().map(|direct| (direct.fixed_output, row)));
        self.copied.add(rows.len() as u64);
        Ok(())
    }
}
