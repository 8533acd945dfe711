//! Direct rows: rows that go to the device before their batch is filled. They are the stored bytes of columns of fixed
//! size.
//!
//! [`direct_storage`](super::direct_storage) lets the device read them from their shards. Otherwise a sample that comes
//! from disk is in a read slot, from which the device copies its rows at once; a decode thread would copy them to the
//! batch slot first. Samples in the page cache are read directly into the batch slot. So the host copies each byte at
//! most once.

use super::part::DevicePart;
use crate::decode::FieldPlan;
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::format::{Layout, OmittedColumn};
use crate::memory::ReadLease;
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::pipeline::sample::miss::SampleRest;
use crate::pipeline::sample::stored_columns::StoredColumns;
use crate::pipeline::schedule::SampleRow;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicBool, Ordering};

/// Shorter rows are copied by the host: each device copy takes driver calls of some microseconds, in which a CPU copies
/// as many bytes. Not measured on hardware.
pub(crate) const COPIED_BYTES_MIN: usize = 64 << 10;

/// Columns of one layout with rows that go directly to the device.
#[derive(Debug)]
pub(crate) struct DirectColumns {
    layout: Arc<Layout>,
    stored: Arc<StoredColumns>,
    /// Numbers of their outputs among the fixed outputs.
    fixed_outputs: Vec<usize>,
}

/// Direct row of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectRow {
    /// Number among the fixed outputs.
    pub(crate) fixed_output: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

impl DirectColumns {
    /// Returns the columns with rows of at least `row_bytes_min` bytes for each of the catalogue's `layouts`, with
    /// samples that `fields` decode; `None` where no layout has any.
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
        let long = |(output, column): (usize, usize)| {
            let bytes = layout.fixed_range(column, isize::MAX as usize)?.len();
            let is_long = row_bytes(output) == Some(bytes) && bytes >= row_bytes_min;
            is_long.then_some((OmittedColumn { column, bytes }, output))
        };
        let mut found: Vec<(OmittedColumn, usize)> = fields.stored_outputs().filter_map(long).collect();
        found.sort_unstable_by_key(|(column, _)| column.column);
        let (omitted, outputs): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let fixed = |output: &usize| (0..*output).filter(|output| row_bytes(*output).is_some()).count();
        let fixed_outputs = outputs.iter().map(fixed).collect();
        // The sizes in a sample are validated against the rest of it.
        let are_all = omitted.len() == fields.outputs().len() && layout.sample_bytes().is_some();
        let stored = Arc::new(StoredColumns { outputs, omitted, are_all });
        (!stored.omitted.is_empty()).then(|| Self { layout: layout.clone(), stored, fixed_outputs })
    }

    /// Locates the rows of the sample of `bytes` bytes at `offset` of its shard; `None` for a sample that cannot be
    /// valid, which the host reports with a better error.
    pub(crate) fn rows(&self, offset: u64, bytes: usize) -> Option<Vec<DirectRow>> {
        if self.layout.sample_bytes().is_some_and(|all| all != bytes) {
            return None;
        }
        let mut end = 0;
        let row = |(column, fixed_output): (&OmittedColumn, &usize)| {
            let place = self.layout.fixed_range(column.column, bytes).filter(|place| place.start >= end)?;
            end = place.end;
            Some(DirectRow { fixed_output: *fixed_output, offset: offset + place.start as u64, bytes: column.bytes })
        };
        self.stored.omitted.iter().zip(&self.fixed_outputs).map(row).collect()
    }

    /// Returns the rest of the sample of `bytes` bytes at `offset`, which has these `rows`.
    pub(crate) fn rest(&self, rows: &[DirectRow], offset: u64, bytes: usize) -> SampleRest {
        let starts = std::iter::once(offset).chain(rows.iter().map(|row| row.offset + row.bytes as u64));
        let ends = rows.iter().map(|row| row.offset).chain(std::iter::once(offset + bytes as u64));
        let range = |(start, end): (u64, u64)| (end > start).then(|| (start, (end - start) as usize));
        let ranges = starts.zip(ends).filter(|_| !self.stored.are_all).filter_map(range).collect();
        SampleRest { stored: self.stored.clone(), bytes: Vec::new(), ranges }
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

    /// As [`Offload::begin_copy`](crate::pipeline::sample::offload::Offload::begin_copy).
    pub(crate) fn begin(&self, batch: &BatchBuilder, layout: usize, slot: &ReadLease) -> Option<Arc<StoredColumns>> {
        let is_used = slot.is_registered() && !self.is_refused.load(Ordering::Relaxed);
        let columns = self.columns[layout].as_ref().filter(|_| is_used)?;
        columns.rows(0, slot.len())?;
        let memory = DevicePart::of(batch).direct_memory(&*self.delivery, batch.layout.bytes(), false);
        let memory = memory.unwrap_or_else(|error| {
            if !self.is_refused.swap(true, Ordering::Relaxed) {
                self.stats.note(format!("rows are copied by the host before they go to the device: {error}"));
            }
            None
        });
        memory.map(|_| columns.stored.clone())
    }

    /// As [`Offload::copy`](crate::pipeline::sample::offload::Offload::copy).
    pub(crate) fn copy(&self, sample: SampleRow<'_>, slot: ReadLease) -> Result<()> {
        let SampleRow { batch, row, layout_number, .. } = sample;
        let part = DevicePart::of(batch);
        let rows = self.columns[layout_number].as_ref().and_then(|columns| columns.rows(0, slot.len()));
        let (Some(rows), Some(memory)) = (rows, part.allocated()) else {
            return Err(Error::internal("rows were to be copied to a batch without memory on the device"));
        };
        let place = |direct: &DirectRow| {
            let start = direct.offset as usize;
            (start..start + direct.bytes, batch.row_offset(direct.fixed_output, row))
        };
        let places: Vec<_> = rows.iter().map(place).collect();
        memory.copy(slot, &places)?;
        part.add_direct_rows(rows.iter().map(|direct| (direct.fixed_output, row)));
        self.copied.add(rows.len() as u64);
        Ok(())
    }
}
