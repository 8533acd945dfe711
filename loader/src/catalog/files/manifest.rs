//! Fetch of a manifest: from the folder of the files, from this machine, or from a different store.

use super::walk::state_of;
use crate::catalog::kept_index::KeptFile;
use crate::error::{Context, Error, Result};
use crate::io::read_regular;
use crate::sources::files::Manifest;
use crate::store::{Remote, is_url, local_folder, redact};
use std::path::Path;

/// Largest manifest.
const BYTES_MAX: u64 = 4 << 30;

/// Manifest by its name.
pub(super) struct ManifestFile<'a> {
    /// Path below the folder of the files, whole path or URL.
    pub(super) name: &'a str,
    /// Opens the folder of a URL.
    pub(super) open: &'a (dyn Fn(&str) -> Result<Remote> + Sync),
}

/// Manifest that was read.
pub(super) struct Fetched {
    pub(super) manifest: Manifest,
    /// The file, if it is on this machine.
    pub(super) changed: Option<KeptFile>,
}

impl ManifestFile<'_> {
    /// Reads the manifest of the files in `remote`, which is `folder` if it is on this machine.
    ///
    /// # Errors
    ///
    /// As [`Manifest::parse`]; errors of the store, or of the file system.
    pub(super) fn fetch(&self, remote: &Remote, folder: Option<&Path>) -> Result<Fetched> {
        let limit = usize::try_from(BYTES_MAX).unwrap_or(usize::MAX);
        let shown = redact(self.name);
        if !is_url(self.name) && !self.is_whole_path() {
            return match folder {
                Some(folder) => read_local(&folder.join(self.name), self.name.to_owned()),
                None => {
                    let (bytes, _) = remote.get_small(self.name, limit).context("manifest", || &shown)?;
                    Ok(Fetched { manifest: Manifest::parse(&shown, &bytes)?, changed: None })
                }
            };
        }
        if let Some(path) = local_folder(self.name) {
            let whole = std::path::absolute(&path).unwrap_or(path);
            return read_local(&whole, whole.display().to_string());
        }
        let (folder, key) =
            self.name.rsplit_once('/').ok_or_else(|| Error::config("the address of a manifest has no file"))?;
        let (bytes, _) = (self.open)(folder)?.get_small(key, limit).context("manifest", || &shown)?;
        Ok(Fetched { manifest: Manifest::parse(&shown, &bytes)?, changed: None })
    }

    fn is_whole_path(&self) -> bool {
        Path::new(self.name).is_absolute()
    }

    /// Returns the folder below `root` that the paths of the manifest are relative to: its own, if that is below
    /// `root`.
    pub(super) fn folder_below(&self, root: &str) -> &str {
        let below = if is_url(self.name) || self.is_whole_path() {
            self.name.strip_prefix(root).and_then(|path| path.strip_prefix('/'))
        } else {
            Some(self.name)
        };
        below.and_then(|path| path.rsplit_once('/')).map_or("", |(folder, _)| folder)
    }
}

fn read_local(path: &Path, name: String) -> Result<Fetched> {
    let failed = |e| Error::from_io(e, "the manifest cannot be read").with("manifest", path.display());
    // Taken first: a later change makes the list outdated.
    let changed = state_of(path, &name).map_err(failed)?;
    let bytes = read_regular(path, BYTES_MAX).map_err(failed)?;
    let manifest = Manifest::parse(&path.display().to_string(), &bytes)?;
    Ok(Fetched { manifest, changed: Some(changed) })
}
