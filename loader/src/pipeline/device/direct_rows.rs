//! Rows that go to the target before their batch is filled: the stored bytes of columns of fixed size.
//!
//! [`direct_storage`](super::direct_storage) has them read from their file. Otherwise a sample that comes from disk is in a read slot, and from
//! there its rows are copied to the target right away, where a decode thread would have copied them to the batch slot for one
//! copy of the whole batch. The page cache is read straight into the batch slot: so each byte is copied once on the host at
//! most.

use crate::decode::FieldPlan;
use crate::delivery::DirectBatch;
use crate::error::Result;
use crate::format::{Layout, OmittedColumn};
use crate::memory::ReadLease;
use crate::pipeline::Miss;
use crate::pipeline::epoch::Shared;
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::stats::Counter;
use crate::sync::{Arc, AtomicBool, Ordering};
use std::collections::VecDeque;

/// Rows that are shorter are copied by the host: each takes calls of the driver of some microseconds, in which a CPU copies as many
/// bytes. Not measured on hardware.
pub(crate) const COPIED_BYTES_MIN: usize = 64 << 10;

/// Copies rows from read slots to the target.
#[derive(Debug)]
pub(crate) struct SlotCopies {
    /// By the catalogue's layouts.
    columns: Vec<Option<Arc<EarlyColumns>>>,
    /// There was no memory: the host copies.
    is_refused: AtomicBool,
    /// Counts rows.
    copied: Arc<Counter>,
}

/// The columns of a layout whose rows go to the target by themselves.
#[derive(Debug)]
pub(crate) struct EarlyColumns {
    layout: Arc<Layout>,
    /// Ascending by column.
    columns: Vec<EarlyColumn>,
    /// Their columns and sizes.
    apart: Vec<OmittedColumn>,
    /// Whether something else of a sample is needed, if only to see whether it is one.
    needs_rest: bool,
}

#[derive(Clone, Copy, Debug)]
struct EarlyColumn {
    column: usize,
    /// Which of the outputs.
    output: usize,
    /// Which of those with fixed rows.
    fixed: usize,
}

/// A sample on this way.
#[derive(Debug)]
pub(crate) struct EarlySample {
    pub(crate) columns: Arc<EarlyColumns>,
    /// Where each of the columns begins.
    offsets: Vec<u64>,
    /// What the host has yet to read: places in the shard, and lengths.
    pub(crate) rest: VecDeque<(u64, usize)>,
    /// What it has read of that.
    pub(crate) kept: Vec<u8>,
}

impl EarlyColumns {
    /// For each of the catalogue's `layouts`, whose samples `fields` decode, the columns with rows of at least `row_bytes_min`
    /// bytes; `None` where no layout has any.
    pub(crate) fn of_layouts(
        fields: &[Arc<FieldPlan>],
        layouts: &[Arc<Layout>],
        row_bytes_min: usize,
    ) -> Option<Vec<Option<Arc<Self>>>> {
        let columns = fields.iter().zip(layouts).map(|(fields, layout)| Self::new(fields, layout, row_bytes_min));
        let columns: Vec<_> = columns.map(|columns| columns.map(Arc::new)).collect();
        columns.iter().any(Option::is_some).then_some(columns)
    }

    /// For samples of `layout`, which `fields` decodes; `None` where no column can go this way.
    fn new(fields: &FieldPlan, layout: &Arc<Layout>, row_bytes_min: usize) -> Option<Self> {
        let row_bytes = |output: usize| fields.outputs()[output].row_bytes();
        let is_long = |(output, column): &(usize, usize)| {
            let place = layout.fixed_place(*column, isize::MAX as usize);
            place.is_some_and(|place| row_bytes(*output) == Some(place.len()) && place.len() >= row_bytes_min)
        };
        let column = |(output, column): (usize, usize)| {
            let fixed = (0..output).filter(|output| row_bytes(*output).is_some()).count();
            EarlyColumn { column, output, fixed }
        };
        let mut columns: Vec<EarlyColumn> = fields.stored().filter(is_long).map(column).collect();
        columns.sort_unstable_by_key(|column| column.column);
        let apart = columns
            .iter()
            .map(|c| OmittedColumn { column: c.column, bytes: row_bytes(c.output).unwrap_or(0) })
            .collect();
        // The sizes in a sample say whether it is sound, and are compared with what else is there.
        let needs_rest = columns.len() < fields.outputs().len() || layout.sample_bytes().is_none();
        (!columns.is_empty()).then(|| Self { layout: layout.clone(), columns, apart, needs_rest })
    }

    /// The sample of `bytes` bytes at `offset` of its shard; `None` for one that cannot be sound, which the usual way says best.
    pub(crate) fn sample(self: &Arc<Self>, offset: u64, bytes: usize) -> Option<EarlySample> {
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
        Some(EarlySample { columns: self.clone(), offsets, rest, kept: Vec::new() })
    }

    /// What is left out of a sample that the host has read.
    pub(crate) fn apart(&self) -> &[OmittedColumn] {
        &self.apart
    }

    /// Whether rows of this output go this way.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.columns.iter().any(|column| column.output == output)
    }

    /// Whether there is something to decode besides.
    pub(crate) fn needs_rest(&self) -> bool {
        self.needs_rest
    }
}

/// One row of a sample on this way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyRow {
    /// Which of the outputs with fixed rows it is of.
    pub(crate) fixed: usize,
    /// Where it begins.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: usize,
}

impl EarlySample {
    /// Its rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = EarlyRow> + '_ {
        let columns = self.columns.columns.iter().zip(&self.columns.apart).zip(&self.offsets);
        columns.map(|((column, apart), offset)| EarlyRow { fixed: column.fixed, offset: *offset, bytes: apart.bytes })
    }
}

impl SlotCopies {
    /// Of `columns` for each of the catalogue's layouts; `copied` counts rows.
    pub(crate) fn new(columns: Vec<Option<Arc<EarlyColumns>>>, copied: Arc<Counter>) -> Self {
        Self { columns, is_refused: AtomicBool::new(false), copied }
    }

    /// An epoch begins: there may be memory again.
    pub(crate) fn retry(&self) {
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// What goes this way of a sample that has been read to `slot`, and where to; `None` if nothing does.
    pub(crate) fn begin(
        &self,
        shared: &Shared,
        miss: &Miss,
        slot: &ReadLease,
    ) -> Option<(EarlySample, Arc<dyn DirectBatch>)> {
        let columns = self.columns[miss.open.layout_number()].as_ref().filter(|_| slot.is_registered())?;
        let early = shared.target.direct_rows().filter(|_| !self.is_refused.load(Ordering::Relaxed))?;
        let sample = columns.sample(0, slot.len())?;
        let memory = miss.batch.at_target(early, false).unwrap_or_else(|error| {
            if !self.is_refused.swap(true, Ordering::Relaxed) {
                shared.stats.note(format!("rows are copied by the host before they go to the device: {error}"));
            }
            None
        });
        memory.map(|memory| (sample, memory))
    }

    /// Has the target copy the rows of `sample`, which are row `row` of `batch`, from the slot that it was read to.
    ///
    /// # Errors
    ///
    /// What the target says.
    pub(crate) fn copy(
        &self,
        (batch, row): (&BatchBuilder, usize),
        sample: &EarlySample,
        memory: &dyn DirectBatch,
        slot: ReadLease,
    ) -> Result<()> {
        let place = |early: EarlyRow| {
            let start = early.offset as usize;
            (start..start + early.bytes, batch.place_of(early.fixed, row))
        };
        let rows: Vec<_> = sample.rows().map(place).collect();
        memory.copy(slot, &rows)?;
        batch.put_at_target(sample.rows().map(|early| (early.fixed, row)));
        self.copied.add(rows.len() as u64);
        Ok(())
    }
}
