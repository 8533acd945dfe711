//! Input of batching, and the sequences made from it.

use std::sync::Arc;

use super::sequence::Sequence;
use crate::arrangement::{Arrangement, BucketArgs};
use crate::config::{BatchingMethod, OrderConfig, SamplingMethod};
use crate::error::{OrderError, OrderWarning};
use crate::ids::StreamId;
use crate::partition::{Partition, PartitionArgs};
use crate::resume::Start;
use crate::sampling::{Draws, SamplingSeeds};
use crate::shape::DataSetShape;
use crate::shuffle::{Shuffle, ShuffleArgs};
use crate::token_targets::TokenTargets;
use crate::weights::EpochShares;
use crate::world::World;

pub(crate) struct BatchingArgs<'a> {
    pub(crate) shape: &'a DataSetShape,
    pub(crate) config: &'a OrderConfig,
    pub(crate) shares: &'a EpochShares,
    pub(crate) world: World,
    pub(crate) start: Start,
    /// Shares in tokens, to which streams are cut.
    pub(crate) targets: Option<&'a TokenTargets>,
}

impl BatchingArgs<'_> {
    pub(super) fn nodes(&self) -> u64 {
        u64::from(self.world.nodes)
    }

    pub(super) fn ranks_per_node(&self) -> u64 {
        u64::from(self.world.ranks_per_node)
    }

    pub(super) fn global_batch(&self) -> u64 {
        self.world.ranks() * self.config.batch_size
    }

    /// Seed of the streams' order and of the shards' shares. It changes with the epoch only if samples are shuffled.
    pub(super) fn shares_seed(&self) -> u128 {
        if self.config.shuffle { self.picks_seed() } else { u128::from(self.start.seed) }
    }

    /// Seed of the samples within a shard's share, which follow the method alone, as in the reference.
    fn picks_seed(&self) -> u128 {
        let is_balanced = self.config.sampling_method == SamplingMethod::Balanced;
        u128::from(self.start.seed) + u128::from(if is_balanced { self.start.epoch } else { 0 })
    }

    /// Input of the deal of `samples` in this world, from the first sample.
    pub(super) fn partition_args(&self, samples: u64) -> PartitionArgs {
        PartitionArgs {
            samples,
            canonical: self.start.canonical,
            nodes: self.nodes(),
            ranks_per_node: self.ranks_per_node(),
            batch: self.config.batch_size,
            drop_first: 0,
            initial_nodes: self.start.initial_nodes,
            equal_ranks: self.config.equal_ranks,
        }
    }

    /// Makes the sequence of `streams`. `deal` returns the input of the deal for a number of draws.
    pub(super) fn sequence(
        &self,
        streams: &[(StreamId, u64)],
        block: u64,
        deal: impl Fn(u64) -> PartitionArgs,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Sequence, OrderError> {
        let seeds = SamplingSeeds { shares: self.shares_seed(), picks: self.picks_seed() };
        let weights = &self.config.sample_weights;
        let draws = Draws::new(self.shape, streams, self.config.sampling_granularity, seeds, (weights, self.targets))?;
        let partition = Partition::new(self.config.partition_algo, deal(draws.len()), warnings)?;
        let shuffle = if !self.config.shuffle {
            Shuffle::Off
        } else {
            if block == 0 && self.config.batching_method == BatchingMethod::DevicePerStream {
                return Err(OrderError::StreamBlockZero { stream: streams[0].0.0 });
            }
            let args = ShuffleArgs {
                units: &draws.units,
                canonical: self.start.canonical,
                seed: self.start.seed,
                epoch: self.start.epoch,
                block,
            };
            Shuffle::new(self.config.shuffle_algo, &args, warnings)?
        };
        let stream = (streams.len() == 1).then(|| streams[0].0);
        let arrangement = Arrangement::new(self.config.repeat_augment, self.buckets(), &partition.deal.starts);
        Ok(Sequence { stream, draws: Arc::new(draws), partition, shuffle, arrangement })
    }

    /// Buckets of a sequence with the same global batches as the epoch.
    fn buckets(&self) -> Option<BucketArgs> {
        let seed = u128::from(self.start.seed) + u128::from(self.start.epoch);
        let seed = self.config.shuffle.then_some(seed);
        let buckets = self.config.buckets.as_ref();
        buckets.map(|buckets| BucketArgs { batch: self.global_batch(), batches: buckets.batches, seed })
    }

    pub(super) fn sequence_per_stream(
        &self,
        deal: impl Fn(u64) -> PartitionArgs,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Vec<Sequence>, OrderError> {
        let streams = self.shares.choose.iter().enumerate();
        streams
            .map(|(stream, &choose)| {
                // A stream's part of the shuffle block.
                let block = self.start.block as f64 * self.shares.proportion[stream];
                self.sequence(&[(StreamId(stream as u32), choose)], block as u64, &deal, warnings)
            })
            .collect()
    }
}
