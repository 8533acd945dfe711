//! Streams: with an index that has been read, and with an open cache directory.

use crate::cache::{CacheGroup, ShardSet, StreamCache, StreamCacheConfig};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::format::{Encoding, HashAlgo, Index};
use crate::stats::Stats;
use crate::store::Remote;
use crate::sync::Arc;
use std::path::PathBuf;

/// Opened stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The user's name of the stream, for messages.
    pub(crate) name: String,
    pub(crate) remote: Option<Remote>,
    pub(crate) dir: Arc<StreamCache>,
    /// Parsed index of the stream.
    pub(crate) index: Arc<Index>,
    /// Hash that every download must match, if one is configured.
    pub(crate) validate_hash: Option<HashAlgo>,
    /// Total attempts per download.
    pub(crate) download_retry: u32,
    /// Digest of the index, for checkpoints.
    pub(crate) index_digest: String,
}

/// Stream whose index has been read.
#[derive(Clone, Debug)]
pub(crate) struct IndexedStream {
    /// The user's name of the stream, for messages.
    pub(crate) name: String,
    /// Source of missing shards, if it is open already; see `has_remote`.
    pub(crate) remote: Option<Remote>,
    /// True if missing shards can be fetched.
    pub(crate) has_remote: bool,
    /// Name of the remote, if the index has no hashes; see [`StreamCacheConfig::remote`].
    pub(crate) origin: Option<String>,
    /// Directory on local disk.
    pub(crate) path: PathBuf,
    /// Parsed index, with the files of its shards by name.
    pub(crate) shards: Arc<ShardSet>,
    pub(crate) index_bytes: u64,
    /// Digest of the index's bytes, for checkpoints.
    pub(crate) digest: String,
    /// Keep compressed shards next to the unpacked ones.
    pub(crate) keep_zip: bool,
    /// Hash that every download must match, if one is configured.
    pub(crate) validate_hash: Option<HashAlgo>,
    /// Total attempts per download.
    pub(crate) download_retry: u32,
}

/// Settings for all streams of a catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Limit on the bytes of local disk for the shards of all streams together.
    pub(crate) cache_limit: Option<u64>,
    /// True if columns of Python pickles are allowed.
    pub(crate) allow_unsafe_types: bool,
    pub(crate) clock: Clock,
}

impl IndexedStream {
    pub(super) fn finish(
        self,
        rules: &Rules,
        group: &Arc<CacheGroup>,
        first_shard: u32,
        stats: &Stats,
    ) -> Result<Stream> {
        let index = self.shards.index().clone();
        if index.samples() == 0 {
            return Err(Error::config("the stream contains no samples"));
        }
        if !rules.allow_unsafe_types {
            let mut columns = index.shards.iter().flat_map(|s| &s.layout.columns);
            if let Some(column) = columns.find(|c| c.encoding == Encoding::Pickle) {
                return Err(Error::config("a column holds Python pickles: allow_unsafe_types must be set to read it")
                    .with("column", &column.name));
            }
        }
        if let (Some(algo), true) = (self.validate_hash, self.has_remote) {
            let mut stored = index.shards.iter().flat_map(|s| s.files().map(|pair| pair.stored()));
            if let Some(file) = stored.find(|f| f.hashes.get(algo).is_none()) {
                return Err(Error::config(format!("validate_hash is {}, which is not in the index", algo.name()))
                    .with("file", &file.basename));
            }
        }
        let config = StreamCacheConfig {
            dir: self.path,
            shards: self.shards,
            has_remote: self.has_remote,
            remote: self.origin,
            keep_zip: self.keep_zip,
            group: group.clone(),
            first_shard,
            clock: rules.clock.clone(),
        };
        Ok(Stream {
            name: self.name,
            remote: self.remote,
            dir: StreamCache::open(config, stats)?,
            index,
            validate_hash: self.validate_hash,
            download_retry: self.download_retry,
            index_digest: self.digest,
        })
    }
}
