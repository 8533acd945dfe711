//! Origin of a stream's index: the document of a data set. [`tars`](super::tars), [`files`](super::files) and
//! [`token_files`](super::token_files) have others.

use crate::cache::CachedIndex;
use crate::error::Result;
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{INDEX_BASENAME, Index};
use crate::store::Remote;

/// Origin of a stream's index.
pub(super) trait IndexOrigin {
    /// Condition for the use of a cached index.
    fn cached(&self) -> CachedIndex;

    /// True if the shards of a remote on this machine are read where they are.
    fn reads_in_place(&self) -> bool;

    /// Fetches the index from `remote`, or makes it. A fetch of many parts calls `progress` after each, on any thread.
    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>>;

    /// Parses the index of the remote `name`.
    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index>;

    /// Returns the part of an index that is the same for every copy of the data set.
    fn identity<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
    }
}

/// `index.json` of a data set.
pub(super) struct Document;

impl IndexOrigin for Document {
    fn cached(&self) -> CachedIndex {
        CachedIndex::Compared
    }

    fn reads_in_place(&self) -> bool {
        // The folder is opened as the cache itself, unless shards must be unpacked.
        false
    }

    fn fetch(&self, remote: &Remote, _: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        remote.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document).map(|(bytes, _)| bytes)
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))
    }
}
