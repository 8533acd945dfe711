//! Options of the order of the samples, besides `shuffle` and `seed`.

use super::limits::require;
use super::options::{OptionInfo, SampleValues, Steps, options};
use crate::error::Result;
use crate::order::REPEAT_AUGMENT_MAX;
use serde::{Deserialize, Serialize};

options! {
    /// Order of the samples, besides `shuffle` and `seed`.
    pub struct OrderConfig {
        /// Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
        pub shuffle_algo: String = "py1e".into(),
        /// Samples that are shuffled together. None: max(4,000,000 / canonical nodes, 262,144).
        pub shuffle_block_size: Option<u64> = None,
        /// Partition algorithm: "relaxed" or "orig".
        pub partition_algo: String = "relaxed".into(),
        /// Nodes that define the order. None: this job's nodes, or 64 times as many for py1s and py2s.
        pub num_canonical_nodes: Option<u32> = None,
        /// Number of consecutive ranks that get the same samples.
        pub replication: Option<u32> = None,
        /// Samples of an epoch. None: the sum of the streams' shares.
        pub epoch_size: Option<u64> = None,
        /// Rows of each sample, with separate draws; an epoch keeps its length and has fewer samples.
        pub repeat_augment: u32 = 1,
        /// Seed of random crops and flips. None: `seed`.
        pub augment_seed: Option<u64> = None,
        /// Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws once.
        pub sampling_method: String = "balanced".into(),
        /// Samples that are drawn together.
        pub sampling_granularity: u32 = 1,
        /// Mix of streams in a batch: "random", "stratified", "per_stream" or "device_per_stream".
        pub batching_method: String = "random".into(),
        /// Lengths, to batch samples of similar length: a number column, bytes of any column, or as in `weights`.
        pub bucket_by: Option<SampleValues> = None,
        /// Global batches that `bucket_by` sorts together.
        pub bucket_batches: u32 = 64,
        /// Steps to leave out on all ranks, counted through all epochs. Checkpoints keep them.
        pub skip_steps: Option<Steps> = None,
    }
}

impl OrderConfig {
    /// Checks the options for a job of `world_size` ranks.
    pub(super) fn validate(&self, world_size: u32) -> Result<()> {
        require(self.shuffle_block_size != Some(0), "order.shuffle_block_size must be at least 1 sample")?;
        require(
            self.epoch_size != Some(0),
            "order.epoch_size must be at least 1 sample, or None for the sum of the streams",
        )?;
        require(
            self.num_canonical_nodes != Some(0),
            "order.num_canonical_nodes must be at least 1, or None for the default",
        )?;
        require(self.sampling_granularity >= 1, "order.sampling_granularity must be at least 1")?;
        require(
            (1..=REPEAT_AUGMENT_MAX).contains(&self.repeat_augment),
            "order.repeat_augment is the number of rows of a sample: from 1, which repeats nothing, to 256",
        )?;
        require(self.bucket_batches >= 1, "order.bucket_batches must be at least 1 global batch")?;
        require(
            self.replication.is_none_or(|ranks| ranks >= 1 && world_size.is_multiple_of(ranks)),
            "order.replication must be at least 1 and divide the number of ranks",
        )
    }
}
