//! Index of files as it is kept in the stream's folder on local disk, and the condition for its use. Each kind of files
//! has its own document, from which the shards follow; all have a head in front of it:
//!
//! ```text
//!   {"forebay_kept": {"version": 1, "made_as": "tar", "files": [{"name": "0.tar", "bytes": 1024}]}, "shards": [..]}
//! ```
//!
//! An index is made again if it was made in a different way, of different files, or of files that were written again,
//! and if an earlier version of the engine has kept it. An unknown version (files of a store that were not listed) is
//! equal to all versions.

use super::found_files::{FoundFile, digest_of, is_of_index};
use super::index_origin::IndexOrigin;
use crate::error::{Context, Error, Result};
use crate::format::index::INDEX_BYTES_MAX;
use crate::format::{FileInfo, INDEX_BASENAME, Index, Shard};
use crate::io::read_regular;
use crate::store::Remote;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Start of every kept index.
const START: &str = "{\"forebay_kept\": ";

/// Version of the head.
const VERSION: u32 = 1;

/// Kept index: its head, and the document of the kind.
pub(super) struct KeptIndex<'a> {
    pub(super) head: Head,
    /// Document without the brace at its start.
    document: &'a [u8],
}

/// Facts about an index that are compared before it is used.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    version: u32,
    /// Kind of the files, and the options on which the index depends.
    made_as: String,
    /// Files that the index describes, in their order.
    pub(super) files: Vec<KeptFile>,
    /// Digest of the index next to the files that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
}

/// File of a kept index.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Version as the listing of the files has it; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
}

/// Outcome of a survey: the parts of a kept index.
pub(super) struct Surveyed {
    /// JSON object from which [`SurveyFiles::index`] makes the index.
    pub(super) document: Vec<u8>,
    pub(super) files: Vec<KeptFile>,
    pub(super) source: Option<String>,
}

/// Files of a kind, with an index that is made of them and kept.
pub(super) trait SurveyFiles {
    /// Text that differs for different kinds of files, and for different options on which the index depends.
    fn made_as(&self) -> String;

    /// Files as far as they are known before a survey; none if a survey finds them.
    fn files(&self) -> &[FoundFile] {
        &[]
    }

    /// True if the shards of a remote on this machine are read where they are.
    fn needs_no_copy(&self) -> bool {
        false
    }

    /// Makes the document of the files. A survey of many parts calls `progress` after each, on any thread.
    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed>;

    /// Returns the index that follows from a document.
    fn index(&self, document: &[u8]) -> Result<Index>;

    /// Compares the files of a kept index with the present ones.
    fn check(&self, head: &Head) -> Result<()> {
        head.check_files(self.files(), false)
    }

    /// As [`IndexOrigin::version`].
    fn version(&self) -> Option<String> {
        digest_of(self.files())
    }

    /// As [`IndexOrigin::identity`], of a document.
    fn identity(&self, _: &Index, document: Vec<u8>) -> Vec<u8> {
        document
    }
}

impl<S: SurveyFiles> IndexOrigin for S {
    fn needs_no_copy(&self) -> bool {
        SurveyFiles::needs_no_copy(self)
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let Surveyed { document, files, source } = self.survey(remote, progress)?;
        let head = to_bytes(&Head { version: VERSION, made_as: self.made_as(), files, source })?;
        Ok([START.as_bytes(), &head, b", ", document.get(1..).unwrap_or_default()].concat())
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let kept = KeptIndex::parse(bytes).context("remote", || name)?;
        if kept.head.made_as != self.made_as() {
            return Err(Error::format("the index was made of a different kind of files, or with different options"));
        }
        self.check(&kept.head)?;
        self.index(&kept.document()).context("remote", || name)
    }

    fn remove_outdated(&self, folder: &Path, new: &[u8]) {
        let Ok(old) = read_regular(&folder.join(INDEX_BASENAME), INDEX_BYTES_MAX) else { return };
        let (Ok(old), Ok(new)) = (KeptIndex::parse(&old), KeptIndex::parse(new)) else { return };
        for shard in old.outdated(&new, |document| self.index(document)).unwrap_or_default() {
            log::info!("{} has different files now: its copy is removed", shard.raw_data.basename);
            for file in shard.files().flat_map(|pair| [Some(pair.raw), pair.zip]).flatten() {
                // Absent, as a rule. A copy that cannot be removed has the length of the new file, or is replaced.
                let _ = std::fs::remove_file(folder.join(&*file.basename));
            }
        }
    }

    fn version(&self) -> Option<String> {
        SurveyFiles::version(self)
    }

    fn identity<'a>(&self, index: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let document = KeptIndex::parse(bytes).map_or_else(|_| bytes.to_vec(), |kept| kept.document());
        SurveyFiles::identity(self, index, document).into()
    }
}

/// Returns the first bytes of every kept index that was `made_as` that text.
pub(super) fn start_of(made_as: &str) -> String {
    format!("{START}{{\"version\":{VERSION},\"made_as\":{},", serde_json::json!(made_as))
}

impl<'a> KeptIndex<'a> {
    /// Parses a kept index.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are no index, and for an index of an unknown version.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let no_index = || Error::format("the file is not an index of this version of forebay");
        let rest = bytes.strip_prefix(START.as_bytes()).ok_or_else(no_index)?;
        let mut heads = serde_json::Deserializer::from_slice(rest).into_iter::<Head>();
        let head = heads.next().ok_or_else(no_index)?.map_err(|e| no_index().caused_by(e))?;
        let document = rest[heads.byte_offset()..].strip_prefix(b", ").ok_or_else(no_index)?;
        if head.version == VERSION { Ok(Self { head, document }) } else { Err(no_index()) }
    }

    /// Returns the document of the kind.
    pub(super) fn document(&self) -> Vec<u8> {
        [b"{", self.document].concat()
    }

    /// Returns the shards of this index that are different shards in the `new` one, or of files that were written
    /// again. `parse` parses a document.
    fn outdated(&self, new: &KeptIndex<'_>, parse: impl Fn(&[u8]) -> Result<Index>) -> Result<Vec<Shard>> {
        let now: HashMap<&str, &KeptFile> = new.head.files.iter().map(|file| (&*file.name, file)).collect();
        let is_changed =
            |kept: &&KeptFile| now.get(&*kept.name).is_some_and(|now| kept.is_outdated(Some(now.bytes), &now.version));
        let changed: HashSet<&str> = self.head.files.iter().filter(is_changed).map(|file| &*file.name).collect();
        if changed.is_empty() && self.document == new.document {
            return Ok(Vec::new());
        }
        let (old, new) = (parse(&self.document())?, parse(&new.document())?);
        let new: HashMap<&str, &Shard> = new.shards.iter().map(|shard| (&*shard.raw_data.basename, shard)).collect();
        let is_outdated = |shard: &Shard| {
            let is_other = |new: &&Shard| new.recipe != shard.recipe || new.raw_data != shard.raw_data;
            let is_of_changed = match &shard.recipe {
                Some(recipe) => recipe.ranges().iter().any(|range| changed.contains(&*range.key)),
                None => changed.contains(&*stored(shard).basename),
            };
            is_of_changed || new.get(&*shard.raw_data.basename).is_some_and(is_other)
        };
        Ok(old.shards.into_iter().filter(is_outdated).collect())
    }
}

impl KeptFile {
    /// Entry of `found`, which has `bytes` bytes.
    pub(super) fn of(found: &FoundFile, bytes: u64) -> Self {
        Self { name: found.name.clone(), bytes, version: found.version.clone() }
    }

    /// Returns true if the file has different bytes now, or a different version, as far as both are known. Versions of
    /// an index next to the files and of a listing are different texts for the same file.
    fn is_outdated(&self, bytes: Option<u64>, version: &str) -> bool {
        let is_other = |kept: &str| {
            !kept.is_empty() && !version.is_empty() && is_of_index(kept) == is_of_index(version) && kept != version
        };
        bytes.is_some_and(|bytes| bytes != self.bytes) || is_other(&self.version)
    }
}

impl Head {
    /// Checks that the index describes `files`, as far as their versions and lengths are known; if it `is_verified`,
    /// only by their names.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with the first file that it does not describe.
    pub(super) fn check_files(&self, files: &[FoundFile], is_verified: bool) -> Result<()> {
        if !self.files.iter().map(|file| &file.name).eq(files.iter().map(|file| &file.name)) {
            return Err(Error::format("the index belongs to different files").with("files", files.len()));
        }
        let is_outdated = |(kept, found): &(&KeptFile, &FoundFile)| kept.is_outdated(found.bytes, &found.version);
        match self.files.iter().zip(files).filter(|_| !is_verified).find(is_outdated) {
            Some((file, _)) => {
                Err(Error::format("a file was written again after it was indexed").with("file", &file.name))
            }
            None => Ok(()),
        }
    }
}

/// Returns the file of `shard` in the store.
pub(super) fn stored(shard: &Shard) -> &FileInfo {
    shard.zip_data.as_ref().unwrap_or(&shard.raw_data)
}

/// Returns the bytes of a document.
///
/// # Errors
///
/// None that can be expected.
pub(super) fn to_bytes(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|e| Error::internal("an index cannot be written").caused_by(e))
}

/// Parses the document of `files`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for bytes that are no such document.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], files: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::format(format!("the file is not an index of {files}")).caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_an_index_and_of_a_listing_are_not_compared() {
        for (kept, found, is_outdated) in [
            ("a", "a", false),
            ("a", "b", true),
            ("indexed a", "indexed a", false),
            ("indexed a", "indexed b", true),
            ("indexed a", "a", false),
            ("a", "indexed b", false),
            ("", "b", false),
            ("a", "", false),
        ] {
            let file = KeptFile { name: "0.tar".to_owned(), bytes: 4096, version: kept.to_owned() };
            assert_eq!(file.is_outdated(None, found), is_outdated, "{kept} {found}");
            assert!(file.is_outdated(Some(1), found));
        }
    }

    #[test]
    fn a_document_is_kept_as_it_is_behind_its_head() {
        let head = r#"{"version":1,"made_as":"tar","files":[{"name":"0.tar","bytes":7}]}"#;
        let text = format!("{START}{head}, \"shards\": [\"}}\"]}}");
        let kept = KeptIndex::parse(text.as_bytes()).unwrap();
        assert_eq!(kept.document(), br#"{"shards": ["}"]}"#);
        assert_eq!(to_bytes(&kept.head).unwrap(), head.as_bytes());
        for (from, to) in [("version\":1", "version\":2"), ("made_as", "made"), ("7", "-7"), (", \"shards", "\"shards")]
        {
            assert!(KeptIndex::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!((0..START.len() + head.len() + 2).all(|end| KeptIndex::parse(&text.as_bytes()[..end]).is_err()));
    }
}
