//! The format, with its columns: one for each feature of the records.

use super::features::{Counts, FeatureCounts};
use super::parts::{RECORD, RecordPart, encoding_of, name_of, record_column};
use super::record::{FRAME_BYTES, check, offsets, offsets_checked};
use super::split::split;
use crate::columns::{Column, ColumnForm, ColumnUse, Scratch};
use crate::encoding::{ArrayType, DType, Encoding};
use crate::index::{IndexedFormat, JsonObject, is_sampled, names_of};
use crate::layout::Layout;
use crate::read_at::ReadAt;
use crate::shard_format::{Projection, ShardFormat};
use crate::table::OffsetTable;
use forebay_core::error::{Context, Error, Result};
use serde_json::Value as Json;
use std::sync::Arc;

/// Entry of a shard in an index.
pub(crate) const INDEXED: IndexedFormat = IndexedFormat {
    name: "tfrecord",
    keys: &["column_names", "column_encodings", "column_optional", "column_sampled"],
    layout: of_entry,
    foreign: None,
};

/// TensorFlow's records of features; offsets by their headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TfRecord {
    /// Columns that some samples lack.
    optional: Vec<String>,
    /// Parts of a record that the columns are, in their order.
    parts: Vec<RecordPart>,
    /// The columns are from some records: the rest may lack any of them.
    is_sampled: bool,
}

impl FeatureCounts {
    /// Returns counts of `samples` records for which [`Layout::tfrecord`] makes `layout`, and that give the same layout
    /// as the original ones when further counts are merged, unless those [are partial](Self::is_partial); `None` for a
    /// layout of a different format.
    pub fn of_layout(layout: &Layout, samples: u64) -> Option<Self> {
        let TfRecord { optional, parts, is_sampled } = layout.format_as()?;
        if parts.contains(&RecordPart::Whole) {
            return Some(Self { samples, damaged: 0, features: None, is_sampled: *is_sampled });
        }
        let counts = |(column, part): (&Column, &RecordPart)| {
            let of_records = if optional.contains(&column.name) { samples.saturating_sub(1) } else { samples };
            (column.name.clone(), Counts::of_encoding(&column.encoding, *part, of_records))
        };
        let features = Some(layout.columns.iter().zip(parts).map(counts).collect());
        Some(Self { samples, damaged: 0, features, is_sampled: *is_sampled })
    }
}

fn layout(columns: impl IntoIterator<Item = (Column, RecordPart)>, optional: Vec<String>, is_sampled: bool) -> Layout {
    let (columns, parts) = columns.into_iter().unzip();
    Layout::new(TfRecord { optional, parts, is_sampled }, columns)
}

impl Layout {
    /// Makes the layout of records with the features `counts`. Features that some records lack are optional.
    pub fn tfrecord(counts: &FeatureCounts) -> Self {
        let filled = counts.features.iter().flatten().filter(|(_, feature)| feature.values.1 > 0);
        let features: Vec<_> = filled.collect();
        if features.is_empty() {
            return layout([record_column()], Vec::new(), counts.is_sampled);
        }
        let optional = features.iter().filter(|(_, feature)| feature.samples < counts.samples);
        let optional = optional.map(|(name, _)| (*name).clone()).collect();
        layout(features.iter().map(|(name, counts)| counts.column(name)), optional, counts.is_sampled)
    }

    /// Names of the encodings of a layout of records, for the index.
    pub fn record_encodings(&self) -> Vec<String> {
        self.format_as::<TfRecord>().map_or_else(Vec::new, |records| records.encodings(&self.columns))
    }
}

/// Makes the layout with these columns and encodings, which are from only some records if it `is_sampled`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for an unknown encoding, and for different numbers of names and encodings.
pub fn layout_of(names: &[&str], encodings: &[&str], optional: Vec<String>, is_sampled: bool) -> Result<Layout> {
    if names.len() != encodings.len() {
        let message = format!("{} names, {} encodings", names.len(), encodings.len());
        return Err(Error::format(message).with("field", "column_names"));
    }
    let column = |(name, encoding): (&&str, &&str)| {
        let known = encoding_of(encoding).ok_or_else(|| Error::format("unknown encoding").with("encoding", encoding));
        let (encoding, part) = known.context("column", || *name)?;
        Ok((Column::new(*name, encoding), part))
    };
    Ok(layout(names.iter().zip(encodings).map(column).collect::<Result<Vec<_>>>()?, optional, is_sampled))
}

fn of_entry(entry: &JsonObject<'_>) -> Result<Layout> {
    let optional = entry.owned_texts("column_optional")?;
    let (names, encodings) = (entry.texts("column_names")?, entry.texts("column_encodings")?);
    layout_of(&names, &encodings, optional, is_sampled(entry)?)
}

impl ShardFormat for TfRecord {
    fn name(&self) -> &'static str {
        INDEXED.name
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_encodings", self.encodings(columns).into());
        put("column_names", names_of(columns));
        put("column_optional", self.optional.clone().into());
    }

    fn has_table(&self) -> bool {
        false
    }

    fn file_bytes_min(&self, samples: u64) -> u64 {
        samples.saturating_mul(FRAME_BYTES)
    }

    fn offsets(&self, _: &[Column], file: &dyn ReadAt, samples: u64) -> Option<Result<OffsetTable>> {
        Some(offsets(file, samples))
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn offsets_checked(&self, file: &dyn ReadAt, samples: u64) -> Option<Result<(OffsetTable, Option<Error>)>> {
        Some(offsets_checked(file, samples))
    }

    fn check(&self, file: &dyn ReadAt, offsets: &OffsetTable) -> Result<()> {
        check(file, offsets)
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, &self.parts, &self.optional, sample, scratch)
    }

    fn optional(&self) -> &[String] {
        &self.optional
    }

    fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    fn projected(&self, columns: &[Column], wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        let (columns, parts, optional) = self.projected_columns(columns, wanted)?;
        Some((Arc::new(Self { optional, parts, is_sampled: false }), columns))
    }
}

/// Returns the column of a feature as one of lists: a column of single numbers becomes one of lists of one number, or
/// of at most one, unless all records have one.
fn as_list((column, part): (Column, RecordPart), is_fixed: bool) -> (Column, RecordPart) {
    let dtype = match column.encoding {
        Encoding::Int => DType::Int64,
        Encoding::Scalar(dtype) => dtype,
        _ => return (column, part),
    };
    let fixed = if is_fixed { ArrayType::fixed(dtype, vec![1]) } else { None };
    let list = Encoding::Array(fixed.unwrap_or_else(|| ArrayType::flat(dtype)));
    (Column::new(column.name, list), part)
}

impl TfRecord {
    /// Names of the encodings of the columns, for the index.
    fn encodings(&self, columns: &[Column]) -> Vec<String> {
        columns.iter().zip(&self.parts).map(|(column, part)| name_of(&column.encoding, *part)).collect()
    }

    /// Returns only the columns `wanted`, their parts, and the names of those with a default, which are optional;
    /// without `wanted`, the columns that every record has. Each record has its bytes, too. `None` if a column is
    /// lacking: the layout then stays as it is, so that an error can name the columns that it has.
    fn projected_columns(
        &self,
        columns: &[Column],
        wanted: Option<&[ColumnUse<'_>]>,
    ) -> Option<(Vec<Column>, Vec<RecordPart>, Vec<String>)> {
        let all = || columns.iter().cloned().zip(self.parts.iter().copied());
        let Some(wanted) = wanted else {
            let (columns, parts) = all().filter(|(column, _)| !self.optional.contains(&column.name)).unzip();
            return Some((columns, parts, Vec::new()));
        };
        let known = |wanted: &ColumnUse<'_>| {
            let column = all().find(|(column, _)| column.name == wanted.name);
            let column = column.or_else(|| (wanted.name == RECORD).then(record_column));
            let is_fixed = !self.is_sampled && !self.optional.iter().any(|name| name == wanted.name);
            let is_list = wanted.form == ColumnForm::List;
            column.map(|column| if is_list { as_list(column, is_fixed) } else { column })
        };
        let with_default = wanted.iter().filter(|column| column.has_default);
        let optional = with_default.map(|column| column.name.to_owned()).collect();
        let (columns, parts) = wanted.iter().map(known).collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some((columns, parts, optional))
    }
}
