//! Shards of a catalogue: on local disk, or fetched there.

use super::ShardSource;
use super::fetch::Downloads;
use crate::cache::{self, Admit, Admitted, Claim, Claimed, Patience, PublishFile, ShardState};
use crate::catalog::{Catalog, Stream};
use crate::error::{Context, Error, Result};
use crate::format::{FilePair, Shard};
use crate::memory::Budget;
use crate::order::{EpochPlan, Rank, ShardId, World};
use crate::pipeline::epoch::Shared;
use crate::stats::{Counter, Spent, Stats};
use crate::sync::{Arc, AtomicU64, OnceLock, Ordering};
use std::borrow::Cow;
use std::time::Duration;

/// Bytes of shards in memory on their way to disk, compressed and unpacked together: a few shards of the usual 64 MiB.
const IN_MEMORY_BYTES: u64 = 512 << 20;

/// Longest time between two looks for room.
const ROOM_LOOK_EVERY: Duration = Duration::from_millis(250);

/// The shard plane's view of one epoch.
pub(crate) struct CachedShards {
    catalog: Arc<Catalog>,
    downloads: Downloads,
    budget: Budget,
    /// When this rank uses each shard: worked out when the first shard has to go.
    uses: OnceLock<Uses>,
    plan: EpochPlan,
    world: World,
    rank: Rank,
    stats: Arc<Stats>,
    /// Shards this process has evicted, and how many of them `want_evicted` has seen.
    evicted: Arc<Counter>,
    evicted_seen: AtomicU64,
    /// How long to wait for another process.
    patience: Duration,
}

impl std::fmt::Debug for CachedShards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedShards").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// One file on its way: its raw bytes and, if it is kept, its compressed ones.
struct Unpacked<'a> {
    pair: FilePair<'a>,
    raw: Cow<'a, [u8]>,
    zip: Option<Cow<'a, [u8]>>,
}

impl CachedShards {
    /// The shards of `catalog` in the epoch of `plan`, as `rank` uses them.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        plan: EpochPlan,
        rank: Rank,
        stats: Arc<Stats>,
        patience: Duration,
    ) -> Self {
        let budget = Budget::new(IN_MEMORY_BYTES.max(catalog.shard_bytes_max()));
        let evicted = stats.counter("cache_evicted");
        Self {
            downloads: Downloads::default(),
            budget,
            uses: OnceLock::new(),
            world: plan.world(),
            plan,
            rank,
            evicted_seen: AtomicU64::new(evicted.get()),
            evicted,
            stats,
            patience,
            catalog,
        }
    }

    /// When this rank uses `shard` next: exactly for announced samples, by the plan's span for those further away.
    fn next_use(&self, shard: ShardId, shared: &Shared) -> Option<u64> {
        if let Some(position) = shared.residency.next_read(shard) {
            return Some(position);
        }
        let announced = shared.residency.announced();
        let uses = self.uses.get_or_init(|| Uses::of(&self.plan, self.world, self.rank));
        uses.next(shard, announced)
    }

    /// Waits for room on disk: as long as it takes, since what is in the way goes when the consumer has taken it.
    ///
    /// The shard with the earliest use always gets on: what was fetched for later samples gives way to it, read or not,
    /// and is fetched again. Without that, shards for later samples could fill the limit while an earlier one waits.
    fn admit(&self, id: ShardId, mut claimed: Claimed, shared: &Shared) -> Result<Admitted> {
        let position = shared.residency.next_read(id).unwrap_or(0);
        let next_use = |shard: u32| self.next_use(ShardId(shard), shared);
        loop {
            // Descriptors hold the bytes of evicted shards, so the table lets go of them before more is asked for.
            shared.open.close_evicted();
            match claimed.try_admit(&next_use)? {
                Admit::Admitted(admitted) => {
                    self.want_evicted(shared);
                    return Ok(admitted);
                }
                Admit::Wait(back) => claimed = back,
            }
            shared.run.check()?;
            for (shard, next, _) in shared.residency.unread() {
                if next > position {
                    self.first_read(shard);
                }
            }
            shared.residency.wait_idle(ROOM_LOOK_EVERY);
        }
    }

    /// Asks again for shards that had to go although announced samples need them.
    fn want_evicted(&self, shared: &Shared) {
        let evicted = self.evicted.get();
        if self.evicted_seen.swap(evicted, Ordering::Relaxed) == evicted {
            return;
        }
        for (shard, _, resident) in shared.residency.unread() {
            let (stream, local) = self.catalog.locate(shard);
            if resident && stream.dir.state(local) == ShardState::Absent {
                shared.residency.lost(shard);
            }
        }
    }

    /// Fetches and unpacks every file of a claimed shard.
    fn bring<'a>(
        &self,
        stream: &Stream,
        shard: &'a Shard,
        claimed: &Claimed,
        shared: &Shared,
    ) -> Result<Vec<Unpacked<'a>>> {
        let packed = claimed.packed();
        let mut files = Vec::new();
        // The cache lists the data file first, the index the meta file.
        for (i, pair) in shard.files().collect::<Vec<_>>().into_iter().rev().enumerate() {
            let stored: Cow<'_, [u8]> = match (&packed, &stream.remote) {
                (Some(paths), _) => {
                    let read = std::fs::read(&paths[i]);
                    read.map_err(|e| {
                        Error::from_io(e, "a compressed shard cannot be read").with("file", paths[i].display())
                    })?
                    .into()
                }
                (None, Some(remote)) => {
                    let fetch = self.stats.stage("fetch");
                    let file = pair.stored();
                    let buffer =
                        fetch.timed(Spent::Busy, || self.downloads.fetch(stream, remote, file, &shared.run))?;
                    fetch.done(1, file.bytes);
                    Cow::Owned(buffer.into())
                }
                (None, None) => return Err(Error::internal("a shard without remote was claimed")),
            };
            files.push(self.unpack(shard, pair, stored)?);
        }
        Ok(files)
    }

    fn unpack<'a>(&self, shard: &Shard, pair: FilePair<'a>, stored: Cow<'a, [u8]>) -> Result<Unpacked<'a>> {
        let (Some(compression), Some(zip)) = (shard.compression, pair.zip) else {
            return Ok(Unpacked { pair, raw: stored, zip: None });
        };
        let unpack = self.stats.stage("unpack");
        let mut raw = Vec::new();
        unpack
            .timed(Spent::Busy, || compression.decompress(&stored, pair.raw.bytes, &mut raw))
            .context("file", || &zip.basename)?;
        unpack.done(1, pair.raw.bytes);
        Ok(Unpacked { pair, raw: raw.into(), zip: Some(stored) })
    }
}

impl ShardSource for CachedShards {
    fn make_resident(&self, id: ShardId, shared: &Shared) -> Result<()> {
        let (stream, local) = self.catalog.locate(id);
        let shard = &stream.shards[local as usize];
        let stopped = || shared.run.is_stopped();
        let patience = Patience::new(&stopped, self.patience);
        let claimed = match stream.dir.claim(local, patience)? {
            Claim::Resident => return Ok(()),
            Claim::Mine(claimed) => claimed,
            Claim::Busy => return Err(Error::internal("a claim that waits was answered with busy")),
        };
        // Memory first, then disk: whoever holds disk room holds it for the length of one download only.
        let _memory = self.budget.reserve(shard.raw_bytes() + shard.zip_bytes().unwrap_or(0))?;
        let files = self.bring(stream, shard, &claimed, shared)?;
        let admitted = self.admit(id, claimed, shared)?;
        let publish = self.stats.stage("publish");
        let mut list = Vec::new();
        for file in &files {
            list.push(PublishFile::new(&file.pair.raw.basename, &file.raw));
            if let (Some(zip), Some(info)) = (&file.zip, file.pair.zip) {
                list.push(PublishFile::new(&info.basename, zip));
            }
        }
        publish.timed(Spent::Busy, || admitted.publish(&list))?;
        publish.done(1, shard.raw_bytes());
        Ok(())
    }

    fn open(&self, shard: ShardId) -> Result<Option<Arc<cache::OpenShard>>> {
        let (stream, local) = self.catalog.locate(shard);
        stream.dir.open_shard(local)
    }

    fn first_read(&self, shard: ShardId) {
        let (stream, local) = self.catalog.locate(shard);
        stream.dir.mark_read(local);
    }

    fn describe(&self, error: Error, shard: ShardId) -> Error {
        let (stream, local) = self.catalog.locate(shard);
        error.with("shard", &stream.shards[local as usize].raw_data.basename).with("stream", &stream.name)
    }

    fn awaited(&self, shard: ShardId) -> String {
        let (stream, local) = self.catalog.locate(shard);
        let entry = &stream.shards[local as usize];
        let download = entry.files().find_map(|pair| self.downloads.describe(&pair.stored().basename));
        let what = download.unwrap_or_else(|| format!("{} is wanted", entry.raw_data.basename));
        format!("{what} (stream {})", stream.name)
    }

    fn stop(&self) {
        self.budget.close();
        for stream in self.catalog.streams() {
            stream.dir.wake();
        }
    }
}

impl Drop for CachedShards {
    fn drop(&mut self) {
        for stream in self.catalog.streams() {
            stream.dir.mark_all_read();
        }
    }
}

/// When a rank uses each shard, in positions of its own samples: shard, first and last, sorted. A shard may be used more
/// than once.
struct Uses(Vec<(ShardId, u64, u64)>);

impl Uses {
    /// The uses of `rank`, from its node's: a node's positions are dealt to its ranks in turn.
    fn of(plan: &EpochPlan, world: World, rank: Rank) -> Self {
        let ranks = u64::from(world.ranks_per_node);
        let uses = plan.shard_uses(world.node_of(rank));
        let mut uses: Vec<_> = uses.iter().map(|u| (u.shard, u.first / ranks, u.last / ranks)).collect();
        uses.sort_unstable();
        Self(uses)
    }

    /// The first position from `from` on at which `shard` is used.
    fn next(&self, shard: ShardId, from: u64) -> Option<u64> {
        let start = self.0.partition_point(|u| u.0 < shard);
        let uses = self.0[start..].iter().take_while(|u| u.0 == shard);
        uses.filter(|u| u.2 >= from).map(|u| u.1.max(from)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_use_of_a_shard_is_the_first_that_is_not_over() {
        let uses = Uses(vec![(ShardId(1), 5, 9), (ShardId(1), 40, 50), (ShardId(2), 0, 3)]);
        assert_eq!(uses.next(ShardId(1), 0), Some(5));
        assert_eq!(uses.next(ShardId(1), 7), Some(7));
        assert_eq!(uses.next(ShardId(1), 10), Some(40));
        assert_eq!((uses.next(ShardId(1), 51), uses.next(ShardId(2), 4), uses.next(ShardId(0), 0)), (None, None, None));
    }
}
