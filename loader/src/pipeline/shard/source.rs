//! Shards of a catalogue: on local disk, or fetched there.

use super::bring::{FetchEvent, ShardFetch};
use super::fetch::Origin;
use super::next_use::NextUses;
use super::status::{ShardStatus, ShardStatuses, Step};
use super::{Outcome, ShardSource};
use crate::cache::{self, Admission, AdmitOutcome, ClaimOutcome, ResidencyGuard, ShardClaim, ShardState, WaitPolicy};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::memory::Budget;
use crate::order::{EpochPlan, Rank, ShardId};
use crate::pipeline::epoch::Shared;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use std::collections::HashMap;
use std::time::Duration;

/// Bytes of shards in memory on their way to disk, compressed and unpacked together: a few shards of the usual 64 MiB.
const IN_MEMORY_BYTES: u64 = 512 << 20;

/// Longest time between two looks for room.
const ROOM_LOOK_EVERY: Duration = Duration::from_millis(250);

/// Makes the plan of the epoch after the one under way.
pub(crate) type NextPlan = Box<dyn Fn() -> Result<EpochPlan> + Send + Sync>;

/// The shard plane's view of one epoch.
pub(crate) struct CachedShards {
    catalog: Arc<Catalog>,
    activity: ShardStatuses,
    budget: Budget,
    /// When this rank uses each shard, in this epoch and the next: worked out when the first shard may have to go.
    uses: OnceLock<NextUses>,
    plan: EpochPlan,
    next_plan: NextPlan,
    rank: Rank,
    stats: Arc<Stats>,
    /// Shards this process has evicted, and how many of them `want_evicted` has seen.
    evicted: Arc<Counter>,
    evicted_seen: AtomicU64,
    stuck: Mutex<Stuck>,
    /// Keep shards on disk until their first read.
    guards: Mutex<HashMap<ShardId, ResidencyGuard>>,
}

impl std::fmt::Debug for CachedShards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedShards").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// Looks of the read thread, 250 ms apart, after which a consumer that waits is taken for stuck. Whoever downloads what it
/// waits for shows progress every second.
const STUCK_LOOKS: u32 = 8;

/// How long our consumer has waited for what others have.
#[derive(Debug, Default)]
struct Stuck {
    /// Progress of the run at the last look, and looks since it moved.
    progress: u64,
    looks: u32,
    /// Tells others, once it is taken for stuck.
    needed: Option<cache::RoomRequest>,
}

/// The answer to a wish for room.
enum Room {
    Made(Admission),
    /// Another loader's consumer needs the room, or this very shard, more than we who fetch ahead; or a shard of ours
    /// that is needed earlier waits for the memory that this one holds.
    Postponed,
    /// A shard that is needed earlier is to be made resident instead.
    GivenTo(ShardId),
}

impl CachedShards {
    /// The shards of `catalog` in the epoch of `plan`, as `rank` uses them; `next_plan` is asked for when shards have to
    /// go.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        plan: EpochPlan,
        next_plan: NextPlan,
        rank: Rank,
        stats: Arc<Stats>,
    ) -> Self {
        let budget = Budget::new(IN_MEMORY_BYTES.max(catalog.shard_bytes_max()));
        let evicted = stats.counter("cache_evicted");
        Self {
            activity: ShardStatuses::default(),
            budget,
            uses: OnceLock::new(),
            plan,
            next_plan,
            rank,
            evicted_seen: AtomicU64::new(evicted.get()),
            evicted,
            stuck: Mutex::default(),
            guards: Mutex::default(),
            stats,
            catalog,
        }
    }

    /// When this rank uses `shard` next: exactly for announced samples, by the plan's span for those further away.
    fn next_use(&self, shard: ShardId, shared: &Shared) -> Option<u64> {
        // In this order: samples that are announced between the two looks are then found by one of them.
        let announced = shared.residency.announced();
        shared.residency.next_read(shard).or_else(|| self.uses().next(shard, announced))
    }

    fn uses(&self) -> &NextUses {
        self.uses.get_or_init(|| {
            let next = (self.next_plan)().inspect_err(|e| {
                self.stats.note(format!("what the next epoch uses is no part of which shards go: {e}"));
            });
            NextUses::of(&self.plan, next.ok().as_ref(), self.rank)
        })
    }

    /// Waits for room on disk: as long as it takes, since what is in the way goes when the consumer has taken it.
    ///
    /// The shard with the earliest use always gets on. What was fetched for later samples gives way to it, read or not,
    /// and is fetched again; without that, shards for later samples could fill the limit while an earlier one waits.
    /// That holds between processes too: they are told, and [share](ShardSource::share_room).
    /// And when a shard with an earlier use is wanted while this one waits (another process has evicted it), this one
    /// goes back into the queue; without that, every thread could wait for room for later shards and none would be
    /// left for it. For the same reason this one lets go of its memory when an earlier one, in another thread's hands,
    /// waits for that.
    fn admit(&self, id: ShardId, mut claim: ShardClaim, in_hand: &ShardStatus<'_>, shared: &Shared) -> Result<Room> {
        let next_use = |shard: u32| self.next_use(ShardId(shard), shared);
        let (stream, _) = self.catalog.locate(id);
        if stream.dir.is_limited() {
            // Planned before, so that other processes need not wait for it while we make room.
            self.uses();
        }
        loop {
            // Descriptors hold the bytes of evicted shards: they go before another shard does.
            if self.catalog.streams().iter().any(|stream| stream.dir.evicted_open_bytes() > 0) {
                shared.open.close_evicted();
            }
            match claim.try_admit(&next_use)? {
                AdmitOutcome::Admitted(admission) => {
                    self.want_evicted(shared);
                    return Ok(Room::Made(admission));
                }
                AdmitOutcome::Wait { claim: waiting, reason } => {
                    claim = waiting;
                    in_hand.at(Step::Room(reason));
                }
            }
            shared.run.check()?;
            self.want_evicted(shared);
            // It moves while we wait: samples may still be read from a copy that was evicted.
            let position = shared.residency.next_read(id).unwrap_or(u64::MAX);
            if let Some(earlier) = shared.residency.exchange_for_earlier(id, position) {
                return Ok(Room::GivenTo(earlier));
            }
            if self.is_postponed(id, shared) {
                return Ok(Room::Postponed);
            }
            if self.activity.is_memory_needed_before(position, |shard| shared.residency.next_read(shard)) {
                return Ok(Room::Postponed);
            }
            self.let_go_from(position.saturating_add(1), shared);
            shared.residency.wait_idle(ROOM_LOOK_EVERY);
        }
    }

    /// Whether `id` is wanted only for samples that wait for our consumer, while another's consumer is stuck.
    fn is_postponed(&self, id: ShardId, shared: &Shared) -> bool {
        let ahead = shared.residency.next_read(id).is_none_or(|next| next >= shared.residency.dispatched());
        ahead && self.catalog.streams().iter().any(|stream| stream.dir.is_room_requested())
    }

    /// Waits while `id` is postponed; the shard to go on with if one is wanted earlier.
    fn wait_while_postponed(&self, id: ShardId, in_hand: &ShardStatus<'_>, shared: &Shared) -> Result<Option<ShardId>> {
        while self.is_postponed(id, shared) {
            in_hand.at(Step::Postponed);
            let position = shared.residency.next_read(id).unwrap_or(u64::MAX);
            if let Some(earlier) = shared.residency.exchange_for_earlier(id, position) {
                return Ok(Some(earlier));
            }
            shared.residency.wait_idle(ROOM_LOOK_EVERY);
            shared.run.check()?;
        }
        Ok(None)
    }

    /// Keeps no shard on disk any more for samples from `position` on.
    fn let_go_from(&self, position: u64, shared: &Shared) {
        for (shard, next, _) in shared.residency.unread() {
            if next >= position {
                self.first_read(shard);
            }
        }
    }

    /// One attempt at all steps; `None` when it has been postponed on the way.
    fn try_make_resident(&self, id: ShardId, in_hand: &ShardStatus<'_>, shared: &Shared) -> Result<Option<Outcome>> {
        let (stream, local) = self.catalog.locate(id);
        let shard = &stream.index.shards[local as usize];
        in_hand.at(Step::Elsewhere);
        let stopped = || shared.run.is_stopped();
        let moved = || shared.run.advance();
        // However long: whoever has it may wait for its consumer, and ours, if it waits in vain, knows how long it has.
        let policy = WaitPolicy::new(&stopped, Duration::MAX).on_progress(&moved);
        let claim = match stream.dir.claim(local, policy)? {
            ClaimOutcome::Resident(guard) => {
                self.guards.lock().insert(id, guard);
                return Ok(Some(Outcome::Resident));
            }
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Busy => return Err(Error::internal("a claim that waits was answered with busy")),
        };
        // Memory first, then disk: whoever holds disk room holds it for the length of one download only.
        in_hand.at(Step::Memory);
        let _memory = self.budget.reserve(shard.raw_bytes() + shard.zip_bytes().unwrap_or(0))?;
        in_hand.at(Step::Local);
        let watch = |came: FetchEvent<'_>| match came {
            FetchEvent::Bytes { file, progress, moved } => {
                in_hand.at(Step::Download { key: file.basename.to_string(), progress });
                if moved {
                    shared.run.advance();
                    claim.report_progress();
                }
            }
            FetchEvent::File => in_hand.at(Step::Local),
        };
        let packed = claim.packed_files();
        let origin = stream.remote.as_ref().map(Origin::Store);
        let way = ShardFetch { stream, origin, run: &shared.run, stats: &self.stats, watch: &watch };
        let brought = way.bring(shard, packed.as_deref())?;
        let admission = match self.admit(id, claim, in_hand, shared)? {
            Room::Made(admission) => admission,
            Room::GivenTo(earlier) => return Ok(Some(Outcome::GaveWay(earlier))),
            Room::Postponed => return Ok(None),
        };
        in_hand.at(Step::Local);
        let guard = brought.publish(admission, &self.stats)?;
        self.guards.lock().insert(id, guard);
        Ok(Some(Outcome::Resident))
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
}

impl ShardSource for CachedShards {
    fn make_resident(&self, id: ShardId, shared: &Shared) -> Result<Outcome> {
        let in_hand = self.activity.take(id);
        loop {
            if let Some(earlier) = self.wait_while_postponed(id, &in_hand, shared)? {
                return Ok(Outcome::GaveWay(earlier));
            }
            if let Some(outcome) = self.try_make_resident(id, &in_hand, shared)? {
                return Ok(outcome);
            }
        }
    }

    fn open(&self, shard: ShardId) -> Result<Option<Arc<cache::OpenShard>>> {
        let (stream, local) = self.catalog.locate(shard);
        stream.dir.open_shard(local)
    }

    fn first_read(&self, shard: ShardId) {
        let guard = self.guards.lock().remove(&shard);
        drop(guard);
    }

    fn share_room(&self, shared: &Shared) {
        let awaited = shared.residency.awaited().filter(|shard| self.activity.waits_for_others(*shard));
        let mut stuck = self.stuck.lock();
        match awaited {
            Some(shard) if stuck.progress == shared.run.progress() => {
                stuck.looks += 1;
                if stuck.looks >= STUCK_LOOKS && stuck.needed.is_none() {
                    stuck.needed = Some(self.catalog.locate(shard).0.dir.request_room());
                }
            }
            _ => *stuck = Stuck { progress: shared.run.progress(), ..Stuck::default() },
        }
        drop(stuck);
        if self.catalog.streams().iter().any(|stream| stream.dir.is_room_requested()) {
            self.let_go_from(shared.residency.dispatched(), shared);
        }
    }

    fn describe(&self, error: Error, shard: ShardId) -> Error {
        let (stream, local) = self.catalog.locate(shard);
        error.with("shard", &stream.index.shards[local as usize].raw_data.basename).with("stream", &stream.name)
    }

    fn awaited(&self, shard: ShardId) -> String {
        let (stream, local) = self.catalog.locate(shard);
        let name = &stream.index.shards[local as usize].raw_data.basename;
        let what = self.activity.describe(shard, name);
        let what = what.unwrap_or_else(|| format!("{name} waits for a thread of the shard plane"));
        format!("{what} (stream {})", stream.name)
    }

    fn stop(&self) {
        self.budget.close();
        for stream in self.catalog.streams() {
            stream.dir.wake();
        }
    }

    fn ended(&self) {
        let guards = std::mem::take(&mut *self.guards.lock());
        drop(guards);
    }
}
