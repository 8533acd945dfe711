//! Properties that the shards of a data set share: format and columns.

use super::columns::{Column, SampleColumns, Scratch};
use super::encoding::Encoding;
use super::litdata::ItemForm;
use super::mds::{self, OmittedColumn};
use super::{jsonl, litdata, plain, tar, tfrecord, xsv};
use crate::error::{Error, Result};
use std::ops::Range;

/// File format of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShardFormat {
    /// Binary samples, offsets at the front of the same file.
    Mds,
    /// One JSON object per sample, each followed by `newline`; offsets in a `.meta` file.
    Jsonl {
        /// Text after every sample; may be empty.
        newline: String,
    },
    /// One row of text per sample, after a row of column names; offsets in a `.meta` file.
    Xsv {
        /// Name of the format in the index.
        kind: XsvKind,
        /// Text between two cells; never empty.
        separator: String,
        /// Text after every row; never empty.
        newline: String,
    },
    /// Files in a tar archive, several per sample; offsets by its headers.
    Tar {
        /// Columns that some samples lack.
        optional: Vec<String>,
        /// The columns are those of some samples: others may lack any of them.
        is_sampled: bool,
    },
    /// The bytes of one column and nothing else, such as token ids; no other file has the offsets.
    Plain,
    /// Items of LitData's chunks; offsets at the front of the same file.
    LitData(litdata::Items),
    /// TensorFlow's records of features; offsets by their headers.
    TfRecord {
        /// Columns that some samples lack.
        optional: Vec<String>,
        /// The columns are those of some records: others may lack any of them.
        is_sampled: bool,
        /// Parts of a record that the columns are, in their order.
        parts: Vec<tfrecord::RecordPart>,
    },
}

/// Names of formats of separated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XsvKind {
    /// Any separator, recorded in the index.
    Xsv,
    /// Commas.
    Csv,
    /// Tabs.
    Tsv,
}

impl XsvKind {
    /// Returns the separator that the name implies.
    pub fn separator(self) -> Option<&'static str> {
        match self {
            Self::Xsv => None,
            Self::Csv => Some(","),
            Self::Tsv => Some("\t"),
        }
    }
}

impl ShardFormat {
    /// Name in the index and in file names.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mds => "mds",
            Self::Jsonl { .. } => "json",
            Self::Xsv { kind: XsvKind::Xsv, .. } => "xsv",
            Self::Xsv { kind: XsvKind::Csv, .. } => "csv",
            Self::Xsv { kind: XsvKind::Tsv, .. } => "tsv",
            Self::Tar { .. } => "tar",
            Self::Plain => "plain",
            Self::LitData(_) => "litdata",
            Self::TfRecord { .. } => "tfrecord",
        }
    }

    /// Returns true if the offsets are in a separate `.meta` file.
    pub fn is_split(&self) -> bool {
        matches!(self, Self::Jsonl { .. } | Self::Xsv { .. })
    }
}

/// Format and columns, shared by all shards with the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// File format.
    pub format: ShardFormat,
    /// Columns, in the order of their values; those of JSONL are sorted by name.
    pub columns: Vec<Column>,
}

/// Use of a column by the fields of a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnUse<'a> {
    /// Name of the column.
    pub name: &'a str,
    /// Every field that reads it has a default for samples without it.
    pub has_default: bool,
}

impl Layout {
    /// Makes a layout of MDS with these columns, which the format sorts by name.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a repeated column.
    pub fn mds(columns: impl IntoIterator<Item = (String, Encoding)>) -> Result<Self> {
        let columns = columns.into_iter().map(|(name, encoding)| Column::new(name, encoding));
        Ok(Self { format: ShardFormat::Mds, columns: sorted(columns.map(Ok))? })
    }

    /// Makes a layout of samples that are the bytes of one column.
    pub fn plain(column: &str, encoding: Encoding) -> Self {
        Self { format: ShardFormat::Plain, columns: vec![Column::new(column, encoding)] }
    }

    /// Makes a layout of JSONL with these columns, whose types are `str`, `int` and `float`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for another type or a repeated column.
    pub fn jsonl<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>, newline: &str) -> Result<Self> {
        Ok(Self {
            format: ShardFormat::Jsonl { newline: newline.to_owned() },
            columns: sorted(columns.into_iter().map(text_column))?,
        })
    }

    /// Makes a layout of separated values with these columns, whose types are `str`, `int` and `float`. `separator` is
    /// used for [`XsvKind::Xsv`] only; the others imply theirs.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for another type, a repeated column, an empty separator or newline, or a column
    /// name that contains either.
    pub fn xsv<'a>(
        kind: XsvKind,
        columns: impl IntoIterator<Item = (&'a str, &'a str)>,
        separator: &str,
        newline: &str,
    ) -> Result<Self> {
        let separator = kind.separator().unwrap_or(separator);
        if separator.is_empty() || newline.is_empty() {
            return Err(Error::config("separator and newline cannot be empty"));
        }
        let columns = sorted(columns.into_iter().map(text_column))?;
        if let Some(column) = columns.iter().find(|c| c.name.contains(separator) || c.name.contains(newline)) {
            let what = "a column name contains the separator or the newline";
            return Err(Error::config(what).with("column", &column.name));
        }
        let format = ShardFormat::Xsv { kind, separator: separator.to_owned(), newline: newline.to_owned() };
        Ok(Self { format, columns })
    }

    /// Returns true if the columns are those of some samples: others may lack any of them.
    pub fn is_sampled(&self) -> bool {
        match self.format {
            ShardFormat::Tar { is_sampled, .. } | ShardFormat::TfRecord { is_sampled, .. } => is_sampled,
            _ => false,
        }
    }

    /// Returns the place of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns true if a field can read the column `name`: in tar files a name for one of several columns, too.
    pub fn has_column(&self, name: &str) -> bool {
        match self.format {
            ShardFormat::Tar { .. } => tar::alternatives(name).any(|name| self.column(name).is_some()),
            _ => self.column(name).is_some(),
        }
    }

    /// Returns true if samples may have columns that are not known, and can be read: tars, of which some samples were counted.
    pub fn may_have_others(&self) -> bool {
        matches!(self.format, ShardFormat::Tar { is_sampled: true, .. })
    }

    /// Returns true if no sample has the column `name`, and its name shows no encoding either, as those of some files in tars do:
    /// the type of its values is that of a field's default alone.
    pub fn is_unknown(&self, name: &str) -> bool {
        match self.format {
            ShardFormat::Tar { is_sampled: false, .. } => {
                !self.has_column(name) && tar::encoding_of_any(name) == Encoding::Bytes
            }
            _ => false,
        }
    }

    /// Returns the layout with the columns that a loader of the columns `wanted` reads, or of all without that; `None` if
    /// it is this one. Tar and TFRecord files have columns that some samples lack, and tar files names for one of several
    /// columns.
    pub fn projected(&self, wanted: Option<&[ColumnUse<'_>]>) -> Option<Self> {
        match &self.format {
            ShardFormat::Tar { optional, .. } => Some(tar::projected(self, optional, wanted)),
            ShardFormat::TfRecord { optional, parts, .. } => Some(tfrecord::projected(self, optional, parts, wanted)),
            _ => None,
        }
    }

    /// Returns the bytes before and after the value of column `column` in every sample; `None` if they depend on the
    /// sample. A reader can then read the value into its destination, and the rest elsewhere.
    ///
    /// # Panics
    ///
    /// If the layout has no column `column`.
    pub fn around(&self, column: usize) -> Option<(usize, usize)> {
        if self.is_plain() { Some((0, 0)) } else { mds::around(self.mds_columns()?, column) }
    }

    /// Splits the bytes of one sample into its columns. `scratch` is overwritten and can be reused.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with the column, if the bytes are not a sample of this layout.
    pub fn split<'a>(&self, sample: &'a [u8], scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        self.split_around(sample, &[], scratch)
    }

    /// Returns the place of the value of column `column` in a sample of `sample_bytes` bytes, if it does not depend on
    /// the sample's bytes: for columns of fixed size with no column of variable size before them, or none after them.
    ///
    /// # Panics
    ///
    /// If the layout has no column `column`.
    pub fn fixed_place(&self, column: usize, sample_bytes: usize) -> Option<Range<usize>> {
        if self.is_plain() {
            // The place is the whole sample, or the sample is damaged.
            return self.sample_bytes().filter(|bytes| *bytes <= sample_bytes).map(|bytes| 0..bytes);
        }
        mds::fixed_place(self.mds_columns()?, column, sample_bytes)
    }

    /// Returns the bytes of every sample, if they are fixed.
    pub fn sample_bytes(&self) -> Option<usize> {
        if self.is_plain() { plain::fixed_bytes(&self.columns) } else { mds::fixed_bytes(self.mds_columns()?) }
    }

    fn mds_columns(&self) -> Option<&[Column]> {
        (self.format == ShardFormat::Mds).then_some(&*self.columns)
    }

    /// Returns true if a sample is the bytes of its one column, such as token ids.
    pub fn is_plain(&self) -> bool {
        match &self.format {
            ShardFormat::Plain => true,
            ShardFormat::LitData(items) => matches!(items.form, ItemForm::Tokens | ItemForm::Windows { .. }),
            _ => false,
        }
    }

    /// Splits a sample without the columns `omitted`, which become empty.
    ///
    /// # Errors
    ///
    /// As [`split`](Self::split); [`crate::ErrorKind::Internal`] for a layout without [`around`](Self::around).
    pub fn split_around<'a>(
        &self,
        sample: &'a [u8],
        omitted: &[OmittedColumn],
        scratch: &'a mut Scratch,
    ) -> Result<SampleColumns<'a>> {
        scratch.spans.clear();
        scratch.side.clear();
        match (&self.format, omitted) {
            (ShardFormat::Mds, omitted) => mds::split(&self.columns, sample, omitted, scratch)?,
            (ShardFormat::Plain, omitted) => plain::split(&self.columns, sample, omitted, scratch)?,
            (ShardFormat::LitData(_), omitted) if self.is_plain() => {
                plain::split(&self.columns, sample, omitted, scratch)?;
            }
            (_, [_, ..]) => return Err(Error::internal("a column of another format than MDS was omitted")),
            (ShardFormat::Jsonl { newline }, []) => jsonl::split(&self.columns, newline, sample, scratch)?,
            (ShardFormat::Xsv { separator, newline, .. }, []) => {
                xsv::split(&self.columns, separator, newline, sample, scratch)?;
            }
            (ShardFormat::Tar { optional, .. }, []) => tar::split(&self.columns, optional, sample, scratch)?,
            (ShardFormat::LitData(items), []) => litdata::split(&self.columns, items.form, sample, scratch)?,
            (ShardFormat::TfRecord { optional, parts, .. }, []) => {
                tfrecord::split(&self.columns, parts, optional, sample, scratch)?;
            }
        }
        Ok(SampleColumns::new(sample, scratch))
    }
}

/// Makes a column of a text format from its name and type.
pub(super) fn text_column((name, kind): (&str, &str)) -> Result<Column> {
    let encoding = xsv::parse_text_type(kind).map_err(|e| e.with("column", name))?;
    Ok(Column { name: name.to_owned(), encoding, size: None })
}

/// Sorts by name. Byte order is code point order, which Python uses.
fn sorted(columns: impl Iterator<Item = Result<Column>>) -> Result<Vec<Column>> {
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    match columns.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(Error::config("a column name is used twice").with("column", &pair[0].name)),
        None => Ok(columns),
    }
}
