//! The shard plane: large, sequential, rare. Makes shards resident in the order of their first use.
//!
//! A few threads each take the wanted shard that is needed first and see it through: claim, room, fetch, unpack,
//! publish. They hold no sample slots, and whoever waits for a shard holds none either, so the two planes cannot wait
//! for each other.
//!
//! * [`ShardSource`] is the seam: what the sample plane needs of the shard plane;
//! * `cached` is the one behind a [`Catalog`](crate::catalog::Catalog): cache directories in front of stores;
//! * `bring` turns what lies in the store into files that can be published; `fetch` gets the bytes and compares hashes;
//! * `uses` says when a shard is needed next, in this epoch and the one after it: what eviction goes by;
//! * `activity` knows what is being done about each shard in hand, for the report of a stall.

mod bring;
mod fetch;
mod next_use;
pub(crate) mod open_shards;
pub(crate) mod residency;
mod source;
mod status;

pub(crate) use bring::{FetchEvent, ShardFetch};
pub(crate) use fetch::Origin;
pub(crate) use source::{CachedShards, NextPlan};

use super::epoch::Shared;
use crate::cache;
use crate::error::{Error, Result};
use crate::order::ShardId;
use crate::stats::TimeKind;
use crate::sync::Arc;
use std::fmt::Debug;

/// Brings shards to local disk and opens them.
pub(crate) trait ShardSource: Send + Sync + Debug {
    /// Returns once `shard` is on local disk, fetching it if it has to, or has given way to another one. On disk, it
    /// stays until [`first_read`](Self::first_read).
    fn make_resident(&self, shard: ShardId, shared: &Shared) -> Result<Outcome>;

    /// The descriptors of `shard`; `None` when it is not on disk any more.
    fn open(&self, shard: ShardId) -> Result<Option<Arc<cache::OpenShard>>>;

    /// The sample that `shard` was made resident for has been read.
    fn first_read(&self, shard: ShardId);

    /// Tells other loaders and processes when our consumer is stuck for want of room, or of a shard that they have claimed;
    /// and when theirs is, lets go of shards that are kept for samples which wait for our consumer. Without that, one rank could fill the cache with what it needs later and wait for the others' step, while
    /// another rank waits for room for what it needs now.
    fn share_room(&self, shared: &Shared);

    /// What an error about `shard` should name: the shard's file and its stream.
    fn describe(&self, error: Error, shard: ShardId) -> Error;

    /// What is being done about `shard`, for the report of a stall: key, attempt, bytes so far.
    fn awaited(&self, shard: ShardId) -> String;

    /// The run has ended: whoever waits in here returns.
    fn stop(&self);

    /// The run's threads have gone: nothing is kept for its samples any more. The next run begins after this.
    fn ended(&self);
}

/// What became of the wish to have a shard on local disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is there.
    Resident,
    /// It is wanted again, and the thread goes on with this shard, which is needed earlier.
    GaveWay(ShardId),
}

/// One thread of the shard plane: until the run stops, takes the wanted shard with the earliest use and sees it through.
pub(crate) fn run(shared: &Shared) -> Result<()> {
    let stage = shared.stats.stage("shard");
    let mut in_exchange = None;
    let next_wanted = || stage.timed(TimeKind::Input, || shared.residency.next_wanted()).map(|(_, shard)| shard);
    while let Some(shard) = in_exchange.take().or_else(next_wanted) {
        let outcome = stage
            .timed(TimeKind::Busy, || shared.source.make_resident(shard, shared))
            .map_err(|e| shared.source.describe(e, shard))?;
        if let Outcome::GaveWay(earlier) = outcome {
            in_exchange = Some(earlier);
            continue;
        }
        stage.done(1, 0);
        shared.run.advance();
        for chunk in shared.residency.resident(shard) {
            shared.send(chunk);
        }
        if shared.residency.next_read(shard).is_none() {
            // Its samples were read meanwhile, from a copy that had been evicted: nobody else says that it may go.
            shared.source.first_read(shard);
        }
    }
    Ok(())
}
