//! Comparison of the names of classes in the tables of several streams: equal labels of two lists of classes would be
//! different classes, and a batch of both would not show it. The files of one stream are compared where its index is
//! read.

use crate::error::{Error, Result};
use crate::format::Shard;
use crate::format::arrow::ClassNames;
use crate::sync::Arc;
use std::collections::BTreeMap;

/// Lists of the classes of each column, with the first table that has them.
#[derive(Default)]
pub(super) struct ColumnClasses<'a> {
    known: BTreeMap<String, (&'a Shard, Vec<Vec<String>>)>,
}

impl<'a> ColumnClasses<'a> {
    /// Compares the classes `names` of the columns that `read` names, or of all columns without it, with the classes in
    /// the first table that has the column. `shard` belongs to the table with `names`.
    ///
    /// # Errors
    ///
    /// `Config` for a column with two lists, with both files and the first class that differs.
    pub(super) fn compare(&mut self, names: &ClassNames, read: Option<&[&str]>, shard: &'a Shard) -> Result<()> {
        // A field may read a part of a column, such as `meta.label`.
        let is_part = |name: &str, column: &str| {
            name.strip_prefix(column).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_read = |column: &str| read.is_none_or(|read| read.iter().any(|name| is_part(name, column)));
        for (column, lists) in names.iter().filter(|(column, _)| is_read(column)) {
            let (first, known) = self.known.entry(column.clone()).or_insert_with(|| (shard, lists.clone()));
            if known != lists {
                return Err(different_classes(column, (*first, known.as_slice()), (shard, lists)));
            }
        }
        Ok(())
    }
}

type Lists<'a> = (&'a Shard, &'a [Vec<String>]);

fn different_classes(column: &str, (first, a): Lists<'_>, (second, b): Lists<'_>) -> Error {
    let (a, b): (Vec<&String>, Vec<&String>) = (a.iter().flatten().collect(), b.iter().flatten().collect());
    let differs = (0..).find(|n| a.get(*n) != b.get(*n) || *n == a.len()).unwrap_or(0);
    let shown = |names: &[&String]| names.get(differs).map_or("none", |name| name).to_owned();
    let message = format!(
        "two streams have different lists of classes: class number {differs} is the first that differs. Write the \
         files with one list, or leave the column out of `fields`"
    );
    Error::config(message)
        .with("column", column)
        .with("class", shown(&a))
        .with("file", file_of(first))
        .with("class", shown(&b))
        .with("file", file_of(second))
}

/// Returns the file of the first row of `shard`.
pub(super) fn file_of(shard: &Shard) -> Arc<str> {
    let row = shard.recipe.as_deref().and_then(|recipe| recipe.row_of(0));
    row.map_or_else(|| shard.raw_data.basename.as_str().into(), |row| row.file)
}
