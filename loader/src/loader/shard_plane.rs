//! Size of the shard plane.

use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::pipeline::ShardPlane;
use crate::store::StoreConfig;
use crate::topology::Topology;

/// Fewest shards in work: one is unpacked and written while others arrive.
const WORK_MIN: usize = 2;

/// Most shards in flight that are added for the fetch threads.
const FETCHES_MAX: usize = 64;

/// Threads for shards that wait for the next attempt of a download.
const WAITING_MAX: usize = 32;

/// Returns the threads and places for a loader with `threads` decode threads.
///
/// The fetch threads have places for parts of shards, which are taken in order, so bandwidth and latency decide how many
/// of them are in use. Shards in flight are as many as fill those places. Under a cache limit they are few, since each
/// needs room on disk next.
pub(super) fn of(config: &LoaderConfig, catalog: &Catalog, topology: &Topology, threads: usize) -> ShardPlane {
    let work = WORK_MIN.max(threads.div_ceil(4));
    if catalog.streams().iter().all(|stream| stream.remote.is_none()) {
        return ShardPlane { threads: work, places: work, work };
    }
    let fetches = match config.cache_limit {
        Some(_) => 0,
        None => {
            let local_ranks = config.world.local_world_size as usize;
            let fetch_threads =
                config.fetch_threads.map_or(topology.fetch_threads_default(local_ranks), |n| n as usize);
            let shard_bytes = catalog.raw_bytes() / (catalog.shape().num_shards() as u64).max(1);
            shards_of_parts(fetch_threads, shard_bytes)
        }
    };
    ShardPlane { threads: work + fetches + WAITING_MAX, places: work + fetches, work }
}

/// Returns the number of shards of `shard_bytes` that fill the places of `fetch_threads`.
fn shards_of_parts(fetch_threads: usize, shard_bytes: u64) -> usize {
    let store = StoreConfig::default();
    let parts_of_shard = shard_bytes.div_ceil(store.part_bytes as u64).max(1);
    let parts = fetch_threads.saturating_mul(store.parts_in_flight) as u64;
    (parts.div_ceil(parts_of_shard) as usize).min(FETCHES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_in_flight_follow_from_fetch_threads_and_size() {
        assert_eq!(shards_of_parts(1, 100 << 10), 8);
        assert_eq!(shards_of_parts(4, 100 << 10), 32);
        assert_eq!(shards_of_parts(1, 64 << 20), 1);
        assert_eq!(shards_of_parts(4, 64 << 20), 4);
        assert_eq!(shards_of_parts(usize::MAX, 0), FETCHES_MAX);
    }
}
