//! The form `files`: one folder per class, one JPEG file per sample, as torchvision's ImageFolder reads them.

use forebay_loader::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// JPEG file and the number of its class.
pub(super) struct Sample {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// Index of its class folder in sorted order, as ImageFolder numbers them.
    pub(super) class: i64,
    /// Length of the file.
    pub(super) bytes: u64,
}

/// Lists all JPEGs in the class folders, in sorted order.
pub(super) fn list(files: &Path) -> Result<Vec<Sample>> {
    let failed = |e| Error::from_io(e, "the files cannot be listed").with("folder", files.display());
    let sorted = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).map_err(failed)?;
        let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        paths.sort();
        Ok(paths)
    };
    let mut samples = Vec::new();
    for (class, folder) in sorted(files)?.into_iter().enumerate() {
        for path in sorted(&folder)? {
            let bytes = path.metadata().map_err(failed)?.len();
            samples.push(Sample { path, class: class as i64, bytes });
        }
    }
    Ok(samples)
}

/// Returns the file's bytes and its class.
pub(super) fn read(sample: &Sample) -> Result<(Vec<u8>, i64)> {
    let file =
        fs::read(&sample.path).map_err(|e| Error::from_io(e, "a picture").with("file", sample.path.display()))?;
    Ok((file, sample.class))
}
