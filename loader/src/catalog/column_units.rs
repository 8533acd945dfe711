//! Comparison of the meanings of columns of tables, such as the units of times: equal numbers of milliseconds in one
//! file and of nanoseconds in a second file would be different times, and a batch of both would not show it.

use super::column_classes::{ColumnClasses, file_of};
use super::column_uses::columns_of;
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Error, Result};
use crate::format::Shard;
use crate::format::arrow::{column_type, have_same_units};
use crate::subsets::filter::Filter;
use arrow_schema::{DataType, Fields};
use std::collections::HashMap;

/// File in which a column was found first, and its type there.
struct First<'a> {
    shard: &'a Shard,
    kind: &'a DataType,
}

/// Checks that each column that `fields` read, or all columns without that, has one unit in all tables of `streams`,
/// and each column of a stream's filter one unit in all tables of the stream. A column has one list of classes in all
/// streams, too. A stream is given by its shards.
///
/// # Errors
///
/// `Config` for a column with two units or two lists of classes, with both and their files.
pub(crate) fn check_units<'a, S>(streams: impl Iterator<Item = S>, config: &'a LoaderConfig) -> Result<()>
where
    S: Iterator<Item = &'a Shard>,
{
    let read: Option<Vec<&str>> =
        config.fields.as_deref().map(|fields| columns_of(fields).iter().map(|column| column.name).collect());
    let filters = config.streams.iter().map(filtered_columns).collect::<Result<Vec<_>>>()?;
    let mut units: HashMap<&str, First<'_>> = HashMap::new();
    let mut classes = ColumnClasses::default();
    for (shards, filtered) in streams.zip(&filters) {
        let mut units_of_stream: HashMap<&str, First<'_>> = HashMap::new();
        let mut last: Option<&Fields> = None;
        for shard in shards.filter(|shard| shard.samples > 0) {
            let Some(table) = shard.recipe.as_deref().and_then(|recipe| recipe.as_table()) else { continue };
            let fields = table.fields();
            // Nearly all files of a data set have the same columns.
            if last.is_some_and(|last| last == fields) {
                continue;
            }
            last = Some(fields);
            classes.compare(&table.class_names(), read.as_deref(), shard)?;
            match &read {
                Some(read) => read.iter().try_for_each(|name| compare(&mut units, name, fields, shard))?,
                None => fields.iter().try_for_each(|field| compare(&mut units, field.name(), fields, shard))?,
            }
            filtered.iter().try_for_each(|name| compare(&mut units_of_stream, name, fields, shard))?;
        }
    }
    Ok(())
}

/// Returns the columns of the filter of `stream`.
fn filtered_columns(stream: &StreamConfig) -> Result<Vec<String>> {
    let filter = stream.select.filter.as_deref().map(Filter::parse).transpose()?;
    Ok(filter.iter().flat_map(Filter::columns).map(str::to_owned).collect())
}

/// Compares the type of the column `name` in the table of `shard` with its type in the first table that has it.
fn compare<'a>(
    units: &mut HashMap<&'a str, First<'a>>,
    name: &'a str,
    fields: &'a Fields,
    shard: &'a Shard,
) -> Result<()> {
    let Some(kind) = column_type(fields, name).filter(|kind| **kind != DataType::Null) else { return Ok(()) };
    let first = units.entry(name).or_insert(First { shard, kind });
    if have_same_units(first.kind, kind) {
        return Ok(());
    }
    let message = "a column has times of different units in two files: write both with one unit";
    Err(Error::config(message)
        .with("column", name)
        .with("type", first.kind)
        .with("file", file_of(first.shard))
        .with("type", kind)
        .with("file", file_of(shard)))
}
