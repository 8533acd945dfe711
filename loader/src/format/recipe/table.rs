//! Rows of an Arrow table as samples.

use super::MdsBuilder;
use crate::error::{Error, Result};
use crate::format::arrow::{TableColumn, Values};
use arrow_array::RecordBatch;
use std::ops::Range;

/// Appends the rows `rows` of `batch` to `file`. `place` adds the place of a row of the batch to an error.
pub(super) fn append_rows(
    file: &mut MdsBuilder<'_>,
    columns: &[TableColumn],
    batch: &RecordBatch,
    rows: Range<u64>,
    place: impl Fn(Error, u64) -> Error,
) -> Result<()> {
    let values = columns.iter().map(|column| Values::new(batch, column)).collect::<Result<Vec<_>>>()?;
    for row in rows {
        let at = usize::try_from(row).map_err(|_| Error::internal("a row outside of memory"))?;
        let value = |column: usize, out: &mut Vec<u8>| {
            values[column].append(at, out).map_err(|e| e.with("column", &columns[column].name))
        };
        file.push_with(value).map_err(|e| place(e, row))?;
    }
    Ok(())
}
