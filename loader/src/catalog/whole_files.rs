//! Files that are a shard each, by their names. Their index is a part of the `index.json` next to them, where `python
//! -m forebay.index` has made one, or the result of a [`Pass`]. It stays in the stream's folder on local disk.

use super::cache_folder::unfinished;
use super::found_files::{FoundFile, digest_of};
use super::kept_index::{Head, KeptFile, SurveyFiles, Surveyed, stored};
use super::opening::Opening;
use super::pass::{Pass, Survey};
use super::stream::IndexedStream;
use super::unpacked_file::Unpacking;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::store::{Remote, redact};
use crate::sync::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;

/// Opens `files` as a stream, with the folder `cache` on local disk. They are read where they are if `are_plain`.
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
    at.install(cache, &WholeFiles { at, survey, files, are_plain, checked: Mutex::default() })
}

/// Files by their names.
struct WholeFiles<'a, S> {
    at: &'a Opening<'a>,
    survey: S,
    files: Vec<FoundFile>,
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

impl<S: Survey + Copy> SurveyFiles for WholeFiles<'_, S> {
    fn made_as(&self) -> String {
        let options = if self.at.stream.ignore_counts { ", ignore_counts" } else { "" };
        format!("{}{options}", S::KIND)
    }

    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn needs_no_copy(&self) -> bool {
        self.are_plain
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        let has_index = S::HAS_INDEX && !self.at.stream.ignore_counts;
        let document = if has_index { index_next_to(remote)? } else { None };
        let source = document.as_deref().map(digest_of_index);
        self.checked.lock().source = Some(source.clone());
        let (index, versions) = match document.as_deref().and_then(|bytes| self.entries(bytes)) {
            Some((index, versions)) => (index, Some(versions)),
            None => (self.counted(remote, progress)?, None),
        };
        let source = source.filter(|_| versions.is_some());
        let kept = |(number, file): (usize, &FoundFile)| {
            let bytes = stored(&index.shards[number]).bytes;
            match versions.as_ref().filter(|_| !self.has_stamps()) {
                Some(versions) => KeptFile::of(&file.of_index(&versions[number]), bytes),
                None => KeptFile::of(file, bytes),
            }
        };
        let files = self.files.iter().enumerate().map(kept).collect();
        Ok(Surveyed { document: index.to_json().into_bytes(), files, source })
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        Index::parse(document, INDEX_BASENAME)
    }

    fn check(&self, head: &Head) -> Result<()> {
        head.check_files(&self.files, self.at.session.is_verified)?;
        self.check_source(head)?;
        let versions: Vec<&str> = head.files.iter().map(|file| &*file.version).collect();
        let is_known = versions.iter().any(|version| !version.is_empty());
        self.checked.lock().versions = is_known.then(|| HashAlgo::Xxh3_128.hex(versions.join("\n").as_bytes()));
        Ok(())
    }

    fn version(&self) -> Option<String> {
        digest_of(&self.files).or_else(|| self.checked.lock().versions.clone())
    }

    fn identity(&self, index: &Index, _: Vec<u8>) -> Vec<u8> {
        index.to_json().into_bytes()
    }
}

impl<S: Survey + Copy> WholeFiles<'_, S> {
    /// Returns true if the listing of the files has anything by which a file that was written again is known.
    fn has_stamps(&self) -> bool {
        self.files.iter().any(|file| !file.stamp().is_empty())
    }

    /// Compares the index next to the files with the one that a kept index with `head` was made of. It is all that
    /// shows that files without a listing were written again.
    fn check_source(&self, head: &Head) -> Result<()> {
        let Some(kept) = head.source.as_ref().filter(|_| !self.has_stamps() && !self.at.session.is_verified) else {
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
            Some(found) if found != *kept => Err(Error::format("the index next to the files was written again")),
            _ => Ok(()),
        }
    }

    /// Returns the entries of the files in `document`, the index next to them, with their versions, if it has them all.
    fn entries(&self, document: &[u8]) -> Option<(Index, Vec<String>)> {
        let index =
            Index::parse(document, INDEX_BASENAME).inspect_err(|e| log::warn!("the index is not used: {e}")).ok()?;
        let Versions { versions } = serde_json::from_slice(document).unwrap_or_default();
        let numbers: HashMap<&str, usize> =
            index.shards.iter().map(|shard| &*stored(shard).basename).zip(0..).collect();
        let entries = self.files.iter().map(|file| {
            let number = *numbers.get(file.name.as_str())?;
            let shard = &index.shards[number];
            let declared = stored(shard).bytes;
            if let Some(found) = file.bytes.filter(|bytes| *bytes != declared) {
                log::warn!(
                    "{INDEX_BASENAME} is not used; replace it with --overwrite: {} has {found} bytes where the index \
                     declares {declared}",
                    file.name
                );
                return None;
            }
            let version = versions.get(number).cloned().unwrap_or_default();
            self.survey.is_of(&shard.layout).then(|| (shard.clone(), version))
        });
        let (shards, versions) = entries.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some((Index { shards }, versions))
    }

    fn counted(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let (unfinished, ignore_counts) = (unfinished(), self.at.stream.ignore_counts);
        let (root, files, unpacking) =
            (self.at.root, &self.files, Unpacking::new(self.at.session.config.engine.memory));
        let pass = Pass::new(self.survey, remote, root, files, unfinished.as_deref(), ignore_counts, unpacking)?;
        let all = (0..self.files.len()).filter(|number| !pass.is_known(*number)).count();
        if all > 0 {
            log::warn!("{}", S::announced(all, ignore_counts));
        }
        pass.index(&|done| log::info!("{done} of {all} {}s are counted", S::NOUN), progress)
    }
}

/// Versions of the files in the index that is next to them, in its order, if it has any.
#[derive(Default, Deserialize)]
struct Versions {
    #[serde(default)]
    versions: Vec<String>,
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
