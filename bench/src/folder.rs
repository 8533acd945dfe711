//! Folders that appear when they are complete.

use forebay_loader::format::INDEX_BASENAME;
use forebay_loader::{Error, Result};
use std::fs;
use std::path::Path;

/// Makes `folder`: `fill` writes a folder with a temporary name, which is renamed when it is complete. Remains of an
/// interrupted run are removed.
pub(crate) fn make_whole(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let part = folder.with_extension("part");
    remove_unfinished(&part)?;
    fill(&part)?;
    fs::rename(&part, folder)
        .map_err(|e| Error::from_io(e, "a folder cannot be named").with("folder", folder.display()))
}

/// Returns true if `folder` has an index, which is written last.
pub(crate) fn has_index(folder: &Path) -> bool {
    folder.join(INDEX_BASENAME).is_file()
}

/// Removes the `folder` of an interrupted run if it exists.
pub(crate) fn remove_unfinished(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    fs::remove_dir_all(folder)
        .map_err(|e| Error::from_io(e, "an unfinished folder cannot be removed").with("folder", folder.display()))
}
