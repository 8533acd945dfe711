//! Arguments that determine the order, with the reference's names, defaults and checks.

use std::sync::Arc;

use super::error::OrderError;
use super::sample_numbers::SampleNumbers;

/// Largest number of canonical nodes; the plan keeps a few words for each.
pub const CANONICAL_NODES_MAX: u64 = 1 << 20;
/// Largest batch of one device, in samples.
pub const BATCH_SIZE_MAX: u64 = 1 << 24;
/// Most rows of one draw.
pub const REPEAT_AUGMENT_MAX: u32 = 256;
/// Most samples of a window of buckets; each process takes up to 40 bytes for each of them.
pub const BUCKET_WINDOW_MAX: u64 = 1 << 25;
/// Largest shuffle block, in samples.
pub const SHUFFLE_BLOCK_MAX: u64 = 1 << 48;

macro_rules! named {
    (
        $(#[$doc:meta])* $name:ident, $argument:literal, $allowed:literal,
        { $($(#[$item_doc:meta])* $item:ident = $text:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$item_doc])* $item,)+
        }

        impl $name {
            /// The name in configurations and checkpoints.
            pub fn name(self) -> &'static str {
                match self { $(Self::$item => $text,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = OrderError;

            fn from_str(given: &str) -> Result<Self, OrderError> {
                match given {
                    $($text => Ok(Self::$item),)+
                    _ => Err(OrderError::Unknown { argument: $argument, given: given.to_owned(), allowed: $allowed }),
                }
            }
        }
    };
}

pub(super) use named;

named!(
    /// Shuffle algorithm.
    ShuffleAlgo, "shuffle_algo", "naive, py1s, py2s, py1br, py1e", {
        /// One permutation of all samples.
        Naive = "naive",
        /// Shards, then samples within a shard's part.
        Py1s = "py1s",
        /// As `py1s`, with samples shuffled again before shards are cut at canonical nodes.
        Py2s = "py2s",
        /// Shards, then samples within blocks of varying size.
        Py1br = "py1br",
        /// Shards, then every sample is shifted within its block.
        Py1e = "py1e",
    }
);
named!(
    /// Partition of samples among nodes, ranks and workers.
    PartitionAlgo, "partition_algo", "orig, relaxed", {
        /// The number of canonical nodes divides the number of physical nodes, or the reverse.
        Orig = "orig",
        /// As `orig`, but a resumed run may have any number of nodes that divides the global batch.
        Relaxed = "relaxed",
    }
);
named!(
    /// Drawing of up- and downsampled streams.
    SamplingMethod, "sampling method", "`balanced` or `fixed`", {
        /// New samples in every epoch.
        Balanced = "balanced",
        /// The same samples in every epoch.
        Fixed = "fixed",
    }
);
named!(
    /// Mix of streams in a batch.
    BatchingMethod, "batching method", "`random`, `stratified`, `per_stream`, or `device_per_stream`", {
        /// All streams together.
        Random = "random",
        /// A fixed share of every stream in each global batch.
        Stratified = "stratified",
        /// Each global batch from one stream.
        PerStream = "per_stream",
        /// Each device batch from one stream.
        DevicePerStream = "device_per_stream",
    }
);

/// Weight of a stream: how often an epoch contains its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Weight {
    /// Each sample once; or, with an epoch size and no weights at all, in proportion to the stream's samples.
    #[default]
    Unset,
    /// Share of the epoch, relative to the proportions of all streams.
    Proportion(f64),
    /// Occurrences of each sample.
    Repeat(f64),
    /// Number of samples.
    Choose(u64),
}

/// Batches of samples of similar length.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Lengths of the samples of each stream.
    pub lengths: Vec<Arc<SampleNumbers>>,
    /// Global batches that are sorted together.
    pub batches: u64,
}

/// Arguments that determine the order. `Default` has the reference's defaults and a batch of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderConfig {
    /// True to shuffle samples.
    pub shuffle: bool,
    /// Shuffle algorithm.
    pub shuffle_algo: ShuffleAlgo,
    /// Seed of shuffling and sampling.
    pub shuffle_seed: u64,
    /// Samples of a shuffle block; `None`: max(4,000,000 / canonical nodes, 262,144).
    pub shuffle_block_size: Option<u64>,
    /// Partition algorithm.
    pub partition_algo: PartitionAlgo,
    /// Parts of the epoch, which do not depend on the world; `None`: 64 per physical node for `py1s` and `py2s`,
    /// otherwise 1.
    pub num_canonical_nodes: Option<u64>,
    /// Samples of a batch on one device.
    pub batch_size: u64,
    /// Drawing of up- and downsampled streams.
    pub sampling_method: SamplingMethod,
    /// Samples drawn at a time from one shard when a stream is up- or downsampled.
    pub sampling_granularity: u64,
    /// Mix of streams in a batch.
    pub batching_method: BatchingMethod,
    /// Consecutive ranks that get the same samples; `None`: 1.
    pub replication: Option<u32>,
    /// Samples of an epoch; `None` or 0: determined by the weights.
    pub epoch_size: Option<u64>,
    /// Rows of each sample, in succession, for augmentation. An epoch keeps its number of rows, and has one in as many
    /// of the samples of the shuffled epoch.
    pub repeat_augment: u32,
    /// One weight per stream; empty: all [`Weight::Unset`].
    pub weights: Vec<Weight>,
    /// Weights of the samples of each stream, by which its part of an epoch is drawn with replacement; empty: all
    /// without.
    pub sample_weights: Vec<Option<Arc<SampleNumbers>>>,
    /// Buckets by length.
    pub buckets: Option<Buckets>,
    /// True if all ranks get equal numbers of batches where the global batches of the first run are divided again: the
    /// last one may then repeat some of its samples. False as in the reference, where the numbers can differ.
    pub equal_ranks: bool,
}

impl Default for OrderConfig {
    fn default() -> Self {
        Self {
            shuffle: false,
            shuffle_algo: ShuffleAlgo::Py1e,
            shuffle_seed: 9176,
            shuffle_block_size: None,
            partition_algo: PartitionAlgo::Relaxed,
            num_canonical_nodes: None,
            batch_size: 1,
            sampling_method: SamplingMethod::Balanced,
            sampling_granularity: 1,
            batching_method: BatchingMethod::Random,
            replication: None,
            epoch_size: None,
            repeat_augment: 1,
            weights: Vec::new(),
            sample_weights: Vec::new(),
            buckets: None,
            equal_ranks: false,
        }
    }
}

impl OrderConfig {
    /// Checks each argument by itself; combinations are checked where they are used.
    ///
    /// # Errors
    /// An argument is outside its range.
    pub fn validate(&self, streams: usize) -> Result<(), OrderError> {
        let range = OrderError::unless;
        range((1..=BATCH_SIZE_MAX).contains(&self.batch_size), "batch_size", "from 1 to 16,777,216")?;
        range(self.sampling_granularity > 0, "`sampling_granularity`", "a positive integer")?;
        let canonical = self.num_canonical_nodes.unwrap_or(1);
        range(canonical <= CANONICAL_NODES_MAX, "num_canonical_nodes", "at most 1,048,576")?;
        let repeats = 1..=REPEAT_AUGMENT_MAX;
        range(repeats.contains(&self.repeat_augment), "repeat_augment", "from 1 to 256")?;
        let block = self.shuffle_block_size.unwrap_or(1);
        range(block <= SHUFFLE_BLOCK_MAX, "shuffle_block_size", "at most 2^48")?;
        range(self.weights.is_empty() || self.weights.len() == streams, "weights", "as many as streams")?;
        let weighted = self.sample_weights.len();
        range(weighted == 0 || weighted == streams, "sample_weights", "as many as streams")?;
        let Some(buckets) = &self.buckets else { return Ok(()) };
        range(buckets.lengths.len() == streams, "the lengths of buckets", "as many as streams")?;
        range(buckets.batches > 0, "bucket_batches", "at least 1")?;
        if self.batching_method == BatchingMethod::DevicePerStream { Err(OrderError::BucketsOfDevices) } else { Ok(()) }
    }
}
