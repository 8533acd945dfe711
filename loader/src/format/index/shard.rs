//! The index as values.

use std::sync::Arc;

use super::digests::Digests;
use crate::error::{Context, Result};
use crate::format::compress::Compression;
use crate::format::hash::HashAlgo;
use crate::format::layout::Layout;
use crate::format::table::OffsetTable;

/// The index's file name.
pub const INDEX_BASENAME: &str = "index.json";

/// The version of the formats here; there is no other.
pub const VERSION: u64 = 2;

/// A data set's index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The shards in their order.
    pub shards: Vec<Shard>,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Format and columns; shards with the same share one.
    pub layout: Arc<Layout>,
    /// Number of samples.
    pub samples: u64,
    /// How the zip files are compressed, if they are.
    pub compression: Option<Compression>,
    /// Hash algorithms that the writer was told to use; shards with the same share one list.
    pub hashes: Arc<[HashAlgo]>,
    /// The writer's limit on a shard's raw size in bytes, if it had one.
    pub size_limit: Option<u64>,
    /// The data file, uncompressed.
    pub raw_data: FileInfo,
    /// The data file as it is stored, if it is compressed.
    pub zip_data: Option<FileInfo>,
    /// The file with the offsets, uncompressed, in a format that keeps them apart.
    pub raw_meta: Option<Box<FileInfo>>,
    /// That file as it is stored, if it is compressed.
    pub zip_meta: Option<Box<FileInfo>>,
}

/// One file of a shard. Small, because an index may list a hundred thousand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Path relative to the index: a name, in a merged index with directories before it. Checked to stay below the index.
    pub basename: Arc<str>,
    /// Size in bytes.
    pub bytes: u64,
    /// Hashes of the whole file, in the order of the index.
    pub hashes: Digests,
}

impl FileInfo {
    /// The recorded digest under `algo`, as lowercase hexadecimal digits.
    pub fn hash(&self, algo: HashAlgo) -> Option<String> {
        self.hashes.get(algo)
    }
}

/// One file of a shard, raw and as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePair<'a> {
    /// Uncompressed.
    pub raw: &'a FileInfo,
    /// Compressed, if the shard is.
    pub zip: Option<&'a FileInfo>,
}

impl<'a> FilePair<'a> {
    /// The file that lies in the store: the compressed one if there is one.
    pub fn stored(self) -> &'a FileInfo {
        self.zip.unwrap_or(self.raw)
    }
}

impl Index {
    /// Number of samples in all shards.
    pub fn samples(&self) -> u64 {
        self.shards.iter().map(|shard| shard.samples).sum()
    }
}

impl Shard {
    /// The files of the shard: first the one with the offsets, if it is apart, then the data.
    pub fn files(&self) -> impl Iterator<Item = FilePair<'_>> {
        let meta = self.raw_meta.as_deref().map(|raw| FilePair { raw, zip: self.zip_meta.as_deref() });
        meta.into_iter().chain([FilePair { raw: &self.raw_data, zip: self.zip_data.as_ref() }])
    }

    /// Size of the raw files in bytes.
    pub fn raw_bytes(&self) -> u64 {
        self.files().map(|pair| pair.raw.bytes).sum()
    }

    /// Size of the compressed files in bytes, if there are any.
    pub fn zip_bytes(&self) -> Option<u64> {
        self.files().map(|pair| pair.zip.map(|zip| zip.bytes)).sum()
    }

    /// Size of the files that lie in the store, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.files().map(|pair| pair.stored().bytes).sum()
    }

    /// The raw file that starts with the offset table.
    pub fn table_file(&self) -> &FileInfo {
        self.raw_meta.as_deref().unwrap_or(&self.raw_data)
    }

    /// Bytes to read from the front of [`table_file`](Self::table_file) for [`offsets`](Self::offsets).
    pub fn table_bytes(&self) -> u64 {
        OffsetTable::bytes(self.samples)
    }

    /// The offset table, from the first [`table_bytes`](Self::table_bytes) bytes (or more) of
    /// [`table_file`](Self::table_file).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with file and field, when the table is cut off or contradicts the index.
    pub fn offsets(&self, front: &[u8]) -> Result<OffsetTable> {
        // In a split format samples lie in the other file, which has no table in front of them.
        let (first_min, may_have_trailer) = match self.raw_meta {
            Some(_) => (0, false),
            None => (self.table_bytes(), true),
        };
        OffsetTable::parse(front, self.samples, first_min, self.raw_data.bytes, may_have_trailer)
            .context("file", || &self.table_file().basename)
    }
}
