//! Plan of an epoch.

use std::sync::Arc;

use super::batching::{Batching, BatchingArgs, Method, Sequence};
use super::config::{BATCH_SIZE_MAX, BUCKET_WINDOW_MAX, Buckets, OrderConfig};
use super::error::{OrderError, OrderWarning};
use super::ids::{Rank, StreamId};
use super::partition::PartitionArgs;
use super::resume::{Resume, Start};
use super::sample_numbers::hash_of;
use super::sampling::check_units;
use super::shape::{DataSetShape, Hasher};
use super::token_targets::TokenTargets;
use super::weights::{EpochShares, epoch_shares};
use super::world::World;

/// Name in [`arguments`] of the rows of each sample, which is absent if there is one.
pub const REPEAT_AUGMENT: &str = "repeat_augment";
/// Name in [`arguments`] of the hash of the samples' weights, which is absent if there are none.
pub const SAMPLE_WEIGHTS: &str = "sample weights";
/// Name in [`arguments`] of the buckets by length, which is absent if there are none.
pub const BUCKETS: &str = "buckets";

/// The order of an epoch, or of its rest after a checkpoint, for all ranks. Cheap to clone; holds tens of bytes
/// per shard and, except for `naive` shuffles, fractional weights and weights of samples (4 bytes a sample), nothing
/// per sample.
#[derive(Clone, Debug)]
pub struct EpochPlan(pub(super) Arc<PlanParts>);

#[derive(Debug)]
pub(super) struct PlanParts {
    shape: DataSetShape,
    config: OrderConfig,
    world: World,
    /// With groups of replicated ranks counted as one.
    parallel: World,
    shares: EpochShares,
    start: Start,
    pub(super) sequences: Vec<Sequence>,
    pub(super) batching: Batching,
    warnings: Vec<OrderWarning>,
}

impl EpochPlan {
    /// Plans `epoch` for `world`, or resumes: with `resume`, the plan is for the checkpoint's epoch from the
    /// checkpoint's cell on, if that epoch is not earlier than `epoch`; otherwise only the checkpoint's canonical
    /// nodes, seed and first run's nodes are used.
    ///
    /// ```
    /// use forebay_order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
    ///
    /// let shape = DataSetShape::new(&[vec![3, 3, 2]])?;
    /// let config = OrderConfig { shuffle: true, batch_size: 2, ..OrderConfig::default() };
    /// let world = World { nodes: 1, ranks_per_node: 2, workers_per_rank: 1 };
    /// let plan = EpochPlan::new(&shape, &config, world, 0, None)?;
    /// let mut samples: Vec<u64> = (0..2).flat_map(|r| plan.rank(Rank(r))).map(|p| p.sample.0).collect();
    /// samples.sort();
    /// assert_eq!(samples, [0, 1, 2, 3, 4, 5, 6, 7]);
    /// # Ok::<(), forebay_order::OrderError>(())
    /// ```
    ///
    /// # Errors
    /// The reference's errors, where it raises them; arguments out of range; no memory for a plan that needs some.
    pub fn new(
        shape: &DataSetShape,
        config: &OrderConfig,
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
    ) -> Result<Self, OrderError> {
        // The reference checks the world before the weights.
        parallel_world(shape, config, world)?;
        let shares = shares_of(shape, config)?;
        Self::of_shares(shape, config, shares, world, epoch, resume)
    }

    /// Like [`new`](Self::new), with shares computed before: the reference computes them once, with the seed of its
    /// constructor, and keeps them when a checkpoint has a different seed. The configuration's weights and epoch size
    /// are ignored.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if there are not as many shares as streams.
    pub fn of_shares(
        shape: &DataSetShape,
        config: &OrderConfig,
        shares: EpochShares,
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
    ) -> Result<Self, OrderError> {
        Self::of_targets(shape, config, (shares, None), world, epoch, resume)
    }

    /// Plans an epoch for a single rank, with the streams cut to `targets`; `samples` of each stream are drawn first.
    pub(super) fn of_tokens(
        shape: &DataSetShape,
        config: &OrderConfig,
        samples: Vec<u64>,
        targets: &TokenTargets,
        epoch: u64,
        resume: &Resume,
    ) -> Result<Self, OrderError> {
        let epoch_size = samples.iter().fold(0_u64, |sum, samples| sum.saturating_add(*samples));
        let proportion = samples.iter().map(|&samples| samples as f64 / epoch_size as f64).collect();
        let shares = EpochShares { choose: samples, proportion, epoch_size };
        Self::of_targets(shape, config, (shares, Some(targets)), World::single(), epoch, Some(resume))
    }

    fn of_targets(
        shape: &DataSetShape,
        config: &OrderConfig,
        (shares, targets): (EpochShares, Option<&TokenTargets>),
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
    ) -> Result<Self, OrderError> {
        let parallel = parallel_world(shape, config, world)?;
        let counts = [shares.choose.len(), shares.proportion.len()];
        OrderError::unless(counts == [shape.num_streams(); 2], "shares", "as many as streams")?;
        let streams = shares.choose.iter().enumerate().map(|(stream, &choose)| (StreamId(stream as u32), choose));
        // Methods that draw each stream by itself check no more than that one.
        check_units(shape, &streams.collect::<Vec<_>>())?;
        let start = Start::new(config, parallel, epoch, resume)?;
        let args = BatchingArgs { shape, config, shares: &shares, world: parallel, start, targets };
        let mut warnings = Vec::new();
        let (sequences, batching) = Batching::build(&args, &mut warnings)?;
        Ok(Self(Arc::new(PlanParts {
            shape: shape.clone(),
            config: config.clone(),
            world,
            parallel,
            shares,
            start,
            sequences,
            batching,
            warnings,
        })))
    }

    /// Epoch of this plan, from 0.
    pub fn epoch(&self) -> u64 {
        self.0.start.epoch
    }

    /// Cells of the epoch before this plan's start, all ranks together, as in the checkpoint.
    pub fn sample_in_epoch(&self) -> u64 {
        self.0.start.sample_in_epoch
    }

    /// Number of cells of the whole epoch, all ranks together. It does not depend on this plan's start.
    pub fn end(&self) -> u64 {
        self.0.batching.end
    }

    /// The last cell at which the reference resumes this epoch; `None`: no limit. A plan resumes up to
    /// [`end`](Self::end), which is later if canonical nodes are equalised.
    pub fn reference_end(&self) -> Option<u64> {
        self.resumed_deal().map(PartitionArgs::reference_end)
    }

    /// Rejects a start that the reference rejects, for programs that call its functions.
    ///
    /// # Errors
    /// `ResumedPastEnd`: this plan starts after [`reference_end`](Self::reference_end).
    pub fn reject_as_reference(&self) -> Result<(), OrderError> {
        self.resumed_deal().map_or(Ok(()), PartitionArgs::reject_as_reference)
    }

    /// Input of the deal from the checkpoint on; `None` for methods that deal the whole epoch.
    fn resumed_deal(&self) -> Option<&PartitionArgs> {
        matches!(self.0.batching.method, Method::Random).then(|| &self.0.sequences[0].partition.args)
    }

    /// Returns the checkpoint after `sample_in_epoch` cells, counted from the beginning of the epoch.
    pub fn state(&self, sample_in_epoch: u64) -> Resume {
        let start = &self.0.start;
        Resume {
            epoch: start.epoch,
            sample_in_epoch,
            num_canonical_nodes: start.canonical,
            shuffle_seed: start.seed,
            initial_physical_nodes: Some(start.initial_nodes.unwrap_or(u64::from(self.0.parallel.nodes))),
        }
    }

    /// Samples of an epoch and each stream's part of it.
    pub fn shares(&self) -> &EpochShares {
        &self.0.shares
    }

    /// Canonical nodes, as resolved.
    pub fn num_canonical_nodes(&self) -> u64 {
        self.0.start.canonical
    }

    /// Samples of a shuffle block, as resolved.
    pub fn shuffle_block_size(&self) -> u64 {
        self.0.start.block
    }

    /// The world.
    pub fn world(&self) -> World {
        self.0.world
    }

    /// The world with groups of replicated ranks counted as one. Cells of the epoch are dealt to these ranks.
    pub fn parallel_world(&self) -> World {
        self.0.parallel
    }

    /// Samples of a batch on one device.
    pub fn batch_size(&self) -> u64 {
        self.0.config.batch_size
    }

    /// The buckets by length.
    pub(super) fn buckets(&self) -> Option<&Buckets> {
        self.0.config.buckets.as_ref()
    }

    /// The data set.
    pub fn shape(&self) -> &DataSetShape {
        &self.0.shape
    }

    /// The warnings that the reference would print.
    pub fn warnings(&self) -> &[OrderWarning] {
        &self.0.warnings
    }

    /// The rank among the parallel ranks that `rank` and its replicas count as.
    pub(super) fn parallel_rank(&self, rank: Rank) -> Rank {
        assert!(u64::from(rank.0) < self.0.world.ranks(), "{rank} of {} ranks", self.0.world.ranks());
        Rank(rank.0 / self.0.config.replication.unwrap_or(1))
    }
}

/// Checks the arguments of plans, without making one.
///
/// # Errors
/// Errors of [`EpochPlan::new`] that do not depend on the epoch and the streams' shares.
pub fn check(shape: &DataSetShape, config: &OrderConfig, world: World) -> Result<(), OrderError> {
    parallel_world(shape, config, world)?;
    shares_of(shape, config).map(drop)
}

/// Returns the world that partitions samples, after a check of arguments and world.
pub(super) fn parallel_world(shape: &DataSetShape, config: &OrderConfig, world: World) -> Result<World, OrderError> {
    world.validate()?;
    config.validate(shape.num_streams())?;
    let parallel = match config.replication {
        Some(replication) => world.replicate(replication)?,
        None => world,
    };
    let global_batch = parallel.ranks() * config.batch_size;
    OrderError::unless(global_batch <= BATCH_SIZE_MAX << 8, "the global batch", "at most 2^32")?;
    if let Some(buckets) = &config.buckets
        && buckets.batches.saturating_mul(global_batch) > BUCKET_WINDOW_MAX
    {
        return Err(OrderError::BucketsTooLarge { rows: global_batch, window_max: BUCKET_WINDOW_MAX });
    }
    check_numbers(shape, config)?;
    Ok(parallel)
}

/// Checks that each sample has its weight and its length, where there are some.
fn check_numbers(shape: &DataSetShape, config: &OrderConfig) -> Result<(), OrderError> {
    let weights = config.sample_weights.iter().enumerate();
    let weights = weights.filter_map(|(stream, weights)| Some((stream, weights.as_ref()?)));
    let lengths = config.buckets.iter().flat_map(|buckets| buckets.lengths.iter().enumerate());
    for (stream, numbers) in weights.chain(lengths) {
        let samples = shape.samples_of(StreamId(stream as u32));
        let is_good = numbers.values().len() as u64 == samples.end - samples.start;
        OrderError::unless(is_good, "the weights and lengths of samples", "one for each sample of a stream")?;
    }
    Ok(())
}

/// Returns the samples of an epoch and each stream's part of it.
///
/// # Errors
/// The weights are mixed, out of range or choose nothing.
pub fn shares_of(shape: &DataSetShape, config: &OrderConfig) -> Result<EpochShares, OrderError> {
    let streams = (0..shape.num_streams() as u32).map(|stream| shape.samples_of(StreamId(stream)));
    let samples: Vec<u64> = streams.map(|samples| samples.end - samples.start).collect();
    epoch_shares(&config.weights, &samples, config.epoch_size, config.shuffle_seed)
}

/// The arguments that must not change between a checkpoint and its resumption, as names and values. Long values
/// (weights, sizes) are hashed. The world may change, except for the global batch of buckets. The values that the
/// checkpoint itself contains are left out.
pub fn arguments(shape: &DataSetShape, config: &OrderConfig, world: World) -> Vec<(&'static str, String)> {
    let mut weights = Hasher::default();
    for weight in &config.weights {
        weights.bytes(format!("{weight:?};").as_bytes());
    }
    let optional = |value: Option<u64>| value.map_or_else(|| "default".to_owned(), |value| value.to_string());
    let mut arguments = vec![
        ("shuffle", config.shuffle.to_string()),
        ("shuffle_algo", config.shuffle_algo.name().to_owned()),
        ("shuffle_block_size", optional(config.shuffle_block_size)),
        ("partition_algo", config.partition_algo.name().to_owned()),
        ("sampling_method", config.sampling_method.name().to_owned()),
        ("sampling_granularity", config.sampling_granularity.to_string()),
        ("batching_method", config.batching_method.name().to_owned()),
        ("epoch_size", optional(config.epoch_size)),
        ("weights", format!("{:016x}", weights.finish())),
        ("shard sizes", format!("{:016x}", shape.hash())),
    ];
    // Absent in older checkpoints.
    if config.repeat_augment > 1 {
        arguments.push((REPEAT_AUGMENT, config.repeat_augment.to_string()));
    }
    if config.sample_weights.iter().any(Option::is_some) {
        let hash = hash_of(config.sample_weights.iter().map(Option::as_deref));
        arguments.push((SAMPLE_WEIGHTS, format!("{hash:016x}")));
    }
    if let Some(buckets) = &config.buckets {
        let hash = hash_of(buckets.lengths.iter().map(|lengths| Some(&**lengths)));
        // Windows have whole global batches.
        let rows = world.ranks() / u64::from(config.replication.unwrap_or(1).max(1)) * config.batch_size;
        arguments.push((BUCKETS, format!("{} batches of {rows} samples, lengths {hash:016x}", buckets.batches)));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BatchingMethod, Weight};

    /// Plans one batch more than the list of all batches may have, on as many nodes.
    fn too_long(batching_method: BatchingMethod, nodes: u32) -> OrderError {
        let shape = DataSetShape::new(&[vec![(1 << 28) + 1]]).expect("one shard");
        let config = OrderConfig { batching_method, ..OrderConfig::default() };
        let world = World { nodes, ..World::single() };
        EpochPlan::new(&shape, &config, world, 0, None).expect_err("more than the memory of a plan")
    }

    #[test]
    fn huge_weights_of_tiny_shards_are_rejected_with_the_fix() {
        let shape = DataSetShape::new(&[vec![1], vec![1]]).expect("two shards");
        for batching_method in [BatchingMethod::Random, BatchingMethod::PerStream] {
            // Each stream alone is within the bound.
            let weights = vec![Weight::Repeat((1 << 24) as f64); 2];
            let config = OrderConfig { batching_method, weights, ..OrderConfig::default() };
            let error = EpochPlan::new(&shape, &config, World::single(), 0, None).expect_err("too many shards");
            assert_eq!(error, OrderError::TooManyShards { shards: 1 << 25, shards_max: 1 << 24 });
        }
    }

    #[test]
    fn a_list_of_batches_that_takes_gigabytes_is_rejected_with_the_fix() {
        for (method, nodes) in [(BatchingMethod::PerStream, 1), (BatchingMethod::DevicePerStream, 2)] {
            let error = too_long(method, nodes);
            assert!(error.to_string().contains("raise batch_size"), "{error}");
        }
    }
}
