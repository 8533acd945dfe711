//! Data set of a worker process, as plain memory.

use crate::cache::{
    CachedIndex, FetchedVersions, IndexSource, ShardSet, StreamCacheConfig, WaitPolicy, with_advice_on_remote,
};
use crate::catalog::{IndexedStream, Session, StreamOrigin, check_units, open_streams};
use crate::clock::Clock;
use crate::config::{LoaderConfig, SkipConfig, read};
use crate::error::{Error, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::order::DataSetShape;
use crate::stats::Stats;
use crate::store::{
    Fetcher, Length, LibraryStores, Remote, Simulation, StoreConfig, Stores, fetch_whole, local_folder, redact,
};
use crate::sync::Arc;
use crate::topology::Topology;
use crate::versions::Versions;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for a fetch by a different process, or for space that such processes use.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Keys that every index has.
#[derive(Deserialize)]
struct IndexOutline {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(rename = "shards")]
    _shards: Vec<serde::de::IgnoredAny>,
}

/// Location of a stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamLocation {
    /// URL or path of the folder with its shards; `None`: all shards are in `dir`.
    pub remote: Option<String>,
    /// The folder on local disk. It contains `index.json` already.
    pub dir: PathBuf,
    /// Keep compressed shards next to the unpacked ones.
    pub keep_zip: bool,
    /// Total attempts per download.
    pub download_retry: u32,
    /// Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
    pub download_timeout: f64,
    /// Hash that every download must match.
    pub validate_hash: Option<String>,
}

/// Configuration of a [`DataSet`]; also a JSON document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The streams in their order: at least one.
    pub streams: Vec<StreamLocation>,
    /// Bytes of local disk that all shards together may take.
    pub cache_limit: Option<u64>,
}

impl DataConfig {
    /// Reads the JSON document.
    ///
    /// # Errors
    ///
    /// `Config` for unknown names and wrong types.
    pub fn from_json(text: &str) -> Result<Self> {
        read(text, "the data set's arguments")
    }
}

/// Streams and their indexes. Holds no descriptor, lock or thread.
#[derive(Debug)]
pub struct DataSet {
    pub(super) config: DataConfig,
    /// Shards of each stream. Made before the workers are forked, so that they share the pages.
    pub(super) shards: Vec<Arc<ShardSet>>,
    /// Folder of the shards that are read where they are, of each stream.
    pub(super) files: Vec<Option<PathBuf>>,
    /// Versions of the files of each stream when it was opened. Each process has its own table.
    versions: Vec<Versions>,
    hashes: Vec<Option<HashAlgo>>,
    /// Origins of the streams; none if the caller has read the indexes.
    pub(super) origins: Vec<OpenedOrigin>,
    shape: DataSetShape,
}

/// Origin of a stream that was opened here.
#[derive(Clone, Debug)]
pub(super) struct OpenedOrigin {
    /// The user's name of the stream.
    pub(super) name: String,
    pub(super) origin: StreamOrigin,
    pub(super) index_bytes: u64,
}

impl OpenedOrigin {
    fn of(stream: &IndexedStream) -> Self {
        Self { name: stream.name.clone(), origin: stream.origin, index_bytes: stream.index_bytes }
    }
}

impl DataSet {
    /// Makes the data set of `config`. `indexes` are the indexes of the streams, in the same order.
    ///
    /// # Errors
    ///
    /// `Config` when their numbers differ, for a stream without samples and for an unknown hash.
    pub fn new(config: DataConfig, indexes: Vec<Arc<Index>>) -> Result<Self> {
        if config.streams.len() != indexes.len() {
            return Err(Error::config("there must be one index per stream"));
        }
        let counts: Vec<Vec<u64>> = indexes.iter().map(|i| i.shards.iter().map(|s| s.samples).collect()).collect();
        let hash = |s: &StreamLocation| s.validate_hash.as_ref().map(|name| HashAlgo::parse(name)).transpose();
        let hashes = config.streams.iter().map(hash).collect::<Result<_>>()?;
        let files = vec![None; indexes.len()];
        let versions = indexes.iter().map(|_| Versions::default()).collect();
        let shards = indexes.into_iter().map(|index| Arc::new(ShardSet::new(index))).collect();
        let origins = Vec::new();
        Ok(Self { shape: DataSetShape::new(&counts)?, config, shards, files, versions, hashes, origins })
    }

    /// Opens the data of a loader's `config` to read single samples, from any source that a loader has and in the
    /// folders that it would use: fetches or makes the indexes that the folders lack. Only the options about streams,
    /// downloads and the cache count, and samples have their numbers in whole streams. Rows of tables may have nulls,
    /// as with `skip.errors`, and the tables have the folders of that option. `library` serves the remotes of schemes
    /// that the engine does not have.
    ///
    /// # Errors
    ///
    /// `NotFound` for a stream without an index, `Config` for one without samples, and for tables with times of
    /// different units in one column; the errors of stores and folders.
    pub fn of_loader(config: &LoaderConfig, library: Option<LibraryStores>) -> Result<Self> {
        let stats = Arc::new(Stats::new(false));
        // A null belongs to its row: the remaining rows of the shard can be read.
        let config = &LoaderConfig { skip: SkipConfig { errors: 1, ..config.skip }, fields: None, ..config.clone() };
        let (topology, network) = (Topology::detect()?, Simulation::default());
        let opened = open_streams(&Session::new(config, &stats, &topology, &network, library))?;
        check_units(opened.iter().map(|stream| stream.cache.shards.iter()), config)?;
        let of_stream = |stream: &IndexedStream| {
            let of_remote = stream.remote.as_ref().and_then(Remote::versions);
            stream.cache.versions.as_ref().or(of_remote).map(|versions| versions.frozen()).unwrap_or_default()
        };
        let versions = opened.iter().map(of_stream).collect();
        let origins = opened.iter().map(OpenedOrigin::of).collect();
        let samples = |stream: &IndexedStream| stream.cache.shards.iter().map(|shard| shard.samples).collect();
        let counts: Vec<Vec<u64>> = opened.iter().map(samples).collect();
        let (mut streams, mut shards, mut files, mut hashes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // The remotes end here, with their threads: a process that fetches opens them again.
        for (stream, options) in opened.into_iter().zip(&config.streams) {
            let in_place = stream.cache.files;
            streams.push(StreamLocation {
                remote: stream.address.filter(|_| in_place.is_none()),
                dir: stream.cache.dir,
                keep_zip: stream.cache.keep_zip,
                download_retry: stream.download_retry,
                download_timeout: config.fetch_of(options).timeout,
                validate_hash: None,
            });
            shards.push(stream.cache.shards);
            files.push(in_place);
            hashes.push(stream.validate_hash);
        }
        let config = DataConfig { streams, cache_limit: config.cache_limit };
        Ok(Self { config, shards, files, versions, hashes, origins, shape: DataSetShape::new(&counts)? })
    }

    /// Samples per shard and stream.
    pub fn shape(&self) -> &DataSetShape {
        &self.shape
    }

    /// Index of stream `number`; `None` if there is no such stream.
    pub fn index(&self, number: usize) -> Option<&Arc<Index>> {
        self.shards.get(number).map(|shards| shards.index())
    }

    /// True if shards may have to be fetched or unpacked before they can be read.
    pub(super) fn has_work_ahead(&self) -> bool {
        let is_packed = self.shards.iter().flat_map(|shards| shards.iter()).any(|shard| shard.compression.is_some());
        is_packed || self.config.streams.iter().any(StreamLocation::has_remote)
    }

    /// Versions of the files of stream `number`, for one process.
    pub(super) fn versions(&self, number: usize) -> Arc<Versions> {
        Arc::new(self.versions.get(number).map(Versions::copy).unwrap_or_default())
    }

    pub(super) fn streams(&self) -> Vec<IndexedStream> {
        let places = self.config.streams.iter().zip(&self.shards).zip(self.files.iter().zip(&self.hashes));
        places
            .enumerate()
            .map(|(number, ((place, shards), (files, hash)))| IndexedStream {
                name: place.name(),
                remote: None,
                address: None,
                cache: StreamCacheConfig {
                    dir: place.dir.clone(),
                    files: files.clone(),
                    versions: files.is_some().then(|| self.versions(number)),
                    fetched: place
                        .remote
                        .as_ref()
                        .map(|name| FetchedVersions::new(&redact(name), self.versions(number))),
                    shards: shards.clone(),
                    has_remote: place.has_remote(),
                    keep_zip: place.keep_zip,
                    // No name of the remote: the package refuses folders that are in use, as the reference does.
                    ..StreamCacheConfig::default()
                },
                // The package checks the limit, by the reference's rule.
                index_bytes: 0,
                origin: StreamOrigin::default(),
                digest: String::new(),
                version: None,
                validate_hash: *hash,
                download_retry: place.download_retry,
                // Samples have their numbers in the whole stream here.
                selection: None,
            })
            .collect()
    }
}

impl StreamLocation {
    /// Reads the JSON document.
    ///
    /// # Errors
    ///
    /// `Config` for unknown names and wrong types.
    pub fn from_json(text: &str) -> Result<Self> {
        read(text, "the stream's arguments")
    }

    /// Fetches `index.json` into the local folder if the folder has none. Of several processes one fetches it and the
    /// rest wait. An index that is present is used as it is. If there is a `fetcher`, it fetches the index instead of
    /// the engine's store.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is neither an index nor a remote that has one; the errors of store and folder.
    pub fn install_index(&self, fetcher: Option<&dyn Fetcher>) -> Result<()> {
        let stats = Arc::new(Stats::new(false));
        let mut fetch = || {
            if let Some(fetcher) = fetcher {
                return fetch_whole(fetcher, INDEX_BASENAME, Length::AtMost(INDEX_BYTES_MAX), |_, _| Ok(()));
            }
            // The store's threads exist for this download only.
            let stores = Stores::new(self.store_config()?, &stats, Clock::system())?;
            let remote = self.remote.as_deref().unwrap_or_default();
            let fetched = stores.open(remote)?.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document);
            Ok(fetched.map_err(with_advice_on_remote)?.0)
        };
        let parse = |bytes: &[u8]| {
            // The package has its own parser, which takes more formats: this check rejects answers that are no index.
            let outline: Result<IndexOutline, _> = serde_json::from_slice(bytes);
            outline.map_err(|e| Error::format("the file is not an index of a data set").caused_by(e))
        };
        let remote = self.remote.as_deref().map_or("no remote".into(), redact);
        let source = IndexSource {
            dir: &self.dir,
            remote: &remote,
            cached: CachedIndex::Trusted,
            parse: &parse,
            read: &|_| None,
            is_current: &|_| false,
            fetch: if self.has_remote() { Some(&mut fetch) } else { None },
            is_optional: false,
        };
        let installed = source.install(&Clock::system(), WaitPolicy::new(&|| false, STALL_TIMEOUT))?;
        installed.unkept.iter().for_each(|why| log::warn!("the index is not kept: {why}"));
        Ok(())
    }

    /// Address without secrets, or the folder.
    pub(super) fn name(&self) -> String {
        self.remote.as_ref().map_or_else(|| self.dir.display().to_string(), |remote| redact(remote).into_owned())
    }

    /// Configuration of the store, with a single thread.
    pub(super) fn store_config(&self) -> Result<StoreConfig> {
        Ok(StoreConfig {
            fetch_threads: 1,
            download_retry: self.download_retry,
            download_timeout: Duration::try_from_secs_f64(self.download_timeout)
                .map_err(|_| Error::config("download_timeout must be a positive number of seconds"))?,
            ..StoreConfig::default()
        })
    }

    /// True if shards can be fetched. A remote that is the local folder itself does not count, since its files are the
    /// only copies.
    pub(super) fn has_remote(&self) -> bool {
        let Some(remote) = &self.remote else { return false };
        let folder = local_folder(remote).and_then(|folder| std::fs::canonicalize(folder).ok());
        folder.is_none_or(|folder| std::fs::canonicalize(&self.dir).ok() != Some(folder))
    }
}
