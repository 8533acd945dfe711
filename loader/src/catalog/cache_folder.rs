//! Folders of data sets in the user's cache folder.

use crate::error::{Error, ErrorKind, Result};
use crate::format::HashAlgo;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Root where there is no home directory. No folder can be made below it, not even by root, so that it is treated as
/// one that cannot be written.
const NOWHERE: &str = "/dev/null/no-home-directory";

/// Returns the default folder of a remote, which is the same every time.
pub(super) fn default_local(remote: &str) -> PathBuf {
    below(root(), remote)
}

/// Returns the default folder of a remote; `None` where it cannot be written.
pub(crate) fn writable_local(remote: &str) -> Option<PathBuf> {
    writable_root().map(|root| below(root, remote))
}

/// Returns the folder for the findings of stopped runs over data sets without an index; `None` where it cannot be
/// written.
pub(super) fn unfinished() -> Option<PathBuf> {
    writable_root().map(|root| root.join("indexing"))
}

/// Checks that there may be a cache in `folder`, in which shards have to be written.
///
/// # Errors
///
/// `Config` without a home directory.
pub(super) fn check_home(folder: &Path) -> Result<()> {
    if !folder.starts_with(NOWHERE) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Config, "there is no home directory to cache in: set `local` or XDG_CACHE_HOME"))
}

/// Returns the sentence for files that are read where they are, with an index that could not be kept in `folder`
/// because of `why`.
pub(super) fn cost_of_no_cache(folder: &Path, why: &Error) -> String {
    let cache = match folder.starts_with(NOWHERE) {
        true => "there is no home directory for a cache".to_owned(),
        false if folder.starts_with(root()) => format!("the cache folder {} cannot be written", root().display()),
        false => format!("the cache folder {} cannot be written", folder.display()),
    };
    let cause = std::error::Error::source(why).filter(|_| !folder.starts_with(NOWHERE));
    let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
    format!(
        "{cache}{cause}: files are read where they are, but every start lists or reads all of them again to find \
         their samples: set XDG_CACHE_HOME to a folder that can be written"
    )
}

fn below(root: PathBuf, remote: &str) -> PathBuf {
    root.join(HashAlgo::Xxh3_128.hex(remote.as_bytes()))
}

fn writable_root() -> Option<PathBuf> {
    let root = root();
    std::fs::create_dir_all(&root).ok()?;
    rustix::fs::access(&root, Access::WRITE_OK).ok()?;
    Some(root)
}

/// Returns the folder in which the shards of remotes are kept, each remote in its own folder, unless `local` is given.
pub fn root() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
    cache.or_else(home).map_or_else(|| PathBuf::from(NOWHERE), |cache| cache.join("forebay"))
}
