//! `index.json`: which shards a data set has, what files they are, and what is in them.
//!
//! * [`Index`], [`Shard`], [`FileInfo`], [`Digests`] — the index as values, and where a shard keeps its offset table;
//! * `parse` — from bytes, checked, entry by entry as `root` streams them; `emit` — to the bytes that the reference's writer would have written;
//! * [`describe_folder`] — for an error, where there is no index;

mod digests;
mod emit;
mod folder;
mod object;
mod parse;
mod root;
mod shard;

pub use digests::Digests;
pub(super) use emit::{ShardSettings, config};
pub use folder::describe_folder;
pub use shard::{FileInfo, FilePair, INDEX_BASENAME, Index, Shard, VERSION};
