//! Entry of a format in an index.

use super::object::JsonObject;
use crate::columns::Column;
use crate::layout::Layout;
use forebay_core::error::Result;
use serde_json::Value as Json;

/// Format that an index may name.
pub(crate) struct IndexedFormat {
    /// Name in the index.
    pub(crate) name: &'static str,
    /// Keys of a shard's entry that no further formats have.
    pub(crate) keys: &'static [&'static str],
    /// Returns the layout of a shard with this entry.
    pub(crate) layout: fn(&JsonObject<'_>) -> Result<Layout>,
    /// Index in the form of another program.
    pub(crate) foreign: Option<ForeignIndex>,
}

/// Index of a format in the form of another program.
pub(crate) struct ForeignIndex {
    /// Noun for the files, as in "an index of LitData's chunks".
    pub(crate) noun: &'static str,
    /// Returns true for such a document.
    pub(crate) is_document: fn(&[u8]) -> bool,
}

/// Value of `column_names`.
pub(crate) fn names_of(columns: &[Column]) -> Json {
    columns.iter().map(|column| column.name.as_str()).collect()
}

/// Value of `column_sizes`.
pub(crate) fn sizes_of(columns: &[Column]) -> Json {
    columns.iter().map(|column| Json::from(column.size)).collect()
}

/// Returns the value of `column_sampled`: true if the columns are from some samples.
pub(crate) fn is_sampled(entry: &JsonObject<'_>) -> Result<bool> {
    match entry.0.get("column_sampled") {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| entry.expected("column_sampled", "true or false")),
    }
}
