//! Streams: with an index that has been read, and with an open cache directory.

use super::selection::StreamSelection;
use crate::cache::{CacheGroup, StreamCache, StreamCacheConfig};
use crate::error::{Error, Result};
use crate::format::recipe::Texts;
use crate::format::{Encoding, HashAlgo, Index};
use crate::stats::Stats;
use crate::store::Remote;
use crate::sync::Arc;

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
    /// Text that differs for different contents of the files, if their versions are known.
    pub(crate) version: Option<String>,
    /// Samples that the loader keeps; `None`: all.
    pub(crate) selection: Option<StreamSelection>,
}

impl Stream {
    /// Names of the classes of its samples, at the numbers of their labels, if they are files in folders.
    pub(crate) fn classes(&self) -> Option<&Texts> {
        self.index.shards.first()?.recipe.as_ref()?.classes()
    }
}

/// Origin of a stream's index, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOrigin {
    /// Name of the kind of files that the index was made of; `None`: the data set has an index.
    pub(crate) kind: Option<&'static str>,
    /// The index was in the stream's folder on local disk already.
    pub(crate) was_kept: bool,
}

/// Stream with an index that has been read.
#[derive(Clone, Debug)]
pub(crate) struct IndexedStream {
    /// The user's name of the stream, for messages.
    pub(crate) name: String,
    /// Source of missing shards, if it is open already; see [`StreamCacheConfig::has_remote`].
    pub(crate) remote: Option<Remote>,
    /// Address of the source of the shards, with secrets, also if they are read where they are.
    pub(crate) address: Option<String>,
    /// Settings of the cache directory, without the ones that follow from the rest of the streams.
    pub(crate) cache: StreamCacheConfig,
    pub(crate) index_bytes: u64,
    /// Origin of the index, for people.
    pub(crate) origin: StreamOrigin,
    /// Digest of the index's bytes, for checkpoints.
    pub(crate) digest: String,
    /// Text that differs for different contents of the files, if their versions are known.
    pub(crate) version: Option<String>,
    /// Hash that every download must match, if one is configured.
    pub(crate) validate_hash: Option<HashAlgo>,
    /// Total attempts per download.
    pub(crate) download_retry: u32,
    /// Samples that the loader keeps; `None`: all.
    pub(crate) selection: Option<StreamSelection>,
}

impl IndexedStream {
    pub(super) fn finish(
        self,
        group: &Arc<CacheGroup>,
        first_shard: u32,
        allow_unsafe_types: bool,
        stats: &Stats,
    ) -> Result<Stream> {
        let index = self.cache.shards.index().clone();
        if index.samples() == 0 {
            return Err(Error::config("the stream contains no samples"));
        }
        if !allow_unsafe_types {
            let mut columns = index.shards.iter().flat_map(|s| &s.layout.columns);
            if let Some(column) = columns.find(|c| c.encoding == Encoding::Pickle) {
                let message = "a column holds Python pickles: engine.allow_unsafe_types must be set to read it";
                return Err(Error::config(message).with("column", &column.name));
            }
        }
        if let (Some(algo), true) = (self.validate_hash, self.cache.has_remote) {
            let mut stored = index.shards.iter().flat_map(|s| s.files().map(|pair| pair.stored()));
            if let Some(file) = stored.find(|f| f.hashes.get(algo).is_none()) {
                return Err(Error::config(format!(
                    "fetch.validate_hash is {}, which is not in the index",
                    algo.name()
                ))
                .with("file", &file.basename));
            }
        }
        let config = StreamCacheConfig { group: group.clone(), first_shard, ..self.cache };
        Ok(Stream {
            name: self.name,
            remote: self.remote,
            dir: StreamCache::open(config, stats)?,
            index,
            validate_hash: self.validate_hash,
            download_retry: self.download_retry,
            index_digest: self.digest,
            version: self.version,
            selection: self.selection,
        })
    }
}
