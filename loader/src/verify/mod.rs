//! Verification of data sets: every file compared with its index, and damaged files of a folder replaced from its
//! remote.
//!
//! * [`Verification`] — a data set, in a folder or behind a URL, that is checked and repaired shard by shard, by any
//!   number of threads;
//! * `check` compares the files of one shard, only from their bytes.

mod check;
#[cfg(test)]
mod tests;

use crate::cache::{ClaimOutcome, WaitPolicy};
use crate::catalog::{Catalog, Session, Stream, name_of_shard, open_streams};
use crate::config::{EngineConfig, FetchConfig, LoaderConfig, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::INDEX_BYTES_MAX;
use crate::format::{FileInfo, INDEX_BASENAME, Index, ReadAt, Shard};
use crate::io::{open_regular, read_exact_at, read_regular};
use crate::pipeline::{Origin, Run, ShardFetch};
use crate::sources::shard_names;
use crate::stats::Stats;
use crate::store::{
    Encoded, FetchRequest, LibraryStores, Remote, Simulation, StoreConfig, Stores, local_folder, redact,
};
use crate::sync::Arc;
use crate::topology::Topology;
pub use check::{DamagedFile, ShardState};
use check::{FoundFile, check};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a process that fetches the same shard without progress.
const BUSY_MAX: Duration = Duration::from_secs(600);

/// Data set with files that are compared with its index.
#[derive(Debug)]
pub struct Verification {
    index: Arc<Index>,
    location: ShardsLocation,
    stats: Arc<Stats>,
}

/// Location of the files.
#[derive(Debug)]
enum ShardsLocation {
    /// A folder without a known remote.
    Folder(PathBuf),
    /// A folder with shards that come from a remote, opened as a cache.
    Cache { folder: PathBuf, catalog: Catalog },
    /// Only a remote.
    Remote(Remote),
}

/// Advice for files without an index.
const DOCTOR: &str = "`forebay doctor` reads every sample of tars, tables and other files";

impl Verification {
    /// Opens the data set at `address`, a folder or URL with an `index.json`, or a list of files, such as tars.
    /// `remote` is the URL or folder that the shards of a folder come from, which [`repair`](Self::repair) requires.
    ///
    /// # Errors
    ///
    /// `NotFound` without an index; `Format` for a damaged one; `Stale` when the remote has a different index; `Config`
    /// for a URL as `address` together with a `remote`; errors of the store.
    pub fn open(address: &str, remote: Option<&str>) -> Result<Self> {
        Self::with_library(address, remote, None)
    }

    /// Like [`open`](Self::open), with the stores of the schemes that the engine has no transport for.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_library(address: &str, remote: Option<&str>, library: Option<LibraryStores>) -> Result<Self> {
        let stats = Arc::new(Stats::new(false));
        if let Some(list) = shard_names(address)? {
            if remote.is_some() {
                return Err(Error::config("files of a list are compared where they are: leave `remote` out"));
            }
            return Self::open_listed(address, &list.root, stats, library);
        }
        let Some(folder) = local_folder(address) else {
            if remote.is_some() {
                let message = "files behind a URL cannot be repaired: verify a folder, with its remote";
                return Err(Error::config(message).with("address", redact(address)));
            }
            return Self::open_remote(address, stats, library);
        };
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let index = Arc::new(Index::of_folder(&folder, read_regular).map_err(with_advice)?);
        let location = match remote {
            None => ShardsLocation::Folder(folder),
            Some(remote) => {
                let catalog = open_cache(&folder, &index, remote, &stats, library)?;
                ShardsLocation::Cache { folder, catalog }
            }
        };
        Ok(Self { index, location, stats })
    }

    /// Opens listed files. Their index is made if there is none.
    fn open_listed(list: &str, root: &str, stats: Arc<Stats>, library: Option<LibraryStores>) -> Result<Self> {
        let stream = StreamConfig { remote: Some(list.to_owned()), ..StreamConfig::default() };
        let config = LoaderConfig { streams: vec![stream], ..LoaderConfig::default() };
        let (topology, network) = (Topology::detect()?, Simulation::default());
        let opened = open_streams(&Session::new(&config, &stats, &topology, &network, library).verifying())?;
        let stream = opened.into_iter().next().ok_or_else(|| Error::internal("there is no stream"))?;
        let index = stream.cache.shards.index().clone();
        if index.shards.iter().any(|shard| shard.recipe.is_some()) {
            let message = format!("the files of the list have no index that they could be compared with: {DOCTOR}");
            return Err(Error::new(ErrorKind::Unsupported, message).with("address", redact(list)));
        }
        let location = match (stream.remote, local_folder(root)) {
            (Some(remote), _) => ShardsLocation::Remote(remote),
            (None, Some(folder)) => ShardsLocation::Folder(std::path::absolute(&folder).unwrap_or(folder)),
            (None, None) => return Err(Error::internal("a list without a folder")),
        };
        Ok(Self { index, location, stats })
    }

    fn open_remote(url: &str, stats: Arc<Stats>, library: Option<LibraryStores>) -> Result<Self> {
        let fetch_threads = Topology::detect()?.fetch_threads_default(1);
        let config = StoreConfig { fetch_threads, library, ..StoreConfig::default() };
        let remote = Stores::new(config, &stats, crate::clock::Clock::system())?.open(url)?;
        let (bytes, _) = remote.get_small(INDEX_BASENAME, INDEX_BYTES_MAX as usize).map_err(with_advice)?;
        let index = Arc::new(Index::parse(&bytes, &format!("{}/{INDEX_BASENAME}", redact(url)))?);
        Ok(Self { index, location: ShardsLocation::Remote(remote), stats })
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.index.shards.len()
    }

    /// Name of the stored file of shard `number`.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such shard.
    pub fn name(&self, number: usize) -> Result<String> {
        self.shard(number).map(name_of_shard)
    }

    /// Reads all files of shard `number` and compares sizes, every hash that the index has, compressed files with raw
    /// ones, the table of offsets, and the checksums of the format.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such shard; errors of a store. Errors of a file are part of the state.
    pub fn check(&self, number: usize) -> Result<ShardState> {
        let shard = self.shard(number)?;
        match &self.location {
            ShardsLocation::Folder(folder) | ShardsLocation::Cache { folder, .. } => {
                Ok(check(shard, |file| match DiskFile::open(&folder.join(&*file.basename)) {
                    Ok(content) => FoundFile::Open(Box::new(content)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => FoundFile::Absent,
                    Err(e) => FoundFile::Unreadable(e.to_string()),
                }))
            }
            ShardsLocation::Remote(remote) => self.check_remote(shard, remote),
        }
    }

    /// Compares a shard with the stored files of a remote, which has only these.
    fn check_remote(&self, shard: &Shard, remote: &Remote) -> Result<ShardState> {
        let mut failure = None;
        let state = check(shard, |file| {
            if !shard.files().any(|pair| std::ptr::eq(pair.stored(), file)) {
                return FoundFile::Absent;
            }
            let fetch = |request| remote.fetch(FetchRequest { encoded: Encoded::OfFile, ..request })?.wait();
            match FetchRequest::try_new(&*file.basename, file.bytes).and_then(fetch) {
                Ok(bytes) => FoundFile::Open(Box::new(Vec::from(bytes))),
                Err(e) if e.kind() == ErrorKind::NotFound => FoundFile::Absent,
                // A wrong size is the file's; the network's failures are not.
                Err(e) if e.kind() == ErrorKind::Checksum => FoundFile::Unreadable(e.message().to_owned()),
                Err(e) => {
                    failure = Some(e);
                    FoundFile::Absent
                }
            }
        });
        failure.map_or(Ok(state), Err)
    }

    /// Fetches shard `number` from the remote, compares it with the index, and replaces all its files in the folder.
    ///
    /// Each file replaces the old one when all its bytes are written. Running jobs may use the folder
    /// meanwhile; `cache_limit` of each of them is kept: for this the old files are removed first. A shard that a
    /// running job has replaced already is left as it is.
    ///
    /// # Errors
    ///
    /// `Config` without a remote, or while a job without a remote uses the folder; `Full` while a job keeps the shard;
    /// `Checksum` and `Format` when the remote's file is damaged, too; errors of the store and the disk.
    pub fn repair(&self, number: usize) -> Result<()> {
        let shard = self.shard(number)?;
        let ShardsLocation::Cache { catalog, .. } = &self.location else {
            return Err(Error::config("shards are repaired from a remote: pass the URL that they come from"));
        };
        self.replace(&catalog.streams()[0], number as u32, shard).context("shard", || &shard.raw_data.basename)
    }

    fn replace(&self, stream: &Stream, number: u32, shard: &Shard) -> Result<()> {
        let remote = stream.remote.as_ref().ok_or_else(|| Error::internal("a cache without a remote"))?;
        let (run, origin) = (Run::new(), Some(Origin::Store(remote)));
        let fetch = ShardFetch { stream, origin, run: &run, stats: &self.stats, watch: &|_| () };
        let fetched = fetch.fetch(shard, None)?.undamaged()?;
        if !stream.dir.is_limited() && fetched.replace(&stream.dir, number)? {
            return Ok(());
        }
        stream.dir.evict(number)?;
        let policy = WaitPolicy::new(&|| false, BUSY_MAX);
        let ClaimOutcome::Claimed(claim) = stream.dir.claim(number, policy)? else {
            // A job may have fetched it meanwhile.
            if let ShardState::Whole { .. } = self.check(number as usize)? {
                return Ok(());
            }
            let message = "a running job reads the shard, so it is not replaced: try again when the job has ended";
            return Err(Error::new(ErrorKind::Full, message));
        };
        fetched.publish(claim.admit(&|_| None, policy)?, &self.stats).map(drop)
    }

    fn shard(&self, number: usize) -> Result<&Shard> {
        self.index.shards.get(number).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the data set has fewer shards")
                .with("shard", number)
                .with("shards", self.shards())
        })
    }
}

/// Regular file on disk.
struct DiskFile {
    file: File,
    bytes: u64,
}

impl DiskFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl ReadAt for DiskFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&self.file, into, offset)
    }
}

/// Adds the command that checks data without an index.
fn with_advice(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::new(ErrorKind::NotFound, format!("there is no index to compare with: {DOCTOR}")).caused_by(error)
}

/// Opens `folder` as the cache of `remote`, which must have the same index.
fn open_cache(
    folder: &Path,
    index: &Index,
    remote: &str,
    stats: &Arc<Stats>,
    library: Option<LibraryStores>,
) -> Result<Catalog> {
    let is_there = |file: &FileInfo| folder.join(&*file.basename).exists();
    // A folder that has compressed files keeps them.
    let keep_zip = index.shards.iter().flat_map(Shard::files).any(|pair| pair.zip.is_some_and(is_there));
    let stream = StreamConfig {
        remote: Some(remote.to_owned()),
        local: Some(folder.to_owned()),
        fetch: Some(FetchConfig { keep_zip, ..FetchConfig::default() }),
        ..StreamConfig::default()
    };
    let engine = EngineConfig { allow_unsafe_types: true, ..EngineConfig::default() };
    let config = LoaderConfig { streams: vec![stream], engine, ..LoaderConfig::default() };
    Catalog::open(&config, stats, &Topology::detect()?, &Simulation::default(), library)
}
