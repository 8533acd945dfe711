//! Columns, and where they lie in one sample: what the formats' splitting fills in and readers look up.

use std::ops::Range;

use super::encoding::Encoding;

/// A column of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// How its values are stored. The text formats' `str`, `int` and `float` are [`Encoding::Str`],
    /// [`Encoding::StrInt`] and [`Encoding::StrFloat`].
    pub encoding: Encoding,
    /// Bytes of every value, if that is fixed; else each sample says.
    pub size: Option<u32>,
}

impl Column {
    /// Column of an MDS shard, whose encoding decides about a fixed size.
    pub fn new(name: impl Into<String>, encoding: Encoding) -> Self {
        Self { name: name.into(), size: encoding.fixed_size(), encoding }
    }
}

/// Where the columns of one sample lie; reused from sample to sample.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) spans: Vec<Span>,
    /// Bytes that do not stand in the sample as they are, such as unescaped JSON strings.
    pub(super) side: Vec<u8>,
}

/// A column's bytes.
#[derive(Clone, Debug)]
pub(super) enum Span {
    /// In the sample.
    Sample(Range<usize>),
    /// In [`Scratch::side`].
    Side(Range<usize>),
}

/// One sample, divided into columns.
#[derive(Clone, Copy, Debug)]
pub struct SampleColumns<'a> {
    sample: &'a [u8],
    scratch: &'a Scratch,
}

impl<'a> SampleColumns<'a> {
    /// `scratch` as a split of `sample` left it.
    pub(super) fn new(sample: &'a [u8], scratch: &'a Scratch) -> Self {
        Self { sample, scratch }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.scratch.spans.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.scratch.spans.is_empty()
    }

    /// The bytes of column `i` of the layout, as its encoding takes them.
    ///
    /// # Panics
    ///
    /// When the layout has no column `i`.
    pub fn get(&self, i: usize) -> &'a [u8] {
        match &self.scratch.spans[i] {
            Span::Sample(range) => &self.sample[range.clone()],
            Span::Side(range) => &self.scratch.side[range.clone()],
        }
    }

    /// The columns' bytes in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i))
    }
}
