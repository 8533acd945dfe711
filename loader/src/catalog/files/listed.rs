//! Files with their list next to them, as `index.json`: nothing is listed when a loader opens them, and a web server
//! can have them. [`FileListing`](crate::catalog::FileListing) makes the list.

use super::kept_list::cache;
use super::walk::changed_ns;
use crate::catalog::data_set::Document;
use crate::catalog::kept_index::KeptIndex;
use crate::catalog::opening::{FileListing, Opening};
use crate::catalog::stream::IndexedStream;
use crate::error::Result;
use crate::format::INDEX_BASENAME;
use crate::format::index::INDEX_BYTES_MAX;
use crate::io::read_regular;
use crate::sources::files::FileSet;

/// Opens the files of a folder of this machine by the list in it.
pub(super) fn open(at: &Opening<'_>) -> Result<IndexedStream> {
    // A list that is made again has a different folder.
    let made = at.folder().and_then(|folder| changed_ns(&folder.join(INDEX_BASENAME)).ok());
    at.install(cache(at, &format!("listed {made:?}")), &Document { needs_no_copy: true, ..Document::default() })
}

/// Makes the list to be kept next to the files of `opened`; `None` if no list of them could be kept on local disk.
pub(super) fn listing(opened: &IndexedStream) -> Result<Option<FileListing>> {
    let Ok(bytes) = read_regular(&opened.cache.dir.join(INDEX_BASENAME), INDEX_BYTES_MAX) else { return Ok(None) };
    let Ok(kept) = KeptIndex::parse(&bytes) else { return Ok(None) };
    let mut set = FileSet::parse(&kept.document())?;
    // A second machine has different times.
    set.stamp.clear();
    let samples = opened.cache.shards.index().samples();
    let root = opened.address.as_ref().unwrap_or(&opened.name).clone();
    Ok(Some(FileListing { root, basename: INDEX_BASENAME, document: set.to_bytes()?, samples }))
}
