//! Listing of a remote folder, by several requests at a time: a page has a thousand objects at most, and only the
//! answer for one has the start of the next. The folders of the first level are listed in parallel.

use crate::catalog::parallel::in_threads;
use crate::error::Result;
use crate::sources::files::FileList;
use crate::store::Destination;
use crate::sync::Mutex;

/// Folders that are listed at the same time.
const LISTINGS: usize = 32;

/// Objects after which the number so far is shown in the log.
const SHOWN_EVERY: usize = 100_000;

/// Lists the objects below `remote`. `progress` is called after each page, on any thread.
///
/// # Errors
///
/// Errors of the store.
pub(super) fn list(remote: &Destination, progress: &(dyn Fn() + Sync)) -> Result<FileList> {
    let all = Mutex::new(FileList::default());
    let mut folders = Vec::new();
    pages(remote, "", false, &all, &mut |folder| folders.push(folder), progress)?;
    in_threads(LISTINGS, &folders, |folder| pages(remote, folder, true, &all, &mut |_| (), progress))?;
    let mut all = all;
    Ok(std::mem::take(all.get_mut()))
}

/// Adds the objects of a folder to `all`, and passes the folders in it to `each_folder` unless it `is_recursive`.
fn pages(
    remote: &Destination,
    folder: &str,
    is_recursive: bool,
    all: &Mutex<FileList>,
    each_folder: &mut dyn FnMut(String),
    progress: &(dyn Fn() + Sync),
) -> Result<()> {
    let mut listing = remote.list(folder, is_recursive)?;
    while let Some(page) = listing.next_page()? {
        let mut all = all.lock();
        let before = all.len();
        for entry in page {
            // Some tools make an object for a folder.
            match entry.key.ends_with('/') {
                true if !is_recursive && entry.key != folder => each_folder(entry.key),
                true => {}
                false => all.push(&entry.key, entry.size),
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
