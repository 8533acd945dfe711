//! Destinations of a writer that are not folders of this machine: [`RemoteDir`] writes to a store.

mod remote;

pub use remote::RemoteDir;

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::writer::{LocalDir, Sink};
use crate::stats::Stats;
use crate::store::{LibraryStores, StoreConfig, Stores, is_url, local_folder};
use crate::sync::Arc;
use crate::topology::Topology;
use std::path::Path;

/// Attempts of each request. A job that writes for hours should survive a store's bad minute.
const ATTEMPTS: u32 = 5;

/// Opens `out`, a path or the address of a folder of a store, as the destination of a data set. One that is not empty
/// is rejected, or emptied with `overwrite`, its index first. `library` serves the stores of the schemes that the
/// engine has no transport for.
///
/// # Errors
///
/// `Config` for a destination that is not empty, and for a name that cannot work; `Unsupported` for a store that cannot
/// be written to; failures of the file system or the store.
pub fn open(out: &Path, overwrite: bool, library: Option<LibraryStores>) -> Result<Box<dyn Sink>> {
    let Some(url) = out.to_str().filter(|out| is_url(out)) else {
        let folder = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        return open_folder(&folder, overwrite);
    };
    if let Some(folder) = local_folder(url) {
        return open_folder(&folder, overwrite);
    }
    if url.starts_with("hf:") {
        let message = "data sets on the hub cannot be written to directly: write into a folder, and upload it with `hf \
                       upload-large-folder`";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let config = StoreConfig {
        fetch_threads: Topology::detect()?.fetch_threads_default(1),
        download_retry: ATTEMPTS,
        library,
        ..StoreConfig::default()
    };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
    Ok(Box::new(RemoteDir::create(stores.open_destination(url)?, overwrite)?))
}

fn open_folder(folder: &Path, overwrite: bool) -> Result<Box<dyn Sink>> {
    match LocalDir::create(folder, overwrite) {
        Ok(folder) => Ok(Box::new(folder)),
        // The folder is not empty.
        Err(e) if e.kind() == ErrorKind::Config => Err(e.hinting("exist_ok empties it first")),
        Err(e) => Err(e),
    }
}
