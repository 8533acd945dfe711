//! Errors about columns that no sample of a data set has: usually a name with a mistake.

use super::stream::Stream;
use crate::error::{ColumnNames, Error};
use crate::format::FIELDS;
use std::collections::BTreeSet;

/// Columns of streams, for errors and warnings about one that they do not have.
pub(crate) struct StreamColumns(ColumnNames);

impl StreamColumns {
    /// Collects the columns of `streams`, also columns of tables that no field reads.
    pub(crate) fn of<'a>(streams: impl IntoIterator<Item = &'a Stream>) -> Self {
        let mut names = BTreeSet::new();
        let mut add = |name: &'a str| {
            if name != FIELDS {
                names.insert(name);
            }
        };
        for shard in streams.into_iter().flat_map(|stream| &stream.index.shards).filter(|shard| shard.samples > 0) {
            shard.layout.columns.iter().for_each(|column| add(&column.name));
            let table = shard.recipe.as_ref().and_then(|recipe| recipe.as_table());
            table.into_iter().flat_map(|table| table.fields()).for_each(|field| add(field.name()));
        }
        Self(names.into_iter().collect())
    }

    /// Warns of the column `name`, which only samples that were not counted can have; `effect` is the effect of a field
    /// that reads it.
    pub(crate) fn warn_of(&self, name: &str, effect: &str) {
        let asked = self.0.asked(name).map_or_else(String::new, |asked| format!("; {asked}"));
        log::warn!("no sample is known to have the column {name}, so {effect}: columns {}{asked}", self.0.listed());
    }

    /// The error of the column `name`, which is none of them, in `whole`: a data set or a stream. `effect` is the
    /// effect of a field that reads it.
    pub(crate) fn absent(&self, name: &str, whole: &str, effect: &str) -> Error {
        self.0.error_about(name, format!("{whole} has no such column, so {effect}"))
    }

    /// The error of the column `name`, which none of the counted samples has. `effect` is the effect of a field that
    /// reads it.
    pub(crate) fn unknown(&self, name: &str, effect: &str) -> Error {
        let message =
            format!("no sample is known to have this column, so {effect}: all are read with `ignore_counts=True`");
        self.0.error_about(name, message)
    }
}
