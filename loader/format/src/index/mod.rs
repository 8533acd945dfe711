//! `index.json`: the shards of a data set, their files and columns.
//!
//! * [`Index`], [`Shard`], [`FileInfo`], [`Digests`] — the index as values, with the offset of a shard's offset table;
//! * `parse` — from bytes or a file, checked; `entries` — entry by entry; `template` — the form of the last one, which
//!   most are like; `entry` — one alone; `names` — the check that names are unique;
//! * `emit` — to the bytes of the reference's writer; `indexed_format` — the part of an entry that belongs to a format;
//!   `object` — the JSON of an entry;
//! * [`describe_folder`] — for errors about a missing index.

mod digests;
mod emit;
mod entries;
mod entry;
mod folder;
mod indexed_format;
mod names;
mod object;
mod parse;
mod shard;
mod template;

pub use digests::Digests;
pub(super) use emit::{ShardSettings, config};
pub use entry::check_basename;
pub use folder::describe_folder;
pub(super) use indexed_format::{ForeignIndex, IndexedFormat, is_sampled, names_of, sizes_of};
pub(super) use object::{JsonObject, expected};
pub use shard::{FileInfo, FilePair, INDEX_BASENAME, INDEX_BYTES_MAX, Index, Shard, Slice, SlicePart, VERSION};

/// Returns true if `bytes` are a whole JSON document, as an index is.
pub fn is_document(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}
