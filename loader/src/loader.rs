//! The loader: what the shells hold.
//!
//! A [`Loader`] owns the data set's catalogue, the memory pools and the statistics for its whole life, and one running
//! epoch at a time. Every method may be called from any thread; nothing is started before the first epoch.

mod plan;
mod pools;
#[cfg(test)]
mod tests;

pub use plan::parse_bytes;

use crate::batch::Batch;
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::config::LoaderConfig;
use crate::decode::{DRAWS_VERSION, FieldPlan};
use crate::delivery::{Delivery, HostDelivery, PictureDecoder};
use crate::error::{Error, ErrorKind, Result};
use crate::format::HashAlgo;
use crate::order::{EpochPlan, OrderConfig, Rank, Resume, World};
use crate::pipeline::{
    BatchLayout, COPIED_BYTES_MIN, CachedShards, EarlyColumns, Epoch, EpochParts, HostShare, NextPlan, OpenShards,
    Pace, ROW_BYTES_MIN, Refills, SlotCopies, Storage, Taken, WholePlan,
};
use crate::state::{Own, STATE_VERSION, State};
use crate::stats::{Snapshot, Spent, Stats};
use crate::sync::{Arc, Mutex, MutexGuard, OnceLock};
use crate::topology::Topology;
use pools::Pools;
use std::collections::BTreeMap;
use std::time::Duration;

/// What [`Loader::next_within`] answers.
#[derive(Debug)]
pub enum Next {
    /// The next batch in plan order.
    Batch(Batch),
    /// The epoch is over; the next [`Loader::start_epoch`] begins the one after it.
    End,
    /// Nothing yet: call again. Gives a shell the chance to look at signals.
    Pending,
}

/// Samples per chunk at most: enough to make a chunk's own costs vanish beside the smallest samples.
const CHUNK_MAX: usize = 64;

/// Stored bytes that are worth a chunk where they are copied rather than decoded: some 50 microseconds.
const CHUNK_BYTES: u64 = 256 << 10;

/// Threads of the shard plane: one shard is unpacked and written while others arrive.
const SHARD_THREADS_MIN: usize = 2;

/// A data set as an endless row of epochs of batches. Made by [`Loader::new`]; `Send` and `Sync`.
///
/// ```no_run
/// use forebay_loader::config::{LoaderConfig, StreamConfig};
/// use forebay_loader::loader::{Loader, Next};
///
/// let data = StreamConfig { remote: Some("s3://bucket/imagenet".into()), split: Some("train".into()), ..Default::default() };
/// let loader = Loader::new(LoaderConfig { streams: vec![data], batch_size: 256, shuffle: true, ..Default::default() })?;
/// loader.start_epoch()?;
/// while let Next::Batch(batch) = loader.next()? {
///     println!("batch {} of {} rows", batch.number, batch.rows);
/// }
/// # Ok::<(), forebay_loader::Error>(())
/// ```
pub struct Loader {
    config: LoaderConfig,
    order: OrderConfig,
    world: World,
    catalog: Arc<Catalog>,
    fields: Vec<Arc<FieldPlan>>,
    layout: Arc<BatchLayout>,
    /// Batches made ahead.
    prefetch: u32,
    open: Arc<OpenShards>,
    target: Arc<dyn Delivery>,
    /// What decodes pictures at the target, once an epoch has asked.
    pictures: OnceLock<Option<Arc<dyn PictureDecoder>>>,
    /// What reads rows at the target, once an epoch has asked.
    storage: OnceLock<Option<Arc<Storage>>>,
    /// Copies rows to the target from where they were read to, once an epoch has asked.
    slot_copies: OnceLock<Option<Arc<SlotCopies>>>,
    /// Which of its pictures the decode threads take, if they are to; what was learnt in an epoch holds for the next.
    host_share: Option<Arc<HostShare>>,
    stats: Arc<Stats>,
    topology: Topology,
    /// The pools, made with the first epoch.
    pools: Mutex<Option<Pools>>,
    position: Mutex<Position>,
    /// The process that made the loader: its threads do not exist in a forked child.
    pid: u32,
}

/// Where the loader stands.
struct Position {
    /// The epoch under way, or the one that the next start begins.
    epoch: u64,
    /// A checkpoint that the next start resumes, or that fixed the order's constants.
    resume: Option<Resume>,
    plan: Option<EpochPlan>,
    /// Rows of the plan handed out since its start, skipped ones included.
    delivered: u64,
    /// Those of the last batch that has rows, and of what has been skipped behind it.
    last: u64,
    /// Whether an epoch has been started and is neither ended nor replaced.
    under_way: bool,
    /// Whether the last epoch came to its end and no other has been started: whoever asks again is told so again.
    over: bool,
    /// Batches of a whole epoch, once somebody has asked.
    batches: Option<u64>,
    /// The threads of the epoch under way; none once it was closed.
    running: Option<Arc<Epoch>>,
}

impl Position {
    /// Whether `epoch` is still the one that runs: another thread may have ended or replaced it meanwhile.
    fn runs(&self, epoch: &Arc<Epoch>) -> bool {
        self.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, epoch))
    }

    /// The place of `plan`'s epoch behind `delivered` rows of the plan, all ranks together.
    fn place(plan: &EpochPlan, delivered: u64) -> u64 {
        // A batch that is not full is the last one, of which ranks may have unequally many rows.
        match delivered.is_multiple_of(plan.batch_size()) {
            true => plan.end().min(plan.sample_in_epoch() + delivered * plan.parallel_world().ranks()),
            false => plan.end(),
        }
    }

    /// Ends the threads of the epoch under way, also for those who wait in `next`.
    fn stop(&mut self) {
        if let Some(epoch) = self.running.take() {
            epoch.end();
        }
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("streams", &self.config.streams.len()).finish_non_exhaustive()
    }
}

impl Loader {
    /// Opens the data set for batches in host memory: reads every stream's index and looks at the local shards.
    ///
    /// # Errors
    ///
    /// `Config` for arguments that cannot work, and what store and cache say about the data.
    pub fn new(config: LoaderConfig) -> Result<Self> {
        Self::with_target(config, Arc::new(HostDelivery))
    }

    /// The same, for batches at `target`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_target(config: LoaderConfig, target: Arc<dyn Delivery>) -> Result<Self> {
        config.validate()?;
        crate::decode::vectors::check_environment()?;
        let stats = Arc::new(Stats::new(config.trace));
        // The table's order is the data's way, whichever stage happens to work first.
        for stage in ["schedule", "shard", "fetch", "unpack", "publish", "read", "decode", "place", "next"] {
            stats.stage(stage);
        }
        let topology = Topology::detect()?;
        let catalog = Arc::new(Catalog::open(&config, &stats, &Clock::system(), &topology)?);
        // Data that fits into half of the memory is read from the disk once. O_DIRECT, which is faster per read but
        // keeps nothing, would fetch it again every epoch.
        if config.cache_limit.unwrap_or(u64::MAX).min(catalog.raw_bytes()) <= topology.memory_limit_bytes() / 2 {
            catalog.streams().iter().for_each(|s| s.dir.keep_in_page_cache());
            stats.note("the data fits into memory: reads from disk stay in the page cache");
        }
        let (order, world) = plan::order_of(&config)?;
        // Mistakes in the order's arguments show here rather than with the first batch; the plan itself comes later.
        crate::order::shares_of(catalog.shape(), &order)?;
        let fields = plan::fields_of(&config, &catalog)?;
        let mut layout = BatchLayout::new(&fields[0], config.batch_size as usize, config.mark_repeats)?;
        let sample_bytes = catalog.sample_bytes_mean();
        // Rows of no fixed shape are about as long as what is stored.
        let stored_bytes = sample_bytes.saturating_mul(config.batch_size.into());
        let prefetch = config.prefetch_of(stored_bytes.max(layout.bytes() as u64));
        if config.device_decode {
            let slot_bytes_max = pools::slot_bytes_max(&config, prefetch, &topology, layout.bytes());
            layout = layout.with_room(sample_bytes, slot_bytes_max);
        }
        let layout = Arc::new(layout);
        let use_indexes = fields.iter().map(|fields| fields.has_pictures()).collect();
        let open = Arc::new(OpenShards::new(catalog.clone(), use_indexes, &config, &stats));
        let position = Position {
            epoch: 0,
            resume: None,
            plan: None,
            delivered: 0,
            last: 0,
            under_way: false,
            over: false,
            batches: None,
            running: None,
        };
        Ok(Self {
            order,
            world,
            fields,
            layout,
            prefetch,
            open,
            target,
            pictures: OnceLock::new(),
            storage: OnceLock::new(),
            slot_copies: OnceLock::new(),
            host_share: config.share_decode.then(Default::default),
            stats,
            topology,
            pools: Mutex::new(None),
            position: Mutex::new(position),
            pid: std::process::id(),
            catalog,
            config,
        })
    }
}

impl Loader {
    /// The outputs of every batch, `repeat` excepted.
    pub fn outputs(&self) -> &[crate::decode::Output] {
        self.fields[0].outputs()
    }

    /// The arguments.
    pub fn config(&self) -> &LoaderConfig {
        &self.config
    }

    /// Samples of the data set, before any weights.
    pub fn samples(&self) -> u64 {
        self.catalog.shape().num_samples()
    }

    /// The epoch that the next [`start_epoch`](Self::start_epoch) begins or resumes.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn epoch(&self) -> Result<u64> {
        let position = self.position()?;
        Ok(position.epoch + u64::from(position.under_way))
    }

    /// Batches of a whole epoch for this rank, those that turn out to be empty because every sample was skipped included.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be, `Closed` in a forked child.
    pub fn batches(&self) -> Result<u64> {
        let mut position = self.position()?;
        if let Some(batches) = position.batches {
            return Ok(batches);
        }
        let resume = position.resume.map(|r| Resume { epoch: 0, sample_in_epoch: 0, ..r });
        let plan = EpochPlan::new(self.catalog.shape(), &self.order, self.world, 0, resume.as_ref())?;
        let rank = Rank(self.config.world.rank);
        let batches = match self.config.drop_last {
            true => plan.len_of_rank(rank) / u64::from(self.config.batch_size),
            false => plan.batches(rank),
        };
        position.batches = Some(batches);
        Ok(batches)
    }

    /// Ends the epoch under way, if there is one, and begins the next, or the loaded position.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be, `Full` for memory that cannot be had, `Closed` in a forked child.
    pub fn start_epoch(&self) -> Result<()> {
        // Threads of the old epoch are joined before those of the new one start.
        let mut position = self.position()?;
        position.stop();
        self.target.check()?;
        if position.under_way {
            position.epoch += 1;
            position.under_way = false;
        }
        let plan =
            EpochPlan::new(self.catalog.shape(), &self.order, self.world, position.epoch, position.resume.as_ref())?;
        for warning in plan.warnings() {
            log::warn!("{warning}");
        }
        let rank = Rank(self.config.world.rank);
        let order = plan.rank(rank);
        let batch = self.config.batch_size as usize;
        let pools = self.pools()?;
        let threads = pools.threads();
        let stall_timeout = Duration::from_secs_f64(self.config.stall_timeout);
        let ahead = u64::from(self.prefetch) + 1;
        let global = plan.parallel_world().ranks() * batch as u64;
        let parts = EpochParts {
            epoch: plan.epoch(),
            first_batch: plan.sample_in_epoch() / global,
            shape: self.catalog.shape().clone(),
            fields: self.fields.clone(),
            layout: self.layout.clone(),
            batches: pools.batches,
            open: self.open.clone(),
            source: Arc::new(CachedShards::new(
                self.catalog.clone(),
                plan.clone(),
                self.next_plan(&plan),
                rank,
                self.stats.clone(),
            )),
            target: self.target.clone(),
            pictures: self.pictures.get_or_init(|| self.device_pictures()).clone(),
            host_share: self.host_share.clone(),
            storage: self.storage.get_or_init(|| self.device_storage()).clone().inspect(|storage| storage.retry()),
            slot_copies: self.slot_copies.get_or_init(|| self.slot_copies()).clone().inspect(|copies| copies.retry()),
            stats: self.stats.clone(),
            on_error: self.config.on_error,
            is_alone: self.world.ranks() == 1,
            refills: Refills::new(self.whole_plan(&plan), rank),
            max_errors: self.config.max_errors,
            sample_bytes_max: self.config.sample_bytes_max,
            ahead,
            stall_timeout,
            shard_threads: SHARD_THREADS_MIN.max(threads.div_ceil(4)),
            pace: Pace {
                batch,
                drop_last: self.config.drop_last,
                predownload: self.predownload(),
                chunk: self.chunk(threads),
            },
            crews: pools.crews,
        };
        position.running = Some(Arc::new(Epoch::start(parts, order)?));
        position.epoch = plan.epoch();
        position.under_way = true;
        position.over = false;
        position.delivered = 0;
        position.last = 0;
        // What the first plan resolved holds for all later epochs, as in the reference.
        position.resume = Some(plan.state(plan.sample_in_epoch()));
        position.plan = Some(plan);
        Ok(())
    }

    /// The next batch in plan order, or the end of the epoch; waits for it.
    ///
    /// # Errors
    ///
    /// The failure of a sample or a stage; `Timeout` when nothing has moved for the stall timeout; `Closed` when no epoch
    /// is under way.
    pub fn next(&self) -> Result<Next> {
        loop {
            match self.next_within(Duration::from_secs(1))? {
                Next::Pending => {}
                next => return Ok(next),
            }
        }
    }

    /// As [`next`](Self::next), but answers [`Next::Pending`] after about `limit`.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn next_within(&self, limit: Duration) -> Result<Next> {
        let position = self.position()?;
        if position.over {
            return Ok(Next::End);
        }
        let Some(epoch) = position.running.clone() else {
            let message = match position.under_way {
                true => "the epoch was closed before its end: call start_epoch for the one after it",
                false => "no epoch is under way: call start_epoch first",
            };
            return Err(Error::new(ErrorKind::Closed, message));
        };
        drop(position);
        let stage = self.stats.stage("next");
        match stage.timed(Spent::Input, || epoch.take(limit)) {
            Ok(Taken::Item(batch)) => {
                batch.hand_over();
                let mut position = self.position.lock();
                if position.runs(&epoch) {
                    position.delivered += batch.planned_rows;
                    position.last = if batch.rows > 0 { 0 } else { position.last } + batch.planned_rows;
                }
                drop(position);
                if batch.rows == 0 {
                    // Every sample of it was skipped: it counts for the position and is not delivered.
                    return Ok(Next::Pending);
                }
                stage.done(1, 0);
                Ok(Next::Batch(batch))
            }
            Ok(Taken::End) => {
                let mut position = self.position.lock();
                // Of several threads that see the end, one counts it.
                if position.runs(&epoch) {
                    position.stop();
                    position.under_way = false;
                    position.over = true;
                    position.epoch += 1;
                    position.delivered = 0;
                    position.last = 0;
                    position.plan = None;
                }
                Ok(Next::End)
            }
            Ok(Taken::Pending) => Ok(Next::Pending),
            // Another thread may have taken the end meanwhile.
            Ok(Taken::Stopped) if self.position.lock().over => Ok(Next::End),
            Ok(Taken::Stopped) => Err(Error::new(
                ErrorKind::Closed,
                "the epoch was ended by another thread while this one waited for a batch",
            )),
            Err(error) => Err(error),
        }
    }

    /// The position after the batches handed out so far: what is prefetched does not count.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be, `Closed` in a forked child.
    pub fn state(&self) -> Result<State> {
        let position = self.position()?;
        self.state_behind(&position, position.delivered)
    }

    /// The same, as if the last batch had not been handed out: for a caller who has it and has not got it to where it goes.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state), and `State` when the epoch has come to its end.
    pub fn state_before(&self) -> Result<State> {
        let position = self.position()?;
        if position.over {
            let message =
                "the epoch's last batch was not handed out and its end was: take the batch from the iterator first";
            return Err(Error::new(ErrorKind::State, message));
        }
        self.state_behind(&position, position.delivered - position.last)
    }

    fn state_behind(&self, position: &Position, delivered: u64) -> Result<State> {
        let next = |epoch, resume: Option<&Resume>| -> Result<Resume> {
            let plan = EpochPlan::new(self.catalog.shape(), &self.order, self.world, epoch, resume)?;
            Ok(plan.state(plan.sample_in_epoch()))
        };
        let now = match &position.plan {
            Some(plan) if position.under_way => {
                let place = Position::place(plan, delivered);
                // The reference refuses the end of an epoch that canonical nodes of equal length made longer than its
                // samples; the beginning of the next is the same place.
                match place == plan.end() && plan.reference_end().is_some_and(|end| place > end) {
                    true => next(position.epoch + 1, Some(&plan.state(0)))?,
                    false => plan.state(place),
                }
            }
            _ => next(position.epoch, position.resume.as_ref())?,
        };
        Ok(State {
            epoch: now.epoch,
            sample_in_epoch: now.sample_in_epoch,
            num_canonical_nodes: now.num_canonical_nodes,
            shuffle_seed: now.shuffle_seed,
            initial_physical_nodes: now.initial_physical_nodes,
            forebay: Some(self.own()?),
        })
    }

    /// Makes the next [`start_epoch`](Self::start_epoch) resume `state`, and ends the epoch under way.
    ///
    /// # Errors
    ///
    /// `State`, listing the arguments that differ, unless `strict` is false; `Closed` in a forked child.
    pub fn load_state(&self, state: &State, strict: bool) -> Result<()> {
        if strict {
            state.check(&self.own()?)?;
        }
        let mut position = self.position()?;
        position.stop();
        *position = Position {
            epoch: state.epoch,
            resume: Some(state.resume()),
            plan: None,
            delivered: 0,
            last: 0,
            under_way: false,
            over: false,
            batches: None,
            running: None,
        };
        Ok(())
    }

    /// The figures so far.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn stats(&self) -> Result<Snapshot> {
        self.check_process()?;
        Ok(self.stats.snapshot())
    }

    /// The trace in Chrome's format, if the configuration asked for one.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn trace_json(&self) -> Result<Option<String>> {
        self.check_process()?;
        Ok(self.stats.trace_json())
    }

    /// Ends the epoch under way at once; the next [`start_epoch`](Self::start_epoch) begins the one after it.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child, where there is nothing to end.
    pub fn close(&self) -> Result<()> {
        self.position()?.stop();
        *self.pools.lock() = None;
        Ok(())
    }

    /// What decodes pictures at the target, if it is to and can.
    fn device_pictures(&self) -> Option<Arc<dyn PictureDecoder>> {
        if !self.config.device_decode {
            return None;
        }
        if !self.layout.has_pictures().any(|has| has) {
            self.warn_and_note(
                "nothing is left to the device's decoder: no field is made of JPEGs by operations that end at a fixed size",
            );
            return None;
        }
        match self.target.picture_decoder() {
            Ok(pictures) => {
                self.stats.note(format!("pictures are decoded by {}", pictures.describe()));
                let in_batch = self.layout.has_pictures().filter(|has| *has).count() * self.config.batch_size as usize;
                if in_batch < pictures.pictures_min() {
                    self.warn_and_note(format!(
                        "the device leaves half of the decoding to a single thread of the host where a batch has fewer than {} \
                         pictures, and these have {in_batch}: raise batch_size, or leave device_decode out",
                        pictures.pictures_min()
                    ));
                }
                Some(pictures)
            }
            Err(error) => {
                self.warn_and_note(format!("pictures are decoded on the host: {error}"));
                self.stats.counter("device_decode_fallbacks").add(1);
                None
            }
        }
    }

    /// What reads rows at the target, if it is to and can.
    fn device_storage(&self) -> Option<Arc<Storage>> {
        if !self.config.gpu_direct_storage {
            return None;
        }
        let Some(columns) = EarlyColumns::of_layouts(&self.fields, self.catalog.layouts(), ROW_BYTES_MIN) else {
            self.warn_and_note(
                "no output goes by GPUDirect Storage: none is the stored bytes of an array of fixed size of at least 4 KiB in \
                 MDS shards",
            );
            return None;
        };
        match self.target.direct_storage() {
            Ok(reader) => {
                self.stats.note(format!("rows of fixed size are read by {}", reader.describe()));
                Some(Arc::new(Storage::new(reader, columns)))
            }
            Err(error) => {
                self.warn_and_note(format!("GPUDirect Storage is not used: {error}"));
                self.stats.counter("gpu_direct_storage_fallbacks").add(1);
                None
            }
        }
    }

    /// What copies rows to the target from where they were read to, if there are such.
    fn slot_copies(&self) -> Option<Arc<SlotCopies>> {
        self.target.direct_rows()?;
        let columns = EarlyColumns::of_layouts(&self.fields, self.catalog.layouts(), COPIED_BYTES_MIN)?;
        Some(Arc::new(SlotCopies::new(columns, self.stats.counter("rows_copied_early"))))
    }

    /// Says what the loader does without, in the log and in the statistics.
    fn warn_and_note(&self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        log::warn!("{sentence}");
        self.stats.note(sentence);
    }

    /// The only way to the position: in a forked child the lock may be held by a thread that does not exist there.
    fn position(&self) -> Result<MutexGuard<'_, Position>> {
        self.check_process()?;
        Ok(self.position.lock())
    }

    /// A forked child has none of the threads, and would wait for them.
    fn check_process(&self) -> Result<()> {
        if self.pid != std::process::id() {
            let message = "the loader belongs to the process that made it: make it after the fork, or use its batches in the parent";
            return Err(Error::new(ErrorKind::Closed, message));
        }
        Ok(())
    }

    /// Plans the epoch of `plan` from its beginning.
    fn whole_plan(&self, plan: &EpochPlan) -> WholePlan {
        let (catalog, order, world, plan) = (self.catalog.clone(), self.order.clone(), self.world, plan.clone());
        Box::new(move || match plan.sample_in_epoch() {
            0 => Ok(plan.clone()),
            _ => Ok(EpochPlan::new(catalog.shape(), &order, world, plan.epoch(), Some(&plan.state(0)))?),
        })
    }

    /// Plans the epoch after that of `plan`, for whoever wants to know.
    fn next_plan(&self, plan: &EpochPlan) -> NextPlan {
        let (catalog, order, world) = (self.catalog.clone(), self.order.clone(), self.world);
        let (epoch, resume) = (plan.epoch() + 1, plan.state(0));
        Box::new(move || Ok(EpochPlan::new(catalog.shape(), &order, world, epoch, Some(&resume))?))
    }

    fn own(&self) -> Result<Own> {
        let plan = crate::order::arguments(self.catalog.shape(), &self.order);
        let mut plan: BTreeMap<String, String> =
            plan.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let digests: Vec<&str> = self.catalog.streams().iter().map(|s| s.index_digest.as_str()).collect();
        let digest = HashAlgo::Xxh3_64.hex(digests.join(",").as_bytes());
        plan.insert("index".to_owned(), digest);
        Ok(Own {
            version: STATE_VERSION,
            batch_size: self.config.batch_size.into(),
            draws_version: DRAWS_VERSION,
            augment_seed: self.config.augment_seed(),
            plan,
        })
    }

    /// Batches announced ahead.
    fn predownload(&self) -> usize {
        let batch = u64::from(self.config.batch_size);
        let samples = self.config.predownload.unwrap_or(8 * batch);
        usize::try_from(samples.div_ceil(batch)).unwrap_or(usize::MAX).max(self.prefetch as usize)
    }

    /// Samples per chunk for so many threads.
    fn chunk(&self, threads: usize) -> usize {
        let batch = self.config.batch_size as usize;
        // Four for each thread in every batch, so that the last ones end together.
        let even = batch / (threads * 4);
        if self.fields.iter().any(|plan| plan.has_pictures()) {
            return even.clamp(1, CHUNK_MAX);
        }
        // A copy is so short that a thread had better take more of them at a time, as long as the batches under way have
        // two chunks for each thread.
        let sample_bytes = self.catalog.sample_bytes_mean().max(1);
        let worth = usize::try_from(CHUNK_BYTES / sample_bytes).unwrap_or(CHUNK_MAX);
        let under_way = batch.saturating_mul(self.prefetch as usize + 1);
        even.max(worth.min(under_way / (threads * 2))).clamp(1, CHUNK_MAX)
    }

    fn pools(&self) -> Result<Pools> {
        let mut pools = self.pools.lock();
        if let Some(pools) = &*pools {
            return Ok(pools.clone());
        }
        let new = Pools::new(&self.config, self.prefetch, &self.topology, &*self.target, self.layout.slot_bytes())?;
        *pools = Some(new.clone());
        Ok(new)
    }
}
