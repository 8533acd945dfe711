//! Samples that are too large for a slab of read slots.
//!
//! The stored bytes of one column are read directly into their row, so a large sample is in memory once. The rest of
//! the sample is read into a mapping that is as long as the sample; the pages of the column there are never touched,
//! and take no memory. So formats split such a sample like any. Text and arrays of any shape become rows in the memory
//! that they were read into. Two copies remain where a row is made of different bytes (pictures, arrays of a different
//! type), in formats that change the stored bytes (compressed or sparse files in a tar, checksums of TFRecord, text in
//! lines), and of all columns but the largest one.

use super::batch_builder::BatchBuilder;
use super::stored_columns::StoredColumns;
use crate::batch::RowBytes;
use crate::decode::ragged::HEADER_BYTES_MAX;
use crate::decode::{FieldPlan, Row};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::RowMut;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::sync::Arc;
use std::ops::Range;

/// Bytes above which a value is read directly into its row: the longest sample in a slot, as
/// [`ReadPoolConfig`](crate::memory::ReadPoolConfig) has it by default. Up to there a slot costs less.
const BYTES_MAX: usize = 32 << 20;

/// Outputs of the samples of a layout with rows that values may be read into.
#[derive(Debug)]
pub(crate) struct LargeOutputs(Vec<Arc<LargeOutput>>);

/// Output with rows that values may be read into.
#[derive(Debug)]
struct LargeOutput {
    column: usize,
    output: usize,
    row: LargeRow,
    columns: StoredColumns,
}

/// Memory that a value is read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargeRow {
    /// The row of this fixed output.
    Fixed(usize),
    /// A row of bytes, perhaps the consumer's.
    Bytes,
    /// A vector, which becomes the row.
    InPlace,
}

/// Value that is read directly into its row.
#[derive(Debug)]
pub(crate) struct LargeValue {
    of: Arc<LargeOutput>,
    /// Its bytes in the sample.
    place: Range<usize>,
    /// Memory of a row that has no fixed size.
    memory: Option<RowBytes>,
}

impl LargeOutputs {
    /// Outputs of samples that `fields` decodes.
    pub(crate) fn new(fields: &FieldPlan) -> Self {
        let is_fixed = |output: usize| fields.outputs()[output].row_bytes().is_some();
        let fixed_number = |output: usize| (0..output).filter(|output| is_fixed(*output)).count();
        let copy = |(output, column)| {
            let row = if is_fixed(output) { LargeRow::Fixed(fixed_number(output)) } else { LargeRow::Bytes };
            (output, column, row)
        };
        let in_place = fields.outputs_in_place().map(|(output, column)| (output, column, LargeRow::InPlace));
        let all = fields.copies().map(copy).chain(in_place).map(|(output, column, row)| {
            let outputs = if row == LargeRow::InPlace { Vec::new() } else { vec![output] };
            let columns = StoredColumns { outputs, omitted: Vec::new(), are_all: false };
            Arc::new(LargeOutput { column, output, row, columns })
        });
        Self(all.collect())
    }

    /// Returns true if one of them has rows of bytes.
    pub(crate) fn have_bytes(&self) -> bool {
        self.0.iter().any(|of| of.row == LargeRow::Bytes)
    }

    /// Returns true if a sample of `bytes` bytes may have a large value.
    pub(crate) fn may_be_large(bytes: usize) -> bool {
        bytes > BYTES_MAX
    }

    /// Returns the largest value of the sample at `offset` of `open`, of `bytes` bytes, if it is large.
    pub(crate) fn large_value(&self, open: &OpenShard, offset: u64, bytes: usize) -> Option<LargeValue> {
        if !Self::may_be_large(bytes) {
            return None;
        }
        let value = |of: &Arc<LargeOutput>| {
            // Errors show up when the whole sample is read.
            let place = open.value_range(offset, bytes, of.column).ok()??;
            (place.len() > BYTES_MAX).then(|| LargeValue { of: of.clone(), place, memory: None })
        };
        self.0.iter().filter_map(value).max_by_key(LargeValue::bytes)
    }
}

impl LargeValue {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.place.len()
    }

    /// Number of its output.
    pub(crate) fn output(&self) -> usize {
        self.of.output
    }

    /// Returns true if its row has the stored bytes and no fixed size.
    pub(crate) fn is_bytes(&self) -> bool {
        self.of.row == LargeRow::Bytes
    }

    /// Returns true if the stored value in its memory becomes the row.
    pub(crate) fn is_in_place(&self) -> bool {
        self.of.row == LargeRow::InPlace
    }

    /// Its column, with a row that is filled; no column if the row is made of it.
    pub(crate) fn columns(&self) -> &StoredColumns {
        &self.of.columns
    }

    /// Returns true if a row of `row_bytes` takes it.
    pub(crate) fn fits(&self, row_bytes: &[usize]) -> bool {
        match self.of.row {
            LargeRow::Fixed(number) => row_bytes.get(number) == Some(&self.bytes()),
            LargeRow::Bytes | LargeRow::InPlace => true,
        }
    }

    /// Sets the consumer's memory for a row of bytes.
    pub(crate) fn set_memory(&mut self, memory: RowBytes) {
        self.memory = Some(memory);
    }

    /// Takes the memory of a row without a fixed size.
    pub(crate) fn take_memory(&mut self) -> Option<RowBytes> {
        self.memory.take()
    }

    /// Reads the sample at `offset` of `open` into `into`, and the value into its row, and waits for the disk.
    ///
    /// # Errors
    ///
    /// Errors of the file system; `Full` without memory for a row.
    pub(super) fn read(
        &mut self,
        (open, offset): (&OpenShard, u64),
        into: &mut [u8],
        (batch, rows): (&BatchBuilder, &mut [RowMut]),
    ) -> Result<()> {
        let bytes = self.bytes();
        let mut row = match self.of.row {
            LargeRow::Fixed(number) => batch.first_rows(rows).nth(number).map(Row::Fixed),
            LargeRow::Bytes => row_of(&mut self.memory, bytes, 0)?,
            // The header of an array may become longer.
            LargeRow::InPlace => row_of(&mut self.memory, bytes, HEADER_BYTES_MAX)?,
        };
        let row = row.as_mut().ok_or_else(|| Error::internal("a value without a row"))?;
        open.read_around(offset, into, &self.place, row)
    }
}

/// Returns memory of `bytes` bytes for a row: the consumer's, or a vector that may grow by `more` bytes.
fn row_of(row: &mut Option<RowBytes>, bytes: usize, more: usize) -> Result<Option<Row<'_>>> {
    let is_whole = match row {
        Some(RowBytes::Consumer(memory)) => memory.bytes_mut().len() == bytes,
        _ => false,
    };
    if !is_whole {
        let mut list = Vec::new();
        let refused = |e| Error::new(ErrorKind::Full, "there is no memory for a row").with("bytes", bytes).caused_by(e);
        list.try_reserve_exact(bytes.saturating_add(more)).map_err(refused)?;
        list.resize(bytes, 0);
        *row = Some(RowBytes::Engine(list));
    }
    Ok(row.as_mut().map(|row| match row {
        RowBytes::Engine(list) => Row::Var(list),
        RowBytes::Consumer(memory) => Row::Sized(memory.bytes_mut()),
    }))
}
