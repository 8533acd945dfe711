//! Tests of the openers: each opens files in a folder of this machine, by an index that is kept in a second folder.
//!
//! `sets` has a data set of each kind. `kept` has the tests for all kinds: the recorded digests, and
//! the indexes that are kept. The remaining modules have the choices and errors of one kind.

mod files;
mod kept;
mod records;
mod sets;
mod tables;
mod tars;
mod tokens;

use super::{FileListing, IndexedStream, Session, open_streams};
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::stats::Stats;
use crate::store::Simulation;
use crate::sync::Arc;
use crate::topology::Topology;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Folder of files, and a folder for the index of them.
struct Folders {
    data: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Folders {
    /// Returns folders with the files that `fill` writes, which are all of one time.
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let folders = Self { data: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        fill(folders.data.path());
        folders.set_times(0);
        folders
    }

    /// Returns folders with empty files `names`.
    fn of_names(names: &[&str]) -> Self {
        Self::new(|data| names.iter().for_each(|name| write(&data.join(name), b"")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// Returns the stream of `list`, which is a pattern below the folder, or empty for the folder itself.
    fn stream(&self, list: &str) -> StreamConfig {
        let remote = if list.is_empty() { self.data.path().to_owned() } else { self.path(list) };
        StreamConfig {
            remote: Some(remote.display().to_string()),
            local: Some(self.cache.path().to_owned()),
            ..StreamConfig::default()
        }
    }

    fn open(&self, list: &str) -> Result<IndexedStream> {
        open(self.stream(list))
    }

    fn error(&self, list: &str) -> Error {
        self.open(list).expect_err("an error")
    }

    /// Sets the times of all files and folders, as after a change at that second.
    fn set_times(&self, second: u64) {
        set_times(self.data.path(), second);
    }
}

fn open(stream: StreamConfig) -> Result<IndexedStream> {
    open_with(LoaderConfig { streams: vec![stream], ..LoaderConfig::default() })
}

/// Opens the only stream of `config`.
fn open_with(config: LoaderConfig) -> Result<IndexedStream> {
    let (stats, topology) = (Arc::new(Stats::new(false)), Topology::synthetic(&["0-3"]));
    let network = Simulation::default();
    Ok(open_streams(&Session::new(&config, &stats, &topology, &network, None))?.remove(0))
}

/// Makes the list of the files of `folders` that could be kept next to them.
fn list(folders: &Folders, list: &str) -> FileListing {
    let local = tempfile::tempdir().unwrap();
    let stream = StreamConfig { local: Some(local.path().to_owned()), ..folders.stream(list) };
    FileListing::of(&LoaderConfig { batch_size: 1, streams: vec![stream], ..LoaderConfig::default() }, None).unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn set_times(path: &Path, second: u64) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| set_times(&entry.unwrap().path(), second));
    }
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second);
    std::fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Path of the index that is kept of `opened`.
fn kept_index(opened: &IndexedStream) -> PathBuf {
    opened.cache.dir.join(INDEX_BASENAME)
}

/// Names of the shards' files in the store, or of the shards that are made of parts of them.
fn shard_names(opened: &IndexedStream) -> Vec<String> {
    let shards = &opened.cache.shards.index().shards;
    shards.iter().map(|shard| shard.zip_data.as_ref().unwrap_or(&shard.raw_data).basename.to_string()).collect()
}

fn samples(opened: &IndexedStream) -> u64 {
    opened.cache.shards.index().samples()
}

/// Checks the kind of an error, and parts of its text.
#[track_caller]
fn check(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}
