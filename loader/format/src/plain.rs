//! Samples that are the bytes of one column, without sizes, such as token ids. No file has their offsets: they
//! are [ranges](super::index::Slice) of a file, or follow from a [recipe](super::recipe).

use super::columns::{Column, OmittedColumn, Scratch, Span};
use super::encoding::Encoding;
use super::index::names_of;
use super::layout::Layout;
use super::shard_format::ShardFormat;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::ops::Range;

/// The bytes of one column and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain;

impl Layout {
    /// Makes a layout of samples that are the bytes of one column.
    pub fn plain(column: &str, encoding: Encoding) -> Self {
        Self::new(Plain, vec![Column::new(column, encoding)])
    }
}

impl ShardFormat for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    // Its shards are ranges of files, which an index of this kind cannot describe.
    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_names", names_of(columns));
    }

    fn has_table(&self) -> bool {
        false
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, sample, &[], scratch)
    }

    fn split_around(
        &self,
        columns: &[Column],
        sample: &[u8],
        omitted: &[OmittedColumn],
        scratch: &mut Scratch,
    ) -> Result<()> {
        split(columns, sample, omitted, scratch)
    }

    fn around(&self, _: &[Column], _: usize) -> Option<(usize, usize)> {
        Some((0, 0))
    }

    fn fixed_range(&self, columns: &[Column], _: usize, sample_bytes: usize) -> Option<Range<usize>> {
        fixed_range(columns, sample_bytes)
    }

    fn sample_bytes(&self, columns: &[Column]) -> Option<usize> {
        fixed_bytes(columns)
    }

    fn is_plain(&self) -> bool {
        true
    }
}

/// Returns the bytes of every sample, if they are fixed.
pub(super) fn fixed_bytes(columns: &[Column]) -> Option<usize> {
    columns.first()?.size.map(|size| size as usize)
}

/// Returns the range of the value in a sample: the whole sample, or the sample is damaged.
pub(super) fn fixed_range(columns: &[Column], sample_bytes: usize) -> Option<Range<usize>> {
    fixed_bytes(columns).filter(|bytes| *bytes <= sample_bytes).map(|bytes| 0..bytes)
}

/// Makes `sample` the value of the one column, which is empty if it was `omitted`.
pub(super) fn split(columns: &[Column], sample: &[u8], omitted: &[OmittedColumn], scratch: &mut Scratch) -> Result<()> {
    let bytes = omitted.first().map_or(0, |column| column.bytes) + sample.len();
    if let Some(expected) = fixed_bytes(columns)
        && expected != bytes
    {
        let error = Error::format(format!("the sample has {bytes} bytes where its column has {expected}"));
        return Err(error.with("column", &columns[0].name));
    }
    scratch.spans.push(Span::Sample(0..sample.len()));
    Ok(())
}
