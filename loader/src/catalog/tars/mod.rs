//! Tars of a list as the shards of a stream.
//!
//! Their index is a part of the folder's `index.json`, where `python -m forebay.index` has made one. Otherwise `index` makes it,
//! and it stays in the stream's folder on local disk: `known` has the samples that files of other programs count, and the
//! other tars are read once, in a [`pass`](super::pass) with their `survey`.

mod index;
mod known;
mod survey;

use super::cache_folder::unfinished;
use super::data_set::Document;
use super::file_versions::{self, Condition, check, check_lengths, remove_outdated, stored_names, with_versions};
use super::found_files::FoundFile;
use super::index_origin::IndexOrigin;
use super::opening::{Files, OpenFiles, Opening};
use super::stream::IndexedStream;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::sources::folder_names::{check_splits, is_hidden};
use crate::sources::names_of_kind;
use crate::sources::tars::{Packing, TAR};
use crate::store::{Remote, redact};
use crate::sync::Mutex;
pub use index::TarSet;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// Text for the list of all tars of a folder.
const TARS_BELOW: &str = "**/*.tar";

/// Opener of tars.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let (described, files) = match files {
            Files::OfKind => {
                let entries = at.all()?;
                let shown = entries.iter().filter(|entry| !is_hidden(&entry.key));
                let names = names_of_kind(&TAR, &shown.map(|entry| entry.key.clone()).collect::<Vec<_>>())?;
                check_splits(names.iter().map(String::as_str))?;
                // The folder of all lists of this folder: shards that it has stay when others are added.
                (TARS_BELOW.to_owned(), Files::Listed { names, entries })
            }
            files => {
                let names = files.into_names()?;
                (names.listed().join("\n"), Files::Named(names))
            }
        };
        let (root, folder, cache) = (at.root.to_owned(), at.folder(), at.list_cache(&described)?);
        let (files, condition, open) = (at.find(files)?, at.condition(), || at.remote());
        let tars =
            Tars { root, folder, files, cache: cache.clone(), condition, open: &open, checked: Mutex::default() };
        at.install(cache, &tars)
    }
}

/// Tars by their names: their entries in the folder's `index.json`, or else the result of a pass over all of them.
struct Tars<'a> {
    /// Address of their folder, with secrets.
    root: String,
    /// That folder, if it is on this machine.
    folder: Option<PathBuf>,
    files: Vec<FoundFile>,
    /// Folder of the index, and of copies of the tars if they are not read in place.
    cache: PathBuf,
    condition: Condition,
    /// Opens their folder.
    open: &'a dyn Fn() -> Result<Remote>,
    checked: Mutex<Checked>,
}

/// Facts that comparisons of an index have found.
#[derive(Default)]
struct Checked {
    /// Digest of the index in the folder of the tars, once it was requested; `None` in it if there is none.
    source: Option<Option<String>>,
    /// Digest of the versions in the index that was parsed last.
    versions: Option<String>,
}

impl IndexOrigin for Tars<'_> {
    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn reads_in_place(&self) -> bool {
        self.files.iter().all(|file| Packing::is_plain(&file.name))
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let document = if self.condition.ignore_counts { None } else { document(remote, progress)? };
        let source = document.as_deref().map(digest_of_index);
        self.checked.lock().source = Some(source.clone());
        let kept = document.as_deref().and_then(|bytes| self.entries(bytes));
        let files = match &kept {
            Some((_, versions)) if !self.has_stamps() => {
                self.files.iter().zip(versions).map(|(file, version)| file.of_index(version)).collect()
            }
            _ => Vec::new(),
        };
        let files = if files.is_empty() { &self.files } else { &files };
        remove_outdated(&self.cache, files, self.folder.as_deref());
        let source = source.filter(|_| kept.is_some());
        let index = match kept {
            Some((index, _)) => index,
            None => self.count(remote, progress)?,
        };
        Ok(with_versions(&index, files, self.condition.ignore_counts, source.as_deref()))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        check(&index, bytes, &self.files, self.condition)?;
        self.check_source(bytes)?;
        self.checked.lock().versions = file_versions::digest_of(&file_versions::versions_of(bytes));
        Ok(index)
    }

    fn version(&self) -> Option<String> {
        file_versions::digest(&self.files).or_else(|| self.checked.lock().versions.clone())
    }

    fn identity<'a>(&self, index: &Index, _: &'a [u8]) -> Cow<'a, [u8]> {
        // Without the versions: a copy of the tars has others.
        index.to_json().into_bytes().into()
    }
}

impl Tars<'_> {
    /// Returns true if the listing of the tars has anything by which a tar that was written again is known.
    fn has_stamps(&self) -> bool {
        self.files.iter().any(|file| !file.stamp().is_empty())
    }

    /// Compares the index in the folder of the tars with the one that `bytes`, an index that is kept, were made of. It is all that
    /// shows that tars without a listing were written again.
    fn check_source(&self, bytes: &[u8]) -> Result<()> {
        let Some(kept) = file_versions::source_of(bytes).filter(|_| !self.has_stamps() && !self.condition.is_verified)
        else {
            return Ok(());
        };
        let known = self.checked.lock().source.clone();
        let found = match known {
            Some(known) => known,
            None => {
                let found = (self.open)().and_then(|remote| document(&remote, &|| ()));
                let found = found
                    .inspect_err(|e| log::warn!("the kept index of {} is used unchecked: {e}", redact(&self.root)));
                let found = found.ok().flatten().as_deref().map(digest_of_index);
                self.checked.lock().source = Some(found.clone());
                found
            }
        };
        match found {
            Some(found) if found != kept => Err(Error::format("the index next to the tars was written again")),
            _ => Ok(()),
        }
    }

    /// Returns the entries of the tars in `document`, the folder's index, with their versions, if it has them all.
    fn entries(&self, document: &[u8]) -> Option<(Index, Vec<String>)> {
        let index =
            Index::parse(document, INDEX_BASENAME).inspect_err(|e| log::warn!("the index is not used: {e}")).ok()?;
        let versions = file_versions::versions_of(document);
        let numbers: HashMap<&str, usize> = stored_names(&index).zip(0..).collect();
        let entries = self.files.iter().map(|file| {
            let number = *numbers.get(file.name.as_str())?;
            let shard = &index.shards[number];
            let version = versions.get(number).cloned().unwrap_or_default();
            shard.layout.is_tar().then(|| (shard.clone(), version))
        });
        let (shards, versions) = entries.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let entries = Index { shards };
        let checked = check_lengths(&entries, &self.files);
        checked.inspect_err(|e| log::warn!("{INDEX_BASENAME} is not used; replace it with --overwrite: {e}")).ok()?;
        Some((entries, versions))
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

/// Returns the index in the folder of tars; `None` if there is none.
fn document(remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Option<Vec<u8>>> {
    match Document::default().fetch(remote, progress) {
        Ok(bytes) => Ok(Some(bytes)),
        // Some stores answer a request for an absent object with an error of permission.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => Ok(None),
        Err(e) => Err(e),
    }
}

fn digest_of_index(bytes: &[u8]) -> String {
    HashAlgo::Xxh3_128.hex(bytes)
}
