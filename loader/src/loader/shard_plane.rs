//! Size of the shard plane.

use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::pipeline::ShardPlane;
use crate::store::StoreConfig;
use crate::topology::Topology;

/// Fewest shards in work: one is unpacked and written while the rest arrive.
const WORK_MIN: usize = 2;

/// Most shards in flight that are added for the fetch threads.
const FETCHES_MAX: usize = 64;

/// Threads for shards that wait for the next attempt of a download.
const WAITING_MAX: usize = 32;

/// Part of the node's memory that shards in flight may take.
const MEMORY_SHARE: u64 = 32;

/// Part of the cache limit that may be in flight in memory: each of these shards needs room on disk next, and for it
/// a different one is evicted.
const LIMIT_SHARE: u64 = 8;

/// Returns the threads and slots for a loader with `threads` decode threads.
///
/// Shards in flight are as many as the fetch threads can have requests for, within a share of the node's memory. The
/// number of requests follows from the bandwidth and latency that they find (`store::flight`), and the shard that is
/// needed first has its requests first. Under a cache limit, shards in flight are few.
pub(super) fn of(config: &LoaderConfig, catalog: &Catalog, topology: &Topology, threads: usize) -> ShardPlane {
    let work = WORK_MIN.max(threads.div_ceil(4));
    if catalog.streams().iter().all(|stream| stream.remote.is_none()) {
        return ShardPlane { threads: work, permits: work, work };
    }
    let local_ranks = u64::from(config.world.local_world_size.max(1));
    let shard_bytes = (catalog.raw_bytes() / (catalog.shape().num_shards() as u64).max(1)).max(1);
    let on_disk = catalog.streams().iter().map(|stream| stream.dir.blocks().of_file(shard_bytes)).max().unwrap_or(1);
    let within_limit = config.cache_limit.map_or(u64::MAX, |limit| limit / on_disk / LIMIT_SHARE / local_ranks);
    let memory_bytes = topology.memory_limit_bytes() / MEMORY_SHARE / local_ranks;
    let parts = StoreConfig::default().parts_in_flight_max_of(config.world.local_world_size as usize);
    let parts = config.fetch_threads_on(topology).saturating_mul(parts);
    let fetches =
        shards_of_parts(parts, shard_bytes, memory_bytes).min(usize::try_from(within_limit).unwrap_or(usize::MAX));
    ShardPlane { threads: work + fetches + WAITING_MAX, permits: work + fetches, work }
}

/// Returns the number of shards of `shard_bytes` that have `parts` parts, in `memory_bytes` bytes.
fn shards_of_parts(parts: usize, shard_bytes: u64, memory_bytes: u64) -> usize {
    let shards = (parts as u64).div_ceil(shard_bytes.div_ceil(StoreConfig::default().part_bytes as u64));
    (shards.min((memory_bytes / shard_bytes).max(1)) as usize).min(FETCHES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_in_flight_follow_from_their_size_and_the_parts_in_flight() {
        assert_eq!(shards_of_parts(128, 100 << 10, u64::MAX), 64);
        assert_eq!(shards_of_parts(128, 8 << 20, u64::MAX), 64);
        assert_eq!(shards_of_parts(128, 64 << 20, u64::MAX), 16);
        assert_eq!(shards_of_parts(384, 64 << 20, u64::MAX), 48);
        assert_eq!(shards_of_parts(128, 60 << 30, u64::MAX), 1);
        assert_eq!(shards_of_parts(usize::MAX, 1, u64::MAX), FETCHES_MAX);
    }

    #[test]
    fn shards_in_flight_have_a_share_of_the_memory() {
        assert_eq!(shards_of_parts(512, 64 << 20, 768 << 20), 12);
        assert_eq!(shards_of_parts(512, 64 << 20, 1), 1);
    }
}
