//! `index.json`: fetched once per directory, and compared with the remote one.

use super::INDEX_NAME;
use super::claim::DirectoryLock;
use super::patience::Patience;
use super::watch::Watch;
use super::write::{How, write_file};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::what_is_there;
use crate::sync::AtomicBool;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// An index larger than this is taken for damage. The largest known ones have about 20 GB for whole collections of
/// data sets; one stream's stays far below 4 GiB.
const INDEX_BYTES_MAX: u64 = 4 << 30;

/// How a cached index is compared with the remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCheck {
    /// Not at all: the cached one counts.
    Trust,
    /// By fetching the remote one, when it can be fetched.
    Compare,
}

/// An index, and where it came from.
#[derive(Debug)]
pub struct IndexFile {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Whether this call put it into the directory.
    pub installed: bool,
    /// Why it could not be compared with the remote one, though that was asked for.
    pub unchecked: Option<Error>,
}

/// Reads `dir`/index.json, fetching it first when it is not there.
///
/// One process fetches at a time where that can be arranged. A directory that cannot be written is no hindrance: the
/// index is then fetched and returned without being kept.
///
/// `fetch` returns the remote index and is called at most once; `None` for streams without a remote. `remote` names it
/// in messages.
///
/// # Errors
///
/// `Stale` when the two differ, naming both; `NotFound` when there is neither an index nor a remote; what `fetch`
/// returned when the index is absent; `Closed` and `Timeout` of the wait.
pub fn install_index(
    dir: &Path,
    remote: &str,
    check: IndexCheck,
    mut fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>>,
    clock: &Clock,
    patience: Patience<'_>,
) -> Result<IndexFile> {
    let path = dir.join(INDEX_NAME);
    if let Some(bytes) = read(&path)? {
        let mut unchecked = None;
        if check == IndexCheck::Compare
            && let Some(fetch) = &mut fetch
        {
            match fetch() {
                Ok(now) => compare(&path, &bytes, remote, &now)?,
                Err(e) => unchecked = Some(e),
            }
        }
        return Ok(IndexFile { bytes, installed: false, unchecked });
    }
    let Some(fetch) = fetch else {
        let message = format!("there is no index.json, and no remote to fetch it from: {}", what_is_there(dir));
        return Err(Error::new(ErrorKind::NotFound, message).with("file", path.display()));
    };
    // A directory that cannot be made or written is found out again, with a sentence, when a shard is to be written.
    let absent = dir.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    let made = std::fs::create_dir_all(dir).is_ok();
    let watch = Watch::new();
    let mut waiting = patience.start(clock);
    let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let lock = loop {
        let version = watch.version(&folder);
        // Locks that do not work (NFS, no directory) mean that several may fetch; each writes the same bytes.
        let Ok(lock) = DirectoryLock::try_lock(dir) else { break None };
        if let Some(bytes) = read(&path)? {
            return Ok(IndexFile { bytes, installed: false, unchecked: None });
        }
        if lock.is_some() {
            break lock;
        }
        let left = waiting.left(|| format!("{}, which another process fetches from {remote}", path.display()))?;
        watch.wait(version, left);
    };
    let bytes = fetch().inspect_err(|_| remove_empty(absent))?;
    let unnamed_files = AtomicBool::new(true);
    let how = How { sync: true, alone: lock.is_some(), unnamed_files: &unnamed_files };
    let installed = match write_file(&path, &bytes, how) {
        Ok(_) => true,
        Err(e) if made && e.kind() != ErrorKind::Permission => return Err(e),
        Err(e) => {
            log::warn!("the index is not kept: {e}");
            false
        }
    };
    Ok(IndexFile { bytes, installed, unchecked: None })
}

/// Removes folders that were made for an index that then could not be had, the innermost first. One that somebody else
/// has put something into stays.
fn remove_empty(folders: Vec<&Path>) {
    let _ = folders.into_iter().try_for_each(std::fs::remove_dir);
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let fail = |e| Error::from_io(e, "the index cannot be read").with("file", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(fail(e)),
    };
    let mut bytes = Vec::new();
    file.take(INDEX_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > INDEX_BYTES_MAX {
        return Err(Error::format("an index of more than 4 GiB").with("file", path.display()));
    }
    Ok(Some(bytes))
}

fn compare(path: &Path, cached: &[u8], remote: &str, now: &[u8]) -> Result<()> {
    if cached == now {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Stale,
        "the remote index changed since this directory was filled: remove the directory, or choose another `local`",
    )
    .with("cached", path.display())
    .with("cached_bytes", cached.len())
    .with("remote", remote)
    .with("remote_bytes", now.len()))
}
