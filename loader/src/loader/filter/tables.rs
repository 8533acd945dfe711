//! Answers from Parquet and Arrow files: their remaining columns are not read.
//!
//! The division of such files into shards does not depend on the columns that are read. So the stream is opened again,
//! with the columns of the filter alone, and its shards have the same rows.

use super::answer::{Answer, Bits, Open};
use super::columns::{ColumnValue, FilterColumn, find_of, reply_of};
use super::context::FilteredStream;
use crate::catalog::IndexedStream;
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::columns;
use crate::format::parquet::{Bounds, Values};
use crate::format::recipe::TableRow;
use crate::format::{Encoding, Shard};
use crate::pipeline::RangeFetch;
use crate::stats::TimeKind;
use crate::store::{Encoded, FetchBuffer};
use crate::subsets::filter::{Cell, Range};
use crate::subsets::question::Reply;

/// Files with columns to read.
pub(super) struct Tables<'a> {
    of: &'a FilteredStream<'a>,
    /// Columns in the files.
    names: Vec<String>,
    /// The same files with these columns.
    opened: Option<IndexedStream>,
}

impl<'a> Tables<'a> {
    /// Finds the columns of the filter in the tables of the stream.
    ///
    /// # Errors
    ///
    /// As [`find`].
    pub(super) fn new(of: &'a FilteredStream<'a>) -> Result<Self> {
        let table = of.stream.index.shards.iter().find_map(|shard| shard.recipe.as_ref()?.as_table());
        let table = table.ok_or_else(|| Error::internal("a table without columns"))?;
        let fields = table.fields();
        let in_path = |name: &str| table.partitions().iter().find(|column| column.name == name);
        let in_file = |name: &str| match columns(fields, Some(&[name.to_owned()]), &[]) {
            Ok(found) => found.into_iter().next().map(|column| column.encoding),
            Err(e) if e.kind() == ErrorKind::Unsupported => Some(Encoding::Custom("of a different type".to_owned())),
            Err(_) => None,
        };
        let encoding = |name: &str| in_file(name).or_else(|| in_path(name).map(|column| column.encoding.clone()));
        let all = || {
            let named = |name: &String| Some((name.clone(), encoding(name)?));
            let in_paths = table.partitions().iter().map(|column| &column.name);
            fields.iter().map(|field| field.name()).chain(in_paths).filter_map(named).collect()
        };
        let mut names: Vec<String> = find_of(of, encoding, all)?.into_iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self { of, names, opened: None })
    }
}

impl Answer for Tables<'_> {
    fn open(&mut self, open: Open<'_>) -> Result<()> {
        let opened = open(&self.names)?;
        let samples = |shard: &Shard| shard.samples;
        if !opened.cache.shards.index().shards.iter().map(samples).eq(self.of.stream.index.shards.iter().map(samples)) {
            return Err(Error::new(ErrorKind::Stale, "the files have changed while they were opened: start again"));
        }
        self.opened = Some(opened);
        Ok(())
    }

    fn of_shard(&self, number: u32, progress: &dyn Fn()) -> Result<Bits> {
        let not_open = || Error::internal("the columns of a filter are not open");
        let IndexedStream { cache, remote, .. } = self.opened.as_ref().ok_or_else(not_open)?;
        let shard = &cache.shards.index().shards[number as usize];
        let (recipe, remote) = shard.recipe.as_ref().zip(remote.as_ref()).ok_or_else(not_open)?;
        let table = recipe.as_table().ok_or_else(not_open)?;
        // The columns of a second file may have different types.
        let (layout, mut bits) = (&shard.layout, self.of.no_answers(number));
        let encoding = |name: &str| layout.column(name).map(|column| layout.columns[column].encoding.clone());
        let all = || layout.columns.iter().map(|column| (column.name.clone(), column.encoding.clone())).collect();
        let found = find_of(self.of, encoding, all)?;
        let numbered = found.into_iter().filter_map(|column| Some((layout.column(&column.name)?, column)));
        let numbered: Vec<(usize, FilterColumn)> = numbered.collect();
        let bounds: Vec<Option<Bounds>> = numbered.iter().map(|(number, _)| table.bounds(*number)).collect();
        if let Some(bit) = self.of.question.certain(&bounds.iter().map(range).collect::<Vec<_>>()) {
            self.of.stats.counter("filter_shards_skipped").add(1);
            return Ok(Bits::all(shard.samples, bit));
        }
        let mut row_reader = RowReader::new(numbered);
        let _memory = self.of.reserve(shard.fetch_bytes())?;
        let (file, encoded) = (&shard.raw_data, Encoded::Refused);
        let fetch = RangeFetch { remote, run: &self.of.run, file, encoded, watch: &|_| progress() };
        let stage = self.of.stats.stage("fetch");
        let parts = stage.timed(TimeKind::Busy, || fetch.all(&recipe.ranges()))?;
        stage.done(1, parts.iter().map(|part| part.len() as u64).sum());
        table.for_each_row(parts.into_iter().map(FetchBuffer::freeze).collect(), &mut |row| {
            bits.add(row_reader.reply(self.of, row)?);
            Ok(())
        })?;
        if bits.len() != self.of.bits_of(number) {
            let (found, declared) = (bits.len() / self.of.question.bits(), shard.samples);
            return Err(Error::format(format!("{found} rows were found where the index declares {declared}")));
        }
        Ok(bits)
    }
}

/// Returns the values of a column with these bounds.
fn range(bounds: &Option<Bounds>) -> Range<'_> {
    let Some(Bounds { values, has_nulls }) = bounds else { return Range::Unknown };
    let (least, largest, has_nan) = match values {
        Values::Unknown if *has_nulls => return Range::Unknown,
        Values::Unknown => return Range::Present,
        Values::None => return Range::Absent,
        Values::Int(least, largest) => (Cell::Int((*least).into()), Cell::Int((*largest).into()), false),
        Values::Float(least, largest) => {
            (Cell::Float(f64::from_bits(*least)), Cell::Float(f64::from_bits(*largest)), true)
        }
        Values::Text(least, largest) => (Cell::Text(least.into()), Cell::Text(largest.into()), false),
    };
    Range::Values { least, largest, has_absent: *has_nulls, has_nan }
}

/// Reader of the cells of rows.
struct RowReader {
    /// Columns of the filter, each with its number in the table.
    columns: Vec<(usize, FilterColumn)>,
    /// Stored value of each.
    values: Vec<Vec<u8>>,
}

impl RowReader {
    fn new(columns: Vec<(usize, FilterColumn)>) -> Self {
        Self { values: vec![Vec::new(); columns.len()], columns }
    }

    fn reply(&mut self, of: &FilteredStream<'_>, row: &TableRow<'_>) -> Result<Reply> {
        for ((number, _), value) in self.columns.iter().zip(&mut self.values) {
            value.clear();
            if !row.is_null(*number) {
                row.append(*number, value)?;
            }
        }
        let values = self.columns.iter().zip(&self.values).map(|((number, _), value)| {
            if row.is_null(*number) { ColumnValue::Absent } else { ColumnValue::Stored(value) }
        });
        let values: Vec<ColumnValue<'_>> = values.collect();
        reply_of(of.question, &self.columns, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_bounds_have_values_if_none_is_null() {
        let of = |values: Values, has_nulls| Some(Bounds { values, has_nulls });
        assert!(matches!(range(&of(Values::Unknown, false)), Range::Present));
        assert!(matches!(range(&of(Values::Unknown, true)), Range::Unknown));
        assert!(matches!(range(&of(Values::None, true)), Range::Absent));
        assert!(matches!(range(&of(Values::Int(1, 2), true)), Range::Values { has_absent: true, .. }));
        assert!(matches!(range(&None), Range::Unknown));
    }
}
