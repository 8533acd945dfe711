//! Tars of a list as the shards of a stream.
//!
//! Their index is a part of the folder's `index.json`, where `python -m forebay.index` has made one. Otherwise `index` makes it,
//! and it stays in the stream's folder on local disk: `known` has the samples that files of other programs count, and the
//! other tars are read once, as [`RemoteFile`](super::remote_file::RemoteFile)s. [`kept`](super::kept) has those that a stopped run
//! has read.

mod index;
mod known;

use super::cache_folder::unfinished;
use super::file_versions::{self, Condition, check, check_lengths, remove_outdated, stored_names, with_versions};
use super::found_files::FoundFile;
use super::index_origin::{Document, IndexOrigin};
use crate::cache::CachedIndex;
use crate::error::{ErrorKind, Result};
use crate::format::{INDEX_BASENAME, Index, ShardFormat};
use crate::sources::Packing;
use crate::store::Remote;
pub use index::TarSet;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// Tars by their names: their entries in the folder's `index.json`, or else the result of a pass over all of them.
pub(super) struct Tars {
    /// Address of their folder, with secrets.
    pub(super) root: String,
    /// That folder, if it is on this machine.
    pub(super) folder: Option<PathBuf>,
    pub(super) files: Vec<FoundFile>,
    /// Folder of the index, and of copies of the tars if they are not read in place.
    pub(super) cache: PathBuf,
    pub(super) condition: Condition,
}

impl IndexOrigin for Tars {
    fn cached(&self) -> CachedIndex {
        // Names and versions are compared instead, and each file's size when it is fetched.
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        self.files.iter().all(|file| Packing::is_plain(&file.name))
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        remove_outdated(&self.cache, &self.files, self.folder.as_deref());
        let index = if self.condition.ignore_counts { None } else { self.kept_entries(remote, progress)? };
        let index = match index {
            Some(index) => index,
            None => self.count(remote, progress)?,
        };
        Ok(with_versions(&index, &self.files, self.condition.ignore_counts))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        check(&index, bytes, &self.files, self.condition)?;
        Ok(index)
    }

    fn version(&self) -> Option<String> {
        file_versions::digest(&self.files)
    }

    fn identity<'a>(&self, index: &Index, _: &'a [u8]) -> Cow<'a, [u8]> {
        // Without the versions: a copy of the tars has others.
        index.to_json().into_bytes().into()
    }
}

impl Tars {
    /// Returns the entries of the tars in the index of their folder, if it has one with all of them.
    fn kept_entries(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Option<Index>> {
        match Document::default().fetch(remote, progress) {
            Ok(bytes) => Ok(self.entries(&bytes)),
            // Some stores answer a request for an absent object with an error of permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the entries of the tars in the folder's index, if it has them all.
    fn entries(&self, index: &[u8]) -> Option<Index> {
        let index =
            Index::parse(index, INDEX_BASENAME).inspect_err(|e| log::warn!("the index is not used: {e}")).ok()?;
        let numbers: HashMap<&str, usize> = stored_names(&index).zip(0..).collect();
        let entries = self.files.iter().map(|file| {
            let shard = &index.shards[*numbers.get(file.name.as_str())?];
            matches!(shard.layout.format, ShardFormat::Tar { .. }).then(|| shard.clone())
        });
        let entries = Index { shards: entries.collect::<Option<_>>()? };
        let checked = check_lengths(&entries, &self.files);
        checked.inspect_err(|e| log::warn!("{INDEX_BASENAME} is not used; replace it with --overwrite: {e}")).ok()?;
        Some(entries)
    }

    fn count(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let set =
            TarSet::open(remote, &self.root, &self.files, unfinished().ok().as_deref(), self.condition.ignore_counts)?;
        let all = (0..self.files.len()).filter(|number| !set.is_known(*number)).count();
        if all > 0 && self.condition.ignore_counts {
            log::warn!("{all} tars are read once to find all their fields: ignore_counts");
        } else if all > 0 {
            log::warn!(
                "{all} tars have no index and are read once to count their samples; `python -m forebay.index` makes one that \
                 is kept next to them"
            );
        }
        set.index(&|done| log::info!("{done} of {all} tars are counted"), progress)
    }
}
