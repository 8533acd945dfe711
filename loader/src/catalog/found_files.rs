//! Files of a list, as far as their listing describes them.

use super::requests::lengths;
use crate::error::{Error, Result};
use crate::format::HashAlgo;
use crate::sources::Names;
use crate::store::{ListedEntry, Remote};
use crate::versions::FileFacts;
use std::collections::HashMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Start of the version of a file that an index of the files has.
const INDEXED: &str = "indexed ";

/// File of a list.
pub(super) struct FoundFile {
    pub(super) name: String,
    /// Bytes, if they are known before a request.
    pub(super) bytes: Option<u64>,
    /// Text that a different content of this name and size has not; empty if there is none.
    pub(super) version: String,
    /// Version by which a response shows that the file has changed; empty if there is none.
    pub(super) tag: String,
}

/// Returns the files of `names`, which are in `folder` if that is on this machine. `list` lists all files of their
/// folder, and is called only for patterns.
///
/// # Errors
///
/// As [`Names::found`]; errors of the file system, and of `list`.
pub(super) fn find(
    names: Names,
    folder: Option<&Path>,
    list: impl FnOnce() -> Result<Vec<ListedEntry>>,
) -> Result<Vec<FoundFile>> {
    let entries = if matches!(names, Names::Patterns(_)) { list()? } else { Vec::new() };
    listed(names.found(|| Ok(entries.iter().map(|entry| entry.key.clone()).collect()))?, folder, &entries)
}

/// Returns the files `names`, which are in `folder` if that is on this machine. `entries` are files of their folder
/// that were listed.
///
/// # Errors
///
/// Errors of the file system.
pub(super) fn listed(names: Vec<String>, folder: Option<&Path>, entries: &[ListedEntry]) -> Result<Vec<FoundFile>> {
    let entries: HashMap<&str, &ListedEntry> = entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    let file = |name: String| match (folder, entries.get(name.as_str())) {
        (Some(folder), _) => local_file(folder, name),
        (None, Some(entry)) => Ok(FoundFile { name, ..FoundFile::of(entry) }),
        (None, None) => Ok(FoundFile::unknown(name)),
    };
    names.into_iter().map(file).collect()
}

impl FoundFile {
    fn unknown(name: String) -> Self {
        Self { name, bytes: None, version: String::new(), tag: String::new() }
    }

    fn of(entry: &ListedEntry) -> Self {
        let modified = || entry.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let version = entry.etag.clone().or_else(|| modified().map(|at| at.as_nanos().to_string()));
        let (version, tag) = (version.unwrap_or_default(), entry.etag.clone().unwrap_or_default());
        Self { name: entry.key.clone(), bytes: Some(entry.size), version, tag }
    }

    /// Returns a copy with the version for files that an index names.
    pub(super) fn of_index(&self, version: &str) -> Self {
        let version = if version.is_empty() { String::new() } else { format!("{INDEXED}{version}") };
        Self { name: self.name.clone(), bytes: None, version, tag: self.tag.clone() }
    }

    /// Text that a different content of this name has not; empty if nothing is known of it.
    pub(super) fn stamp(&self) -> String {
        let bytes = self.bytes.map_or_else(String::new, |bytes| bytes.to_string());
        format!("{bytes} {}", self.version).trim().to_owned()
    }
}

/// Returns true for the version of an index of the files.
pub(super) fn is_of_index(version: &str) -> bool {
    version.starts_with(INDEXED)
}

/// Text that differs for different files, as far as their listing shows that: their shards must be in different
/// folders.
pub(super) fn described(files: &[FoundFile]) -> String {
    files.iter().map(|file| format!("\n{} {:?} {}", file.name, file.bytes, file.version)).collect()
}

/// Returns a digest of the versions of `files`; `None` if none is known.
pub(super) fn digest_of(files: &[FoundFile]) -> Option<String> {
    let stamps: Vec<String> = files.iter().map(FoundFile::stamp).collect();
    stamps.iter().any(|stamp| !stamp.is_empty()).then(|| HashAlgo::Xxh3_128.hex(stamps.join("\n").as_bytes()))
}

/// Returns the names of `files`.
pub(super) fn names_of(files: &[FoundFile]) -> Vec<String> {
    files.iter().map(|file| file.name.clone()).collect()
}

/// Returns the bytes of `files`, which are requested where they are not known.
pub(super) fn sized<'a>(remote: &Remote, files: impl IntoIterator<Item = &'a FoundFile> + Clone) -> Result<Vec<u64>> {
    let unsized_files = files.clone().into_iter().filter(|file| file.bytes.is_none());
    let names: Vec<&str> = unsized_files.map(|file| &*file.name).collect();
    let mut found = lengths(remote, &names)?.into_iter();
    Ok(files.into_iter().map(|file| file.bytes.or_else(|| found.next()).unwrap_or(0)).collect())
}

fn local_file(folder: &Path, name: String) -> Result<FoundFile> {
    let path = folder.join(&name);
    let found = match std::fs::metadata(&path) {
        Ok(found) => found,
        // It is an error when it is read.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(FoundFile::unknown(name));
        }
        Err(e) => return Err(Error::from_io(e, "a file of the list cannot be read").with("file", path.display())),
    };
    let modified = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let version = modified.map_or_else(String::new, |at| at.as_nanos().to_string());
    Ok(FoundFile { name, bytes: Some(found.len()), version, tag: FileFacts::from(&found).version_at(&path) })
}
