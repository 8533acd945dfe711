//! Errors about columns that no sample of a data set has: usually a name with a mistake.

use super::stream::Stream;
use crate::error::{Error, near};
use crate::format::{FIELDS, Recipe};
use std::collections::BTreeSet;

/// Columns that a message lists at most.
const LISTED_MAX: usize = 20;

/// Columns of some streams, for messages.
pub(crate) struct ColumnNames(BTreeSet<String>);

impl ColumnNames {
    /// Collects the columns of `streams`, also those of tables that no field reads.
    pub(crate) fn of<'a>(streams: impl IntoIterator<Item = &'a Stream>) -> Self {
        let mut names = BTreeSet::new();
        let mut add = |name: &str| {
            if name != FIELDS && !names.contains(name) {
                names.insert(name.to_owned());
            }
        };
        for shard in streams.into_iter().flat_map(|stream| &stream.index.shards).filter(|shard| shard.samples > 0) {
            shard.layout.columns.iter().for_each(|column| add(&column.name));
            let fields = match shard.recipe.as_deref() {
                Some(Recipe::Rows(rows)) => rows.file.schema.fields(),
                Some(Recipe::Batches(rows)) => rows.file.head.fields(),
                _ => continue,
            };
            fields.iter().for_each(|field| add(field.name()));
        }
        Self(names)
    }

    /// The names, of which the message of an error has as many as are readable.
    pub(crate) fn listed(&self) -> String {
        let more = if self.0.len() > LISTED_MAX { ", ..." } else { "" };
        let some: Vec<&str> = self.0.iter().take(LISTED_MAX).map(String::as_str).collect();
        format!("{}{more}", some.join(", "))
    }

    /// The hint that asks for the column that `name` may mean, or for one of its alternatives.
    pub(crate) fn asked(&self, name: &str) -> Option<String> {
        name.split(';').find_map(|name| near::asked(name, self.0.iter().map(String::as_str)))
    }

    /// Warns of the column `name`, which only samples that were not counted can have; `effect` is that of a field that reads it.
    pub(crate) fn warn_of(&self, name: &str, effect: &str) {
        let asked = self.asked(name).map_or_else(String::new, |asked| format!("; {asked}"));
        log::warn!("no sample is known to have the column {name}, so {effect}: columns {}{asked}", self.listed());
    }

    /// The error of the column `name`, which is none of them, in `whole`: a data set or a stream. `effect` is that of a field that
    /// reads it.
    pub(crate) fn absent(&self, name: &str, whole: &str, effect: &str) -> Error {
        self.error_about(name, format!("{whole} has no such column, so {effect}"))
    }

    /// The error of the column `name`, which none of the counted samples has. `effect` is that of a field that reads it.
    pub(crate) fn unknown(&self, name: &str, effect: &str) -> Error {
        let message =
            format!("no sample is known to have this column, so {effect}: all are read with `ignore_counts=True`");
        self.error_about(name, message)
    }

    fn error_about(&self, name: &str, message: String) -> Error {
        let error = Error::config(message).with("column", name).with("columns", self.listed());
        error.hinting_if(self.asked(name))
    }
}
