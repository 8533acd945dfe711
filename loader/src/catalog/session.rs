//! Facts that are common to all streams of a loader while they are opened: the configuration and the stores.

use super::store_set::StoreSet;
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::Result;
use crate::stats::Stats;
use crate::store::{Destination, LibraryStores, Remote, Simulation, StoreConfig, ThreadStart};
use crate::sync::{Arc, Mutex};
use crate::topology::{CpuSet, Topology, affinity};
use crate::versions::Versions;
use std::collections::HashMap;
use std::time::Duration;

/// Opening of a loader's streams.
pub(crate) struct Session<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Arc<Stats>,
    topology: &'a Topology,
    pub(super) network: &'a Simulation,
    library: Option<LibraryStores>,
    stores: StoreSet,
    /// Versions of the files of each folder, by its address.
    versions: Mutex<HashMap<String, Arc<Versions>>>,
    /// Kept indexes are used, however the files have changed.
    pub(super) is_verified: bool,
}

impl<'a> Session<'a> {
    /// Returns the session for the streams of `config`; `library` serves the remotes of schemes that the engine does
    /// not have.
    pub(crate) fn new(
        config: &'a LoaderConfig,
        stats: &'a Arc<Stats>,
        topology: &'a Topology,
        network: &'a Simulation,
        library: Option<LibraryStores>,
    ) -> Self {
        let (stores, versions) = (StoreSet::default(), Mutex::default());
        Self { config, stats, topology, network, library, stores, versions, is_verified: false }
    }

    /// Returns the session for a comparison of files with their kept indexes, which are used however the files have
    /// changed.
    pub(crate) fn verifying(self) -> Self {
        Self { is_verified: true, ..self }
    }

    /// Opens the folder `name` for reads.
    ///
    /// # Errors
    ///
    /// As [`StoreSet::open`].
    pub(super) fn remote(&self, stream: &StreamConfig, name: &str) -> Result<Remote> {
        let remote = self.stores.open(name, self.store_config(stream), self.stats, &self.network.clock)?;
        Ok(if self.is_verified { remote } else { remote.comparing(self.versions(name)) })
    }

    /// Versions of the files in the folder `name`, which are compared while the loader exists.
    pub(super) fn versions(&self, name: &str) -> Arc<Versions> {
        self.versions.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Opens the folder `name` for listings.
    ///
    /// # Errors
    ///
    /// As [`StoreSet::open_destination`].
    pub(super) fn destination(&self, stream: &StreamConfig, name: &str) -> Result<Destination> {
        self.stores.open_destination(name, self.store_config(stream), self.stats, &self.network.clock)
    }

    /// Store settings for `stream`.
    fn store_config(&self, stream: &StreamConfig) -> StoreConfig {
        let (world, fetch_threads) = (self.config.world, self.config.fetch_threads_on(self.topology));
        let fetch = self.config.fetch_of(stream);
        StoreConfig {
            fetch_threads,
            parts_in_flight_max: self.network.store.parts_in_flight_max_of(world.local_world_size as usize),
            download_retry: fetch.retry,
            download_timeout: Duration::from_secs_f64(fetch.timeout),
            stall_timeout: Duration::from_secs_f64(self.config.engine.stall_timeout),
            // Ranks that fail together have different pauses before the next attempt.
            seed: self.config.seed ^ (u64::from(world.rank) << 40),
            ca_file: self.config.engine.ca_file.clone(),
            library: self.library.clone(),
            on_thread_start: Some(self.thread_binder(fetch_threads)),
            ..self.network.store.clone()
        }
    }

    /// Most bytes of an index of a known length that is fetched: it is in memory together with its shards.
    pub(super) fn index_bytes_max(&self) -> u64 {
        self.topology.memory_limit_bytes() / 4
    }

    /// Returns a function that binds the fetch threads to NUMA nodes, evenly.
    fn thread_binder(&self, fetch_threads: usize) -> ThreadStart {
        let world = self.config.world;
        let homes = self.topology.spread(fetch_threads, world.local_rank as usize, world.local_world_size as usize);
        let cpus: Vec<Option<CpuSet>> = homes.into_iter().map(|home| self.topology.pin_set(home)).collect();
        let stats = self.stats.clone();
        Arc::new(move |thread| affinity::pin_thread_or_note(cpus[thread].as_ref(), |why| stats.note(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EngineConfig, WorldConfig};

    /// Settings of the stores of a rank of a machine of 64 CPUs.
    fn store_config(rank: u32, local_world_size: u32, fetch_threads: Option<u32>) -> StoreConfig {
        let world = WorldConfig { rank, local_rank: rank, world_size: local_world_size, local_world_size };
        let engine = EngineConfig { fetch_threads, ..EngineConfig::default() };
        let config = LoaderConfig { world, engine, ..LoaderConfig::default() };
        let (stats, topology) = (Arc::new(Stats::new(false)), Topology::synthetic(&["0-31", "32-63"]));
        let network = Simulation::default();
        Session::new(&config, &stats, &topology, &network, None).store_config(&StreamConfig::default())
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
