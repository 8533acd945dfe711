//! The files of all shards of a directory: plain memory, which data sets share and a fork may copy.

use super::INDEX_NAME;
use crate::error::{Error, Result};
use crate::sync::Arc;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Component, Path};

/// Files of one kind in a shard at most (the formats have two).
const FILES_MAX: usize = 4;

/// One file of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFile {
    /// Its name relative to the directory, as `basename` in the index says; may name a sub-directory (merged indexes).
    /// Shared with the index, which may list a hundred thousand.
    pub name: Arc<str>,
    /// Its recorded size.
    pub bytes: u64,
}

impl CacheFile {
    /// A file called `name` of `bytes` bytes.
    pub fn new(name: impl Into<Arc<str>>, bytes: u64) -> Self {
        Self { name: name.into(), bytes }
    }
}

/// The files one shard consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardFiles {
    /// What is read: the data file first, then the meta file of split formats.
    pub raw: Vec<CacheFile>,
    /// The compressed form in the same order; empty for uncompressed shards.
    pub zip: Vec<CacheFile>,
}

impl ShardFiles {
    /// Bytes of the raw files together.
    pub fn raw_bytes(&self) -> u64 {
        self.raw.iter().map(|f| f.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the compressed files together.
    pub fn zip_bytes(&self) -> u64 {
        self.zip.iter().map(|f| f.bytes).fold(0, u64::saturating_add)
    }
}

/// The shards of a stream's index, in its order, and their files by name.
#[derive(Debug, Default)]
pub struct ShardSet {
    shards: Vec<ShardFiles>,
    /// Shard and place among its files (raw first, then compressed).
    names: HashMap<Arc<str>, (u32, u8)>,
}

impl ShardSet {
    /// Checks the names, which must stay below the directory and occur once.
    ///
    /// # Errors
    ///
    /// `Format` when a name leads out of the directory or occurs twice, or a shard has no files or too many.
    pub fn new(shards: Vec<ShardFiles>) -> Result<Self> {
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

    /// The shard that the file `name` belongs to, and its place among the shard's files: raw first, then compressed.
    pub(super) fn find(&self, name: &str) -> Option<(u32, u8)> {
        self.names.get(name).copied()
    }

    /// All names, in no order.
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
        // The names are the shards'.
        self.shards == other.shards
    }
}

/// A name must stay below the directory and must not be the index.
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
