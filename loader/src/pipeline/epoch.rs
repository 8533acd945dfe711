//! Wiring of one epoch: makes the stages, starts their threads, and ends them.

use super::consumer::Consumer;
use super::device::offload::{DeviceFeatures, DeviceOffload};
use super::plan::BatchPlan;
use super::refill::{MakePlan, Refills};
use super::sample::batch_layout::BatchLayout;
use super::sample::consumer_memory::ConsumerMemory;
use super::sample::decode::DecodeStage;
use super::sample::offload::Offload;
use super::sample::place::PlaceStage;
use super::schedule::{Dispatcher, LeftOut, Pace, Scheduler, StageSender};
use super::shard::open_shards::OpenShards;
use super::shard::plane::ShardPlane;
use super::shard::residency::Residency;
use super::shard::source::ShardSource;
use super::shard::stage::ShardStage;
use super::skip::SkipBudget;
use super::threads::Threads;
use super::workers::NumaWorkers;
use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::decode::FieldPlan;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::memory::BatchPool;
use crate::order::Rank;
use crate::stats::Stats;
use crate::sync::{Arc, Mutex};
use crossbeam::channel::unbounded;
use forebay_core::flow::ReorderQueue;
use forebay_core::flow::Run;
use std::collections::HashSet;
use std::time::Duration;

/// Counters that every epoch reports, used or not.
const COUNTERS: &[&str] = &[
    "samples_skipped",
    "batches_refilled",
    "batches_unpooled",
    "steps_left_out",
    "pictures_on_device",
    "pictures_on_engines",
    "pictures_refused",
    "pictures_shared",
    "pictures_not_for_device",
    "device_decode_fallbacks",
    "rows_gpu_direct",
    "rows_gpu_direct_refused",
    "gpu_direct_storage_fallbacks",
];

/// Arguments of [`Epoch::start`]. Everything behind an `Arc` outlives the epoch.
pub(crate) struct EpochSetup<'a> {
    pub(crate) config: &'a LoaderConfig,
    pub(crate) plan: BatchPlan,
    /// Plans the epoch from its beginning: `plan` may be the rest of it.
    pub(crate) whole_plan: MakePlan,
    /// Plans the epoch after it.
    pub(crate) next_plan: MakePlan,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) open_shards: Arc<OpenShards>,
    /// One plan for each layout of the data set's shards, all with the same outputs.
    pub(crate) fields: Vec<Arc<FieldPlan>>,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) batches: BatchPool,
    pub(crate) workers: Vec<NumaWorkers>,
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) device: DeviceFeatures,
    pub(crate) stats: Arc<Stats>,
    /// Batches in flight, including the one that the consumer waits for.
    pub(crate) ahead: u64,
    pub(crate) shard_plane: ShardPlane,
    pub(crate) pace: Pace,
    /// Numbers in the epoch of the batches that are left out.
    pub(crate) left_out: HashSet<u64>,
}

/// Running epoch. Dropping it ends it as [`end`](Self::end) does.
pub(crate) struct Epoch {
    pub(crate) consumer: Arc<Consumer>,
    threads: Threads,
    /// Process that the threads belong to.
    pid: u32,
}

impl Epoch {
    /// Starts the epoch of `setup.plan`.
    ///
    /// # Errors
    ///
    /// When the system rejects a thread.
    pub(crate) fn start(setup: EpochSetup<'_>) -> Result<Self> {
        let EpochSetup { config, plan, whole_plan, next_plan, catalog, open_shards, .. } = setup;
        let EpochSetup { fields, layout, batches, workers, delivery, device, stats, pace, .. } = setup;
        let (epoch, rank) = (plan.cells().epoch(), Rank(config.world.rank));
        let order = plan.rank(rank);
        let global_batch = plan.cells().parallel_world().ranks() * u64::from(config.batch_size);
        let first_batch = plan.cells().sample_in_epoch() / global_batch;
        COUNTERS.iter().for_each(|name| drop(stats.counter(name)));
        let run = Run::new();
        let reorder = Arc::new(ReorderQueue::new(setup.ahead));
        let residency = Arc::new(Residency::new(catalog.shape().num_shards(), open_shards.may_be_evicted()));
        let (chunks, chunk_queue) = unbounded();
        let dispatcher = Arc::new(Dispatcher { residency: residency.clone(), chunks: StageSender::new(chunks) });
        let (device, device_queues) = DeviceOffload::new(device, &stats).unzip();
        let offload = device.clone().map(|device| device as Arc<dyn Offload>);

        let source = Arc::new(ShardSource::new(
            (catalog.clone(), open_shards),
            residency,
            run.clone(),
            (plan, next_plan, rank),
            setup.shard_plane,
            stats.clone(),
        ));
        let stage = stats.stage("shard");
        let shards = Arc::new(ShardStage { source: source.clone(), dispatcher: dispatcher.clone(), stage });
        let scheduler = Scheduler {
            pace,
            catalog: catalog.clone(),
            layout: layout.clone(),
            batches: batches.clone(),
            reorder: reorder.clone(),
            dispatcher: dispatcher.clone(),
            run: run.clone(),
            stage: stats.stage("schedule"),
            extension: device.as_ref().map(|device| device.extension()),
            batches_unpooled: stats.counter("batches_unpooled"),
            left_out: LeftOut { batches: setup.left_out, epoch, first_batch, count: stats.counter("steps_left_out") },
        };
        let place = Arc::new(PlaceStage {
            epoch,
            first_batch,
            is_alone: config.world.world_size == 1,
            max_errors: config.skip.errors,
            delivery: delivery.clone(),
            reorder: reorder.clone(),
            refills: Refills::new(whole_plan, rank),
            catalog: catalog.clone(),
            dispatcher: dispatcher.clone(),
            offload,
            stage: stats.stage("place"),
            batches_refilled: stats.counter("batches_refilled"),
        });
        let skip = Arc::new(SkipBudget::new(catalog, config.skip.errors, &stats));
        let consumer_memory =
            Arc::new(ConsumerMemory { delivery, dispatcher, reorder, run: run.clone(), waiting: Mutex::default() });
        let decode = Arc::new(DecodeStage {
            fields,
            layout,
            sample_bytes_max: config.engine.sample_bytes_max,
            source: source.clone(),
            consumer_memory: consumer_memory.clone(),
            skip: skip.clone(),
            place: place.clone(),
            run: run.clone(),
            stats,
        });

        let threads = Threads::new(run.clone());
        let consumer = Arc::new(Consumer {
            run: run.clone(),
            place,
            consumer_memory,
            source: source.clone(),
            batches,
            skip,
            stall_timeout: Duration::from_secs_f64(config.engine.stall_timeout),
            wait: Mutex::default(),
        });
        // Weak: the consumer's side holds the run.
        let weak = Arc::downgrade(&consumer);
        run.on_stop(move || {
            if let Some(consumer) = weak.upgrade() {
                consumer.wake();
            }
        });
        // From here on an error ends the threads that have been started.
        let epoch = Self { consumer, threads, pid: std::process::id() };
        epoch.threads.start("fb-schedule", "schedule", false, move || scheduler.run(order))?;
        epoch.threads.start("fb-janitor", "shard", false, move || source.keep_house())?;
        for i in 0..setup.shard_plane.threads {
            let shards = shards.clone();
            epoch.threads.start(&format!("fb-shard-{i}"), "shard", false, move || shards.run())?;
        }
        if let (Some(device), Some(queues)) = (device, device_queues) {
            device.start(queues, &decode, &epoch.threads)?;
        }
        let mut first_thread = 0;
        for (node, workers_of_node) in workers.iter().enumerate() {
            workers_of_node.start(node, first_thread, &decode, &chunk_queue, &epoch.threads)?;
            first_thread += workers_of_node.decode_cpus.len();
        }
        Ok(epoch)
    }

    /// Stops and joins every thread, except those that wait for a device which does not answer. A wait in
    /// [`Consumer::take`] returns [`TakeOutcome::Stopped`](forebay_core::flow::TakeOutcome::Stopped).
    pub(crate) fn end(&self) {
        if self.pid != std::process::id() {
            // A forked child has no threads to join, and a lock may be held by a thread that does not exist here.
            std::mem::forget(self.consumer.clone());
            return;
        }
        self.consumer.run.stop();
        if self.threads.join() {
            // Only the first time: shards that are open or kept later belong to the next epoch.
            self.consumer.source.release_all();
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.end();
        if self.pid != std::process::id() {
            self.threads.forget();
        }
    }
}
