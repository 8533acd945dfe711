//! Lists of files that are kept on local disk.

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

/// Returns true if a list of the pictures in a folder is kept on local disk.
pub(in crate::catalog) fn has_kept_list(at: &Opening<'_>) -> bool {
    has_list(&cache(at, &Selection::OfKind(&FILE).describe()))
}

/// Returns true if the cache in `folder` has a list of files.
pub(in crate::catalog) fn has_list(folder: &Path) -> bool {
    let path = folder.join(INDEX_BASENAME);
    if !std::fs::metadata(&path).is_ok_and(|found| found.is_file()) {
        // The open of a pipe would wait for its writer.
        return false;
    }
    let mut start = [0; 32];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|bytes| FileSet::is_start(&start[..bytes]))
}
