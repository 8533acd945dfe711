//! Features of a file's records, and the columns that they become.

use std::collections::BTreeMap;

use super::example::{Kind, Numbers, damaged, features, numbers, texts};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::columns::{Column, FIELDS};
use crate::format::encoding::{ArrayType, DType, Encoding};
use crate::format::layout::{ColumnUse, Layout, ShardFormat};
use crate::format::wire::Fields;

/// Column of the records' bytes: the only one where they are no Examples.
pub const RECORD: &str = "record";

/// Most features of the records of a file.
const FEATURES_MAX: usize = 10_000;

/// Name in the index of a list of bytes of any length.
const BYTES_LIST: &str = "bytes_list";

/// Part of a record that a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordPart {
    /// The values of a feature.
    Values,
    /// The list of bytes of a feature, as the protocol buffer has it.
    BytesList,
    /// All bytes of the record.
    Whole,
}

/// Features of the records of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureCounts {
    /// Number of records.
    pub samples: u64,
    /// Features by name; `None` if the records are no Examples.
    features: Option<BTreeMap<String, Counts>>,
    /// The features are those of some records: others may lack any of them.
    is_sampled: bool,
}

/// Values of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    kind: Kind,
    /// Records that have a value.
    samples: u64,
    /// Fewest and most values of a record that has a list, which may be empty.
    values: (u64, u64),
    /// True if all values are UTF-8.
    is_text: bool,
}

impl FeatureCounts {
    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a record that is no Example where others are, or that has values of another type;
    /// [`ErrorKind::Unsupported`] for a SequenceExample there.
    pub fn add(&mut self, data: &[u8]) -> Result<()> {
        if self.samples == 0 {
            self.features = Some(BTreeMap::new());
        }
        self.samples += 1;
        let Some(known) = &mut self.features else { return Ok(()) };
        let mut found: BTreeMap<&str, Option<Counts>> = BTreeMap::new();
        let parsed = features(data, 0..data.len(), |feature| {
            let name = std::str::from_utf8(feature.name).map_err(|_| damaged())?;
            let counts = match feature.kind {
                None => None,
                Some(kind) => {
                    let (values, is_text) = count_values(data, kind, feature.list)?;
                    Some(Counts { kind, samples: u64::from(values > 0), values: (values, values), is_text })
                }
            };
            found.insert(name, counts);
            Ok(())
        });
        // Records without bytes are Examples and anything else.
        if parsed.is_err() && known.is_empty() {
            self.features = None;
            return Ok(());
        }
        parsed.map_err(|e| match e.kind() {
            ErrorKind::Format => Error::format("the record is no tf.train.Example, and others are").caused_by(e),
            _ => e,
        })?;
        for (name, counts) in found {
            if let Some(counts) = counts {
                merge(known, name, counts)?;
            }
        }
        Ok(())
    }

    /// Adds the records of another file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if one of them has Examples and the other has not, and for values of other types.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if other.samples == 0 {
            return Ok(());
        }
        if self.samples == 0 {
            *self = other.clone();
            return Ok(());
        }
        self.samples += other.samples;
        self.is_sampled |= other.is_sampled;
        match (self.features.take(), &other.features) {
            (None, None) => {}
            (Some(mut known), Some(features)) => {
                features.iter().try_for_each(|(name, counts)| merge(&mut known, name, *counts))?;
                self.features = Some(known);
            }
            (Some(known), None) if known.is_empty() => {}
            (None, Some(features)) if features.is_empty() => {}
            _ => {
                return Err(Error::format(
                    "the records of one file are tf.train.Examples, and those of another are not",
                ));
            }
        }
        Ok(())
    }

    /// Returns true if a layout does not show all that counts of other records change: a feature has only empty lists, or there are
    /// no features.
    pub fn is_partial(&self) -> bool {
        self.features.as_ref().is_some_and(|all| all.is_empty() || all.values().any(|feature| feature.values.1 == 0))
    }

    /// Returns counts of `samples` records for which [`Layout::tfrecord`] makes `layout`, and that give the same layout as the
    /// original ones when others are merged, unless those [are partial](Self::is_partial); `None` for a layout of another format.
    pub fn of_layout(layout: &Layout, samples: u64) -> Option<Self> {
        let ShardFormat::TfRecord { optional, parts, is_sampled } = &layout.format else { return None };
        if parts.contains(&RecordPart::Whole) {
            return Some(Self { samples, features: None, is_sampled: *is_sampled });
        }
        let counts = |(column, part): (&Column, &RecordPart)| {
            let of_records = if optional.contains(&column.name) { samples.saturating_sub(1) } else { samples };
            (column.name.clone(), Counts::of_encoding(&column.encoding, *part, of_records))
        };
        let features = Some(layout.columns.iter().zip(parts).map(counts).collect());
        Some(Self { samples, features, is_sampled: *is_sampled })
    }

    /// Returns the counts of `samples` records like these. Lists are of any length then.
    pub fn of_samples(&self, samples: u64) -> Self {
        let values = |values: (u64, u64)| if values.1 > 1 { (values.0, values.1 + 1) } else { values };
        let count = |n: u64| if n == self.samples { samples } else { n.min(samples.saturating_sub(1)) };
        let all = |features: &BTreeMap<String, Counts>| {
            let of = |(name, counts): (&String, &Counts)| {
                (name.clone(), Counts { samples: count(counts.samples), values: values(counts.values), ..*counts })
            };
            features.iter().map(of).collect()
        };
        Self { samples, features: self.features.as_ref().map(all), is_sampled: true }
    }
}

fn merge(known: &mut BTreeMap<String, Counts>, name: &str, counts: Counts) -> Result<()> {
    let is_full = known.len() == FEATURES_MAX;
    match known.get_mut(name) {
        None if name == FIELDS => {
            let message = "a feature has the name of the column in which forebay keeps the names of a sample's fields: write the files \
                           with another name for it";
            Err(Error::new(ErrorKind::Unsupported, message).with("feature", name))
        }
        None if is_full => Err(Error::format(format!("the records have more than {FEATURES_MAX} features"))),
        None => {
            known.insert(name.to_owned(), counts);
            Ok(())
        }
        // An empty list may be of any type.
        Some(known) if known.values.1 == 0 || counts.values.1 == 0 => {
            known.kind = if known.values.1 == 0 { counts.kind } else { known.kind };
            known.add(counts);
            Ok(())
        }
        Some(known) if known.kind != counts.kind => {
            let (a, b) = (known.kind.name(), counts.kind.name());
            let message = format!("the feature is a {a} in some records and a {b} in others");
            Err(Error::format(message).with("feature", name))
        }
        Some(known) => {
            known.add(counts);
            Ok(())
        }
    }
}

/// Returns the number of values of a list, and true if all are UTF-8.
pub(super) fn count_values(data: &[u8], kind: Kind, list: std::ops::Range<usize>) -> Result<(u64, bool)> {
    if kind == Kind::Bytes {
        let (mut values, mut is_text) = (0, true);
        for text in texts(data, list) {
            let text = text?;
            values += 1;
            is_text = is_text && std::str::from_utf8(&data[text]).is_ok();
        }
        return Ok((values, is_text));
    }
    let mut values = 0;
    for part in numbers(data, list) {
        values += match (kind, part?) {
            (Kind::Float, Numbers::Packed(place)) if place.len() % 4 == 0 => place.len() as u64 / 4,
            (Kind::Int64, Numbers::Packed(place)) => {
                let (mut ints, mut values) = (Fields::new(data, place), 0);
                while !ints.is_at_end() {
                    ints.varint()?;
                    values += 1;
                }
                values
            }
            (Kind::Float, Numbers::Word(_)) | (Kind::Int64, Numbers::Int(_)) => 1,
            _ => return Err(damaged()),
        };
    }
    Ok((values, false))
}

/// Stored form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Text,
    Texts,
    Int,
    Ints,
    Float,
    Floats,
}

/// Returns the form of the values of a column with this encoding.
pub(super) fn values_of(encoding: &Encoding, part: RecordPart) -> Values {
    match encoding {
        _ if part == RecordPart::BytesList => Values::Texts,
        Encoding::Int => Values::Int,
        Encoding::Scalar(_) => Values::Float,
        Encoding::Array(kind) if kind.dtype() == Some(DType::Int64) => Values::Ints,
        Encoding::Array(_) => Values::Floats,
        _ => Values::Text,
    }
}

/// Column of the records' bytes.
fn record_column() -> (Column, RecordPart) {
    (Column::new(RECORD, Encoding::Bytes), RecordPart::Whole)
}

/// Name of an encoding in the index.
fn name_of(encoding: &Encoding, part: RecordPart) -> String {
    let count = |kind: &ArrayType| kind.shape().map_or(String::new(), |shape| shape[0].to_string());
    match encoding {
        _ if part == RecordPart::BytesList => BYTES_LIST.to_owned(),
        _ if part == RecordPart::Whole => RECORD.to_owned(),
        Encoding::Int => "int64".to_owned(),
        Encoding::Scalar(_) => "float".to_owned(),
        Encoding::Array(kind) if kind.dtype() == Some(DType::Int64) => format!("int64[{}]", count(kind)),
        Encoding::Array(kind) => format!("float[{}]", count(kind)),
        Encoding::Str => "str".to_owned(),
        _ => "bytes".to_owned(),
    }
}

/// Returns the encoding of this [`name`](name_of).
fn encoding_of(name: &str) -> Option<(Encoding, RecordPart)> {
    let array = |dtype, count: &str| {
        let kind = match count {
            "" => ArrayType::flat(dtype),
            count => ArrayType::fixed(dtype, vec![count.parse().ok()?])?,
        };
        Some((Encoding::Array(kind), RecordPart::Values))
    };
    let encoding = match name {
        "int64" => Encoding::Int,
        "float" => Encoding::Scalar(DType::Float32),
        "str" => Encoding::Str,
        "bytes" => Encoding::Bytes,
        BYTES_LIST => return Some((Encoding::Bytes, RecordPart::BytesList)),
        RECORD => return Some((Encoding::Bytes, RecordPart::Whole)),
        _ => {
            let (kind, count) = name.strip_suffix(']')?.split_once('[')?;
            return match kind {
                "int64" => array(DType::Int64, count),
                "float" => array(DType::Float32, count),
                _ => None,
            };
        }
    };
    Some((encoding, RecordPart::Values))
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.is_text = (self.is_text || self.values.1 == 0) && (other.is_text || other.values.1 == 0);
        self.values = (self.values.0.min(other.values.0), self.values.1.max(other.values.1));
    }

    /// Counts with this [`encoding`](Self::encoding).
    fn of_encoding(encoding: &Encoding, part: RecordPart, samples: u64) -> Self {
        let array = |kind: &ArrayType| match kind.shape().and_then(|shape| u64::try_from(*shape.first()?).ok()) {
            Some(count) => (count, count),
            None => (0, u64::MAX),
        };
        let (kind, values) = match encoding {
            _ if part == RecordPart::BytesList => (Kind::Bytes, (0, u64::MAX)),
            Encoding::Int => (Kind::Int64, (1, 1)),
            Encoding::Scalar(_) => (Kind::Float, (1, 1)),
            Encoding::Array(of) if of.dtype() == Some(DType::Int64) => (Kind::Int64, array(of)),
            Encoding::Array(of) => (Kind::Float, array(of)),
            _ => (Kind::Bytes, (1, 1)),
        };
        Self { kind, samples, values, is_text: *encoding == Encoding::Str }
    }

    fn encoding(&self) -> Encoding {
        let array = |dtype| match self.values {
            (least, most) if least == most => {
                // A list of more than 4 GiB is in no record.
                let fixed = ArrayType::fixed(dtype, vec![usize::try_from(most).unwrap_or(usize::MAX)]);
                Encoding::Array(fixed.unwrap_or_else(|| ArrayType::flat(dtype)))
            }
            _ => Encoding::Array(ArrayType::flat(dtype)),
        };
        match (self.kind, self.values) {
            (Kind::Bytes, (_, 1)) => {
                if self.is_text {
                    Encoding::Str
                } else {
                    Encoding::Bytes
                }
            }
            (Kind::Bytes, _) => Encoding::Bytes,
            (Kind::Int64, (_, 1)) => Encoding::Int,
            (Kind::Float, (_, 1)) => Encoding::Scalar(DType::Float32),
            (Kind::Int64, _) => array(DType::Int64),
            (Kind::Float, _) => array(DType::Float32),
        }
    }
}

impl Counts {
    fn column(&self, name: &str) -> (Column, RecordPart) {
        let is_list = self.kind == Kind::Bytes && self.values.1 > 1;
        (Column::new(name, self.encoding()), if is_list { RecordPart::BytesList } else { RecordPart::Values })
    }
}

fn layout(columns: impl IntoIterator<Item = (Column, RecordPart)>, optional: Vec<String>, is_sampled: bool) -> Layout {
    let (columns, parts) = columns.into_iter().unzip();
    Layout { format: ShardFormat::TfRecord { optional, parts, is_sampled }, columns }
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
        let ShardFormat::TfRecord { parts, .. } = &self.format else { return Vec::new() };
        self.columns.iter().zip(parts).map(|(column, part)| name_of(&column.encoding, *part)).collect()
    }
}

/// Makes the layout with these columns and encodings, which are those of some records if it `is_sampled`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for an unknown encoding, and for other numbers of names and encodings.
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

/// Returns the layout with the columns `wanted` alone, those with a default optional; without `wanted`, with those that every
/// record has. Each record has its bytes, too. The layout stays as it is if it lacks a column, so that an error can name those
/// that it has.
pub(in crate::format) fn projected(
    from: &Layout,
    optional: &[String],
    parts: &[RecordPart],
    wanted: Option<&[ColumnUse<'_>]>,
) -> Layout {
    let all = || from.columns.iter().cloned().zip(parts.iter().copied());
    let Some(wanted) = wanted else {
        return layout(all().filter(|(column, _)| !optional.contains(&column.name)), Vec::new(), false);
    };
    let known = |wanted: &ColumnUse<'_>| {
        let column = all().find(|(column, _)| column.name == wanted.name);
        column.or_else(|| (wanted.name == RECORD).then(record_column))
    };
    let with_default = wanted.iter().filter(|column| column.has_default);
    let optional = with_default.map(|column| column.name.to_owned()).collect();
    match wanted.iter().map(known).collect::<Option<Vec<_>>>() {
        Some(columns) => layout(columns, optional, false),
        None => from.clone(),
    }
}
