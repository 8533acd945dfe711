//! Files of all shards of a directory: plain memory that data sets share and a fork may copy.

use super::blocks::Blocks;
use crate::error::{Error, Result};
use crate::format::index::{FileInfo, Index, Shard};
use crate::sync::Arc;
use std::ops::Deref;

/// Shards of a stream's index, in its order, with their files by name.
///
/// The index's parser has checked that the names are unique and below the directory.
#[derive(Debug, Default)]
pub(crate) struct ShardSet {
    index: Arc<Index>,
    /// Shard of each file and position among [`files_of`] it, in the order of the names. A table of names would take
    /// several times as much memory.
    by_name: Vec<(u32, u8)>,
}

impl ShardSet {
    /// Creates the set of the shards of `index`.
    pub(crate) fn new(index: Arc<Index>) -> Self {
        let numbered = || (0u32..).zip(&index.shards);
        let places = index.shards.iter().map(|shard| files_of(shard).count()).max().unwrap_or(0);
        // The kinds of file in sequence: the names of each are nearly in order, and the sort finds such parts.
        let of_place = |place: usize| {
            numbered()
                .filter(move |(_, shard)| files_of(shard).nth(place).is_some())
                .map(move |(n, _)| (n, place as u8))
        };
        let mut by_name: Vec<(u32, u8)> = (0..places).flat_map(of_place).collect();
        by_name.sort_by_key(|file| key_of(name_in(&index, *file)));
        // Ranges of one file are shards with one name, where the last counts.
        by_name.dedup_by(|file, last| {
            let is_equal = name_in(&index, *file) == name_in(&index, *last);
            if is_equal {
                *last = *file;
            }
            is_equal
        });
        by_name.shrink_to_fit();
        Self { index, by_name }
    }

    /// Returns the index.
    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Returns the shard of the file `name`, and the file's position among [`files_of`] it.
    pub(super) fn find(&self, name: &str) -> Option<(u32, u8)> {
        let found = self.by_name.binary_search_by_key(&key_of(name), |file| key_of(name_in(&self.index, *file)));
        found.ok().map(|at| self.by_name[at])
    }

    /// Returns all names, in no particular order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.iter().map(|file| name_in(&self.index, *file))
    }
}

/// Returns the name of a file, as `by_name` has it.
fn name_in(index: &Index, (shard, place): (u32, u8)) -> &str {
    files_of(&index.shards[shard as usize]).nth(place.into()).map_or("", |file| &file.basename)
}

/// Order of names: numbers at their ends may become longer.
fn key_of(name: &str) -> (usize, &str) {
    (name.len(), name)
}

impl Deref for ShardSet {
    type Target = [Shard];

    fn deref(&self) -> &[Shard] {
        &self.index.shards
    }
}

/// Returns the raw files of `shard`: the data file first, then the meta file of split formats.
pub(super) fn raw_files(shard: &Shard) -> impl DoubleEndedIterator<Item = &FileInfo> {
    std::iter::once(&shard.raw_data).chain(shard.raw_meta.as_deref())
}

/// Returns the compressed files of `shard` in the order of [`raw_files`]; none for uncompressed shards.
pub(super) fn zip_files(shard: &Shard) -> impl Iterator<Item = &FileInfo> {
    shard.zip_data.iter().chain(shard.zip_meta.as_deref())
}

/// Returns all files of `shard`: raw first, then compressed.
pub(super) fn files_of(shard: &Shard) -> impl Iterator<Item = &FileInfo> {
    raw_files(shard).chain(zip_files(shard))
}

/// Returns the bytes that `shard` occupies on disk: its raw files and, with `keep_zip`, its compressed files.
pub(crate) fn disk_bytes(shard: &Shard, keep_zip: bool, blocks: Blocks) -> u64 {
    let zip = zip_files(shard).filter(|_| keep_zip);
    raw_files(shard).chain(zip).map(|file| blocks.of_file(file.bytes)).fold(0, u64::saturating_add)
}

/// Checks that a `cache_limit` of `limit` bytes holds the indexes with their folders and one shard, which is enough to
/// use one shard after the next. `shard` is the largest, or the one that room is made for; it occupies `bytes`.
///
/// # Errors
///
/// `Config`, with the limit that is needed.
pub(crate) fn check_limit(limit: u64, index_bytes: u64, shard: &Shard, bytes: u64) -> Result<()> {
    let needed = index_bytes.saturating_add(bytes);
    if limit >= needed {
        return Ok(());
    }
    Err(Error::config(format!(
        "cache_limit is {limit} bytes and must be at least {needed}: {bytes} for a shard and {index_bytes} for \
         index.json and its folder; several times as much keeps shards from being fetched repeatedly"
    ))
    .with("shard", &shard.raw_data.basename))
}
