//! Files with their list next to them, as `index.json`: nothing is listed when a loader opens them, and a web server can have
//! them. [`FileListing`](super::FileListing) makes the list.

use super::index_origin::IndexOrigin;
use crate::cache::CachedIndex;
use crate::error::{Context, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{INDEX_BASENAME, Index};
use crate::sources::files::FileSet;
use crate::store::Remote;
use std::borrow::Cow;

/// Files of the list that is next to them.
pub(super) struct ListedFiles;

impl IndexOrigin for ListedFiles {
    fn cached(&self) -> CachedIndex {
        CachedIndex::Compared
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn fetch(&self, remote: &Remote, _: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        Ok(remote.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document)?.0)
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        FileSet::parse(bytes)?.index().context("remote", || name)
    }

    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        FileSet::identity(bytes).into()
    }
}
