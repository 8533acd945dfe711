//! Columns that the fields of a loader read.

use crate::decode::FieldSpec;
use crate::format::{ColumnForm, ColumnUse};

/// Returns the columns that `fields` read only as texts.
pub(crate) fn texts_of(fields: &[(String, FieldSpec)]) -> Vec<String> {
    let all = || fields.iter().flat_map(|(_, field)| field.columns());
    let texts: Vec<&str> = fields.iter().flat_map(|(_, field)| field.texts()).collect();
    let uses = |name: &str| all().filter(|(column, _)| *column == name).count();
    let is_text = |name: &&&str| uses(name) == texts.iter().filter(|text| **text == **name).count();
    texts.iter().filter(is_text).map(|name| (*name).to_owned()).collect()
}

/// Returns the columns that `fields` read, each once.
pub(crate) fn columns_of(fields: &[(String, FieldSpec)]) -> Vec<ColumnUse<'_>> {
    let count = |names: &[&str], name: &str| names.iter().filter(|other| **other == name).count();
    let all: Vec<&str> = fields.iter().flat_map(|(_, field)| field.columns()).map(|(name, _)| name).collect();
    let lists: Vec<&str> = fields.iter().flat_map(|(_, field)| field.lists()).collect();
    let stored: Vec<&str> = fields.iter().flat_map(|(_, field)| field.stored()).collect();
    let mut columns: Vec<ColumnUse<'_>> = Vec::new();
    for (name, has_default) in fields.iter().flat_map(|(_, field)| field.columns()) {
        if let Some(column) = columns.iter_mut().find(|column| column.name == name) {
            column.has_default &= has_default;
            continue;
        }
        let form = if stored.contains(&name) {
            ColumnForm::Stored
        } else if count(&all, name) == count(&lists, name) {
            ColumnForm::List
        } else {
            ColumnForm::Value
        };
        columns.push(ColumnUse { name, has_default, form });
    }
    columns
}
