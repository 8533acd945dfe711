//! Encoding of one sample's values to the bytes in a shard.

use crate::columns::Scratch;
use crate::encoding::Value;
use crate::layout::Layout;
use forebay_core::error::{Error, Result};

/// Appends the sample with `values`, one for each column of `layout` in its order. `scratch` is overwritten.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] with the column, for a value that its column does not accept; `out` is then unchanged.
pub fn encode(layout: &Layout, values: &[Value<'_>], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
    if values.len() != layout.columns.len() {
        return Err(Error::config(format!("{} values for {} columns", values.len(), layout.columns.len())));
    }
    let start = out.len();
    layout.format.encode(&layout.columns, values, scratch, out).inspect_err(|_| out.truncate(start))
}
