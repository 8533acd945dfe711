//! What batches are made of. `random` makes one sequence of all streams; the others make a sequence of each stream
//! (its draws, its deal, its shuffle) and merge them.
//!
//! A [`Batching`] says which place of which sequence stands in a row of a rank's batch; nothing is stored per sample.
//! Each method is a file.

mod device_per_stream;
mod origins;
mod per_stream;
mod random;
mod stratified;

use super::config::{BatchingMethod, OrderConfig};
use super::error::{OrderError, OrderWarning};
use super::ids::StreamId;
use super::partition::{Cell, Partition, PartitionArgs};
use super::resume::Start;
use super::sampling::{Draws, SamplingSeeds};
use super::shape::DataSetShape;
use super::shuffle::{Shuffle, ShuffleArgs};
use super::weights::EpochShares;
use super::world::World;

/// A list of draws with its own deal and shuffle.
#[derive(Debug)]
pub(super) struct Sequence {
    /// The stream of all draws, if there is just one.
    pub(super) stream: Option<StreamId>,
    pub(super) draws: Draws,
    pub(super) partition: Partition,
    pub(super) shuffle: Shuffle,
}

/// Where a rank's reader stands.
#[derive(Clone, Debug, Default)]
pub(super) struct RankPlace {
    pub(super) node: u64,
    pub(super) rank_of_node: u64,
    /// Batch of this plan, from 0.
    pub(super) batch: u64,
    /// The sequence of this batch and its row there, for methods that make a batch of one stream.
    sequence: usize,
    row: u64,
    /// Batches of each sequence among the first `counted` origins.
    counts: Vec<u64>,
    counted: u64,
}

/// The place of a row of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) sequence: usize,
    pub(super) cell: Cell,
}

/// How sequences become batches.
#[derive(Debug)]
pub(super) enum Batching {
    Random(random::Random),
    PerStream(per_stream::PerStream),
    DevicePerStream(device_per_stream::DevicePerStream),
    Stratified(stratified::Stratified),
}

impl RankPlace {
    /// A reader of a rank; it has to be put on a batch first.
    pub(super) fn new(node: u64, rank_of_node: u64) -> Self {
        Self { node, rank_of_node, ..Self::default() }
    }
}

impl Batching {
    /// Global batches, those of nothing but padding included.
    pub(super) fn batches(&self) -> u64 {
        match self {
            Self::Random(method) => method.batches(),
            Self::PerStream(method) => method.batches(),
            Self::DevicePerStream(method) => method.batches(),
            Self::Stratified(method) => method.batches(),
        }
    }

    /// Places of the whole epoch, all ranks together, `global_batch` of them in each batch: at this one it is over.
    pub(super) fn end(&self, sequences: &[Sequence], global_batch: u64) -> u64 {
        match self {
            Self::Random(_) => sequences[0].partition.end(),
            Self::PerStream(method) => method.epoch_batches() * global_batch,
            Self::DevicePerStream(method) => method.epoch_batches() * global_batch,
            Self::Stratified(method) => method.epoch_batches() * global_batch,
        }
    }

    /// Moves a reader to a batch below `batches`.
    pub(super) fn seek(&self, place: &mut RankPlace, batch: u64) {
        place.batch = batch;
        match self {
            Self::Random(_) | Self::Stratified(_) => {}
            Self::PerStream(method) => method.seek(place),
            Self::DevicePerStream(method) => method.seek(place),
        }
    }

    /// What stands in `column` of the reader's batch; `None` for padding.
    #[inline]
    pub(super) fn slot(&self, sequences: &[Sequence], place: &RankPlace, column: u64) -> Option<Slot> {
        match self {
            Self::Random(method) => method.slot(sequences, place, column),
            Self::PerStream(method) => method.slot(sequences, place, column),
            Self::DevicePerStream(method) => method.slot(sequences, place, column),
            Self::Stratified(method) => method.slot(sequences, place, column),
        }
    }
}

/// All that batching is made from.
pub(super) struct BatchingArgs<'a> {
    pub(super) shape: &'a DataSetShape,
    pub(super) config: &'a OrderConfig,
    pub(super) shares: &'a EpochShares,
    pub(super) world: World,
    pub(super) start: Start,
}

impl BatchingArgs<'_> {
    fn nodes(&self) -> u64 {
        u64::from(self.world.nodes)
    }

    fn ranks_per_node(&self) -> u64 {
        u64::from(self.world.ranks_per_node)
    }

    fn global_batch(&self) -> u64 {
        self.world.ranks() * self.config.batch_size
    }

    /// Seed of the streams' order, and of the shards' shares: it changes with the epoch only when shuffled.
    fn shares_seed(&self) -> u128 {
        let epoch = if self.config.shares_follow_epoch() { self.start.epoch } else { 0 };
        u128::from(self.start.seed) + u128::from(epoch)
    }

    fn seeds(&self) -> SamplingSeeds {
        let is_balanced = self.config.sampling_method == super::config::SamplingMethod::Balanced;
        let epoch = if is_balanced { self.start.epoch } else { 0 };
        SamplingSeeds { shares: self.shares_seed(), picks: u128::from(self.start.seed) + u128::from(epoch) }
    }

    /// The deal of `samples` among this world, from the first sample.
    fn partition_args(&self, samples: u64) -> PartitionArgs {
        PartitionArgs {
            samples,
            canonical: self.start.canonical,
            nodes: self.nodes(),
            ranks_per_node: self.ranks_per_node(),
            batch: self.config.batch_size,
            drop_first: 0,
            initial_nodes: self.start.initial_nodes,
        }
    }

    /// A stream's part of the shuffle block.
    fn stream_block(&self, stream: usize) -> u64 {
        (self.start.block as f64 * self.shares.proportion[stream]) as u64
    }

    /// The sequence of `streams`, dealt as `deal` says for its number of draws.
    fn sequence(
        &self,
        streams: &[(StreamId, u64)],
        block: u64,
        deal: impl Fn(u64) -> PartitionArgs,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Sequence, OrderError> {
        let draws = Draws::new(self.shape, streams, self.config.sampling_granularity, self.seeds())?;
        let partition = Partition::new(self.config.partition_algo, deal(draws.len()), warnings)?;
        let shuffle = match self.config.shuffle {
            false => Shuffle::Off,
            true => {
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
            }
        };
        let stream = (streams.len() == 1).then(|| streams[0].0);
        Ok(Sequence { stream, draws, partition, shuffle })
    }

    /// A sequence for each stream.
    fn sequence_per_stream(
        &self,
        deal: impl Fn(u64) -> PartitionArgs,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Vec<Sequence>, OrderError> {
        let streams = self.shares.choose.iter().enumerate();
        streams
            .map(|(stream, &choose)| {
                let block = self.stream_block(stream);
                self.sequence(&[(StreamId(stream as u32), choose)], block, &deal, warnings)
            })
            .collect()
    }

    /// The first global batch after `sample_in_epoch`.
    fn resume_batch(&self, warnings: &mut Vec<OrderWarning>) -> u64 {
        let global_batch = self.global_batch();
        if !self.start.sample_in_epoch.is_multiple_of(global_batch) {
            warnings.push(OrderWarning::ResumeRoundedDown { multiple: global_batch });
        }
        self.start.sample_in_epoch / global_batch
    }

    /// The sequences of the configured method and how they become batches.
    pub(super) fn build(&self, warnings: &mut Vec<OrderWarning>) -> Result<(Vec<Sequence>, Batching), OrderError> {
        match self.config.batching_method {
            BatchingMethod::Random => random::build(self, warnings),
            BatchingMethod::PerStream => per_stream::build(self, warnings),
            BatchingMethod::DevicePerStream => device_per_stream::build(self, warnings),
            BatchingMethod::Stratified => stratified::build(self, warnings),
        }
    }
}
