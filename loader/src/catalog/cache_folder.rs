//! Places in the user's cache folder.

use crate::error::{Error, ErrorKind, Result};
use crate::format::HashAlgo;
use std::path::PathBuf;

/// Returns the default folder of a remote, which is the same every time.
pub(crate) fn default_local(remote: &str) -> Result<PathBuf> {
    Ok(root()?.join(HashAlgo::Xxh3_128.hex(remote.as_bytes())))
}

/// Returns the folder for what stopped runs over data sets without an index have found.
pub(super) fn unfinished() -> Result<PathBuf> {
    Ok(root()?.join("indexing"))
}

fn root() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let cache =
        cache.ok_or_else(|| Error::new(ErrorKind::Config, "there is no home directory to cache in: set `local`"))?;
    Ok(cache.join("forebay"))
}
