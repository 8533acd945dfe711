//! The data set: streams, their shards, and where each lies.
//!
//! Opening a catalogue fetches every stream's `index.json` (or reads the cached one and compares), opens its cache
//! directory and numbers all shards in the order of the streams. No shard is touched.

use crate::cache::{CacheDir, CacheDirConfig, CacheFile, CacheGroup, IndexCheck, Patience, ShardFiles, install_index};
use crate::clock::Clock;
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{Encoding, HashAlgo, INDEX_BASENAME, Index, Layout, Shard};
use crate::order::{DataSetShape, ShardId};
use crate::stats::Stats;
use crate::store::{Remote, StoreConfig, Stores};
use crate::sync::Arc;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An index above this is refused: 1 GiB describes some two million shards.
const INDEX_BYTES_MAX: usize = 1 << 30;

/// Streams opened side by side: enough to hide a store's latency behind hundreds of streams.
const STREAMS_AT_ONCE: usize = 16;

/// All streams of a loader.
#[derive(Debug)]
pub(crate) struct Catalog {
    streams: Vec<Stream>,
    /// First shard of each stream, and the number of all at the end.
    first_shard: Vec<u32>,
    shape: DataSetShape,
    /// The distinct layouts of all shards, usually one.
    layouts: Vec<Arc<Layout>>,
    /// Index into `layouts` of each shard.
    layout_of: Vec<u16>,
}

/// One opened stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The stream as the user wrote it, for messages.
    pub(crate) name: String,
    pub(crate) remote: Option<Remote>,
    pub(crate) dir: Arc<CacheDir>,
    pub(crate) shards: Vec<Shard>,
    /// Hash that every download must match, if one was asked for.
    pub(crate) validate_hash: Option<HashAlgo>,
    /// Digest of the index, for checkpoints.
    pub(crate) index_digest: String,
}

impl Catalog {
    /// Opens every stream.
    ///
    /// # Errors
    ///
    /// What the index, the cache directory or the store says, with the stream's name.
    pub(crate) fn open(config: &LoaderConfig, stats: &Arc<Stats>, clock: &Clock) -> Result<Self> {
        let opener = Opener { config, stats, clock };
        let opened = opener.open_all()?;
        check_cache_limit(config.cache_limit, &opened)?;
        let group = CacheGroup::new(config.cache_limit);
        let mut streams = Vec::new();
        let mut shards = 0;
        for o in &opened {
            streams.push(o.finish(&opener, &group, shards).context("stream", || &o.name)?);
            shards += o.index.shards.len() as u32;
        }
        let counts: Vec<Vec<u64>> = streams.iter().map(|s| s.shards.iter().map(|x| x.samples).collect()).collect();
        let shape = DataSetShape::new(&counts)?;
        let mut first_shard = vec![0];
        let (mut layouts, mut layout_of): (Vec<Arc<Layout>>, Vec<u16>) = Default::default();
        for stream in &streams {
            first_shard.push(first_shard[first_shard.len() - 1] + stream.shards.len() as u32);
            for shard in &stream.shards {
                // Shards of one index share their layout, so the last one fits nearly always.
                let known = layouts.iter().rposition(|l| Arc::ptr_eq(l, &shard.layout) || **l == *shard.layout);
                let known = known.unwrap_or_else(|| {
                    layouts.push(shard.layout.clone());
                    layouts.len() - 1
                });
                layout_of.push(u16::try_from(known).map_err(|_| Error::config("shards of more than 65,536 layouts"))?);
            }
        }
        Ok(Self { streams, first_shard, shape, layouts, layout_of })
    }

    /// Samples per shard and stream.
    pub(crate) fn shape(&self) -> &DataSetShape {
        &self.shape
    }

    /// The streams in their order.
    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The distinct layouts of the shards.
    pub(crate) fn layouts(&self) -> &[Arc<Layout>] {
        &self.layouts
    }

    /// Index of the layout of `shard`.
    pub(crate) fn layout_of(&self, shard: ShardId) -> usize {
        self.layout_of[shard.index()].into()
    }

    /// The stream of `shard` and the shard's number in it.
    pub(crate) fn locate(&self, shard: ShardId) -> (&Stream, u32) {
        let stream = self.first_shard.partition_point(|first| *first <= shard.0) - 1;
        (&self.streams[stream], shard.0 - self.first_shard[stream])
    }

    /// The entry of `shard` in its index.
    pub(crate) fn shard(&self, shard: ShardId) -> &Shard {
        let (stream, local) = self.locate(shard);
        &stream.shards[local as usize]
    }

    /// Bytes of all shards, unpacked.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.streams.iter().flat_map(|s| &s.shards).map(Shard::raw_bytes).sum()
    }

    /// Bytes of the largest shard, stored and unpacked together.
    pub(crate) fn shard_bytes_max(&self) -> u64 {
        let shards = self.streams.iter().flat_map(|s| &s.shards);
        shards.map(|s| s.raw_bytes() + s.zip_bytes().unwrap_or(0)).max().unwrap_or(0)
    }
}

struct Opener<'a> {
    config: &'a LoaderConfig,
    stats: &'a Arc<Stats>,
    clock: &'a Clock,
}

/// A stream whose index has been read.
struct Opened {
    name: String,
    remote: Option<Remote>,
    path: PathBuf,
    index: Index,
    index_bytes: u64,
    digest: String,
    keep_zip: bool,
    validate_hash: Option<HashAlgo>,
}

impl Opener<'_> {
    fn open_all(&self) -> Result<Vec<Opened>> {
        let stores = self.stores()?;
        let mut all = Vec::new();
        for group in self.config.streams.chunks(STREAMS_AT_ONCE) {
            let stores = &stores;
            let opened = std::thread::scope(|scope| {
                let threads: Vec<_> = group.iter().map(|s| scope.spawn(move || self.open(s, stores))).collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err(Error::internal("opening a stream panicked"))))
                    .collect::<Result<Vec<_>>>()
            })?;
            all.extend(opened);
        }
        Ok(all)
    }

    /// One set of fetch threads for each distinct pair of download settings; usually one, and none without a remote.
    fn stores(&self) -> Result<Vec<((u32, f64), Stores)>> {
        let mut stores: Vec<((u32, f64), Stores)> = Vec::new();
        for stream in self.config.streams.iter().filter(|s| s.remote.is_some()) {
            let key = self.download(stream);
            if stores.iter().all(|(k, _)| *k != key) {
                let mut config = StoreConfig {
                    download_retry: key.0,
                    download_timeout: Duration::from_secs_f64(key.1),
                    seed: self.config.shuffle_seed,
                    ..StoreConfig::default()
                };
                if let Some(threads) = self.config.fetch_threads {
                    config.fetch_threads = threads as usize;
                }
                stores.push((key, Stores::new(config, self.stats, self.clock.clone())?));
            }
        }
        Ok(stores)
    }

    fn download(&self, stream: &StreamConfig) -> (u32, f64) {
        let retry = stream.download_retry.unwrap_or(self.config.download_retry);
        (retry, stream.download_timeout.unwrap_or(self.config.download_timeout))
    }

    fn open(&self, stream: &StreamConfig, stores: &[((u32, f64), Stores)]) -> Result<Opened> {
        let split = stream.split.as_deref().unwrap_or("");
        let name = match &stream.remote {
            Some(remote) => join(remote, split),
            None => join(&stream.local.as_deref().unwrap_or(Path::new("")).display().to_string(), split),
        };
        self.open_named(stream, split, &name, stores).context("stream", || &name)
    }

    fn open_named(
        &self,
        stream: &StreamConfig,
        split: &str,
        name: &str,
        stores: &[((u32, f64), Stores)],
    ) -> Result<Opened> {
        let algo = stream.validate_hash.as_ref().or(self.config.validate_hash.as_ref());
        let validate_hash = algo.map(|name| HashAlgo::parse(name)).transpose()?;
        let key = self.download(stream);
        let remote = match stream.remote {
            Some(_) => stores.iter().find(|(k, _)| *k == key).map(|(_, s)| s.open(name)).transpose()?,
            None => None,
        };
        let keep_zip = stream.keep_zip.unwrap_or(self.config.keep_zip);
        let opened = |remote, path, bytes: &[u8]| -> Result<Opened> {
            let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
            let (digest, index_bytes) = (HashAlgo::Xxh3_64.hex(bytes), bytes.len() as u64);
            Ok(Opened { name: name.to_owned(), remote, path, index, index_bytes, digest, keep_zip, validate_hash })
        };
        let Some(remote) = remote else {
            let path = stream.local.clone().unwrap_or_default().join(split);
            let bytes = self.index(&path, name, None)?;
            return opened(None, path, &bytes);
        };
        if let (None, Some(folder)) = (&stream.local, local_folder(name)) {
            // A folder on this machine is read where it lies, unless its shards must be unpacked somewhere.
            if !folder.join(INDEX_BASENAME).exists() {
                let message = match folder.is_dir() {
                    true => "the folder that `remote` and `split` name holds no index.json: it is no data set",
                    false => "the folder that `remote` and `split` name does not exist",
                };
                return Err(Error::new(ErrorKind::NotFound, message).with("folder", folder.display()));
            }
            let bytes = self.index(&folder, name, None)?;
            let in_place = opened(None, folder, &bytes)?;
            if in_place.index.shards.iter().all(|s| s.compression.is_none()) {
                return Ok(in_place);
            }
        }
        let root = match &stream.local {
            Some(local) => local.clone(),
            None => default_local(name)?,
        };
        let path = root.join(split);
        let bytes = self.index(&path, name, Some(&remote))?;
        opened(Some(remote), path, &bytes)
    }

    fn index(&self, dir: &Path, name: &str, remote: Option<&Remote>) -> Result<Vec<u8>> {
        let mut fetch = || {
            let remote = remote.ok_or_else(|| Error::internal("an index was fetched without a remote"))?;
            Ok(remote.get_small(INDEX_BASENAME, INDEX_BYTES_MAX)?.0)
        };
        let fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>> = if remote.is_some() { Some(&mut fetch) } else { None };
        let limit = Duration::from_secs_f64(self.config.stall_timeout);
        let patience = Patience::new(&|| false, limit);
        let file = install_index(dir, name, IndexCheck::Compare, fetch, self.clock, patience)?;
        if let Some(why) = file.unchecked {
            self.stats.note(format!("the cached index of {name} is used unchecked: {why}"));
        }
        Ok(file.bytes)
    }
}

impl Opened {
    /// Bytes that `shard` takes in the cache.
    fn bytes_of(&self, shard: &Shard) -> u64 {
        let zip = if self.keep_zip { shard.zip_bytes().unwrap_or(0) } else { 0 };
        shard.raw_bytes().saturating_add(zip)
    }

    fn finish(&self, opener: &Opener<'_>, group: &Arc<CacheGroup>, first_shard: u32) -> Result<Stream> {
        if self.index.samples() == 0 {
            return Err(Error::config("the stream contains no samples"));
        }
        if !opener.config.allow_unsafe_types {
            let mut columns = self.index.shards.iter().flat_map(|s| &s.layout.columns);
            if let Some(column) = columns.find(|c| c.encoding == Encoding::Pickle) {
                return Err(Error::config("a column holds Python pickles: allow_unsafe_types must be set to read it")
                    .with("column", &column.name));
            }
        }
        if let (Some(algo), Some(_)) = (self.validate_hash, &self.remote) {
            let mut stored = self.index.shards.iter().flat_map(|s| s.files().map(|pair| pair.stored()));
            if let Some(file) = stored.find(|f| f.hash(algo).is_none()) {
                return Err(Error::config(format!(
                    "validate_hash is {}, which the index does not record",
                    algo.name()
                ))
                .with("file", &file.basename));
            }
        }
        let config = CacheDirConfig {
            dir: self.path.clone(),
            shards: self.index.shards.iter().map(files_of).collect(),
            has_remote: self.remote.is_some(),
            keep_zip: self.keep_zip,
            cache_limit: opener.config.cache_limit,
            group: Some(group.clone()),
            first_shard,
            clock: opener.clock.clone(),
            ..CacheDirConfig::default()
        };
        Ok(Stream {
            name: self.name.clone(),
            remote: self.remote.clone(),
            dir: CacheDir::open(config, opener.stats)?,
            shards: self.index.shards.clone(),
            validate_hash: self.validate_hash,
            index_digest: self.digest.clone(),
        })
    }
}

/// The files of a shard in the cache's order: data first.
fn files_of(shard: &Shard) -> ShardFiles {
    let mut pairs: Vec<_> = shard.files().collect();
    pairs.reverse();
    let file = |f: &crate::format::FileInfo| CacheFile::new(f.basename.as_str(), f.bytes);
    ShardFiles {
        raw: pairs.iter().map(|p| file(p.raw)).collect(),
        zip: pairs.iter().filter_map(|p| p.zip).map(file).collect(),
    }
}

/// `root` and `split` as one URL or path, without slashes at the end or two in a row where they meet.
fn join(root: &str, split: &str) -> String {
    let (folder, split) = (root.trim_end_matches('/'), split.trim_matches('/'));
    match (split.is_empty(), folder.is_empty() || folder.ends_with(':')) {
        // The root of a file system, or nothing at all.
        (true, true) => root.to_owned(),
        (true, false) => folder.to_owned(),
        (false, _) if root.is_empty() => split.to_owned(),
        (false, _) => format!("{folder}/{split}"),
    }
}

/// Refuses a limit under which the cache could not hold all indexes and the largest shard: with those, one shard after
/// the other can take its turn.
fn check_cache_limit(limit: Option<u64>, streams: &[Opened]) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let cached = || streams.iter().filter(|stream| stream.remote.is_some());
    let index_bytes: u64 = cached().map(|stream| stream.index_bytes).sum();
    let sizes =
        cached().flat_map(|stream| stream.index.shards.iter().map(move |shard| (stream.bytes_of(shard), shard)));
    let Some((bytes, shard)) = sizes.max_by_key(|(bytes, _)| *bytes) else { return Ok(()) };
    let needed = index_bytes.saturating_add(bytes);
    if limit >= needed {
        return Ok(());
    }
    Err(Error::config(format!(
        "cache_limit is {limit} bytes and must be at least {needed}: {bytes} for the largest shard and {index_bytes} for \
         index.json; several times as much keeps shards from being fetched again and again"
    ))
    .with("shard", &shard.raw_data.basename))
}

/// The folder behind a remote that lies on this machine.
fn local_folder(remote: &str) -> Option<PathBuf> {
    match remote.split_once("://") {
        None => Some(remote.into()),
        Some(("file", path)) => Some(path.into()),
        Some(_) => None,
    }
}

/// Where a remote is cached when the user names no place: the same folder every time.
fn default_local(remote: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let cache =
        cache.ok_or_else(|| Error::new(ErrorKind::Config, "there is no home directory to cache in: set `local`"))?;
    Ok(cache.join("forebay").join(HashAlgo::Xxh3_128.hex(remote.as_bytes())))
}
