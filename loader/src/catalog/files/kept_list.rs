//! Lists of files that are kept on local disk.

use crate::catalog::kept_index::start_of;
use crate::catalog::opening::Opening;
use crate::catalog::stream_folders::cache_folder;
use crate::format::INDEX_BASENAME;
use crate::sources::files::{FILE, FileSet, Selection};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Returns the folder for the list of samples that `described` describes, and for their shards.
pub(super) fn cache(at: &Opening<'_>, described: &str) -> PathBuf {
    match at.local() {
        Some(_) => cache_folder(at.stream, at.root),
        None => at.default_cache(described),
    }
}

/// Returns the text for an index of samples that `described` describes, see [`SurveyFiles::made_as`].
///
/// [`SurveyFiles::made_as`]: crate::catalog::kept_index::SurveyFiles::made_as
pub(super) fn made_as(described: &str) -> String {
    format!("files: {described}")
}

/// Returns true if a list of the pictures in a folder is kept on local disk.
pub(in crate::catalog) fn has_kept_list(at: &Opening<'_>) -> bool {
    let described = Selection::OfKind(&FILE).describe();
    starts_with(&cache(at, &described), start_of(&made_as(&described)).as_bytes())
}

/// Returns true if the files in `folder` have their list next to them.
pub(in crate::catalog) fn has_list(folder: &Path) -> bool {
    starts_with(folder, FileSet::START)
}

/// Returns true if the index in `folder` begins with `start`.
fn starts_with(folder: &Path, start: &[u8]) -> bool {
    let path = folder.join(INDEX_BASENAME);
    if !std::fs::metadata(&path).is_ok_and(|found| found.is_file()) {
        // The open of a pipe would wait for its writer.
        return false;
    }
    let mut found = Vec::new();
    let read = File::open(path).and_then(|file| file.take(start.len() as u64).read_to_end(&mut found));
    read.is_ok() && found == start
}
