//! Files that are a shard each, by their names. Their index is a part of the `index.json` next to them, where `python -m
//! forebay.index` has made one, or the result of a [`Pass`]. It stays in the stream's folder on local disk.

use super::cache_folder::unfinished;
use super::file_versions::{self, check, check_lengths, remove_outdated, stored_names, with_versions};
use super::found_files::FoundFile;
use super::index_origin::IndexOrigin;
use super::opening::Opening;
use super::pass::{Pass, Survey};
use super::stream::IndexedStream;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::store::{Remote, redact};
use crate::sync::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Opens `files` as a stream, of which `cache` is the folder on local disk. They are read in place if `are_plain`.
///
/// # Errors
///
/// Errors of the files, the store and the folder on local disk.
pub(super) fn open<S: Survey + Copy>(
    at: &Opening<'_>,
    survey: S,
    files: Vec<FoundFile>,
    cache: PathBuf,
    are_plain: bool,
) -> Result<IndexedStream> {
    let files = WholeFiles { at, survey, files, cache: &cache, are_plain, checked: Mutex::default() };
    at.install(cache.clone(), &files)
}

/// Files by their names.
struct WholeFiles<'a, S> {
    at: &'a Opening<'a>,
    survey: S,
    files: Vec<FoundFile>,
    /// Folder of the index, and of copies of the files if they are not read in place.
    cache: &'a Path,
    are_plain: bool,
    checked: Mutex<Checked>,
}

/// Facts that comparisons of an index have found.
#[derive(Default)]
struct Checked {
    /// Digest of the index next to the files, once it was requested; `None` in it if there is none.
    source: Option<Option<String>>,
    /// Digest of the versions in the index that was parsed last.
    versions: Option<String>,
}

impl<S: Survey + Copy> IndexOrigin for WholeFiles<'_, S> {
    fn reads_in_place(&self) -> bool {
        self.are_plain
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let ignore_counts = self.at.stream.ignore_counts;
        let document = if ignore_counts || !S::HAS_INDEX { None } else { index_next_to(remote)? };
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
        remove_outdated(self.cache, files, self.at.folder().as_deref());
        let source = source.filter(|_| kept.is_some());
        let index = match kept {
            Some((index, _)) => index,
            None => self.counted(remote, progress)?,
        };
        Ok(with_versions(&index, files, ignore_counts, source.as_deref()))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        check(&index, bytes, &self.files, self.at.condition())?;
        self.check_source(bytes)?;
        self.checked.lock().versions = file_versions::digest_of(&file_versions::versions_of(bytes));
        Ok(index)
    }

    fn version(&self) -> Option<String> {
        file_versions::digest(&self.files).or_else(|| self.checked.lock().versions.clone())
    }

    fn identity<'a>(&self, index: &Index, _: &'a [u8]) -> Cow<'a, [u8]> {
        // Without the versions: a copy of the files has others.
        index.to_json().into_bytes().into()
    }
}

impl<S: Survey + Copy> WholeFiles<'_, S> {
    /// Returns true if the listing of the files has anything by which a file that was written again is known.
    fn has_stamps(&self) -> bool {
        self.files.iter().any(|file| !file.stamp().is_empty())
    }

    /// Compares the index next to the files with the one that `bytes`, an index that is kept, were made of. It is all that shows that
    /// files without a listing were written again.
    fn check_source(&self, bytes: &[u8]) -> Result<()> {
        let Some(kept) = file_versions::source_of(bytes).filter(|_| !self.has_stamps() && !self.at.session.is_verified)
        else {
            return Ok(());
        };
        let known = self.checked.lock().source.clone();
        let found = known.unwrap_or_else(|| {
            let found = self
                .at
                .remote()
                .and_then(|remote| index_next_to(&remote))
                .inspect_err(|e| log::warn!("the kept index of {} is used unchecked: {e}", redact(self.at.root)));
            let found = found.ok().flatten().as_deref().map(digest_of_index);
            self.checked.lock().source = Some(found.clone());
            found
        });
        match found {
            Some(found) if found != kept => Err(Error::format("the index next to the files was written again")),
            _ => Ok(()),
        }
    }

    /// Returns the entries of the files in `document`, the index next to them, with their versions, if it has them all.
    fn entries(&self, document: &[u8]) -> Option<(Index, Vec<String>)> {
        let index =
            Index::parse(document, INDEX_BASENAME).inspect_err(|e| log::warn!("the index is not used: {e}")).ok()?;
        let versions = file_versions::versions_of(document);
        let numbers: HashMap<&str, usize> = stored_names(&index).zip(0..).collect();
        let entries = self.files.iter().map(|file| {
            let number = *numbers.get(file.name.as_str())?;
            let shard = &index.shards[number];
            let version = versions.get(number).cloned().unwrap_or_default();
            self.survey.is_of(&shard.layout).then(|| (shard.clone(), version))
        });
        let (shards, versions) = entries.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let entries = Index { shards };
        let checked = check_lengths(&entries, &self.files);
        checked.inspect_err(|e| log::warn!("{INDEX_BASENAME} is not used; replace it with --overwrite: {e}")).ok()?;
        Some((entries, versions))
    }

    fn counted(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let (unfinished, ignore_counts) = (unfinished(), self.at.stream.ignore_counts);
        let pass = Pass::new(self.survey, remote, self.at.root, &self.files, unfinished.as_deref(), ignore_counts)?;
        let all = (0..self.files.len()).filter(|number| !pass.is_known(*number)).count();
        if all > 0 {
            log::warn!("{}", S::announced(all, ignore_counts));
        }
        pass.index(&|done| log::info!("{done} of {all} {}s are counted", S::NOUN), progress)
    }
}

/// Fetches the index in the folder of the files; `None` if there is none.
fn index_next_to(remote: &Remote) -> Result<Option<Vec<u8>>> {
    match remote.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        // Some stores answer a request for an absent object with an error of permission.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => Ok(None),
        Err(e) => Err(e),
    }
}

fn digest_of_index(bytes: &[u8]) -> String {
    HashAlgo::Xxh3_128.hex(bytes)
}
