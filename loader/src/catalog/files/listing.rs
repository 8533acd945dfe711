//! Listing of a remote folder, by several requests at a time: a page has a thousand objects at most, and only the
//! answer for one has the start of the next. The folders of the first level are listed in parallel.

use crate::catalog::parallel::in_threads;
use crate::error::Result;
use crate::sources::files::FileList;
use crate::store::Destination;
use crate::sync::Mutex;
use crate::versions::Versions;

/// Folders that are listed at the same time.
const LISTINGS: usize = 32;

/// Objects after which the number so far is shown in the log.
const SHOWN_EVERY: usize = 100_000;

/// Lists the objects below `remote`, and puts their versions in `versions`. `progress` is called after each page, on
/// any thread.
///
/// # Errors
///
/// Errors of the store.
pub(super) fn list(
    remote: &Destination,
    versions: Option<&Versions>,
    progress: &(dyn Fn() + Sync),
) -> Result<FileList> {
    let all = Listed { files: Mutex::new(FileList::default()), versions };
    let mut folders = Vec::new();
    pages(remote, "", false, &all, &mut |folder| folders.push(folder), progress)?;
    in_threads(LISTINGS, &folders, |folder| pages(remote, folder, true, &all, &mut |_| (), progress))?;
    Ok(std::mem::take(&mut *all.files.lock()))
}

/// Objects that were listed so far.
struct Listed<'a> {
    files: Mutex<FileList>,
    versions: Option<&'a Versions>,
}

/// Adds the objects of a folder to `listed`, and passes the folders in it to `each_folder` unless it `is_recursive`.
fn pages(
    remote: &Destination,
    folder: &str,
    is_recursive: bool,
    listed: &Listed<'_>,
    each_folder: &mut dyn FnMut(String),
    progress: &(dyn Fn() + Sync),
) -> Result<()> {
    let mut listing = remote.list(folder, is_recursive)?;
    while let Some(page) = listing.next_page()? {
        let mut all = listed.files.lock();
        let before = all.len();
        for entry in page {
            // Some tools make an object for a folder.
            match entry.key.ends_with('/') {
                true if !is_recursive && entry.key != folder => each_folder(entry.key),
                true => {}
                false => {
                    all.push(&entry.key, entry.size);
                    if let (Some(versions), Some(tag)) = (listed.versions, &entry.etag) {
                        versions.expect(&entry.key, tag);
                    }
                }
            }
        }
        if all.len() / SHOWN_EVERY > before / SHOWN_EVERY {
            log::info!("{} objects are listed", all.len());
        }
        drop(all);
        progress();
    }
    Ok(())
}
