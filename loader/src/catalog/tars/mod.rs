//! Tars of a list as the shards of a stream.
//!
//! Their index is a part of the folder's `index.json`, where `python -m forebay.index` has made one. Otherwise `index` makes it,
//! and it stays in the stream's folder on local disk: `known` has the samples that files of other programs count, and the
//! other tars are read once, as [`RemoteFile`](super::remote_file::RemoteFile)s. [`kept`](super::kept) has those that a stopped run
//! has read.

mod index;
mod known;

use super::cache_folder::unfinished;
use super::index_origin::{Document, IndexOrigin};
use crate::cache::CachedIndex;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{INDEX_BASENAME, Index, ShardFormat};
use crate::sources::Packing;
use crate::store::Remote;
pub use index::TarSet;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Tars by their names: their entries in the folder's `index.json`, or else the result of a pass over all of them.
pub(super) struct Tars {
    /// Address of their folder, with secrets.
    pub(super) root: String,
    /// That folder, if it is on this machine.
    pub(super) folder: Option<PathBuf>,
    /// Paths below it.
    pub(super) names: Vec<String>,
}

impl IndexOrigin for Tars {
    fn cached(&self) -> CachedIndex {
        // The names are compared instead, and each file's size when it is fetched.
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        self.names.iter().all(|name| Packing::is_plain(name))
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let index = match Document::default().fetch(remote, progress) {
            Ok(bytes) => self.entries(&bytes),
            // Some stores answer a request for an absent object with an error of permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => None,
            Err(e) => return Err(e),
        };
        let index = match index {
            Some(index) => index,
            None => self.count(remote, progress)?,
        };
        Ok(index.to_json().into_bytes())
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Document::default().parse(bytes, name)?;
        if stored_names(&index).eq(self.names.iter().map(String::as_str)) {
            return check_sizes(&index, self.folder.as_deref()).map(|()| index);
        }
        Err(Error::format("the index is of other tars").with("tars", self.names.len()))
    }
}

impl Tars {
    /// Returns the entries of the tars in the folder's index, if it has them all.
    fn entries(&self, index: &[u8]) -> Option<Index> {
        let index =
            Index::parse(index, INDEX_BASENAME).inspect_err(|e| log::warn!("the index is not used: {e}")).ok()?;
        let numbers: HashMap<&str, usize> = stored_names(&index).zip(0..).collect();
        let entries = self.names.iter().map(|name| {
            let shard = &index.shards[*numbers.get(name.as_str())?];
            matches!(shard.layout.format, ShardFormat::Tar { .. }).then(|| shard.clone())
        });
        let entries = Index { shards: entries.collect::<Option<_>>()? };
        let checked = check_sizes(&entries, self.folder.as_deref());
        checked.inspect_err(|e| log::warn!("{INDEX_BASENAME} is not used; replace it with --overwrite: {e}")).ok()?;
        Some(entries)
    }

    fn count(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let set = TarSet::open(remote, &self.root, &self.names, unfinished().ok().as_deref())?;
        let all = (0..self.names.len()).filter(|number| !set.is_known(*number)).count();
        if all > 0 {
            log::warn!(
                "{all} tars have no index and are read once to count their samples; `python -m forebay.index` makes one that \
                 is kept next to them"
            );
        }
        set.index(&|done| log::info!("{done} of {all} tars are counted"), progress)
    }
}

/// Compares the sizes of files in `folder` of this machine, which may have been replaced. Those of other files are compared when
/// they are fetched.
pub(super) fn check_sizes(index: &Index, folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    for file in index.shards.iter().flat_map(|shard| shard.files()).map(|pair| pair.stored()) {
        let found = std::fs::metadata(folder.join(&*file.basename)).map(|found| found.len());
        // An absent file is an error when it is opened.
        if let Ok(found) = found
            && found != file.bytes
        {
            let message = format!("a file has {found} bytes where the index declares {}", file.bytes);
            return Err(Error::format(message).with("file", &file.basename));
        }
    }
    Ok(())
}

/// Names of the shards' files in the store.
pub(super) fn stored_names(index: &Index) -> impl Iterator<Item = &str> {
    index.shards.iter().map(|shard| &*shard.zip_data.as_ref().unwrap_or(&shard.raw_data).basename)
}
