//! The format, with its columns: one for each field of an archive, and one for the key.

use super::BLOCK;
use super::fields::{alternatives, encoding_of, encoding_of_any, encoding_of_unpacked, unpacked};
use super::name::KEY;
use super::samples::{FieldCounts, key_of, offsets};
use super::split::{split, value_range};
use crate::columns::{Column, ColumnForm, ColumnUse, FIELDS, Scratch};
use crate::encoding::Encoding;
use crate::index::{IndexedFormat, JsonObject, is_sampled, names_of};
use crate::layout::Layout;
use crate::read_at::ReadAt;
use crate::shard_format::{Projection, ShardFormat};
use crate::table::OffsetTable;
use forebay_core::error::Result;
use serde_json::Value as Json;
use std::ops::Range;
use std::sync::Arc;

/// Entry of a shard in an index.
pub(crate) const INDEXED: IndexedFormat =
    IndexedFormat { name: "tar", keys: &["column_names", "column_optional", "column_sampled"], layout, foreign: None };

/// Files in a tar archive, several per sample; offsets by its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tar {
    /// Columns that some samples lack.
    optional: Vec<String>,
    /// The columns are from some samples: the rest may lack any of them.
    is_sampled: bool,
    /// Columns with compressed files that are unpacked, because fields read them otherwise than as stored bytes.
    packed: Vec<String>,
}

impl Layout {
    /// Makes the layout of archives of samples with the fields `counts`. Fields that some of the samples lack are
    /// optional.
    pub fn tar(counts: &FieldCounts) -> Self {
        let names = [KEY].into_iter().chain(counts.fields.keys().map(String::as_str));
        let columns = names.map(|name| Column::new(name, encoding_of(name))).collect();
        let optional = counts.fields.iter().filter(|(_, samples)| **samples < counts.samples);
        let optional = optional.map(|(field, _)| field.clone()).collect();
        Self::new(Tar { optional, is_sampled: counts.is_sampled, packed: Vec::new() }, columns)
    }

    /// Returns true if the shards are tar files.
    pub fn is_tar(&self) -> bool {
        self.format_as::<Tar>().is_some()
    }
}

fn layout(entry: &JsonObject<'_>) -> Result<Layout> {
    // The encodings follow from the names.
    let columns = entry.texts("column_names")?.into_iter().map(|name| Column::new(name, encoding_of(name)));
    let optional = entry.owned_texts("column_optional")?;
    let format = Tar { optional, is_sampled: is_sampled(entry)?, packed: Vec::new() };
    Ok(Layout::new(format, columns.collect()))
}

impl ShardFormat for Tar {
    fn name(&self) -> &'static str {
        INDEXED.name
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_names", names_of(columns));
        put("column_optional", self.optional.clone().into());
    }

    fn has_table(&self) -> bool {
        false
    }

    fn file_bytes_min(&self, samples: u64) -> u64 {
        // Each sample has a header.
        samples.saturating_mul(BLOCK)
    }

    fn file_bytes_max(&self) -> u64 {
        u64::MAX
    }

    fn offsets(&self, _: &[Column], file: &dyn ReadAt, samples: u64) -> Option<Result<OffsetTable>> {
        Some(offsets(file, samples))
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, &self.optional, &self.packed, sample, scratch)
    }

    fn value_range(&self, columns: &[Column], column: usize, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
        let name = &columns[column].name;
        if self.packed.contains(name) { Ok(None) } else { value_range(name, sample) }
    }

    fn optional(&self) -> &[String] {
        &self.optional
    }

    fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    fn has_free_columns(&self) -> bool {
        true
    }

    fn lists_fields(&self) -> bool {
        true
    }

    fn key_of(&self, sample: &[u8]) -> Option<String> {
        key_of(sample)
    }

    fn key_column(&self) -> Option<&'static str> {
        Some(KEY)
    }

    fn has_column(&self, columns: &[Column], name: &str) -> bool {
        alternatives(name).any(|name| columns.iter().any(|column| column.name == name))
    }

    fn may_have_more_columns(&self) -> bool {
        self.is_sampled
    }

    fn is_unknown(&self, columns: &[Column], name: &str) -> bool {
        !self.is_sampled && !self.has_column(columns, name) && encoding_of_any(name) == Encoding::Bytes
    }

    fn projected(&self, columns: &[Column], wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        let (optional, columns) = self.projected_columns(columns, wanted)?;
        let packed = wanted.unwrap_or_default().iter().filter(|column| is_unpacked(column));
        let packed = packed.map(|column| column.name.to_owned()).collect();
        Some((Arc::new(Self { optional, is_sampled: false, packed }), columns))
    }
}

/// Returns true for a column with compressed files that are unpacked.
fn is_unpacked(column: &ColumnUse<'_>) -> bool {
    column.form != ColumnForm::Stored && alternatives(column.name).any(|field| unpacked(field).is_some())
}

impl Tar {
    /// Returns only the columns `wanted`, and the names of those with a default, which are optional; without `wanted`,
    /// the columns that every sample has. A name may be several, as in "jpg;png". `None` if one without a default is
    /// lacking: the layout then stays as it is, so that an error can name its columns.
    fn projected_columns(
        &self,
        columns: &[Column],
        wanted: Option<&[ColumnUse<'_>]>,
    ) -> Option<(Vec<String>, Vec<Column>)> {
        let Some(wanted) = wanted else {
            let of_all = columns.iter().filter(|column| !self.optional.contains(&column.name));
            return Some((Vec::new(), of_all.cloned().collect()));
        };
        let found = |column: &ColumnUse<'_>| {
            // The index may be made of some samples. The rest can have the field.
            if !column.has_default && column.name != FIELDS && !self.has_column(columns, column.name) {
                return None;
            }
            let encoding = if is_unpacked(column) { encoding_of_unpacked } else { encoding_of_any };
            Some(Column::new(column.name, encoding(column.name)))
        };
        let with_default = wanted.iter().filter(|column| column.has_default);
        let optional = with_default.map(|column| column.name.to_owned()).collect();
        Some((optional, wanted.iter().map(found).collect::<Option<_>>()?))
    }
}
