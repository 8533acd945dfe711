//! The data set: streams, their shards, and where each lies. How a loader comes to its streams' indexes is in `open`.
//!
//! Opening a catalogue fetches every stream's `index.json` (or reads the cached one and compares), opens its cache
//! directory and numbers all shards in the order of the streams. No shard is touched.

mod open;

use crate::cache::{CacheDir, CacheDirConfig, CacheFile, CacheGroup, ShardFiles, ShardSet};
use crate::clock::Clock;
use crate::config::LoaderConfig;
use crate::error::{Context, Error, Result};
use crate::format::{Encoding, FileInfo, HashAlgo, Index, Layout, Shard};
use crate::order::{DataSetShape, ShardId};
use crate::stats::Stats;
use crate::store::Remote;
use crate::sync::Arc;
use crate::topology::Topology;
use open::Opener;
use std::path::PathBuf;

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
    /// What the stream's index says.
    pub(crate) index: Arc<Index>,
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
    pub(crate) fn open(config: &LoaderConfig, stats: &Arc<Stats>, clock: &Clock, topology: &Topology) -> Result<Self> {
        let opened = Opener { config, stats, clock, topology }.open_all()?;
        check_cache_limit(config.cache_limit, &opened)?;
        let rules = Rules {
            cache_limit: config.cache_limit,
            allow_unsafe_types: config.allow_unsafe_types,
            clock: clock.clone(),
        };
        Self::assemble(opened, &rules, stats)
    }

    /// Opens the cache directories of streams whose indexes have been read.
    ///
    /// # Errors
    ///
    /// What the cache directory says, and `Config` for an index that cannot be used, with the stream's name.
    pub(crate) fn assemble(opened: Vec<IndexedStream>, rules: &Rules, stats: &Stats) -> Result<Self> {
        let group = CacheGroup::new(rules.cache_limit);
        let mut streams: Vec<Stream> = Vec::new();
        let mut shards = 0;
        for o in opened {
            let (name, count) = (o.name.clone(), o.index.shards.len() as u32);
            streams.push(o.finish(rules, &group, shards, stats).context("stream", || &name)?);
            shards += count;
        }
        let counts: Vec<Vec<u64>> =
            streams.iter().map(|s| s.index.shards.iter().map(|x| x.samples).collect()).collect();
        let shape = DataSetShape::new(&counts)?;
        let mut first_shard = vec![0];
        let (mut layouts, mut layout_of): (Vec<Arc<Layout>>, Vec<u16>) = Default::default();
        for stream in &streams {
            first_shard.push(first_shard[first_shard.len() - 1] + stream.index.shards.len() as u32);
            for shard in &stream.index.shards {
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
        &stream.index.shards[local as usize]
    }

    /// Bytes of all shards, unpacked.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.streams.iter().flat_map(|s| &s.index.shards).map(Shard::raw_bytes).sum()
    }

    /// Bytes of a sample on average, unpacked.
    pub(crate) fn sample_bytes_mean(&self) -> u64 {
        self.raw_bytes() / self.shape.num_samples().max(1)
    }

    /// Bytes of the largest shard, stored and unpacked together.
    pub(crate) fn shard_bytes_max(&self) -> u64 {
        let shards = self.streams.iter().flat_map(|s| &s.index.shards);
        shards.map(|s| s.raw_bytes() + s.zip_bytes().unwrap_or(0)).max().unwrap_or(0)
    }
}

/// A stream whose index has been read.
#[derive(Clone, Debug)]
pub(crate) struct IndexedStream {
    /// The stream as the user wrote it, for messages.
    pub(crate) name: String,
    /// Where absent shards come from, if that is known already; see `has_remote`.
    pub(crate) remote: Option<Remote>,
    /// Whether absent shards can be fetched.
    pub(crate) has_remote: bool,
    /// Its directory on local disk.
    pub(crate) path: PathBuf,
    pub(crate) index: Arc<Index>,
    /// The files of its shards; see [`files_of`].
    pub(crate) files: Arc<ShardSet>,
    pub(crate) index_bytes: u64,
    /// Digest of the index's bytes, for checkpoints.
    pub(crate) digest: String,
    /// Keep compressed shards beside the unpacked ones.
    pub(crate) keep_zip: bool,
    /// Hash that every download must match, if one was asked for.
    pub(crate) validate_hash: Option<HashAlgo>,
}

/// What holds for all streams of a catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Bytes of local disk that the shards of all streams together may take.
    pub(crate) cache_limit: Option<u64>,
    /// Whether columns of Python pickles are allowed.
    pub(crate) allow_unsafe_types: bool,
    pub(crate) clock: Clock,
}

impl IndexedStream {
    /// Bytes that `shard` takes in the cache.
    fn bytes_of(&self, shard: &Shard) -> u64 {
        let zip = if self.keep_zip { shard.zip_bytes().unwrap_or(0) } else { 0 };
        shard.raw_bytes().saturating_add(zip)
    }

    fn finish(self, rules: &Rules, group: &Arc<CacheGroup>, first_shard: u32, stats: &Stats) -> Result<Stream> {
        if self.index.samples() == 0 {
            return Err(Error::config("the stream contains no samples"));
        }
        if !rules.allow_unsafe_types {
            let mut columns = self.index.shards.iter().flat_map(|s| &s.layout.columns);
            if let Some(column) = columns.find(|c| c.encoding == Encoding::Pickle) {
                return Err(Error::config("a column holds Python pickles: allow_unsafe_types must be set to read it")
                    .with("column", &column.name));
            }
        }
        if let (Some(algo), true) = (self.validate_hash, self.has_remote) {
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
            dir: self.path,
            shards: self.files,
            has_remote: self.has_remote,
            keep_zip: self.keep_zip,
            cache_limit: rules.cache_limit,
            group: Some(group.clone()),
            first_shard,
            clock: rules.clock.clone(),
            ..CacheDirConfig::default()
        };
        Ok(Stream {
            name: self.name,
            remote: self.remote,
            dir: CacheDir::open(config, stats)?,
            index: self.index,
            validate_hash: self.validate_hash,
            index_digest: self.digest,
        })
    }
}

/// The files of all shards of an index, as the cache has them: data first. The names are shared with the index.
///
/// # Errors
///
/// `Format` for names that the cache cannot use.
pub(crate) fn files_of(index: &Index) -> Result<Arc<ShardSet>> {
    let file = |f: &FileInfo| CacheFile::new(f.basename.clone(), f.bytes);
    let of_shard = |shard: &Shard| {
        let mut pairs: Vec<_> = shard.files().collect();
        pairs.reverse();
        ShardFiles {
            raw: pairs.iter().map(|p| file(p.raw)).collect(),
            zip: pairs.iter().filter_map(|p| p.zip).map(file).collect(),
        }
    };
    ShardSet::new(index.shards.iter().map(of_shard).collect()).map(Arc::new)
}

/// Refuses a limit under which the cache could not hold all indexes and the largest shard: with those, one shard after
/// the other can take its turn.
fn check_cache_limit(limit: Option<u64>, streams: &[IndexedStream]) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let cached = || streams.iter().filter(|stream| stream.has_remote);
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
