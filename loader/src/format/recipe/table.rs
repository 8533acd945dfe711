//! Rows of an Arrow table as samples.

use super::MdsBuilder;
use crate::error::{Error, Result};
use crate::format::arrow::{TableColumn, Values};
use arrow_array::RecordBatch;
use std::ops::Range;

/// Appends the rows `rows` of `batch` to `file`. If `columns` have a list of a row's columns, those with a null are not in it, and
/// are empty or zero. `place` adds the place of a row of the batch to an error.
pub(super) fn append_rows(
    file: &mut MdsBuilder<'_>,
    columns: &[TableColumn],
    batch: &RecordBatch,
    rows: Range<u64>,
    place: impl Fn(Error, u64) -> Error,
) -> Result<()> {
    let is_list = |column: &TableColumn| column.path.is_empty();
    let values = |column| if is_list(column) { Ok(None) } else { Values::new(batch, column).map(Some) };
    let values = columns.iter().map(values).collect::<Result<Vec<_>>>()?;
    let may_have_nulls = columns.iter().any(is_list);
    for row in rows {
        let at = usize::try_from(row).map_err(|_| Error::internal("a row outside of memory"))?;
        let is_present = |values: &Option<Values>| values.as_ref().is_some_and(|values| !values.is_null(at));
        let value = |column: usize, out: &mut Vec<u8>| match &values[column] {
            None => {
                let present = columns.iter().zip(&values).filter(|(_, values)| is_present(values));
                let names = present.map(|(column, _)| &*column.name).collect::<Vec<_>>();
                out.extend_from_slice(names.join("\n").as_bytes());
                Ok(())
            }
            Some(values) if may_have_nulls && values.is_null(at) => {
                let bytes = columns[column].encoding.fixed_size().unwrap_or(0);
                out.resize(out.len() + bytes as usize, 0);
                Ok(())
            }
            Some(values) => values.append(at, out).map_err(|e| e.with("column", &columns[column].name)),
        };
        file.push_with(value).map_err(|e| place(e, row))?;
    }
    Ok(())
}
