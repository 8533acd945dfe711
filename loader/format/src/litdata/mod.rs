//! LitData's chunks: files of items; each item is the leaves of a tree of values.
//!
//! ```text
//!   chunk:  u32 n | u32 offset[0..=n] | item | item ...
//!   item:   u32 size of each leaf | leaf | leaf ...     a chunk of trees
//!           token | token ...                           a chunk of tokens, where a sample may also be a window of
//!                                                       them, whatever their item is
//! ```
//!
//! * `document` — LitData's `index.json`: the chunks, and the tree of an item; `members` — its parts;
//! * `tree` — names of the leaves, which become columns; `leaf` — their serialisers, which become encodings;
//! * `items` — the offsets of the items and windows of a chunk; one item's bytes to its columns; `windows` — samples of
//!   as many tokens each;
//! * `litdata_format` — the format, and its entry in an index;
//! * `rows` — chunks with the rows of an Arrow file as samples, read like any Arrow file; `nested` —
//!   lists and dictionaries that are a leaf each.
//!
//! LitData's index does not have all that ours has: the lengths of the files follow from it by a rule that depends on
//! the version that wrote them, and the sizes of compressed chunks do not. So a data set becomes an index, in the form
//! of ours, once the first bytes of some files are known.

mod document;
mod items;
mod leaf;
mod litdata_format;
mod members;
mod nested;
mod rows;
#[cfg(test)]
mod tests;
mod tree;
mod windows;

pub use document::{Chunk, DataSet, Fronts};
pub(super) use litdata_format::INDEXED;
pub use rows::range_of_rows;

/// Bytes of the table at the front of a chunk of `items` items.
fn table_bytes(items: u64) -> u64 {
    items.saturating_add(2).saturating_mul(4)
}
