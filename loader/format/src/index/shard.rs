//! The index as values.

use std::sync::Arc;

use super::digests::Digests;
use crate::compression::Compression;
use crate::hash::HashAlgo;
use crate::layout::Layout;
use crate::lines::{LineRange, TextLine};
use crate::read_at::{ByRef, ReadAt};
use crate::recipe::Recipe;
use crate::table::OffsetTable;
use crate::tokens::TokenPart;
use forebay_core::error::{Context, Error, Result};
use smol_str::SmolStr;

/// The index's file name.
pub const INDEX_BASENAME: &str = "index.json";

/// Largest index that is read as a whole, in bytes: some three million shards. An index on local disk is read in
/// pieces, see [`Index::read`].
pub const INDEX_BYTES_MAX: u64 = 1 << 30;

/// Unpacked bytes above which a compressed file is never in memory as a whole: more than usual shards have.
const STREAMED_BYTES: u64 = 256 << 20;

/// Version of the formats; there is only one.
pub const VERSION: u64 = 2;

/// Index of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Shards in their order.
    pub shards: Vec<Shard>,
}

/// Entry of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Format and columns; equal ones are shared between shards.
    pub layout: Arc<Layout>,
    /// Number of samples.
    pub samples: u64,
    /// Compression of the zip files, if there are any.
    pub compression: Option<Compression>,
    /// Hash algorithms in the writer's settings; equal lists are shared between shards.
    pub hashes: Arc<[HashAlgo]>,
    /// The writer's limit on a shard's raw size in bytes, if it had one.
    pub size_limit: Option<u64>,
    /// Uncompressed data file.
    pub raw_data: FileInfo,
    /// Compressed data file, if the shard is compressed.
    pub zip_data: Option<FileInfo>,
    /// Uncompressed file with the offsets, in formats that keep them separately.
    pub raw_meta: Option<Box<FileInfo>>,
    /// Compressed file with the offsets, if the shard is compressed.
    pub zip_meta: Option<Box<FileInfo>>,
    /// Origin of the data file, if it is not in the store.
    pub recipe: Option<Arc<dyn Recipe>>,
    /// Range of larger files that the shard is, if those are read where they are.
    pub slice: Option<Box<Slice>>,
}

/// Range of files that several shards share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The range, and the offsets of the samples in it.
    pub part: SlicePart,
    /// Bytes of the whole data file.
    pub data_bytes: u64,
    /// Bytes of the whole file that has the offsets, if a different one has.
    pub meta_bytes: u64,
}

/// Samples of a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlicePart {
    /// Token ids. A different file has their offsets.
    Tokens(TokenPart),
    /// Records of a text. Their offsets follow from their bytes.
    Lines(LineRange),
}

/// File of a shard. Small, and mostly without an allocation, because an index may list millions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Path relative to the index: a name, in a merged index with directories before it. Checked to stay below the
    /// index.
    pub basename: SmolStr,
    /// Size in bytes.
    pub bytes: u64,
    /// Hashes of the whole file, in the order of the index.
    pub hashes: Digests,
}

/// File of a shard, raw and compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePair<'a> {
    /// Uncompressed.
    pub raw: &'a FileInfo,
    /// Compressed, if the shard is.
    pub zip: Option<&'a FileInfo>,
}

impl<'a> FilePair<'a> {
    /// Returns the file in the store: the compressed one if there is one.
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
    /// Returns the entry of a shard of one uncompressed file without hashes.
    pub fn new(layout: Arc<Layout>, samples: u64, raw_data: FileInfo) -> Self {
        Self {
            layout,
            samples,
            compression: None,
            hashes: Arc::new([]),
            size_limit: None,
            raw_data,
            zip_data: None,
            raw_meta: None,
            zip_meta: None,
            recipe: None,
            slice: None,
        }
    }

    /// Returns the size that `file`, which is one of the shard's files, has on disk: the index has the size of the
    /// shard's range of it.
    pub fn disk_bytes(&self, file: &FileInfo) -> u64 {
        match &self.slice {
            None => file.bytes,
            Some(slice) if std::ptr::eq(file, &raw const self.raw_data) => slice.data_bytes,
            Some(slice) => slice.meta_bytes,
        }
    }

    /// Returns true if the sizes of its files in the index are estimates.
    pub fn is_estimated(&self) -> bool {
        self.recipe.as_ref().is_some_and(|recipe| !recipe.has_exact_size())
    }

    /// Returns true if a file of `bytes` bytes can be `file`, which is one of its files.
    pub fn accepts(&self, file: &FileInfo, bytes: u64) -> bool {
        bytes == self.disk_bytes(file) || self.is_estimated()
    }

    /// Returns the files of the shard: the separate file with the offsets, if there is one, then the data.
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

    /// Returns true if the content of `pair`, which is one of the shard's files, is unpacked while it is written to the
    /// disk. A smaller one is unpacked in memory, once.
    pub fn is_streamed(&self, pair: FilePair<'_>) -> bool {
        let compression = self.recipe.as_ref().map_or(self.compression, |recipe| Some(recipe.packed()?.compression));
        compression.is_some_and(Compression::is_streamed) && pair.raw.bytes > STREAMED_BYTES
    }

    /// Bytes of memory for a fetch: of the raw files, and of the stored bytes that they are made of.
    pub fn fetch_bytes(&self) -> u64 {
        let raw_bytes = self.files().filter(|pair| !self.is_streamed(*pair)).map(|pair| pair.raw.bytes).sum::<u64>();
        let stored = self.recipe.as_ref().map(|recipe| recipe.stored_bytes()).or_else(|| self.zip_bytes());
        raw_bytes.saturating_add(stored.unwrap_or(0))
    }

    /// Size of the files in the store, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.files().map(|pair| pair.stored().bytes).sum()
    }

    /// Returns the raw file that starts with the offset table.
    pub fn table_file(&self) -> &FileInfo {
        self.raw_meta.as_deref().unwrap_or(&self.raw_data)
    }

    /// Returns the position of sample `index` in its text; `None` for a shard of a different source.
    pub fn line_of(&self, index: u64) -> Option<TextLine> {
        let sliced = || match &self.slice.as_deref()?.part {
            SlicePart::Lines(range) => Some((self.raw_data.basename.as_str().into(), range)),
            SlicePart::Tokens(_) => None,
        };
        let (file, range) = self.recipe.as_ref().and_then(|recipe| recipe.as_lines()).or_else(sliced)?;
        Some(TextLine { file, line: range.line_of(index) })
    }

    /// Bytes of the offset table at the front of [`table_file`](Self::table_file), in formats that have one.
    pub fn table_bytes(&self) -> u64 {
        OffsetTable::bytes(self.samples)
    }

    /// Reads the offsets of the samples from `file`, which is the shard's [`table_file`](Self::table_file).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with file and field, if the file is truncated or contradicts the index; errors of
    /// its storage.
    pub fn offsets<R: ReadAt + ?Sized>(&self, file: &R) -> Result<OffsetTable> {
        let assembled = self.recipe.as_ref().and_then(|recipe| recipe.offsets_assembled());
        let found = |file: &dyn ReadAt| self.layout.format.offsets(&self.layout.columns, file, self.samples);
        let offsets = match self.slice.as_deref() {
            Some(Slice { part: SlicePart::Tokens(part), data_bytes, .. }) => part.offsets_in_file(file, *data_bytes),
            Some(Slice { part: SlicePart::Lines(range), data_bytes, .. }) => {
                let file = ByRef(file);
                let offsets =
                    found(&range.of(&file)).unwrap_or_else(|| Err(Error::internal("a slice without offsets")));
                offsets.map(|offsets| offsets.shifted(range.start, *data_bytes))
            }
            None => assembled.or_else(|| found(&ByRef(file))).unwrap_or_else(|| self.parse_offsets(file)),
        };
        offsets.context("file", || &self.table_file().basename)
    }

    /// Compares the checksums that the samples of the whole `file` have, which is the shard's
    /// [`table_file`](Self::table_file). `offsets` are its [`offsets`](Self::offsets).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a sample that is damaged, with its position; errors of its storage.
    pub fn check<R: ReadAt + ?Sized>(&self, file: &R, offsets: &OffsetTable) -> Result<()> {
        if self.raw_meta.is_some() || self.slice.is_some() {
            // The samples are in a different file, or among more.
            return Ok(());
        }
        self.layout.format.check(&ByRef(file), offsets).context("file", || &self.table_file().basename)
    }

    /// Reads the [`offsets`](Self::offsets) of `file`, and [compares](Self::check) the checksums. Returns the offsets
    /// with the first damage. The file is read from front to back, once.
    ///
    /// # Errors
    ///
    /// As [`offsets`](Self::offsets).
    pub fn survey(&self, file: &dyn ReadAt) -> Result<(OffsetTable, Option<Error>)> {
        let has_samples = self.raw_meta.is_none() && self.slice.is_none() && self.recipe.is_none();
        match has_samples.then(|| self.layout.format.offsets_checked(file, self.samples)).flatten() {
            Some(found) => found.context("file", || &self.table_file().basename),
            None => {
                let offsets = self.offsets(file)?;
                let damage = if self.layout.format.has_checksums() { self.check(file, &offsets).err() } else { None };
                Ok((offsets, damage))
            }
        }
    }

    fn parse_offsets<R: ReadAt + ?Sized>(&self, file: &R) -> Result<OffsetTable> {
        let mut front = vec![0; usize::try_from(self.table_bytes().min(file.bytes())).unwrap_or(usize::MAX)];
        file.read_at(&mut front, 0)?;
        // In a split format the samples are in the second file, which has no table before them.
        let (first_min, data_bytes, may_have_trailer) = match self.raw_meta {
            Some(_) => (0, self.raw_data.bytes, false),
            // Of further files the front may be there alone.
            None => (self.table_bytes(), if self.is_estimated() { file.bytes() } else { self.raw_data.bytes }, true),
        };
        OffsetTable::parse(&front, self.samples, first_min, data_bytes, may_have_trailer)
    }
}
