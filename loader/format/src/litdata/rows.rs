//! Chunks with the rows of an Arrow file as samples.
//!
//! ```text
//!   chunk:  u32 n | u32 offset[0..=n], all of them the same | Arrow file | u32 bytes of it | "LDARW01\0"
//! ```
//!
//! LitData writes them where pyarrow is installed, for samples that are dictionaries of texts, bytes, numbers and
//! lists. Its index has no sign of them.

use super::table_bytes;
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::ops::Range;

/// End of a chunk.
const END: [u8; 8] = *b"LDARW01\0";

/// Bytes of the length of the Arrow file, and of the end.
const TAIL_BYTES: usize = 12;

/// Types of values that a row can have, by their names in the index.
const KINDS: [&str; 9] = ["str", "int", "float", "bool", "bytes", "null", "list", "map", "struct"];

/// Returns true if samples of these `types`, as the index has them, may be rows.
pub(super) fn may_be_rows(types: &Json) -> bool {
    types.as_object().is_some_and(|fields| !fields.is_empty() && fields.values().all(may_be_cell))
}

fn may_be_cell(kind: &Json) -> bool {
    let name = kind.as_str().or_else(|| kind.get("type")?.as_str());
    let parts = |key: &str| kind.get(key).and_then(Json::as_object).into_iter().flat_map(|fields| fields.values());
    name.is_some_and(|name| KINDS.contains(&name))
        && parts("fields").all(may_be_cell)
        && kind.get("value").is_none_or(may_be_cell_of_list)
}

/// The values of empty lists are documents by their type.
fn may_be_cell_of_list(kind: &Json) -> bool {
    kind.as_str() == Some("json") || may_be_cell(kind)
}

/// Returns true if a chunk of `items` items and `bytes` bytes, which begins with `front`, has no items but something
/// after them.
pub(super) fn has_rows(front: &[u8], items: u64, bytes: u64) -> bool {
    let table = table_bytes(items);
    let offset = |at: u64| {
        let at = usize::try_from(at).ok()?;
        Some(u32::from_le_bytes(*front.get(at..)?.first_chunk()?))
    };
    let ends = [offset(4), offset(table.saturating_sub(4))];
    items > 0 && bytes > table && ends.iter().all(|end| end.is_some_and(|end| u64::from(end) == table))
}

/// Returns the range of the Arrow file in a chunk.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a chunk without one; errors of its storage.
pub fn range_of_rows<R: ReadAt + ?Sized>(chunk: &R) -> Result<Range<u64>> {
    let other = || {
        Error::format(
            "the samples of this chunk are not the rows of an Arrow file, as in the first chunk of the data set: it is \
             damaged, or LitData could not write all samples as rows, because their types differ",
        )
    };
    let bytes = chunk.bytes();
    let end = bytes.checked_sub(TAIL_BYTES as u64).ok_or_else(other)?;
    let mut tail = [0; TAIL_BYTES];
    chunk.read_at(&mut tail, end)?;
    let [a, b, c, d, mark @ ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = end.checked_sub(length).filter(|_| mark == END && length > 0).ok_or_else(other)?;
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(offsets: &[u32], rest: &[u8]) -> Vec<u8> {
        let count = offsets.len() as u32 - 1;
        let words = [&[count], offsets].concat();
        [&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(), rest].concat()
    }

    #[test]
    fn types_of_rows_are_known_at_every_depth() {
        for types in [
            json!({"a": "str"}),
            json!({"a": {"type": "int", "optional": true}, "b": "bytes"}),
            json!({"a": {"type": "list", "value": {"type": "struct", "fields": {"x": "float"}}}}),
            json!({"a": {"type": "list", "value": "json"}}),
        ] {
            assert!(may_be_rows(&types), "{types}");
        }
        for types in [
            json!(null),
            json!({}),
            json!("int"),
            json!({"a": "str", "b": "tensor"}),
            json!({"a": {"type": "struct", "fields": {"x": "jpeg"}}}),
            json!({"a": "json"}),
            json!({"a": 3}),
        ] {
            assert!(!may_be_rows(&types), "{types}");
        }
    }

    #[test]
    fn the_rows_of_a_chunk_are_after_its_empty_items() {
        let tail = [&b"rows"[..], &4_u32.to_le_bytes(), &END].concat();
        let rows = chunk(&[16, 16, 16], &tail);
        assert!(has_rows(&rows, 2, rows.len() as u64));
        assert_eq!(range_of_rows(&rows).unwrap(), 16..20);
        assert!(!has_rows(&rows[..16], 2, 16), "nothing follows");
        assert!(!has_rows(&rows, 3, rows.len() as u64) && !has_rows(&rows[..12], 2, 32) && !has_rows(&[], 0, 0));
        let items = chunk(&[16, 18, 20], b"abcd");
        assert!(!has_rows(&items, 2, items.len() as u64));
        for other in [&items[..], &rows[..rows.len() - 1], b"", &[&4_u32.to_le_bytes()[..], &END].concat()] {
            assert!(range_of_rows(&other).unwrap_err().to_string().contains("not the rows of an Arrow file"));
        }
    }
}
