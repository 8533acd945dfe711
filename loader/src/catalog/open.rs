//! Opening of a loader's streams: their indexes are fetched, or read from the cache and compared.

use super::store_set::StoreSet;
use super::stream::IndexedStream;
use crate::cache::{IndexCheck, ShardSet, WaitPolicy, install_index};
use crate::clock::Clock;
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::INDEX_BYTES_MAX;
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::stats::Stats;
use crate::store::{Remote, StoreConfig, ThreadStart, local_folder, redact};
use crate::sync::{Arc, scope};
use crate::topology::{CpuSet, Topology, affinity};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Streams that are opened at the same time: enough to hide a store's latency with hundreds of streams.
const STREAMS_AT_ONCE: usize = 16;

/// Opener of a loader's streams.
pub(super) struct Opener<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Arc<Stats>,
    pub(super) clock: &'a Clock,
    pub(super) topology: &'a Topology,
    pub(super) stores: StoreSet,
}

impl Opener<'_> {
    pub(super) fn open_all(&self) -> Result<Vec<IndexedStream>> {
        let mut all = Vec::new();
        for group in self.config.streams.chunks(STREAMS_AT_ONCE) {
            let opened = scope(|scope| {
                let threads: Vec<_> = group.iter().map(|s| scope.spawn(move || self.open(s))).collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err(Error::internal("opening a stream panicked"))))
                    .collect::<Result<Vec<_>>>()
            })?;
            all.extend(opened);
        }
        Ok(all)
    }

    /// Store settings for `stream`.
    fn store_config(&self, stream: &StreamConfig) -> StoreConfig {
        let local_ranks = self.config.world.local_world_size as usize;
        let fetch_threads = match self.config.fetch_threads {
            Some(threads) => threads as usize,
            None => self.topology.fetch_threads_default(local_ranks),
        };
        StoreConfig {
            fetch_threads,
            download_retry: stream.download_retry.unwrap_or(self.config.download_retry),
            download_timeout: Duration::from_secs_f64(stream.download_timeout.unwrap_or(self.config.download_timeout)),
            seed: self.config.shuffle_seed,
            on_thread_start: Some(self.thread_binder(fetch_threads)),
            ..StoreConfig::default()
        }
    }

    /// Returns a function that binds the fetch threads to NUMA nodes, evenly.
    fn thread_binder(&self, fetch_threads: usize) -> ThreadStart {
        let world = self.config.world;
        let homes = self.topology.spread(fetch_threads, world.local_rank as usize, world.local_world_size as usize);
        let cpus: Vec<Option<CpuSet>> = homes.into_iter().map(|home| self.topology.pin_set(home)).collect();
        let stats = self.stats.clone();
        Arc::new(move |thread| affinity::place_current_thread(cpus[thread].as_ref(), |why| stats.note(why)))
    }

    fn open(&self, stream: &StreamConfig) -> Result<IndexedStream> {
        let split = stream.split.as_deref().unwrap_or("");
        let name = match &stream.remote {
            Some(remote) => join(remote, split),
            None => join(&stream.local.as_deref().unwrap_or(Path::new("")).display().to_string(), split),
        };
        self.open_named(stream, split, &name).context("stream", || redact(&name))
    }

    fn open_named(&self, stream: &StreamConfig, split: &str, name: &str) -> Result<IndexedStream> {
        let shown = redact(name);
        let algo = stream.validate_hash.as_ref().or(self.config.validate_hash.as_ref());
        let validate_hash = algo.map(|name| HashAlgo::parse(name)).transpose()?;
        let remote = match stream.remote {
            Some(_) => Some(self.stores.open(name, self.store_config(stream), self.stats, self.clock)?),
            None => None,
        };
        let keep_zip = stream.keep_zip.unwrap_or(self.config.keep_zip);
        let opened = |remote: Option<Remote>, path, bytes: &[u8]| -> Result<IndexedStream> {
            let index = Index::parse(bytes, &format!("{shown}/{INDEX_BASENAME}"))?;
            let (digest, index_bytes) = (HashAlgo::Xxh3_64.hex(bytes), bytes.len() as u64);
            Ok(IndexedStream {
                name: shown.clone().into_owned(),
                has_remote: remote.is_some(),
                remote,
                path,
                shards: Arc::new(ShardSet::new(Arc::new(index))),
                index_bytes,
                digest,
                keep_zip,
                validate_hash,
                download_retry: stream.download_retry.unwrap_or(self.config.download_retry),
            })
        };
        let Some(remote) = remote else {
            let path = stream.local.clone().unwrap_or_default().join(split);
            let bytes = self.index(&path, &shown, None)?;
            return opened(None, path, &bytes);
        };
        if let (None, Some(folder)) = (&stream.local, local_folder(name)) {
            // A folder on this machine is read in place, unless its shards must be unpacked.
            if !folder.join(INDEX_BASENAME).exists() {
                let message = match folder.is_dir() {
                    true => "the folder that `remote` and `split` name holds no index.json: it is not a data set",
                    false => "the folder that `remote` and `split` name does not exist",
                };
                return Err(Error::new(ErrorKind::NotFound, message).with("folder", folder.display()));
            }
            let bytes = self.index(&folder, &shown, None)?;
            let in_place = opened(None, folder, &bytes)?;
            if in_place.shards.iter().all(|s| s.compression.is_none()) {
                return Ok(in_place);
            }
        }
        let root = match &stream.local {
            Some(local) => local.clone(),
            None => default_local(name)?,
        };
        let path = root.join(split);
        let bytes = self.index(&path, &shown, Some(&remote))?;
        opened(Some(remote), path, &bytes)
    }

    fn index(&self, dir: &Path, name: &str, remote: Option<&Remote>) -> Result<Vec<u8>> {
        let mut fetch = || {
            let remote = remote.ok_or_else(|| Error::internal("an index was fetched without a remote"))?;
            Ok(remote.get_small(INDEX_BASENAME, INDEX_BYTES_MAX as usize)?.0)
        };
        let fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>> = if remote.is_some() { Some(&mut fetch) } else { None };
        let limit = Duration::from_secs_f64(self.config.stall_timeout);
        let policy = WaitPolicy::new(&|| false, limit);
        let file = install_index(dir, name, IndexCheck::Compare, fetch, self.clock, policy)?;
        if let Some(why) = file.unchecked {
            self.stats.note(format!("the cached index of {name} is used unchecked: {why}"));
        }
        Ok(file.bytes)
    }
}

/// Joins `root` and `split` to one URL or path, without trailing or repeated slashes.
fn join(root: &str, split: &str) -> String {
    let (folder, split) = (root.trim_end_matches('/'), split.trim_matches('/'));
    match (split.is_empty(), folder.is_empty() || folder.ends_with(':')) {
        // The root of a file system, or an empty path.
        (true, true) => root.to_owned(),
        (true, false) => folder.to_owned(),
        (false, _) if root.is_empty() => split.to_owned(),
        (false, _) => format!("{folder}/{split}"),
    }
}

/// Returns the default cache folder of a remote, which is the same every time.
fn default_local(remote: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let cache =
        cache.ok_or_else(|| Error::new(ErrorKind::Config, "there is no home directory to cache in: set `local`"))?;
    Ok(cache.join("forebay").join(HashAlgo::Xxh3_128.hex(remote.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorldConfig;

    #[test]
    fn the_ranks_of_a_machine_share_its_cpus_among_their_fetch_threads() {
        let topology = Topology::synthetic(&["0-31", "32-63"]);
        let threads = |local_world_size, fetch_threads| {
            let world = WorldConfig { world_size: local_world_size, local_world_size, ..WorldConfig::default() };
            let config = LoaderConfig { world, fetch_threads, ..LoaderConfig::default() };
            let stats = Arc::new(Stats::new(false));
            let (clock, stores) = (Clock::system(), StoreSet::default());
            let opener = Opener { config: &config, stats: &stats, clock: &clock, topology: &topology, stores };
            opener.store_config(&StreamConfig::default()).fetch_threads
        };
        assert_eq!(threads(1, None), 16, "one per 4 CPUs");
        assert_eq!(threads(8, None), 2, "one per 4 CPUs of this rank");
        assert_eq!(threads(64, None), 1, "at least one");
        assert_eq!(threads(8, Some(5)), 5, "a user's number is not divided");
    }
}
