//! `index.json`: fetched once per directory, and compared with the remote one.

use super::claim::DirectoryLock;
use super::wait_policy::WaitPolicy;
use super::watch::Watch;
use super::write::{WriteMode, write_file};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{INDEX_BASENAME, INDEX_BYTES_MAX, describe_folder};
use crate::io::read_regular;
use crate::sync::AtomicBool;
use std::path::Path;

/// Comparison of a cached index with the remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexCheck {
    /// None: the cached one is used.
    Trust,
    /// Fetches the remote one, if that is possible, and compares the bytes.
    Compare,
}

/// An index.
#[derive(Debug)]
pub(crate) struct IndexFile {
    /// Whole content.
    pub(crate) bytes: Vec<u8>,
    /// Error that prevented a comparison with the remote one.
    pub(crate) unchecked: Option<Error>,
}

/// Reads `dir`/index.json, and fetches it first if it is not there.
///
/// One process fetches at a time where locks work. In a directory that cannot be written, the index is fetched and
/// returned without being kept.
///
/// `fetch` returns the remote index and is called at most once; `None` for streams without a remote. `remote` is its
/// name in messages.
///
/// # Errors
///
/// `Stale` when the two differ, naming both; `NotFound` when there is neither an index nor a remote; errors of `fetch`
/// when the index is absent; `Closed` and `Timeout` of the wait.
pub(crate) fn install_index(
    dir: &Path,
    remote: &str,
    check: IndexCheck,
    mut fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>>,
    clock: &Clock,
    policy: WaitPolicy<'_>,
) -> Result<IndexFile> {
    let path = dir.join(INDEX_BASENAME);
    if let Some(bytes) = read(&path)? {
        let mut unchecked = None;
        if check == IndexCheck::Compare
            && let Some(fetch) = &mut fetch
        {
            match fetch() {
                Ok(current) => compare(&path, &bytes, remote, &current)?,
                Err(e) => unchecked = Some(e),
            }
        }
        return Ok(IndexFile { bytes, unchecked });
    }
    let Some(fetch) = fetch else {
        let message = format!("there is no index.json, and no remote to fetch it from: {}", describe_folder(dir));
        return Err(Error::new(ErrorKind::NotFound, message).with("file", path.display()));
    };
    // A directory that cannot be created or written fails again, with a clear message, when a shard is written.
    let absent = dir.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    let is_created = std::fs::create_dir_all(dir).is_ok();
    let watch = Watch::new();
    let mut wait = policy.start(clock);
    let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let lock = loop {
        let version = watch.version(&folder);
        // Where locks do not work (NFS, no directory), several processes may fetch; each writes the same bytes.
        let Ok(lock) = DirectoryLock::try_lock(dir) else { break None };
        if let Some(bytes) = read(&path)? {
            return Ok(IndexFile { bytes, unchecked: None });
        }
        if lock.is_some() {
            break lock;
        }
        let what = || format!("{}, which another process fetches from {remote}", path.display());
        watch.wait(version, wait.remaining(what)?);
    };
    let bytes = fetch().inspect_err(|_| remove_empty(absent))?;
    let unnamed_files = AtomicBool::new(true);
    let mode = WriteMode { is_alone: lock.is_some(), unnamed_files: &unnamed_files };
    match write_file(&path, &bytes, mode) {
        Ok(_) => {}
        Err(e) if is_created && e.kind() != ErrorKind::Permission => return Err(e),
        Err(e) => log::warn!("the index is not kept: {e}"),
    }
    Ok(IndexFile { bytes, unchecked: None })
}

/// Removes folders that were created for an index that then could not be fetched, the innermost first. A folder that is
/// no longer empty stays.
fn remove_empty(folders: Vec<&Path>) {
    let _ = folders.into_iter().try_for_each(std::fs::remove_dir);
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_regular(path, INDEX_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::from_io(e, "the index cannot be read").with("file", path.display())),
    }
}

fn compare(path: &Path, cached: &[u8], remote: &str, current: &[u8]) -> Result<()> {
    if cached == current {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Stale,
        "the remote index changed since this directory was filled: remove the directory, or choose another `local`",
    )
    .with("cached", path.display())
    .with("cached_bytes", cached.len())
    .with("remote", remote)
    .with("remote_bytes", current.len()))
}
