//! Versions of the files of an index, kept with it, so that files that were written again have another index.
//!
//! ```text
//!   {"versions": ["1024 1700000000000000000", ..], "version": 2, "shards": [..]}
//! ```
//!
//! A version is a text of [`FoundFile::stamp`]. One that is not known, as of files of a store that were not listed, is equal to all.
//! Files that were not listed have the versions in the index next to them, if it has any, and a digest of that index is kept. An index
//! that was made with `ignore_counts` may have other fields than one without, so that is kept, too.

use super::found_files::{FoundFile, is_of_index};
use crate::error::{Error, Result};
use crate::format::index::INDEX_BYTES_MAX;
use crate::format::{FileInfo, HashAlgo, INDEX_BASENAME, Index, Shard};
use crate::io::read_regular;
use serde::Deserialize;
use std::path::Path;

/// Facts about an index that are kept with it.
#[derive(Debug, Default, Deserialize)]
struct Head {
    /// Versions of its files, in their order; empty if none is known.
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    ignore_counts: bool,
    /// Digest of the index next to the files, if it has their entries.
    #[serde(default)]
    source: Option<String>,
}

/// Returns the index of `files` as it is kept. `source` is the digest of the index next to them that it was taken from.
pub(super) fn with_versions(index: &Index, files: &[FoundFile], ignore_counts: bool, source: Option<&str>) -> Vec<u8> {
    let stamps: Vec<String> = files.iter().map(FoundFile::stamp).collect();
    let mut head = String::from("{");
    if stamps.iter().any(|stamp| !stamp.is_empty()) {
        head.push_str(&format!("\"versions\": {}, ", serde_json::json!(stamps)));
    }
    if let Some(source) = source {
        head.push_str(&format!("\"source\": \"{source}\", "));
    }
    if ignore_counts {
        head.push_str("\"ignore_counts\": true, ");
    }
    [&head, &index.to_json()[1..]].concat().into_bytes()
}

/// Returns the digest of the index next to the files from which `bytes` were made; `None` if there was none.
pub(super) fn source_of(bytes: &[u8]) -> Option<String> {
    head_of(bytes).source
}

/// Returns the versions in an index, if it has any.
pub(super) fn versions_of(bytes: &[u8]) -> Vec<String> {
    head_of(bytes).versions
}

/// Returns a digest of the versions of `files`; `None` if none is known.
pub(super) fn digest(files: &[FoundFile]) -> Option<String> {
    digest_of(&files.iter().map(FoundFile::stamp).collect::<Vec<_>>())
}

/// Returns a digest of `stamps`; `None` if all are empty.
pub(super) fn digest_of(stamps: &[String]) -> Option<String> {
    stamps.iter().any(|stamp| !stamp.is_empty()).then(|| HashAlgo::Xxh3_128.hex(stamps.join("\n").as_bytes()))
}

/// Conditions for the use of a kept index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    /// It is to be made without counts of other programs.
    pub(super) ignore_counts: bool,
    /// The files may have changed, since they are compared with it.
    pub(super) is_verified: bool,
}

/// Checks that `index`, which was parsed from `bytes`, is of `files`, as far as their versions and lengths are known.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with the first file that it is not of.
pub(super) fn check(index: &Index, bytes: &[u8], files: &[FoundFile], condition: Condition) -> Result<()> {
    if !stored_names(index).eq(files.iter().map(|file| file.name.as_str())) {
        return Err(Error::format("the index is of other files").with("files", files.len()));
    }
    let head = head_of(bytes);
    if head.ignore_counts != condition.ignore_counts {
        return Err(Error::format("the index was made with another value of ignore_counts"));
    }
    if condition.is_verified {
        return Ok(());
    }
    check_lengths(index, files)?;
    match files.iter().zip(&head.versions).find(|(file, version)| is_other(version, &file.stamp())) {
        Some((file, _)) => Err(Error::format("a file was written again after it was indexed").with("file", &file.name)),
        None => Ok(()),
    }
}

/// Compares the lengths of `files` with those in their `index`, which has an entry for each of them.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with the first file of another length.
pub(super) fn check_lengths(index: &Index, files: &[FoundFile]) -> Result<()> {
    for (shard, file) in index.shards.iter().zip(files) {
        let declared = stored(shard).bytes;
        if let Some(found) = file.bytes.filter(|bytes| *bytes != declared) {
            let message = format!("a file has {found} bytes where the index declares {declared}");
            return Err(Error::format(message).with("file", &file.name));
        }
    }
    Ok(())
}

/// Removes the copies in `cache` of those of `files`, which are in `source` if that is on this machine, that were written again
/// after the index in `cache` was made.
pub(super) fn remove_outdated(cache: &Path, files: &[FoundFile], source: Option<&Path>) {
    // `local` may be the folder of the files themselves.
    if source.is_some_and(|source| is_same_folder(source, cache)) {
        return;
    }
    let Ok(kept) = read_regular(&cache.join(INDEX_BASENAME), INDEX_BYTES_MAX) else { return };
    let Ok(index) = Index::parse(&kept, INDEX_BASENAME) else { return };
    for (shard, version) in index.shards.iter().zip(head_of(&kept).versions) {
        let name = &*stored(shard).basename;
        if !files.iter().any(|file| file.name == name && is_other(&version, &file.stamp())) {
            continue;
        }
        log::info!("{name} was written again: its copy in {} is removed", cache.display());
        for file in shard.files().flat_map(|pair| [Some(pair.raw), pair.zip]).flatten() {
            // Absent, as a rule. A copy that cannot be removed has the length of the new file, or is replaced.
            let _ = std::fs::remove_file(cache.join(&*file.basename));
        }
    }
}

/// Names of the shards' files in the store.
pub(super) fn stored_names(index: &Index) -> impl Iterator<Item = &str> {
    index.shards.iter().map(|shard| &*stored(shard).basename)
}

fn stored(shard: &Shard) -> &FileInfo {
    shard.zip_data.as_ref().unwrap_or(&shard.raw_data)
}

/// Returns true if both are known, and differ. The versions of an index next to the files and those of a listing have different
/// texts for the same file.
fn is_other(kept: &str, found: &str) -> bool {
    !kept.is_empty() && !found.is_empty() && is_of_index(kept) == is_of_index(found) && kept != found
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    matches!((std::fs::canonicalize(a), std::fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns true for an index that [`with_versions`] has made with such facts: it is of a list of files, and of no other data set.
pub(super) fn has_head(bytes: &[u8]) -> bool {
    ["versions", "ignore_counts", "source"].iter().any(|key| bytes.starts_with(format!("{{\"{key}\"").as_bytes()))
}

fn head_of(bytes: &[u8]) -> Head {
    serde_json::from_slice(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Layout;
    use crate::format::tar::FieldCounts;

    fn listed(version: &str) -> FoundFile {
        FoundFile { name: "0.tar".to_owned(), bytes: Some(4096), version: version.to_owned() }
    }

    #[test]
    fn versions_of_an_index_and_of_a_listing_are_not_compared() {
        let cases = [
            (listed("a"), listed("a"), false),
            (listed("a"), listed("b"), true),
            (listed("a").of_index("a"), listed("").of_index("a"), false),
            (listed("a").of_index("a"), listed("").of_index("b"), true),
            (listed("a").of_index("a"), listed("a"), false),
            (listed("a"), listed("").of_index("b"), false),
        ];
        let layout =
            Layout::tar(&FieldCounts { samples: 1, fields: [("cls".to_owned(), 1)].into(), is_sampled: false });
        let file = FileInfo { basename: "0.tar".into(), bytes: 4096, hashes: Default::default() };
        let index = Index { shards: vec![Shard::new(layout.into(), 1, file)] };
        let condition = Condition { ignore_counts: false, is_verified: false };
        for (kept, found, is_removed) in cases {
            let cache = tempfile::tempdir().unwrap();
            let bytes = with_versions(&index, &[kept], false, None);
            std::fs::write(cache.path().join(INDEX_BASENAME), &bytes).unwrap();
            std::fs::write(cache.path().join("0.tar"), "copy").unwrap();
            let found = [found];
            assert_eq!(check(&index, &bytes, &found, condition).is_err(), is_removed, "{}", found[0].stamp());
            remove_outdated(cache.path(), &found, None);
            assert_eq!(!cache.path().join("0.tar").exists(), is_removed, "{}", found[0].stamp());
        }
    }
}
