//! Recipes: how the data file of a shard is made of stored objects when it enters the cache.
//!
//! ```text
//!   Recipe::ranges --> one GET for each --> Recipe::assemble --> MDS file --> cache
//! ```
//!
//! The files of some data sets cannot be read as they are, because a sample is not in one place (a row group of Parquet),
//! is alone in its object (a folder of pictures), or is in a file that is too large for a shard. A source cuts them into
//! shards, each with a recipe. The file that a recipe makes is MDS, or another format that is read as it is, so every reader takes
//! it as any other shard: this folder has all that is particular to a source, next to the source's own index.
//!
//! * `files`: a group of files that are samples; `texts` has their paths;
//! * `tokens`: a range of a file of token ids, which stays as it is;
//! * `rows`: rows of a Parquet file, which [`parquet`](super::parquet) describes;
//! * `batches`: rows of an Arrow file, which [`ipc`](super::ipc) describes; `table` has what the two have in common;
//! * `records`: chunks of an ArrayRecord file, which become TensorFlow's records.
//!
//! The others make files with the [`MdsBuilder`].

mod batches;
mod files;
mod records;
mod rows;
mod table;
mod texts;
mod tokens;

pub use super::mds::MdsBuilder;
pub use batches::{BatchFile, RowBatches};
pub use files::{FileColumns, FileGroup, Piece, Values, class_of};
pub use records::RecordChunks;
pub use rows::{RowFile, RowGroups};
pub use table::{RowPlace, TableRow};
pub use texts::Texts;
pub use tokens::TokenRange;

use super::layout::Layout;
use super::parquet::Bounds;
use super::table::OffsetTable;
use crate::error::{Error, Result};
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

/// Origin of a shard's data file that is not stored anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Files that are samples.
    Files(Arc<FileGroup>),
    /// Range of a file of token ids.
    Tokens(TokenRange),
    /// Rows of a Parquet file.
    Rows(RowGroups),
    /// Rows of an Arrow file.
    Batches(RowBatches),
    /// Records of an ArrayRecord file.
    Records(RecordChunks),
}

impl Recipe {
    /// Returns the ranges to fetch, in the order in which [`assemble`](Self::assemble) takes their bytes.
    pub fn ranges(&self) -> Vec<ObjectRange> {
        match self {
            Self::Files(group) => group.ranges(),
            Self::Tokens(range) => range.ranges(),
            Self::Rows(rows) => rows.ranges(),
            Self::Batches(rows) => rows.ranges(),
            Self::Records(chunks) => chunks.ranges(),
        }
    }

    /// Returns the names of the classes of the data set, each at the number of its label, if folders are classes.
    pub fn classes(&self) -> Option<&Texts> {
        match self {
            Self::Files(group) => group.columns.classes(),
            Self::Tokens(_) | Self::Rows(_) | Self::Batches(_) | Self::Records(_) => None,
        }
    }

    /// Bytes of all ranges.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Self::Files(group) => group.stored_bytes(),
            Self::Tokens(range) => range.ranges().iter().map(|range| range.bytes).sum(),
            Self::Rows(rows) => rows.stored_bytes(),
            Self::Batches(rows) => rows.stored_bytes(),
            Self::Records(chunks) => chunks.stored_bytes(),
        }
    }

    /// Makes the data file of `samples` samples of `layout` from the bytes of the ranges.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are not what the index declares; [`crate::ErrorKind::Config`] for a file
    /// of more than 4 GiB.
    pub fn assemble(
        &self,
        layout: &Layout,
        samples: u64,
        parts: Vec<impl AsRef<[u8]> + Send + 'static>,
    ) -> Result<Vec<u8>> {
        match self {
            Self::Files(group) => group.assemble(layout, &parts)?.finish(samples),
            Self::Rows(rows) => rows.assemble(layout, parts)?.finish(samples),
            Self::Batches(rows) => rows.assemble(layout, parts)?.finish(samples),
            Self::Tokens(range) => range.assemble(&parts),
            Self::Records(chunks) => chunks.assemble(&parts),
        }
    }

    /// Calls `each` with each row of a table, whose columns are in the order of the layout, from the bytes of the ranges.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble); those of `each`; [`crate::ErrorKind::Internal`] for another recipe.
    pub fn for_each_row(
        &self,
        parts: Vec<impl AsRef<[u8]> + Send + 'static>,
        each: impl FnMut(&TableRow<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Rows(rows) => rows.for_each_row(parts, each),
            Self::Batches(rows) => rows.for_each_row(parts, each),
            Self::Files(_) | Self::Tokens(_) | Self::Records(_) => {
                Err(Error::internal("rows of a shard that is no table"))
            }
        }
    }

    /// Returns true if the samples are rows of a table, whose values may be null.
    pub fn is_table(&self) -> bool {
        matches!(self, Self::Rows(_) | Self::Batches(_))
    }

    /// Returns the place of sample `index` of the shard in its file; `None` for a shard that is no table.
    pub fn row_of(&self, index: u32) -> Option<RowPlace> {
        match self {
            Self::Rows(rows) => Some(rows.place_of(index.into())),
            Self::Batches(rows) => Some(rows.place_of(index.into())),
            Self::Files(_) | Self::Tokens(_) | Self::Records(_) => None,
        }
    }

    /// All columns of the table that the rows are of; `None` for a shard that is no table.
    pub fn table_fields(&self) -> Option<&arrow_schema::Fields> {
        match self {
            Self::Rows(rows) => Some(rows.file.schema.fields()),
            Self::Batches(rows) => Some(rows.file.head.fields()),
            Self::Files(_) | Self::Tokens(_) | Self::Records(_) => None,
        }
    }

    /// Returns the bounds of the values of column number `column` in the rows of a Parquet file, if they are known.
    pub fn bounds(&self, column: usize) -> Option<Bounds> {
        let Self::Rows(rows) = self else { return None };
        rows.bounds(column)
    }

    /// Returns true if the index has the exact size of the data file. Otherwise it has an estimate, by which room is
    /// reserved, and a file of any size is complete, since it has its name only when all its bytes are on the medium.
    pub fn has_exact_size(&self) -> bool {
        match self {
            Self::Files(_) | Self::Tokens(_) | Self::Records(_) => true,
            Self::Rows(_) | Self::Batches(_) => false,
        }
    }

    /// Returns the places of the samples in the data file, if it does not have them itself.
    pub(super) fn places_assembled(&self) -> Option<Result<OffsetTable>> {
        match self {
            Self::Files(_) | Self::Rows(_) | Self::Batches(_) | Self::Records(_) => None,
            Self::Tokens(range) => range.part.places_assembled(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::Encoding;

    #[test]
    fn another_number_of_samples_than_the_index_declares_is_an_error() {
        let columns = FileColumns::new([("file".to_owned(), Encoding::Bytes)], [], None).unwrap();
        let layout = columns.layout().clone();
        let paths = ["a", "b"].iter().collect();
        let group = Arc::new(FileGroup { columns: columns.into(), paths, bytes: vec![3, 0], values: Vec::new() });
        for (samples, parts) in [(3, vec![&b"xyz"[..], b""]), (2, vec![b"xyz"])] {
            let e = Recipe::Files(group.clone()).assemble(&layout, samples, parts).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{e}");
        }
    }

    #[test]
    fn a_value_of_another_size_than_its_column_is_an_error() {
        let layout = Layout::mds([("n".to_owned(), Encoding::Int)]).unwrap();
        let e = MdsBuilder::new(&layout, 0).unwrap().push(&[b"1234567"]).unwrap_err();
        assert_eq!(e.to_string(), "a value of 7 bytes is in a column of 8 bytes (column n)");
    }
}
