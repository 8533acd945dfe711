//! Columns that the fields of a loader read.

use crate::decode::FieldSpec;
use crate::format::ColumnUse;

/// Returns the columns that `fields` read as texts alone.
pub(crate) fn texts_of(fields: &[(String, FieldSpec)]) -> Vec<String> {
    let all = || fields.iter().flat_map(|(_, field)| field.columns());
    let texts: Vec<&str> = fields.iter().flat_map(|(_, field)| field.texts()).collect();
    let uses = |name: &str| all().filter(|(column, _)| *column == name).count();
    let is_text = |name: &&&str| uses(name) == texts.iter().filter(|text| **text == **name).count();
    texts.iter().filter(is_text).map(|name| (*name).to_owned()).collect()
}

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
