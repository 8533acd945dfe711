//! Parts of LitData's document.

use std::ops::Range;

use crate::json;
use forebay_core::error::Result;

/// Returns true for a document of LitData.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    matches!(places(bytes), Ok(Some(_)))
}

/// Returns the offsets of `config` and `chunks` in a document of LitData.
pub(super) fn places(bytes: &[u8]) -> Result<Option<(Range<usize>, Range<usize>)>> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let (mut config, mut chunks, mut is_other) = (None, None, false);
    json::scan_object(bytes, |key, value| {
        match &bytes[key] {
            b"\"config\"" => config = Some(value),
            b"\"chunks\"" => chunks = Some(value),
            b"\"shards\"" => is_other = true,
            _ => {}
        }
        Ok(())
    })?;
    Ok(config.zip(chunks).filter(|_| !is_other))
}
