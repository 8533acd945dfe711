//! Objects of the server, and the work of every client.

use crate::synth::files_below;
use forebay_loader::{Error, Result};
use std::path::Path;

/// Object of the folder.
pub(super) struct Object {
    /// Path relative to the folder.
    pub(super) key: String,
    pub(super) bytes: u64,
}

impl Object {
    /// Returns the objects of a folder.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let mut objects = Vec::new();
        for path in files_below(folder)? {
            let key = path.strip_prefix(folder).ok().and_then(Path::to_str);
            let key = key.ok_or_else(|| Error::config("a name that is no text").with("path", path.display()))?;
            let bytes = path.metadata().map_err(|e| Error::from_io(e, "an object's length"))?.len();
            objects.push(Self { key: key.to_owned(), bytes });
        }
        Ok(objects)
    }
}

/// Work of every client: to fetch all objects.
pub(super) struct Work<'a> {
    /// URL of the folder.
    pub(super) url: String,
    pub(super) objects: &'a [Object],
    /// File with the authority of the server's certificate.
    pub(super) ca: &'a Path,
    /// Objects in flight.
    pub(super) at_a_time: usize,
    /// Fetch threads of the engine's store.
    pub(super) fetch_threads: usize,
}
