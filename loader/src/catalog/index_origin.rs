//! Origin of a stream's index: a document that the data set has, or the survey of its files.

use crate::cache::CachedIndex;
use crate::error::Result;
use crate::format::Index;
use crate::store::Remote;
use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

/// Origin of a stream's index.
pub(super) trait IndexOrigin {
    /// Condition for the use of a cached index. Unless its bytes are compared with the remote ones,
    /// [`parse`](Self::parse) compares names, versions and lengths of the files, and a fetch the length of each.
    fn cached(&self) -> CachedIndex {
        CachedIndex::OfRemote
    }

    /// True if the shards of a remote on this machine are read where they are.
    fn needs_no_copy(&self) -> bool {
        false
    }

    /// Fetches the index from `remote`, or makes it. A fetch of many parts calls `progress` after each, on any thread.
    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>>;

    /// Removes the copies of shards in `folder` which the index that was kept there has, and the `new` one has not.
    fn remove_outdated(&self, _folder: &Path, _new: &[u8]) {}

    /// Parses the index of the remote `name`.
    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index>;

    /// Parses the index of the remote `name` from `file` without its text in memory, and returns it with the digest of
    /// its [`identity`](Self::identity). `None` for a text that only [`parse`](Self::parse) knows.
    fn read(&self, _file: &File, _name: &str) -> Option<Result<(Index, String)>> {
        None
    }

    /// Returns true if the index in `remote` has the content of `file`; only a part of each is in memory. False if it
    /// has not, or is compared as a whole.
    ///
    /// # Errors
    ///
    /// Errors of the store and of the file.
    fn is_current(&self, _remote: &Remote, _file: &File) -> Result<bool> {
        Ok(false)
    }

    /// Returns a text that differs for different contents of the files, as far as their versions are known; `None` if
    /// none is. Answers to filters are kept by it.
    fn version(&self) -> Option<String> {
        None
    }

    /// Returns the part of an index that is the same for every copy of the data set, by which a checkpoint knows it.
    /// The index was parsed from `bytes`.
    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        bytes.into()
    }
}
