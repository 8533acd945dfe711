//! The loader, which the Python and C interfaces wrap.
//!
//! A [`Loader`] owns the data set's catalogue, the memory pools and the statistics for its whole life, and runs one
//! epoch at a time. Every method may be called from any thread. No thread starts before the first epoch.
//!
//! * `description`: facts about a data set, without a loader;
//! * `filter`: the samples that streams' filters keep, and numbers of each sample;
//! * `length_index`: lengths in tokens, made before a loader needs them;
//! * `packing`: packs of documents;
//! * `plan`: from the configuration to the inputs of the parts;
//! * `planner`: plans of epochs;
//! * `position`: position in the epochs, and checkpoints;
//! * `first_numbers`: numbers of the first samples of shards;
//! * `steps`, `step_names`, `epoch_steps`: the samples of a step, steps that are left out, and the steps of epochs;
//! * `negotiate`: optional features of the delivery;
//! * `pools`: memory pools and threads by NUMA node.

mod description;
mod epoch_steps;
mod filter;
mod first_numbers;
mod length_index;
mod negotiate;
mod packing;
mod plan;
mod planner;
mod pools;
mod position;
mod shard_plane;
mod step_names;
mod steps;
#[cfg(test)]
mod tests;

use crate::batch::Batch;
use crate::catalog::{Catalog, Stream};
use crate::config::{LoaderConfig, PackOptions};
use crate::decode::{FieldPlan, Output};
use crate::delivery::{Delivery, HostDelivery};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Layout;
use crate::monitor::Watch;
use crate::order::{PackConfig as PackArguments, Resume};
use crate::pipeline::{BatchLayout, BatchPlan, DeviceFeatures, Epoch, EpochSetup, OpenShards, Pace, TakeOutcome};
use crate::session;
use crate::state::{ForebayState, LoaderState};
use crate::stats::{Snapshot, Stats, Threads, TimeKind, working_on};
use crate::store::{LibraryStores, Simulation};
use crate::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use crate::topology::Topology;
pub use description::Description;
use filter::{Filters, TokenSource};
use first_numbers::FirstNumbers;
pub use length_index::LengthIndex;
use packing::Packing;
use planner::Planner;
use pools::Pools;
pub use position::HELD_MAX;
use position::Position;
pub use session::Held;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
pub use steps::NamedSample;

/// Result of [`Loader::next_within`].
pub type Next = session::Next<Batch>;

/// An epoch of a loader, for [`Loader::stop_epoch`]. It keeps nothing alive.
#[derive(Clone)]
pub struct StartedEpoch(Weak<Epoch>);

/// Most samples per chunk: enough to make a chunk's own cost negligible for the smallest samples.
const CHUNK_MAX: usize = 64;

/// Stored bytes per chunk if samples are copied rather than decoded: some 50 microseconds of work.
const CHUNK_BYTES: u64 = 256 << 10;

/// A data set, delivered in batches, epoch after epoch. `Send` and `Sync`.
///
/// ```no_run
/// use forebay_loader::config::{LoaderConfig, StreamConfig};
/// use forebay_loader::loader::{Loader, Next};
///
/// let (remote, split) = (Some("s3://bucket/imagenet".into()), Some("train".into()));
/// let streams = vec![StreamConfig { remote, split, ..Default::default() }];
/// let loader = Loader::new(LoaderConfig { streams, batch_size: 256, shuffle: true, ..Default::default() })?;
/// loader.start_epoch()?;
/// while let Next::Batch(batch) = loader.next()? {
///     println!("batch {} of {} rows", batch.number, batch.rows);
/// }
/// # Ok::<(), forebay_loader::Error>(())
/// ```
pub struct Loader {
    config: LoaderConfig,
    planner: Planner,
    catalog: Arc<Catalog>,
    fields: Vec<Arc<FieldPlan>>,
    layout: Arc<BatchLayout>,
    /// Outputs of every batch, without the outputs of `extra`.
    outputs: Vec<Output>,
    /// Prefetch depth, in batches.
    prefetch: u32,
    open: Arc<OpenShards>,
    delivery: Arc<dyn Delivery>,
    /// Optional features of the delivery, chosen at the start of the first epoch.
    features: OnceLock<DeviceFeatures>,
    stats: Arc<Stats>,
    /// The figures for programs that ask, until the end of the loader.
    watch: Mutex<Option<Watch>>,
    topology: Topology,
    /// The pools, made at the start of the first epoch.
    pools: Mutex<Option<Pools>>,
    position: Mutex<Position>,
    /// Start of the loop's work on its last batch; `None` before the first request of an epoch.
    step_begun: Mutex<Option<Instant>>,
    /// Steps that are left out.
    skip_steps: Mutex<BTreeSet<u64>>,
    /// Numbers of the shards' first samples, once they are asked for.
    first_numbers: Mutex<FirstNumbers>,
    /// The process that made the loader. Its threads do not exist in a forked child.
    pid: u32,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("streams", &self.config.streams.len()).finish_non_exhaustive()
    }
}

impl Loader {
    /// Opens the data set for batches in host memory: reads every stream's index and lists the local shards.
    ///
    /// # Errors
    ///
    /// `Config` for invalid arguments, and the errors of store and cache.
    pub fn new(config: LoaderConfig) -> Result<Self> {
        Self::with_delivery(config, Arc::new(HostDelivery))
    }

    /// Like [`new`](Self::new), for batches in the memory of `delivery`'s device.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_delivery(config: LoaderConfig, delivery: Arc<dyn Delivery>) -> Result<Self> {
        Self::with_library(config, delivery, None)
    }

    /// Like [`with_delivery`](Self::with_delivery), with the stores of the schemes that the engine has no transport
    /// for.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_library(
        config: LoaderConfig,
        delivery: Arc<dyn Delivery>,
        library: Option<LibraryStores>,
    ) -> Result<Self> {
        Self::open(config, delivery, &Simulation::default(), library)
    }

    /// Like [`new`](Self::new), with the clock and the stores' settings of a test.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn simulated(config: LoaderConfig, simulation: &Simulation) -> Result<Self> {
        Self::open(config, Arc::new(HostDelivery), simulation, None)
    }

    fn open(
        config: LoaderConfig,
        delivery: Arc<dyn Delivery>,
        network: &Simulation,
        library: Option<LibraryStores>,
    ) -> Result<Self> {
        config.validate()?;
        crate::decode::vectors::check_environment()?;
        let stats = stats(config.engine.trace);
        let topology = Topology::detect()?;
        let mut catalog = Catalog::open(&config, &stats, &topology, network, library.clone())?;
        let filters = Filters { config: &config, stats: &stats, topology: &topology, network, library };
        filters.apply(&mut catalog)?;
        let samples = filters.sample_arguments(&catalog)?;
        let ids = config.pack().map(|_| packing::ids_of(&config)).transpose()?;
        let source = |field| TokenSource { field, lengths: config.pack().and_then(PackOptions::lengths) };
        let lengths = ids.map(|(_, field)| filters.token_lengths(&catalog, &source(field))).transpose()?;
        let catalog = Arc::new(catalog);
        // Data that fits into half of the memory stays in the page cache. O_DIRECT is faster per read, but would read
        // from the disk in every epoch.
        if config.cache_limit.unwrap_or(u64::MAX).min(catalog.raw_bytes()) <= topology.memory_limit_bytes() / 2 {
            catalog.streams().iter().for_each(|s| s.dir.keep_in_page_cache());
            stats.note("the data fits into memory: reads from disk stay in the page cache");
        }
        let (order, world) = plan::order_of(&config, samples)?;
        let packing = match config.pack().zip(ids).zip(lengths) {
            None => None,
            Some(((pack, ids), lengths)) => {
                let arguments = PackArguments { added: packing::added_to(ids, &config)?, ..pack.arguments()? };
                arguments.validate(&order)?;
                Some(Packing::new(arguments, lengths, pools::threads_of(&config, &topology)))
            }
        };
        let planner = Planner::new(catalog.clone(), order, world, packing)?;
        let fields = plan::fields_of(&config, &catalog)?;
        let layout = BatchLayout::new(&fields[0], config.batch_size as usize, plan::marks_of(&config))?;
        let mut layout = layout.with_repeats(config.order.repeat_augment);
        let mut outputs = fields[0].delivered();
        if let Some(packs) = packing::layout_of(&config, &outputs)? {
            outputs = packs.outputs().collect();
            layout = layout.with_packs(packs);
        }
        let sample_bytes = catalog.sample_bytes_mean();
        // Rows without a fixed shape are about as long as the stored samples.
        let stored_bytes = sample_bytes.saturating_mul(layout.decoded_rows() as u64);
        let prefetch = config.engine.prefetch_of(stored_bytes.max(layout.bytes() as u64));
        if config.engine.device_decode {
            let slot_bytes_max = pools::slot_bytes_max(&config, prefetch, &topology, layout.bytes());
            layout = layout.with_room(sample_bytes, slot_bytes_max);
        }
        let layout = Arc::new(layout);
        let has_trailer = |layout: &Arc<Layout>| layout.format.has_trailer();
        let use_indexes =
            fields.iter().zip(catalog.layouts()).map(|(fields, layout)| fields.has_pictures() && has_trailer(layout));
        let open = Arc::new(OpenShards::new(catalog.clone(), use_indexes.collect(), &config.engine, &stats));
        Ok(Self {
            planner: planner.with_composition(fields[0].composition().cloned()),
            fields,
            layout,
            outputs,
            prefetch,
            open,
            delivery,
            features: OnceLock::new(),
            watch: Mutex::new(None),
            stats,
            topology,
            pools: Mutex::new(None),
            position: Mutex::new(Position::new(0, None)),
            step_begun: Mutex::new(None),
            skip_steps: Mutex::new(steps::of(&config)),
            first_numbers: Mutex::default(),
            pid: std::process::id(),
            catalog,
            config,
        })
    }

    /// The outputs of every batch, without `repeat`. The shapes of packs without padding differ from batch to batch.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The arguments.
    pub fn config(&self) -> &LoaderConfig {
        &self.config
    }

    /// Names of the classes of each stream, at the numbers of their labels; `None` for a stream with samples that are
    /// no files in folders.
    pub fn classes(&self) -> Vec<Option<Vec<String>>> {
        let of_stream = |stream: &Stream| Some(stream.classes()?.iter().map(str::to_owned).collect());
        self.catalog.streams().iter().map(of_stream).collect()
    }

    /// Samples of the data set, before any weights.
    pub fn samples(&self) -> u64 {
        self.catalog.shape().num_samples()
    }

    /// Samples or packs of an epoch, of all ranks together: without those that only fill the last batches, and with
    /// those that `drop_last` leaves out.
    ///
    /// # Errors
    ///
    /// `Config` for an impossible order.
    pub fn epoch_samples(&self) -> Result<u64> {
        let position = self.position()?;
        self.planner.epoch_samples(position.epoch(), position.resume())
    }

    /// The epoch that the next [`start_epoch`](Self::start_epoch) begins or resumes.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn epoch(&self) -> Result<u64> {
        Ok(self.position()?.next_epoch())
    }

    /// Batches of a whole epoch for this rank, including batches with only skipped samples
    /// and steps that are left out.
    ///
    /// # Errors
    ///
    /// `Config` for an impossible order, `Closed` in a forked child.
    pub fn batches(&self) -> Result<u64> {
        let position = self.position()?;
        steps::batches_in(&position, &self.planner, &self.config, position.epoch())
    }

    /// Batches of an epoch for this rank that is resumed at `sample_in_epoch`.
    ///
    /// # Errors
    ///
    /// As [`batches`](Self::batches).
    pub fn batches_from(&self, sample_in_epoch: u64) -> Result<u64> {
        let (epoch, resume) = {
            let position = self.position()?;
            (position.epoch(), position.resume())
        };
        self.planner.batches(&self.config, resume, (epoch, sample_in_epoch))
    }

    /// Ends the current epoch, if there is one, and starts the next, or resumes at the loaded position.
    ///
    /// # Errors
    ///
    /// `Config` for an impossible order, `Full` if the system refuses memory, `Closed` in a forked child.
    pub fn start_epoch(&self) -> Result<()> {
        // Threads of the old epoch are joined before the threads of the new one start.
        let mut position = self.position()?;
        position.stop();
        self.delivery.check()?;
        self.watch()?;
        let plan = position.plan_next(&self.planner)?;
        for warning in plan.cells().warnings() {
            log::warn!("{warning}");
        }
        let pools = self.pools()?;
        let threads = pools.threads();
        let usable = self.topology.threads_default(self.config.world.local_world_size as usize);
        self.stats.set_threads(Threads { decode: threads, usable });
        let setup = EpochSetup {
            config: &self.config,
            next_plan: self.planner.next_plan(&plan),
            whole_plan: self.planner.whole_plan(&plan),
            catalog: self.catalog.clone(),
            open_shards: self.open.clone(),
            fields: self.fields.clone(),
            layout: self.layout.clone(),
            batches: pools.batches,
            workers: pools.numa_workers,
            delivery: self.delivery.clone(),
            device: self.features.get_or_init(|| self.negotiate()).clone(),
            stats: self.stats.clone(),
            ahead: u64::from(self.prefetch) + 1,
            shard_plane: shard_plane::of(&self.config, &self.catalog, &self.topology, threads),
            pace: Pace {
                batch: self.config.batch_size as usize,
                drop_last: self.config.drop_last,
                predownload: self.predownload(),
                chunk: self.chunk(threads),
            },
            left_out: self.left_out(&position, plan.cells().epoch())?,
            plan: plan.clone(),
        };
        *self.step_begun.lock() = None;
        position.start(plan, Epoch::start(setup)?);
        if self.planner.makes_packs() {
            // The numbers of later steps follow from it.
            steps::batches_in(&position, &self.planner, &self.config, position.epoch())?;
        }
        Ok(())
    }

    /// Returns the epoch that was started last, if it has not ended.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn started_epoch(&self) -> Result<Option<StartedEpoch>> {
        Ok(self.position()?.running.as_ref().map(|running| StartedEpoch(Arc::downgrade(running))))
    }

    /// Stops the threads of `epoch` and releases its prefetched batches, if no later one has been started since. The
    /// position stays; the next [`start_epoch`](Self::start_epoch) starts the epoch after it.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn stop_epoch(&self, epoch: &StartedEpoch) -> Result<()> {
        let mut position = self.position()?;
        if position.running.as_ref().is_some_and(|running| Weak::ptr_eq(&Arc::downgrade(running), &epoch.0)) {
            position.stop();
        }
        Ok(())
    }

    /// Waits for the next batch in plan order, or the end of the epoch.
    ///
    /// # Errors
    ///
    /// The failure of a sample or a stage; `Timeout` when there is no progress for the stall timeout; `Closed` when no
    /// epoch is running.
    pub fn next(&self) -> Result<Next> {
        loop {
            match self.next_within(Duration::from_secs(1))? {
                Next::Pending => {}
                next => return Ok(next),
            }
        }
    }

    /// Like [`next`](Self::next), but returns [`Next::Pending`] after about `limit`.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn next_within(&self, limit: Duration) -> Result<Next> {
        let position = self.position()?;
        if position.is_ended() {
            return Ok(Next::End);
        }
        let epoch = position.running()?;
        drop(position);
        let stage = self.stats.stage("next");
        let (start, parked) = (Instant::now(), epoch.consumer.parked_time());
        if let Some(begun) = self.step_begun.lock().take() {
            stage.add_time(TimeKind::Output, start.saturating_duration_since(begun));
        }
        let taken = epoch.consumer.take(limit);
        let number = match &taken {
            Ok(TakeOutcome::Item(batch)) => Some(batch.number),
            _ => None,
        };
        working_on(number);
        let waited = start.elapsed();
        stage.add_time(TimeKind::Input, waited);
        stage.trace(TimeKind::Input, start, waited);
        let parked = epoch.consumer.parked_time().saturating_sub(parked);
        self.stats.counter("wait_shards_us").add(parked.as_micros() as u64);
        *self.step_begun.lock() = Some(start + waited);
        match &taken {
            Ok(TakeOutcome::Item(batch)) if batch.rows > 0 => self.stats.waits().batch(waited),
            Ok(TakeOutcome::Item(_) | TakeOutcome::Pending) => self.stats.waits().pending(waited),
            _ => {}
        }
        match taken {
            Ok(TakeOutcome::Item(batch)) => {
                batch.hand_over();
                self.position.lock().pass(&epoch, &batch);
                if batch.rows == 0 {
                    // All its samples were skipped: it counts for the position, but is not delivered.
                    return Ok(Next::Pending);
                }
                stage.done(1, 0);
                Ok(Next::Batch(batch))
            }
            Ok(TakeOutcome::End) => {
                self.position.lock().end(&epoch);
                Ok(Next::End)
            }
            Ok(TakeOutcome::Pending) => Ok(Next::Pending),
            // A different thread may have reached the end in the meantime.
            Ok(TakeOutcome::Stopped) if self.position.lock().is_ended() => Ok(Next::End),
            Ok(TakeOutcome::Stopped) => Err(Error::new(
                ErrorKind::Closed,
                "the epoch was ended by a different thread while this one waited for a batch",
            )),
            Err(error) => Err(error),
        }
    }

    /// Returns the position after the delivered batches. Prefetched batches do not count.
    ///
    /// # Errors
    ///
    /// `Config` for an impossible order, `Closed` in a forked child.
    pub fn state(&self) -> Result<LoaderState> {
        let position = self.position()?;
        Ok(self.state_of(position.state(&self.planner)?, position.plan()))
    }

    /// Returns the position before batch `number`, counted from the start of the epoch, for a caller that has not
    /// passed that batch on. If it was not delivered to the caller yet, this is [`state`](Self::state). So a caller
    /// names the batch before it asks for it, and gets the right state at any time.
    ///
    /// Of batches in flight, if later ones were delivered after this one, only the last one is left out; at the end of
    /// the epoch none is.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state), and `State` for a batch that has failed, if a later one was delivered or the
    /// epoch has ended.
    pub fn state_before(&self, number: u64, held: Held) -> Result<LoaderState> {
        let position = self.position()?;
        Ok(self.state_of(position.state_before(&self.planner, number, held)?, position.plan()))
    }

    fn state_of(&self, at: Resume, running: Option<&BatchPlan>) -> LoaderState {
        let (packs, first_step) = (self.planner.saved_packs(&at, running), self.saved_first_step(&at));
        LoaderState::new(at, ForebayState { packs, first_step, ..self.forebay_state() })
    }

    fn forebay_state(&self) -> ForebayState {
        ForebayState { skipped: self.skipped_steps(), ..self.planner.forebay_state(&self.config) }
    }

    /// Makes the next [`start_epoch`](Self::start_epoch) resume at `state`, and ends the current epoch.
    ///
    /// # Errors
    ///
    /// `State`, listing the arguments that differ, unless `strict` is false, which logs them; `Closed` in a forked
    /// child.
    pub fn load_state(&self, state: &LoaderState, strict: bool) -> Result<()> {
        let now = self.planner.forebay_state(&self.config);
        if strict {
            state.check(&now)?;
        } else if let Some(differences) = state.differences(&now) {
            log::warn!("the checkpoint belongs to a different plan, which strict=False accepts: {differences}");
        }
        self.add_skipped_steps(state, strict)?;
        if let Some(same) = state.forebay.as_ref().filter(|_| state.differences(&now).is_none()) {
            let at = state.resume();
            same.packs.as_ref().map_or(Ok(()), |packs| self.planner.load_packs(&at, packs))?;
            same.first_step.into_iter().for_each(|first| self.load_first_step(&at, first));
        }
        let mut position = self.position()?;
        position.stop();
        *position = Position::new(state.epoch, Some(state.resume()));
        Ok(())
    }

    /// Returns the statistics.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn stats(&self) -> Result<Snapshot> {
        self.check_process()?;
        Ok(self.stats.snapshot())
    }

    /// Adds the times of functions that the consumer runs on samples before it passes batches on, their time on CPUs
    /// and that of their threads' waits for one, and the number of samples, as the stage "map". `waited` is the
    /// consumer's wait for them.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn add_map_times(
        &self,
        (times, cpu, delay): ([(TimeKind, Duration); 3], Duration, Duration),
        samples: u64,
        waited: Duration,
    ) -> Result<()> {
        self.check_process()?;
        let stage = self.stats.stage("map");
        times.into_iter().for_each(|(kind, time)| stage.add_time(kind, time));
        stage.done(samples, 0);
        self.stats.counter("map_cpu_us").add(cpu.as_micros() as u64);
        self.stats.counter("map_cpu_delay_us").add(delay.as_micros() as u64);
        self.stats.stage("next").add_time(TimeKind::Input, waited);
        // The engine's next batch is asked for soon after.
        self.stats.waits().pending(waited);
        // This wait is no work of the loop.
        if let Some(begun) = &mut *self.step_begun.lock() {
            *begun += waited;
        }
        Ok(())
    }

    /// Counts samples that the consumer has left out.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn add_skipped(&self, samples: u64) -> Result<()> {
        self.check_process()?;
        self.stats.counter("samples_skipped").add(samples);
        Ok(())
    }

    /// Returns the trace in Chrome's format, if it is enabled.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn trace_json(&self) -> Result<Option<String>> {
        self.check_process()?;
        Ok(self.stats.trace_json())
    }

    /// Ends the current epoch at once; the next [`start_epoch`](Self::start_epoch) starts the one after it.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn close(&self) -> Result<()> {
        self.position()?.stop();
        *self.pools.lock() = None;
        *self.watch.lock() = None;
        Ok(())
    }

    /// Locks the position. In a forked child the lock may be held by a thread that does not exist there, so the process
    /// is checked first.
    fn position(&self) -> Result<MutexGuard<'_, Position>> {
        self.check_process()?;
        Ok(self.position.lock())
    }

    /// Rejects calls in a forked child, which does not have the loader's threads.
    fn check_process(&self) -> Result<()> {
        if self.pid != std::process::id() {
            let message =
                "a loader cannot be used in a forked child: make it after the fork, or use its batches in the parent";
            return Err(Error::new(ErrorKind::Closed, message));
        }
        Ok(())
    }

    /// Batches with samples that are announced ahead.
    fn predownload(&self) -> usize {
        let batch = u64::from(self.config.batch_size);
        let samples = self.config.engine.predownload.unwrap_or(8 * batch);
        usize::try_from(samples.div_ceil(batch)).unwrap_or(usize::MAX).max(self.prefetch as usize)
    }

    /// Samples per chunk for `threads` decode threads.
    fn chunk(&self, threads: usize) -> usize {
        let batch = self.config.batch_size as usize;
        // Four chunks per thread and batch, so that the threads finish a batch at about the same time.
        let even = batch / (threads * 4);
        if self.fields.iter().any(|plan| plan.has_pictures()) {
            return even.clamp(1, CHUNK_MAX);
        }
        // Copies are so short that larger chunks pay, while the batches in flight have two chunks for each thread.
        let sample_bytes = self.catalog.sample_bytes_mean().max(1);
        let worth = usize::try_from(CHUNK_BYTES / sample_bytes).unwrap_or(CHUNK_MAX);
        let in_flight = batch.saturating_mul(self.prefetch as usize + 1);
        even.max(worth.min(in_flight / (threads * 2))).clamp(1, CHUNK_MAX)
    }

    /// Lets programs ask for the figures. Not before an epoch, since no thread starts earlier.
    fn watch(&self) -> Result<()> {
        let mut watch = self.watch.lock();
        if watch.is_none() {
            *watch = plan::watch_of(&self.config, &self.stats)?;
        }
        Ok(())
    }

    fn pools(&self) -> Result<Pools> {
        let mut pools = self.pools.lock();
        if let Some(pools) = &*pools {
            return Ok(pools.clone());
        }
        let new = Pools::new(&self.config, self.prefetch, &self.topology, &*self.delivery, self.layout.slot_bytes())?;
        *pools = Some(new.clone());
        Ok(new)
    }
}

/// Makes the figures of a loader. Their table has the stages in data-flow order.
fn stats(has_trace: bool) -> Arc<Stats> {
    let stats = Stats::new(has_trace);
    for stage in ["schedule", "shard", "fetch", "unpack", "publish", "read", "decode", "place", "map", "next"] {
        stats.stage(stage);
    }
    Arc::new(stats)
}
