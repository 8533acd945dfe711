//! Entry of a format in an index.

use super::object::JsonObject;
use crate::error::Result;
use crate::format::columns::Column;
use crate::format::layout::Layout;
use serde_json::Value as Json;

/// Format that an index may name.
pub(in crate::format) struct IndexedFormat {
    /// Name in the index.
    pub(in crate::format) name: &'static str,
    /// Keys of a shard's entry that other formats do not have.
    pub(in crate::format) keys: &'static [&'static str],
    /// Returns the layout of a shard with this entry.
    pub(in crate::format) layout: fn(&JsonObject<'_>) -> Result<Layout>,
    /// Index in the form of another program.
    pub(in crate::format) foreign: Option<ForeignIndex>,
}

/// Index of a format in the form of another program.
pub(in crate::format) struct ForeignIndex {
    /// Noun for the files, as in "an index of LitData's chunks".
    pub(in crate::format) noun: &'static str,
    /// Returns true for such a document.
    pub(in crate::format) is_document: fn(&[u8]) -> bool,
}

/// Value of `column_names`.
pub(in crate::format) fn names_of(columns: &[Column]) -> Json {
    columns.iter().map(|column| column.name.as_str()).collect()
}

/// Value of `column_sizes`.
pub(in crate::format) fn sizes_of(columns: &[Column]) -> Json {
    columns.iter().map(|column| Json::from(column.size)).collect()
}

/// Returns the value of `column_sampled`: true if the columns are those of some samples.
pub(in crate::format) fn is_sampled(entry: &JsonObject<'_>) -> Result<bool> {
    match entry.0.get("column_sampled") {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| entry.expected("column_sampled", "true or false")),
    }
}
