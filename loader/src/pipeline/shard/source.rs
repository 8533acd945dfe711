//! Shards of a catalogue: on local disk, or fetched there.

use super::fetch::{Origin, ShardFetch};
use super::fetch_event::FetchEvent;
use super::next_use::NextUses;
use super::open_shards::OpenShards;
use super::plane::ShardPlane;
use super::residency::Residency;
use super::status::{ShardStatus, ShardStatuses, Step};
use crate::cache::{
    Admission, AdmitOutcome, ClaimOutcome, CommonHold, ResidencyGuard, RoomRequest, ShardClaim, WaitPolicy,
};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::order::{Rank, ShardId};
use crate::pipeline::plan::BatchPlan;
use crate::pipeline::refill::MakePlan;
use crate::pipeline::schedule::Chunk;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use forebay_core::flow::Budget;
use forebay_core::flow::Run;
use forebay_core::flow::{HeldPermit, Permits};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Bytes of shards in memory before they are written, compressed and unpacked together: a few shards of the usual 64
/// MiB.
const IN_MEMORY_BYTES_MIN: u64 = 512 << 20;

/// Longest time between two attempts to get room.
const ROOM_POLL_EVERY: Duration = Duration::from_millis(250);

/// Time without progress after which a consumer counts as stuck. A process that downloads the shard for it shows
/// progress every second.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// Result of making a shard resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardOutcome {
    /// It is on local disk.
    Resident,
    /// It is requested again for later; the thread continues with this shard, which is needed earlier.
    Exchanged(ShardId),
}

/// Makes the shards of one epoch resident.
pub(crate) struct ShardSource {
    pub(super) catalog: Arc<Catalog>,
    pub(super) residency: Arc<Residency<Chunk>>,
    pub(crate) open_shards: Arc<OpenShards>,
    pub(super) run: Arc<Run>,
    stats: Arc<Stats>,
    statuses: ShardStatuses,
    /// Memory of shards that are not yet on disk.
    budget: Budget,
    /// Limits the shards in flight.
    pub(super) permits: Permits,
    /// Limits the shards that occupy a CPU or the disk, as unpacking and writing do.
    work: Permits,
    /// Uses of each shard in this epoch and the next, computed when room is short for the first time.
    uses: OnceLock<NextUses>,
    plan: BatchPlan,
    /// Plans the epoch after this one.
    next_plan: MakePlan,
    rank: Rank,
    /// Shards that this process has evicted, and the count at the last check for lost ones.
    evicted: Arc<Counter>,
    evicted_seen: AtomicU64,
    stuck: Mutex<StuckWatch>,
    /// Keep shards on disk until the first sample of each is read.
    guards: Mutex<HashMap<ShardId, ResidencyGuard>>,
    /// Make the locks of `guards` and of open shards unnecessary while no process needs them.
    common_holds: Mutex<Vec<CommonHold>>,
}

/// Watches if our consumer is stuck for room or a claim of a different loader or process.
#[derive(Debug, Default)]
struct StuckWatch {
    /// Progress of the run at the last check, and the time since which it has not changed.
    progress: u64,
    since: Option<Instant>,
    /// Requests room from the remaining loaders and processes, while our consumer counts as stuck.
    request: Option<RoomRequest>,
}

/// Result of a wait for room.
enum RoomOutcome {
    Admitted(Admission),
    /// A different loader's consumer needs the room, or this very shard, more than this prefetch does; or a shard of
    /// ours that is needed earlier waits for the memory that this one holds.
    Postponed,
    /// This shard, which is needed earlier, must be made resident instead.
    Exchanged(ShardId),
}

impl ShardSource {
    /// Source of the shards of `catalog` in the epoch of `plan`, as `rank` uses them. `next_plan` is called when shards
    /// have to be evicted.
    pub(crate) fn new(
        (catalog, open_shards): (Arc<Catalog>, Arc<OpenShards>),
        residency: Arc<Residency<Chunk>>,
        run: Arc<Run>,
        (plan, next_plan, rank): (BatchPlan, MakePlan, Rank),
        plane: ShardPlane,
        stats: Arc<Stats>,
    ) -> Self {
        let evicted = stats.counter("cache_evicted");
        let evictable = catalog.streams().iter().filter(|stream| stream.dir.has_remote());
        let common_holds = Mutex::new(evictable.map(|stream| stream.dir.hold_in_common()).collect());
        Self {
            residency,
            open_shards,
            run,
            statuses: ShardStatuses::default(),
            budget: Budget::new(IN_MEMORY_BYTES_MIN.max(catalog.shard_bytes_max())),
            permits: Permits::new(plane.permits),
            work: Permits::new(plane.work),
            uses: OnceLock::new(),
            plan,
            next_plan,
            rank,
            evicted_seen: AtomicU64::new(evicted.get()),
            evicted,
            stuck: Mutex::default(),
            guards: Mutex::default(),
            common_holds,
            stats,
            catalog,
        }
    }

    /// Brings shard `id` to local disk, unless a different one turns out to be needed earlier. A resident shard stays
    /// on disk until [`release`](Self::release). Further shards use its `permit` while a download waits for its next
    /// attempt.
    ///
    /// # Errors
    ///
    /// Errors of the store and the cache; `Closed` when the run stops.
    pub(crate) fn make_resident(&self, id: ShardId, permit: &HeldPermit<'_>) -> Result<ShardOutcome> {
        let status = self.statuses.begin(id);
        loop {
            if let Some(earlier) = self.wait_while_postponed(id, &status)? {
                return Ok(ShardOutcome::Exchanged(earlier));
            }
            if let Some(outcome) = self.try_make_resident(id, permit, &status)? {
                return Ok(outcome);
            }
        }
    }

    /// Allows the eviction of a shard that was kept for a sample.
    pub(crate) fn release(&self, shard: ShardId) {
        let guard = self.guards.lock().remove(&shard);
        drop(guard);
    }

    /// Closes all shards and allows their eviction, after the run's threads have ended and before the next run begins.
    pub(crate) fn release_all(&self) {
        let guards = std::mem::take(&mut *self.guards.lock());
        drop(guards);
        self.open_shards.close_all();
        // Last: the shards that are still in use have a lock each from here on.
        let holds = std::mem::take(&mut *self.common_holds.lock());
        drop(holds);
    }

    /// Describes the state of `shard`, for the report of a stall: key, attempt, bytes so far.
    pub(crate) fn status(&self, shard: ShardId) -> String {
        let (stream, local) = self.catalog.locate(shard);
        let name = &stream.index.shards[local as usize].raw_data.basename;
        let status = self.statuses.describe(shard, name);
        let status = status.unwrap_or_else(|| format!("{name} waits for a thread that fetches shards"));
        format!("{status} (stream {})", stream.name)
    }

    /// Ends all waits in here, after a stop of the run.
    pub(crate) fn wake(&self) {
        self.budget.close();
        self.permits.close();
        self.work.close();
        for stream in self.catalog.streams() {
            stream.dir.wake();
        }
    }

    /// Announces to all loaders and processes that our consumer is stuck because it lacks room, or a shard that they
    /// have claimed. When theirs is stuck, releases shards that are kept for samples which wait for our consumer.
    ///
    /// Without this, one rank could fill the cache with shards that it needs later and wait for the step of the rest,
    /// while a second rank waits for room for a shard that it needs now.
    pub(crate) fn share_room(&self) {
        let awaited = self.residency.awaited().filter(|shard| self.statuses.waits_for_others(*shard));
        let mut stuck = self.stuck.lock();
        match awaited {
            Some(shard) if stuck.progress == self.run.progress() => {
                let since = *stuck.since.get_or_insert_with(Instant::now);
                // Room that the consumer waits for already is requested at once.
                let is_urgent = self.run.is_awaited() && self.statuses.waits_for_room(shard);
                if stuck.request.is_none() && (is_urgent || since.elapsed() >= STUCK_AFTER) {
                    stuck.request = Some(self.catalog.locate(shard).0.dir.request_room());
                }
            }
            _ => *stuck = StuckWatch { progress: self.run.progress(), ..StuckWatch::default() },
        }
        drop(stuck);
        if self.is_room_requested() {
            self.release_from(self.residency.dispatched());
        }
    }

    /// True if the consumer of a different loader or process is stuck.
    fn is_room_requested(&self) -> bool {
        self.catalog.streams().iter().any(|stream| stream.dir.is_room_requested())
    }

    /// Allows the eviction of shards whose samples are all at plan position `position` or later.
    fn release_from(&self, position: u64) {
        for (shard, next, _) in self.residency.unread() {
            if next >= position {
                self.release(shard);
            }
        }
    }

    /// Position at which this rank uses `shard` next: exact for announced samples, by the plan's span for later ones.
    fn next_use(&self, shard: ShardId) -> Option<u64> {
        // In this order: a sample that is announced between the two reads is found by one of them.
        let announced = self.residency.announced();
        self.residency.next_read(shard).or_else(|| self.uses().next(shard, announced))
    }

    fn uses(&self) -> &NextUses {
        self.uses.get_or_init(|| {
            let next = (self.next_plan)().inspect_err(|e| {
                self.stats.note(format!("eviction does not consider the next epoch, which cannot be planned: {e}"));
            });
            NextUses::of(&self.plan, next.ok().as_ref(), self.rank)
        })
    }

    /// Tries all steps once; `None` when the shard was postponed on the way.
    fn try_make_resident(
        &self,
        id: ShardId,
        permit: &HeldPermit<'_>,
        status: &ShardStatus<'_>,
    ) -> Result<Option<ShardOutcome>> {
        let (stream, local) = self.catalog.locate(id);
        let shard = &stream.index.shards[local as usize];
        status.set(Step::Claimed);
        let stopped = || self.run.is_stopped();
        let moved = || self.run.advance();
        // Without limit: the claim's owner may wait for its consumer, and the stall timeout limits our consumer's wait.
        let policy = WaitPolicy::new(&stopped, Duration::MAX).on_progress(&moved);
        let claim = match stream.dir.claim(local, policy)? {
            ClaimOutcome::Resident(guard) => {
                self.guards.lock().insert(id, guard);
                return Ok(Some(ShardOutcome::Resident));
            }
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Busy => return Err(Error::internal("a claim that waits was answered with busy")),
        };
        // Memory first, then room on disk, which is then held only while the files are written.
        status.set(Step::Memory);
        let _memory = self.budget.reserve(shard.fetch_bytes())?;
        status.set(Step::Local);
        let work = RefCell::new(None);
        let watch = |event: FetchEvent<'_>| match event {
            FetchEvent::Bytes { file, progress, moved } => {
                work.replace(None);
                permit.hold(!progress.is_paused);
                status.set(Step::Download { key: file.basename.to_string(), progress });
                if moved {
                    self.run.advance();
                    claim.report_progress();
                }
            }
            FetchEvent::File => {
                permit.hold(true);
                status.set(Step::Local);
                // One at a time, or threads could wait for each other. If the run has stopped, the next step fails.
                work.replace(None);
                work.replace(self.work.take().ok());
            }
        };
        let packed = claim.packed_files();
        let origin = stream.remote.as_ref().map(Origin::Store);
        let fetch = ShardFetch { stream, origin, run: &self.run, stats: &self.stats, watch: &watch };
        let fetched = fetch.fetch(shard, packed.as_deref())?;
        work.replace(None);
        let admission = match self.wait_for_room(id, claim, status)? {
            RoomOutcome::Admitted(admission) => admission,
            RoomOutcome::Exchanged(earlier) => return Ok(Some(ShardOutcome::Exchanged(earlier))),
            RoomOutcome::Postponed => return Ok(None),
        };
        status.set(Step::Local);
        let _work = self.work.take()?;
        let guard = fetched.publish(admission, &self.stats)?;
        self.guards.lock().insert(id, guard);
        Ok(Some(ShardOutcome::Resident))
    }

    /// Waits for room on disk, without limit: shards that occupy it are released when the consumer has taken their
    /// samples.
    ///
    /// The shard with the earliest use always makes progress. Shards that were fetched for later samples are evicted
    /// for it, read or not, and are fetched again; otherwise they could fill the limit while an earlier one waits. This
    /// holds between processes too, which [announce](Self::share_room) that they need room.
    ///
    /// When a shard with an earlier use is requested meanwhile (because a different process has evicted it), this shard
    /// returns to the queue; otherwise all threads could wait for room for later shards and none would be free for the
    /// earlier one. For the same reason this shard releases its memory when an earlier one, in a different thread,
    /// waits for memory.
    fn wait_for_room(&self, id: ShardId, mut claim: ShardClaim, status: &ShardStatus<'_>) -> Result<RoomOutcome> {
        let next_use = |shard: u32| self.next_use(ShardId(shard));
        let (stream, _) = self.catalog.locate(id);
        if stream.dir.is_limited() {
            // Computed first, so that no process waits for it while room is being made.
            self.uses();
        }
        loop {
            match claim.try_admit(&next_use)? {
                AdmitOutcome::Admitted(admission) => {
                    self.request_evicted();
                    return Ok(RoomOutcome::Admitted(admission));
                }
                AdmitOutcome::Wait { claim: waiting, reason } => {
                    claim = waiting;
                    status.set(Step::Room(reason));
                }
            }
            self.run.check()?;
            self.request_evicted();
            // Descriptors keep the bytes of evicted shards on disk.
            if self.open_shards.close_evicted() {
                continue;
            }
            self.share_room();
            // It changes during the wait: samples may still be read from a copy that was evicted.
            let position = self.residency.next_read(id).unwrap_or(u64::MAX);
            if let Some(earlier) = self.residency.exchange_for_earlier(id, position) {
                return Ok(RoomOutcome::Exchanged(earlier));
            }
            if self.is_postponed(id) {
                return Ok(RoomOutcome::Postponed);
            }
            if self.statuses.is_memory_needed_before(position, |shard| self.residency.next_read(shard)) {
                return Ok(RoomOutcome::Postponed);
            }
            self.release_from(position.saturating_add(1));
            self.residency.wait_for_release(ROOM_POLL_EVERY);
        }
    }

    /// True if `id` is requested only for samples that wait for our consumer, while a different one's consumer is
    /// stuck.
    fn is_postponed(&self, id: ShardId) -> bool {
        let is_ahead = self.residency.next_read(id).is_none_or(|next| next >= self.residency.dispatched());
        is_ahead && self.is_room_requested()
    }

    /// Waits while `id` is postponed. Returns the shard to continue with if one is needed earlier.
    fn wait_while_postponed(&self, id: ShardId, status: &ShardStatus<'_>) -> Result<Option<ShardId>> {
        while self.is_postponed(id) {
            status.set(Step::Postponed);
            let position = self.residency.next_read(id).unwrap_or(u64::MAX);
            if let Some(earlier) = self.residency.exchange_for_earlier(id, position) {
                return Ok(Some(earlier));
            }
            self.residency.wait_for_release(ROOM_POLL_EVERY);
            self.run.check()?;
        }
        Ok(None)
    }

    /// Marks shards as lost that were evicted although announced samples need them.
    fn request_evicted(&self) {
        let evicted = self.evicted.get();
        if self.evicted_seen.swap(evicted, Ordering::Relaxed) == evicted {
            return;
        }
        for (shard, _, resident) in self.residency.unread() {
            let (stream, local) = self.catalog.locate(shard);
            if resident && !stream.dir.is_resident(local) {
                self.residency.set_lost(shard);
            }
        }
    }
}
