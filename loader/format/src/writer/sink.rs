//! Destinations of a writer's files: the trait, and local folders.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::INDEX_BASENAME;
use forebay_core::error::{Context, Error, Result};
use forebay_core::sync::Mutex;

/// Destination of whole files. Several workers call it at the same time.
pub trait Sink: Send + Sync {
    /// Stores the concatenated `pieces` as the file `basename`: completely, or not under this name. It may return
    /// before they are stored.
    ///
    /// # Errors
    ///
    /// Any failure, also of an earlier file; the writer then stops and writes no index.
    fn put(&self, basename: &str, pieces: &[Bytes]) -> Result<()>;

    /// Stores the index, after all remaining files are stored and safe from a crash.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    fn finish(&self, index: &[u8]) -> Result<()>;

    /// Ends calls and files in flight, without waiting for that: nothing more is stored, and further calls fail. Does
    /// nothing for a destination with calls that end soon.
    fn cancel(&self) {}
}

/// Directory as a destination. Files are written as `<name>.tmp`, flushed to the disk and renamed.
#[derive(Debug)]
pub struct LocalDir {
    path: PathBuf,
    /// Subfolders with new files, and their parents.
    folders: Mutex<BTreeSet<PathBuf>>,
}

impl LocalDir {
    /// Creates the directory at `path` unless it exists. A directory that is not empty is rejected, or emptied with
    /// `overwrite`, its index first.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a directory that is not empty; failures of the file system.
    pub fn create(path: impl Into<PathBuf>, overwrite: bool) -> Result<Self> {
        let path = path.into();
        let on_path = |e: std::io::Error, what: &str| Error::from_io(e, what).with("directory", path.display());
        fs::create_dir_all(&path).map_err(|e| on_path(e, "the output directory cannot be created"))?;
        let mut entries =
            fs::read_dir(&path).map_err(|e| on_path(e, "the output directory cannot be read"))?.peekable();
        if entries.peek().is_some() {
            if !overwrite {
                return Err(Error::config("Directory is not empty: name a new or an empty one")
                    .with("directory", path.display()));
            }
            // Without its index, a partly removed data set does not look complete.
            match fs::remove_file(path.join(INDEX_BASENAME)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(on_path(e, "the old index cannot be removed"));
                }
                _ => {}
            }
            for entry in entries {
                let entry = entry.map_err(|e| on_path(e, "the output directory cannot be read"))?;
                remove(&entry.path()).map_err(|e| on_path(e, "the output directory cannot be emptied"))?;
            }
        }
        Ok(Self { path, folders: Mutex::default() })
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write_renamed(&self, basename: &str, pieces: &[impl AsRef<[u8]>]) -> std::io::Result<()> {
        let temporary = self.path.join(format!("{basename}.tmp"));
        let written = (|| {
            if let Some(folder) = temporary.parent() {
                // Shards of merged indexes are in subfolders.
                fs::create_dir_all(folder)?;
                let below = folder.ancestors().take_while(|folder| *folder != self.path);
                self.folders.lock().extend(below.map(Path::to_owned));
            }
            let mut file = File::create(&temporary)?;
            for piece in pieces {
                file.write_all(piece.as_ref())?;
            }
            file.sync_all()?;
            fs::rename(&temporary, self.path.join(basename))
        })();
        if written.is_err() {
            // The first failure is reported; a leftover is recognised by its name.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Flushes the names of all files, those in subfolders first.
    fn sync(&self) -> std::io::Result<()> {
        for folder in self.folders.lock().iter().rev() {
            File::open(folder)?.sync_all()?;
        }
        File::open(&self.path)?.sync_all()
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed = if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Sink for LocalDir {
    fn put(&self, basename: &str, pieces: &[Bytes]) -> Result<()> {
        self.write_renamed(basename, pieces)
            .map_err(|e| Error::from_io(e, "a file of a shard cannot be written"))
            .context("file", || self.path.join(basename).display().to_string())
    }

    fn finish(&self, index: &[u8]) -> Result<()> {
        self.sync()
            .and_then(|()| self.write_renamed(INDEX_BASENAME, &[index]))
            .and_then(|()| self.sync())
            .map_err(|e| Error::from_io(e, "the index cannot be written"))
            .context("file", || self.path.join(INDEX_BASENAME).display().to_string())
    }
}
