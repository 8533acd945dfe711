//! Files of all shards of a directory: plain memory that data sets share and a fork may copy.

use crate::error::{Error, Result};
use crate::sync::Arc;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Component, Path};

/// Name of a stream's index within its directory.
pub(crate) const INDEX_NAME: &str = "index.json";

/// Most files of one kind in a shard; the formats have two.
const FILES_MAX: usize = 4;

/// One file of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheFile {
    /// Name relative to the directory, the `basename` of the index. It may contain a sub-directory (merged indexes).
    /// Shared with the index, which may list a hundred thousand files.
    pub(crate) name: Arc<str>,
    /// Size in bytes, as recorded in the index.
    pub(crate) bytes: u64,
}

impl CacheFile {
    /// Creates an entry for the file `name` of `bytes` bytes.
    pub(crate) fn new(name: impl Into<Arc<str>>, bytes: u64) -> Self {
        Self { name: name.into(), bytes }
    }
}

/// Files of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardFiles {
    /// Uncompressed files: the data file first, then the meta file of split formats.
    pub(crate) raw: Vec<CacheFile>,
    /// Compressed files in the same order; empty for uncompressed shards.
    pub(crate) zip: Vec<CacheFile>,
}

impl ShardFiles {
    /// Returns the size of all raw files together.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw.iter().map(|f| f.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the bytes that the shard occupies on disk: its raw files and, with `keep_zip`, its compressed files.
    pub(crate) fn disk_bytes(&self, keep_zip: bool) -> u64 {
        self.raw_bytes().saturating_add(if keep_zip { self.zip_bytes() } else { 0 })
    }

    /// Returns the size of all compressed files together.
    pub(crate) fn zip_bytes(&self) -> u64 {
        self.zip.iter().map(|f| f.bytes).fold(0, u64::saturating_add)
    }
}

/// Shards of a stream's index, in its order, with their files by name.
#[derive(Debug, Default)]
pub(crate) struct ShardSet {
    shards: Vec<ShardFiles>,
    /// Shard and index among its files (raw first, then compressed), by name.
    names: HashMap<Arc<str>, (u32, u8)>,
}

impl ShardSet {
    /// Creates the set. Names must stay below the directory and be unique.
    ///
    /// # Errors
    ///
    /// `Format` when a name leads out of the directory or occurs twice, or a shard has no files or too many.
    pub(crate) fn new(shards: Vec<ShardFiles>) -> Result<Self> {
        u32::try_from(shards.len()).map_err(|_| Error::format("an index of more than 2^32 shards"))?;
        let mut names = HashMap::with_capacity(shards.iter().map(|files| files.raw.len() + files.zip.len()).sum());
        for (shard, files) in shards.iter().enumerate() {
            if files.raw.is_empty() || files.raw.len() > FILES_MAX || files.zip.len() > FILES_MAX {
                return Err(Error::format("a shard has no raw files, or too many").with("shard", shard));
            }
            for (i, file) in files.raw.iter().chain(&files.zip).enumerate() {
                check_name(&file.name).map_err(|e| e.with("shard", shard))?;
                if names.insert(file.name.clone(), (shard as u32, i as u8)).is_some() {
                    return Err(Error::format("two shards have a file of the same name")
                        .with("file", &file.name)
                        .with("shard", shard));
                }
            }
        }
        Ok(Self { shards, names })
    }

    /// Returns the shard of the file `name`, and its index among the shard's files: raw first, then compressed.
    pub(super) fn find(&self, name: &str) -> Option<(u32, u8)> {
        self.names.get(name).copied()
    }

    /// Returns all names, in no particular order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }
}

impl Deref for ShardSet {
    type Target = [ShardFiles];

    fn deref(&self) -> &[ShardFiles] {
        &self.shards
    }
}

impl PartialEq for ShardSet {
    fn eq(&self, other: &Self) -> bool {
        // `names` is derived from `shards`.
        self.shards == other.shards
    }
}

/// Checks that a name stays below the directory and is not the index.
fn check_name(name: &str) -> Result<()> {
    let path = Path::new(name);
    let plain = !name.is_empty()
        && !name.contains('\0')
        && !name.ends_with('/')
        && path.components().all(|c| matches!(c, Component::Normal(_)));
    if plain && name != INDEX_NAME {
        return Ok(());
    }
    Err(Error::format("a shard's file name leads out of the cache directory").with("file", format!("{name:?}")))
}
