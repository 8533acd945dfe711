//! Files with their list next to them, as `index.json`: nothing is listed when a loader opens them, and a web server can have
//! them. [`FileListing`](crate::catalog::FileListing) makes the list.

use super::kept_list::{cache, has_list};
use super::walk::changed_ns;
use crate::cache::CachedIndex;
use crate::catalog::index_origin::IndexOrigin;
use crate::catalog::opening::{FileListing, Opening};
use crate::catalog::stream::IndexedStream;
use crate::error::{Context, Error, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{INDEX_BASENAME, Index};
use crate::io::read_regular;
use crate::sources::files::FileSet;
use crate::store::Remote;
use std::borrow::Cow;

/// Opens the files of a folder of this machine by the list in it.
pub(super) fn open(at: &Opening<'_>) -> Result<IndexedStream> {
    // A list that is made again has another folder.
    let made = at.folder().and_then(|folder| changed_ns(&folder.join(INDEX_BASENAME)).ok());
    at.install(cache(at, &format!("listed {made:?}"))?, &ListedFiles)
}

/// Makes the list to be kept next to the files of `opened`; `None` if no list of them could be kept on local disk.
pub(super) fn listing(opened: &IndexedStream) -> Result<Option<FileListing>> {
    let path = opened.cache.dir.join(INDEX_BASENAME);
    if !has_list(&opened.cache.dir) {
        return Ok(None);
    }
    let bytes = read_regular(&path, INDEX_BYTES_MAX);
    let bytes = bytes.map_err(|e| Error::from_io(e, "the list cannot be read").with("file", path.display()))?;
    let mut set = FileSet::parse(&bytes)?;
    // Another machine has other times, and the list itself changes that of its folder.
    set.folders.clear();
    let samples = opened.cache.shards.index().samples();
    let root = opened.address.as_ref().unwrap_or(&opened.name).clone();
    Ok(Some(FileListing { root, basename: INDEX_BASENAME, document: set.to_bytes()?, samples }))
}

/// Files of the list that is next to them.
struct ListedFiles;

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
