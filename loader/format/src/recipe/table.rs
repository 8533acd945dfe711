//! Rows of an Arrow table as samples.

use super::MdsBuilder;
use crate::arrow::{ClassNames, TableColumn, Values};
use crate::parquet::Bounds;
use arrow_array::RecordBatch;
use arrow_schema::Fields;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Position of a row in the file of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPosition {
    /// Key of the file relative to the remote.
    pub file: Arc<str>,
    /// Row group of a Parquet file, or batch of an Arrow file, from 0.
    pub group: usize,
    /// Row in the group, from 0.
    pub row: u64,
}

/// Rows of a table that are the samples of a shard.
pub trait TableRows {
    /// All columns of the table, also those that are not read.
    fn fields(&self) -> &Fields;

    /// Names of the classes of columns, as the writer of the file has noted them.
    fn class_names(&self) -> Cow<'_, ClassNames>;

    /// Columns that are parts of the path of the file, also those that are not read.
    fn partitions(&self) -> &[TableColumn];

    /// Returns the position of sample `index` of the shard in its file.
    fn position_of(&self, index: u64) -> RowPosition;

    /// Returns the bounds of the values of column number `column` of the layout in the rows of the shard; `None` for a
    /// column that is not one of the file's with a value for each row, such as a list, and where they are not known.
    fn bounds(&self, _column: usize) -> Option<Bounds> {
        None
    }

    /// Calls `each` with each row, with columns in the order of the layout. `parts` are the bytes of the ranges of
    /// the recipe.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that differ from the index; the errors of `each`.
    fn for_each_row(&self, parts: Vec<Bytes>, each: &mut dyn FnMut(&TableRow<'_>) -> Result<()>) -> Result<()>;
}

/// Returns the group of row number `row`, and the row's number in it. `rows` are the rows of each group.
pub(super) fn position_in(row: u64, rows: impl IntoIterator<Item = u64>) -> (usize, u64) {
    let (mut number, mut row) = (0, row);
    for rows in rows {
        if row < rows {
            break;
        }
        row -= rows;
        number += 1;
    }
    (number, row)
}

/// Row of a table.
pub struct TableRow<'a> {
    columns: &'a [TableColumn],
    /// Values of each column; `None` for a list of the row's columns.
    values: &'a [Option<Values>],
    /// A column has that list, so a null is no error.
    may_have_nulls: bool,
    /// Its number in the batch of the values.
    row: usize,
}

impl TableRow<'_> {
    /// Returns true if the row has no value in the column `column`.
    pub fn is_null(&self, column: usize) -> bool {
        self.values[column].as_ref().is_none_or(|values| values.is_null(self.row))
    }

    /// Appends the value of the column `column`, in its encoding, to `out`. If the columns have a list of a row's
    /// columns, those with a null are not in it, and are empty or zero.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a null without such a list.
    pub fn append(&self, column: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.values[column] {
            None => {
                let present = self.columns.iter().enumerate().filter(|(column, _)| !self.is_null(*column));
                let names = present.map(|(_, column)| &*column.name).collect::<Vec<_>>();
                out.extend_from_slice(names.join("\n").as_bytes());
                Ok(())
            }
            Some(values) if self.may_have_nulls && values.is_null(self.row) => {
                let bytes = self.columns[column].encoding.fixed_size().unwrap_or(0);
                out.resize(out.len() + bytes as usize, 0);
                Ok(())
            }
            Some(values) => values.append(self.row, out).map_err(|e| e.with("column", &self.columns[column].name)),
        }
    }
}

/// Calls `each` with the rows `rows` of `batch`. `place` adds the position of a row of the batch to an error.
pub(super) fn for_each_row(
    columns: &[TableColumn],
    batch: &RecordBatch,
    rows: Range<u64>,
    place: impl Fn(Error, u64) -> Error,
    each: &mut impl FnMut(&TableRow<'_>) -> Result<()>,
) -> Result<()> {
    let values = |column: &TableColumn| if column.is_list() { Ok(None) } else { Values::new(batch, column).map(Some) };
    let values = columns.iter().map(values).collect::<Result<Vec<_>>>()?;
    let may_have_nulls = columns.iter().any(TableColumn::is_list);
    for number in rows {
        let row = usize::try_from(number).map_err(|_| Error::internal("a row outside of memory"))?;
        each(&TableRow { columns, values: &values, may_have_nulls, row }).map_err(|e| place(e, number))?;
    }
    Ok(())
}

/// Appends `row` to `file`, which has the row's columns.
pub(super) fn append_row(file: &mut MdsBuilder<'_>, row: &TableRow<'_>) -> Result<()> {
    file.push_with(|column, out| row.append(column, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_the_group_after_those_that_end_before_it() {
        let places = [0, 2, 3, 6, 7].map(|row| position_in(row, [3, 0, 4]));
        assert_eq!(places, [(0, 0), (0, 2), (2, 0), (2, 3), (3, 0)]);
    }
}
