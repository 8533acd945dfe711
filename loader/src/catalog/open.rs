//! Opening of a loader's streams: their indexes are fetched, or read from the cache and compared.

use super::cache_folder::default_local;
use super::files::{first_names, has_list};
use super::index_origin::{Document, IndexOrigin};
use super::store_set::StoreSet;
use super::stream::IndexedStream;
use super::token_files::check_windows;
use crate::cache::{
    CachedIndex, IndexSource, ShardSet, StreamCacheConfig, WaitPolicy, record_remote, show_progress, stale,
    with_advice_on_remote,
};
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::describe_folder;
use crate::format::{HashAlgo, INDEX_BASENAME, Index, Shard};
use crate::sources::advice::{advice_for, advice_for_files};
use crate::stats::Stats;
use crate::store::{Outside, Remote, Simulation, StoreConfig, ThreadStart, is_url, local_folder, redact};
use crate::sync::{Arc, scope};
use crate::topology::{CpuSet, Topology, affinity};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Streams that are opened at the same time: enough to hide a store's latency with hundreds of streams.
const STREAMS_AT_ONCE: usize = 16;

/// Names by which the kind of a folder is known.
pub(super) const NAMES_SEEN: usize = 1000;

/// Opener of a loader's streams.
pub(super) struct Opener<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Arc<Stats>,
    pub(super) topology: &'a Topology,
    pub(super) network: &'a Simulation,
    pub(super) outside: Option<Outside>,
    pub(super) stores: StoreSet,
    /// The files are compared with their kept index, so it is used whatever they are now.
    pub(super) is_verified: bool,
}

impl Opener<'_> {
    pub(super) fn open_all(&self) -> Result<Vec<IndexedStream>> {
        check_folders(&self.config.streams)?;
        let mut all = Vec::new();
        for group in self.config.streams.chunks(STREAMS_AT_ONCE) {
            let opened = scope(|scope| {
                let threads: Vec<_> = group.iter().map(|s| scope.spawn(move || self.open(s)?.selected(s))).collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err(Error::internal("opening a stream panicked"))))
                    .collect::<Result<Vec<_>>>()
            })?;
            all.extend(opened);
        }
        check_windows(self.config, &all)?;
        Ok(all)
    }

    /// Store settings for `stream`.
    pub(super) fn store_config(&self, stream: &StreamConfig) -> StoreConfig {
        let (world, fetch_threads) = (self.config.world, self.config.fetch_threads_on(self.topology));
        StoreConfig {
            fetch_threads,
            parts_in_flight_max: self.network.store.parts_in_flight_max_of(world.local_world_size as usize),
            download_retry: stream.download_retry.unwrap_or(self.config.download_retry),
            download_timeout: Duration::from_secs_f64(stream.download_timeout.unwrap_or(self.config.download_timeout)),
            stall_timeout: Duration::from_secs_f64(self.config.stall_timeout),
            // Ranks that fail together have different pauses before the next attempt.
            seed: self.config.shuffle_seed ^ (u64::from(world.rank) << 40),
            ca_file: self.config.ca_file.clone(),
            outside: self.outside.clone(),
            on_thread_start: Some(self.thread_binder(fetch_threads)),
            ..self.network.store.clone()
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
        let named = stream.remote.as_deref().unwrap_or("local");
        if let Some(opened) = self.open_files_of(stream).context("stream", || redact(named))? {
            return Ok(opened);
        }
        let stream = &absolute(stream);
        let name = name_of(stream);
        self.open_named(stream, &name).map_err(|e| advised(e, &name)).context("stream", || redact(&name))
    }

    /// Opens the folder `name`: of a data set with an `index.json`, or of files that have a known kind.
    fn open_named(&self, stream: &StreamConfig, name: &str) -> Result<IndexedStream> {
        let folder = local_folder(name);
        if stream.remote.is_none() && folder.is_none() {
            // `local` is a path, even one that looks like an address.
            return self.open_data_set(stream, name);
        }
        if let Some(folder) = folder {
            if has_list(&folder) {
                return self.open_listed_files(stream, name);
            }
            if folder.join(INDEX_BASENAME).exists() {
                return self.open_data_set(stream, name);
            }
            return self.open_unindexed(stream, name)?.map_or_else(|| self.open_data_set(stream, name), Ok);
        }
        if let Some(kept) = self.open_kept_list(stream, name)? {
            return Ok(kept);
        }
        match self.open_data_set(stream, name) {
            // Some stores answer a request for an absent object with an error of permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => {
                match self.open_unindexed(stream, name) {
                    Ok(Some(found)) => Ok(found),
                    Err(other) if other.kind() != ErrorKind::NotFound => Err(other),
                    Ok(None) | Err(_) => Err(e),
                }
            }
            opened => opened,
        }
    }

    fn open_data_set(&self, stream: &StreamConfig, name: &str) -> Result<IndexedStream> {
        let opened = |folder: PathBuf, remote: Option<Remote>| {
            let window = self.config.window_of(stream);
            let document = Document { folder: folder.clone(), is_in_place: remote.is_none(), window };
            let place = Place { name, folder, files: None, remote };
            self.opened(stream, place, &document)
        };
        let Some(_) = stream.remote else { return opened(cache_folder(stream, name)?, None) };
        let remote = self.remote(stream, name)?;
        if let (None, Some(folder)) = (&stream.local, local_folder(name)) {
            // A folder on this machine is read in place, unless its shards must be unpacked.
            if !folder.join(INDEX_BASENAME).exists() {
                return Err(no_index(&folder));
            }
            let in_place = opened(folder, None)?;
            if in_place.cache.shards.iter().all(|s| s.compression.is_none()) {
                return Ok(in_place);
            }
        }
        opened(cache_folder(stream, name)?, Some(remote))
    }

    pub(super) fn remote(&self, stream: &StreamConfig, name: &str) -> Result<Remote> {
        self.stores.open(name, self.store_config(stream), self.stats, &self.network.clock)
    }

    /// Reads the index of a stream, fetched from `origin` if necessary.
    pub(super) fn opened(
        &self,
        stream: &StreamConfig,
        place: Place<'_>,
        origin: &dyn IndexOrigin,
    ) -> Result<IndexedStream> {
        let Place { name, folder, files, remote } = place;
        let algo = stream.validate_hash.as_ref().or(self.config.validate_hash.as_ref());
        let validate_hash = algo.map(|name| HashAlgo::parse(name)).transpose()?;
        let mut fetch = || match &remote {
            Some(remote) => match origin.fetch(remote, &|| show_progress(&folder)) {
                Err(e) if e.kind() == ErrorKind::NotFound && origin.cached() == CachedIndex::Compared => {
                    Err(local_folder(name).map_or_else(|| with_advice_on_remote(e), |folder| no_index(&folder)))
                }
                fetched => fetched,
            },
            None => Err(Error::internal("an index was fetched without a remote")),
        };
        let shown = redact(name);
        // The same folder may have many names.
        let resolved = local_folder(name)
            .map_or_else(|| shown.clone().into_owned(), |folder| resolve(&folder).display().to_string());
        let source = IndexSource {
            dir: &folder,
            remote: &resolved,
            cached: origin.cached(),
            parse: &|bytes| origin.parse(bytes, &shown),
            fetch: if remote.is_some() { Some(&mut fetch) } else { None },
        };
        let stall_timeout = Duration::from_secs_f64(self.config.stall_timeout);
        let installed = source.install(&self.network.clock, WaitPolicy::new(&|| false, stall_timeout))?;
        let address = remote.as_ref().map(|_| name.to_owned());
        let remote = remote.filter(|_| files.is_none());
        let is_hashed = |shard: &Shard| shard.files().all(|pair| pair.stored().hashes.algos().next().is_some());
        let has_hashes = installed.index.shards.iter().all(is_hashed);
        if let (Some(_), Some(remote)) = (&installed.other_remote, &remote) {
            if !has_hashes && !has_same_shard(&installed.index, &folder, remote)? {
                return Err(stale(&folder.join(INDEX_BASENAME), &resolved));
            }
            record_remote(&folder, &resolved);
        }
        if let Some(why) = installed.unchecked {
            self.stats.note(format!("the cached index of {shown} is used unchecked: {why}"));
        }
        let digest = HashAlgo::Xxh3_64.hex(&origin.identity(&installed.index, &installed.bytes));
        Ok(IndexedStream {
            name: shown.into_owned(),
            cache: StreamCacheConfig {
                dir: folder,
                files,
                shards: Arc::new(ShardSet::new(Arc::new(installed.index))),
                has_remote: remote.is_some(),
                remote: remote.as_ref().filter(|_| !has_hashes).map(|_| resolved),
                keep_zip: stream.keep_zip.unwrap_or(self.config.keep_zip),
                clock: self.network.clock.clone(),
                ..StreamCacheConfig::default()
            },
            address,
            remote,
            index_bytes: installed.bytes.len() as u64,
            digest,
            version: origin.version(),
            validate_hash,
            download_retry: stream.download_retry.unwrap_or(self.config.download_retry),
            selection: None,
        })
    }
}

/// Places of a stream's index and shards.
pub(super) struct Place<'a> {
    /// Name of the remote, with secrets.
    pub(super) name: &'a str,
    /// Folder of the index, and of the shards if they are not read in place.
    pub(super) folder: PathBuf,
    /// Folder of the shards that are read in place.
    pub(super) files: Option<PathBuf>,
    /// Remote of the index, and of shards that are not read in place.
    pub(super) remote: Option<Remote>,
}

/// Adds the change that is needed to the error of the address `name`, at which no data set was found, unless the store has a more
/// precise one.
fn advised(e: Error, name: &str) -> Error {
    if e.has_hint_of_store() || !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) {
        return e;
    }
    let of_files = || local_folder(name).and_then(|folder| advice_for_files(&first_names(&folder, NAMES_SEEN).ok()?));
    e.hinting_if(advice_for(name).or_else(of_files))
}

/// Returns the error for a remote folder on this machine that has no index.
fn no_index(folder: &Path) -> Error {
    let message = if folder.is_dir() {
        format!("the folder that `remote` and `split` name has no index.json: {}", describe_folder(folder))
    } else if folder.exists() {
        "`remote` names a file of a kind that is not read".to_owned()
    } else {
        "the folder that `remote` and `split` name does not exist".to_owned()
    };
    Error::new(ErrorKind::NotFound, message).with("folder", folder.display())
}

/// Returns true if a shard in `folder`, which belongs to another remote with the same index, equals that of `remote`, or
/// if there is none.
fn has_same_shard(index: &Index, folder: &Path, remote: &Remote) -> Result<bool> {
    let on_disk = index.shards.iter().find_map(|shard| {
        let bytes = std::fs::read(folder.join(&*shard.raw_data.basename)).ok()?;
        (bytes.len() as u64 == shard.raw_data.bytes).then_some((shard, bytes))
    });
    let Some((shard, cached)) = on_disk else { return Ok(true) };
    let stored = shard.zip_data.as_ref().unwrap_or(&shard.raw_data);
    let limit = usize::try_from(stored.bytes).unwrap_or(usize::MAX);
    let mut fetched = remote.get_small(&stored.basename, limit)?.0;
    if let (Some(compression), Some(_)) = (shard.compression, &shard.zip_data) {
        let packed = std::mem::take(&mut fetched);
        compression.decompress(&packed, shard.raw_data.bytes, &mut fetched)?;
    }
    Ok(fetched == cached)
}

/// Returns `stream` with absolute paths: the working directory may change while the loader lives, and the default cache
/// folder follows from the name of the remote.
pub(super) fn absolute(stream: &StreamConfig) -> StreamConfig {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let mut stream = stream.clone();
    stream.local = stream.local.map(absolute);
    if let Some(remote) = stream.remote.as_mut().filter(|remote| !is_url(remote))
        && let Some(folder) = local_folder(remote)
        && let Ok(name) = absolute(folder).into_os_string().into_string()
    {
        *remote = name;
    }
    stream
}

/// Rejects streams of which one would take the other's shards for its own: both in one folder, at least one of them with
/// a remote. Folders that follow from the remotes differ if the remotes do.
fn check_folders(streams: &[StreamConfig]) -> Result<()> {
    let mut known: HashMap<PathBuf, usize> = HashMap::new();
    for (number, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.local.is_some()) {
        let folder = resolve(&cache_folder(stream, "")?);
        let Some(other) = known.insert(folder.clone(), number) else { continue };
        if stream.remote.is_none() && streams[other].remote.is_none() {
            continue;
        }
        let name =
            |number: usize| format!("{number} ({})", redact(streams[number].remote.as_deref().unwrap_or("local")));
        let message = "two streams have one `local` folder, where the shards of one would be taken for those of the \
                       other: give each stream its own";
        return Err(Error::config(message)
            .with("folder", folder.display())
            .with("stream", name(other))
            .with("stream", name(number)));
    }
    Ok(())
}

/// Returns `path` without symbolic links and `..`. The part that does not exist has no links.
fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|folder| Some((folder, std::fs::canonicalize(folder).ok()?)));
    let Some((folder, mut resolved)) = found else { return path };
    for part in path.strip_prefix(folder).unwrap_or(&path).components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}

/// Returns the name of the folder that `stream` names, with its split.
pub(super) fn name_of(stream: &StreamConfig) -> String {
    let split = stream.split.as_deref().unwrap_or("");
    match &stream.remote {
        Some(remote) => join(remote, split),
        None => join(&stream.local.as_deref().unwrap_or(Path::new("")).display().to_string(), split),
    }
}

/// Returns the folder for the index and shards of `stream`, whose remote with its split is called `name`.
pub(super) fn cache_folder(stream: &StreamConfig, name: &str) -> Result<PathBuf> {
    let root = match &stream.local {
        Some(local) => local.clone(),
        None => default_local(name)?,
    };
    Ok(root.join(stream.split.as_deref().unwrap_or("").trim_matches('/')))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorldConfig;

    /// Settings of the stores of a rank of a machine of 64 CPUs.
    fn store_config(rank: u32, local_world_size: u32, fetch_threads: Option<u32>) -> StoreConfig {
        let world = WorldConfig { rank, local_rank: rank, world_size: local_world_size, local_world_size };
        let config = LoaderConfig { world, fetch_threads, ..LoaderConfig::default() };
        let (stats, topology) = (Arc::new(Stats::new(false)), Topology::synthetic(&["0-31", "32-63"]));
        let (network, stores, outside) = (&Simulation::default(), StoreSet::default(), None);
        let opener = Opener {
            config: &config,
            stats: &stats,
            topology: &topology,
            network,
            outside,
            stores,
            is_verified: false,
        };
        opener.store_config(&StreamConfig::default())
    }

    #[test]
    fn the_ranks_of_a_machine_share_its_network_among_their_requests() {
        let most = |ranks| store_config(0, ranks, None).parts_in_flight_max;
        assert_eq!([1, 2, 8, 64].map(most), [128, 64, 16, 16]);
    }

    #[test]
    fn ranks_that_fail_together_do_not_retry_together() {
        let seeds = [0, 1, 2].map(|rank| store_config(rank, 8, None).seed);
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    }

    #[test]
    fn the_ranks_of_a_machine_share_its_cpus_among_their_fetch_threads() {
        let threads = |ranks, fetch_threads| store_config(0, ranks, fetch_threads).fetch_threads;
        assert_eq!(threads(1, None), 16, "one per 4 CPUs");
        assert_eq!(threads(8, None), 2, "one per 4 CPUs of this rank");
        assert_eq!(threads(64, None), 1, "at least one");
        assert_eq!(threads(8, Some(5)), 5, "a user's number is not divided");
    }
}
