//! Parts of LitData's document.

use std::ops::Range;

use crate::json;
use forebay_core::error::Result;

/// Returns true for a document of LitData.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    matches!(members(bytes), Ok(Some(_)))
}

/// Returns the offsets of `config` and `chunks` in a document of LitData.
pub(super) fn members(bytes: &[u8]) -> Result<Option<(Range<usize>, Range<usize>)>> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    // The usual start of our own indexes, which may be long.
    let first = bytes.trim_ascii_start()[1..].trim_ascii_start();
    if first.starts_with(b"\"shards\"") {
        return Ok(None);
    }
    let (mut config, mut chunks, mut has_shards) = (None, None, false);
    json::scan_object(bytes, |key, value| {
        match &bytes[key] {
            b"\"config\"" => config = Some(value),
            b"\"chunks\"" => chunks = Some(value),
            b"\"shards\"" => has_shards = true,
            _ => {}
        }
        Ok(())
    })?;
    Ok(config.zip(chunks).filter(|_| !has_shards))
}
