//! Recipes: how the data file of a shard is made of stored objects when it enters the cache.
//!
//! ```text
//!   Recipe::ranges --> one GET for each --> Recipe::assemble --> MDS file --> cache
//! ```
//!
//! The files of some data sets cannot be read as they are, because a sample is not at one offset (a row group of
//! Parquet), is alone in its object (a folder of pictures), or is in a file that is too large for a shard. A source
//! cuts them into shards, each with a recipe. The file that a recipe makes is MDS, or a different format that is read
//! as it is, so every reader takes it as any further shard: this folder has all that is particular to a source, next to
//! the source's own index.
//!
//! [`Recipe`] is implemented once for each origin:
//!
//! * `file_samples`: files that are samples; `files` is a group of them, and `texts` has their paths;
//! * `unpacked_files`: files that are samples, each with several columns, by a [`SampleFormat`](super::SampleFormat);
//! * `tokens`: a range of a file of token ids, which stays as it is;
//! * `rows`: rows of a Parquet file, which [`parquet`](super::parquet) describes;
//! * `batches`: rows of an Arrow file, which [`ipc`](super::ipc) describes; `table` has the common parts of both;
//! * `lines`: records of a text, which stay as they are;
//! * `records`: chunks of an ArrayRecord file, which become TensorFlow's records.

mod batches;
mod file_samples;
mod files;
mod lines;
mod records;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod tokens;
mod unpacked_files;

pub use super::mds::MdsBuilder;
pub use batches::{BatchFile, RowBatches};
pub use file_samples::FileSamples;
pub use files::{FileColumns, FileGroup, Piece, Values, class_of};
pub use lines::LinesOfText;
pub use records::RecordChunks;
pub use rows::{RowFile, RowGroups};
pub use table::{RowPosition, TableRow, TableRows};
pub use texts::Texts;
pub use tokens::TokenRange;
pub use unpacked_files::{UnpackedColumns, UnpackedFiles};

use super::compression::Compression;
use super::identity::Identity;
use super::layout::Layout;
use super::lines::LineRange;
use super::table::OffsetTable;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Range of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRange {
    /// Key relative to the remote.
    pub key: Arc<str>,
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Length that the whole object must have, if it is known.
    pub object_bytes: Option<u64>,
}

/// Part of the content of a compressed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPart {
    /// Compression of the object.
    pub compression: Compression,
    /// Bytes of its content.
    pub content_bytes: u64,
    /// First byte of the part.
    pub start: u64,
}

/// Origin of a shard's data file that is not stored anywhere. Two of one type with the same parts are equal.
pub trait Recipe: Identity + fmt::Debug + Send + Sync {
    /// Returns the ranges to fetch, in the order in which [`assemble`](Self::assemble) takes their bytes.
    fn ranges(&self) -> Vec<ObjectRange>;

    /// Bytes of all ranges.
    fn stored_bytes(&self) -> u64 {
        self.ranges().iter().map(|range| range.bytes).fold(0, u64::saturating_add)
    }

    /// Makes the data file of `samples` samples of `layout` from the bytes of the ranges.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that differ from the index; [`crate::ErrorKind::Config`] for a
    /// file of more than 4 GiB.
    fn assemble(&self, layout: &Layout, samples: u64, parts: Vec<Bytes>) -> Result<Vec<u8>>;

    /// Returns the position of the data file in its only object, if that is compressed and the data file is a part of
    /// its content.
    fn packed(&self) -> Option<PackedPart> {
        None
    }

    /// Returns true if the index has the exact size of the data file. Otherwise it has an estimate, by which room is
    /// reserved, and a file of any size is complete, since it has its name only when all its bytes are on the medium.
    fn has_exact_size(&self) -> bool {
        true
    }

    /// Returns the offsets of the samples in the data file, if it does not have them itself.
    fn offsets_assembled(&self) -> Option<Result<OffsetTable>> {
        None
    }

    /// Returns the ranges that have the offsets of the samples, if they are stored apart from the samples.
    fn offset_ranges(&self) -> Option<Vec<ObjectRange>> {
        None
    }

    /// Returns the offsets of the samples, by the bytes of the [ranges](Self::offset_ranges) that have them alone.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that differ from the index.
    fn offsets_apart(&self, _parts: &[Bytes]) -> Result<OffsetTable> {
        Err(Error::internal("the offsets are not stored apart"))
    }

    /// Returns the names of the classes of the data set, each at the number of its label, if folders are
    /// classes or the files have such a list.
    fn classes(&self) -> Option<&Texts> {
        None
    }

    /// Returns the column with the path of each sample's file.
    fn key_column(&self) -> Option<&'static str> {
        None
    }

    /// Returns the path of the first file of sample `index` of the shard, if its samples are files.
    fn path_of(&self, _index: u32) -> Option<&str> {
        None
    }

    /// Returns the position of sample `index` of the shard in the stored files, as facts for an error. The shard's own
    /// file exists in the cache at most.
    fn facts_of(&self, index: u32) -> Vec<(&'static str, String)> {
        if let Some(path) = self.path_of(index) {
            return vec![("file", path.to_owned())];
        }
        let place = self.as_table().map(|table| table.position_of(index.into()));
        place.map_or_else(Vec::new, |RowPosition { file, group, row }| {
            vec![("file", file.to_string()), ("row_group", group.to_string()), ("row_in_group", row.to_string())]
        })
    }

    /// Returns the files that are the samples, which can be read where they are.
    fn as_files(&self) -> Option<&Arc<FileGroup>> {
        None
    }

    /// Returns the key of the text that has the samples as records, and their range.
    fn as_lines(&self) -> Option<(Arc<str>, &LineRange)> {
        None
    }

    /// Returns the chunks that have the samples as records: a damaged one loses only its own records.
    fn as_chunks(&self) -> Option<&RecordChunks> {
        None
    }

    /// Returns the table that has the samples as rows.
    fn as_table(&self) -> Option<&dyn TableRows> {
        None
    }
}

impl dyn Recipe {
    /// Returns true if the samples are rows of a table, with values that may be null.
    pub fn is_table(&self) -> bool {
        self.as_table().is_some()
    }

    /// Returns the position of sample `index` of the shard in its file; `None` for a shard that is no table.
    pub fn row_of(&self, index: u32) -> Option<RowPosition> {
        self.as_table().map(|table| table.position_of(index.into()))
    }
}

impl PartialEq for dyn Recipe {
    fn eq(&self, other: &Self) -> bool {
        self.is_equal(other)
    }
}

impl Eq for dyn Recipe {}
