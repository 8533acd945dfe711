//! Columns that the fields of a loader read.

use crate::decode::FieldSpec;
use crate::format::ColumnUse;

/// Returns the columns that `fields` read, each once.
pub(crate) fn columns_of(fields: &[(String, FieldSpec)]) -> Vec<ColumnUse<'_>> {
    let mut columns: Vec<ColumnUse<'_>> = Vec::new();
    for (name, has_default) in fields.iter().flat_map(|(_, field)| field.columns()) {
        match columns.iter_mut().find(|column| column.name == name) {
            Some(column) => column.has_default &= has_default,
            None => columns.push(ColumnUse { name, has_default }),
        }
    }
    columns
}
