//! Samples that are the bytes of one column, without sizes.

use super::columns::{Column, Scratch, Span};
use super::mds::OmittedColumn;
use crate::error::{Error, Result};

/// Returns the bytes of every sample, if they are fixed.
pub(super) fn fixed_bytes(columns: &[Column]) -> Option<usize> {
    columns.first()?.size.map(|size| size as usize)
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
