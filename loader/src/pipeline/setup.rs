//! Arguments of an epoch.

use super::device::offload::DeviceFeatures;
use super::refill::Refills;
use super::sample::batch_layout::BatchLayout;
use super::schedule::Pace;
use super::shard::open_shards::OpenShards;
use super::shard::source::NextPlan;
use super::workers::NumaWorkers;
use crate::catalog::Catalog;
use crate::config::OnError;
use crate::decode::FieldPlan;
use crate::delivery::Delivery;
use crate::memory::BatchPool;
use crate::order::{EpochPlan, Rank};
use crate::stats::Stats;
use crate::sync::Arc;
use std::time::Duration;

/// Arguments of [`Epoch::start`](super::epoch::Epoch::start). Everything behind an `Arc` outlives the epoch.
pub(crate) struct EpochSetup {
    pub(crate) plan: EpochPlan,
    pub(crate) rank: Rank,
    pub(crate) next_plan: NextPlan,
    pub(crate) refills: Refills,
    /// Number of the run's first batch in the epoch: not 0 after a resume.
    pub(crate) first_batch: u64,
    /// True if there are no other ranks, which would wait for a rank with fewer batches.
    pub(crate) is_alone: bool,
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
    pub(crate) on_error: OnError,
    pub(crate) max_errors: u64,
    pub(crate) sample_bytes_max: u64,
    /// Batches in flight, including the one that the consumer waits for.
    pub(crate) ahead: u64,
    pub(crate) stall_timeout: Duration,
    pub(crate) shard_threads: usize,
    pub(crate) pace: Pace,
}
