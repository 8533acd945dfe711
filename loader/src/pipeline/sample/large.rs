//! Samples that are too large for a slab of read slots.
//!
//! The stored bytes of one column are read directly into their row, so a large sample is in memory once. The rest of
//! the sample is read into a mapping that is as long as the sample; the pages of the column there are never touched,
//! and take no memory. So formats split such a sample like any. Two copies remain where a row is made of the stored
//! bytes (text, arrays of any shape, pictures), in formats that change them (compressed or sparse files in a tar,
//! checksums of TFRecord, text in lines), and of columns after the first that is delivered as it is stored.

use super::stored_columns::StoredColumns;
use crate::decode::FieldPlan;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::sync::Arc;
use std::ops::Range;

/// Bytes above which a value is read directly into its row: the longest sample in a slot, as
/// [`ReadPoolConfig`](crate::memory::ReadPoolConfig) has it by default. Up to there a slot costs less.
const BYTES_MAX: usize = 32 << 20;

/// Output of the samples of a layout with rows that are the stored bytes of a column.
#[derive(Debug)]
pub(crate) struct StoredRows {
    column: usize,
    output: usize,
    /// Number among the fixed outputs; `None` if its rows have no fixed size.
    fixed: Option<usize>,
    columns: Arc<StoredColumns>,
}

/// Value that is read directly into its row.
#[derive(Debug)]
pub(crate) struct LargeValue {
    /// Number of its output among the fixed ones; `None` if its rows have no fixed size.
    pub(super) fixed: Option<usize>,
    /// Its bytes in the sample.
    pub(super) place: Range<usize>,
    columns: Arc<StoredColumns>,
}

impl StoredRows {
    /// Output of samples that `fields` decodes, if there is one.
    pub(crate) fn new(fields: &FieldPlan) -> Option<Self> {
        // The place of the column may differ from sample to sample.
        let column = fields.stored_column(|_| Some((0, 0)))?;
        let fixed = column.fixed_output(fields.outputs());
        let columns = StoredColumns { outputs: vec![column.output], omitted: Vec::new(), are_all: false };
        Some(Self { column: column.column, output: column.output, fixed, columns: columns.into() })
    }

    /// The output, if its rows have no fixed size.
    pub(crate) fn list(&self) -> Option<usize> {
        self.fixed.is_none().then_some(self.output)
    }

    /// Returns true if a sample of `bytes` bytes may have a large value.
    pub(crate) fn may_be_large(bytes: usize) -> bool {
        bytes > BYTES_MAX
    }

    /// Returns the value of the sample at `offset` of `open`, of `bytes` bytes, if it is large.
    pub(crate) fn large_value(&self, open: &OpenShard, offset: u64, bytes: usize) -> Option<LargeValue> {
        if !Self::may_be_large(bytes) {
            return None;
        }
        // Errors show up when the whole sample is read.
        let place = open.value_range(offset, bytes, self.column).ok()??;
        let columns = self.columns.clone();
        (place.len() > BYTES_MAX).then_some(LargeValue { fixed: self.fixed, place, columns })
    }
}

impl LargeValue {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.place.len()
    }

    /// Its column, with a row that is filled.
    pub(crate) fn columns(&self) -> &StoredColumns {
        &self.columns
    }

    /// Returns true if a row of `miss` takes it.
    pub(crate) fn fits(&self, row_bytes: &[usize]) -> bool {
        self.fixed.is_none_or(|number| row_bytes.get(number) == Some(&self.place.len()))
    }
}
