//! Folders that are there when all of them is.

use forebay_loader::format::INDEX_BASENAME;
use forebay_loader::{Error, Result};
use std::fs;
use std::path::Path;

/// Has `fill` make a folder beside `folder`, which gets this name when it is whole; what an earlier run broke off is removed.
pub(crate) fn make_whole(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let part = folder.with_extension("part");
    remove_unfinished(&part)?;
    fill(&part)?;
    fs::rename(&part, folder)
        .map_err(|e| Error::from_io(e, "a folder cannot be named").with("folder", folder.display()))
}

/// Whether `folder` has an index, which is written last.
pub(crate) fn has_index(folder: &Path) -> bool {
    folder.join(INDEX_BASENAME).is_file()
}

/// Removes `folder`, which an earlier run broke off, if it is there.
pub(crate) fn remove_unfinished(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    fs::remove_dir_all(folder)
        .map_err(|e| Error::from_io(e, "an unfinished folder cannot be removed").with("folder", folder.display()))
}
