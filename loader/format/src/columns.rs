//! Columns, and their offsets in one sample.

use std::borrow::Cow;
use std::ops::Range;

use super::encoding::Encoding;
use forebay_core::error::{Error, Result};

/// Column with the names of the fields that a sample has, one a line. A tar file has it for every sample; MDS where it
/// is stored, and then the columns that it does not name are absent from the sample.
pub const FIELDS: &str = "__fields__";

/// A column of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Encoding of its values. The text formats' `str`, `int` and `float` are [`Encoding::Str`], [`Encoding::StrInt`]
    /// and [`Encoding::StrFloat`].
    pub encoding: Encoding,
    /// Bytes of every value, if they are fixed; otherwise each sample stores them.
    pub size: Option<u32>,
}

impl Column {
    /// Makes a column of an MDS shard. Its size is the encoding's.
    pub fn new(name: impl Into<String>, encoding: Encoding) -> Self {
        Self { name: name.into(), size: encoding.fixed_size(), encoding }
    }
}

/// Sorts by name. Byte order is code point order, which Python uses.
pub(super) fn sorted(columns: impl Iterator<Item = Result<Column>>) -> Result<Vec<Column>> {
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    match columns.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(Error::config("a column name is used twice").with("column", &pair[0].name)),
        None => Ok(columns),
    }
}

/// Use of a column by the fields of a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnUse<'a> {
    /// Name of the column.
    pub name: &'a str,
    /// Every field that reads it has a default for samples without it.
    pub has_default: bool,
    /// Form that the fields read.
    pub form: ColumnForm,
}

/// Form in which the fields of a loader read a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnForm {
    /// Its values.
    Value,
    /// Its values as lists, also where they have one element: all fields read arrays.
    List,
    /// Its values as they are stored: a field reads bytes.
    Stored,
}

/// Column with a value that was read elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OmittedColumn {
    /// Number among the columns.
    pub column: usize,
    /// Bytes of the value.
    pub bytes: usize,
}

/// Offsets of the columns of one sample; reused from sample to sample.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) spans: Vec<Span>,
    /// Bytes that differ from the sample's, such as unescaped JSON strings.
    pub(super) side: Vec<u8>,
    /// Per column, a number that splitting needs.
    pub(super) ranks: Vec<usize>,
}

/// Offset of a column's bytes.
#[derive(Clone, Debug)]
pub(super) enum Span {
    Sample(Range<usize>),
    Side(Range<usize>),
    /// The sample does not have the column.
    Absent,
}

impl Span {
    /// Returns the bytes, which are a copy if they are in `side`, so that the caller can append to it.
    pub(super) fn bytes<'a>(&self, sample: &'a [u8], side: &[u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Sample(range) => Some(Cow::Borrowed(&sample[range.clone()])),
            Self::Side(range) => Some(Cow::Owned(side[range.clone()].to_vec())),
            Self::Absent => None,
        }
    }
}

impl Scratch {
    /// Forgets the last sample, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.side.clear();
    }

    /// Makes all of `columns` absent that [`FIELDS`] of `sample` does not name, if there is such a column.
    pub(super) fn mark_absent(&mut self, columns: &[Column], sample: &[u8]) {
        let Some(fields) = columns.iter().position(|column| column.name == FIELDS) else { return };
        let Span::Sample(range) = self.spans[fields].clone() else { return };
        for (i, column) in columns.iter().enumerate() {
            let mut names = sample[range.clone()].split(|byte| *byte == b'\n');
            if i != fields && !names.any(|name| name == column.name.as_bytes()) {
                self.spans[i] = Span::Absent;
            }
        }
    }
}

/// One sample, divided into columns.
#[derive(Clone, Copy, Debug)]
pub struct SampleColumns<'a> {
    sample: &'a [u8],
    scratch: &'a Scratch,
}

impl<'a> SampleColumns<'a> {
    /// `scratch` is the result of splitting `sample`.
    pub(super) fn new(sample: &'a [u8], scratch: &'a Scratch) -> Self {
        Self { sample, scratch }
    }

    /// Number of columns.
    #[inline]
    pub fn len(&self) -> usize {
        self.scratch.spans.len()
    }

    /// Returns true if there is no column.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.scratch.spans.is_empty()
    }

    /// Returns the bytes of column `i` of the layout, as its encoding reads them; none if the sample does not have it.
    ///
    /// # Panics
    ///
    /// If the layout has no column `i`.
    #[inline]
    pub fn get(&self, i: usize) -> &'a [u8] {
        self.find(i).unwrap_or_default()
    }

    /// Returns the bytes of column `i`; `None` if the sample or the layout does not have it.
    #[inline]
    pub fn find(&self, i: usize) -> Option<&'a [u8]> {
        match self.scratch.spans.get(i)? {
            Span::Sample(range) => Some(&self.sample[range.clone()]),
            Span::Side(range) => Some(&self.scratch.side[range.clone()]),
            Span::Absent => None,
        }
    }

    /// Iterates over the numbers and bytes of the columns that the sample has.
    #[inline]
    pub fn present(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let this = *self;
        (0..this.len()).filter_map(move |i| Some((i, this.find(i)?)))
    }

    /// Iterates over the columns' bytes.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i))
    }
}
