//! Errors and warnings of plans.

use std::fmt;

use thiserror::Error;

/// Error of a plan. The first group are the reference's own errors, returned in the same cases.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields, and some need no more")]
pub enum OrderError {
    /// The checkpoint is after the end of the epoch.
    #[error("Resuming further into the dataset ({resumed}) than it has samples ({samples})")]
    ResumedPastEnd { resumed: u64, samples: u64 },
    #[error(
        "Either canonical or physical nodes must be evenly divisible by the other: set num_canonical_nodes \
         ({canonical}) to a multiple or a divisor of the physical nodes ({physical})"
    )]
    NodesDoNotDivide { canonical: u64, physical: u64 },
    /// With `relaxed` partitioning, the global batch must divide over the devices of the first run.
    #[error(
        "a global batch of {global_batch} is not evenly divisible by the {devices} devices of the first run: keep the \
         global batch size when resuming"
    )]
    GlobalBatchDoesNotDivide { global_batch: u64, devices: u64 },
    /// Too few samples to fill the canonical nodes' padding.
    #[error(
        "{samples} samples are too few to pad {canonical} canonical nodes for {physical} physical nodes: use fewer \
         nodes or more samples"
    )]
    TooFewForPadding { samples: u64, canonical: u64, physical: u64 },
    /// `py1e` has nothing to put in a canonical node.
    #[error(
        "The number of samples assigned to a canonical node is 0: reduce num_canonical_nodes ({canonical}) below the \
         samples of every stream"
    )]
    EmptyCanonicalNode { canonical: u64 },
    #[error("high <= 0: a shuffle_block_size of {block} is too small to vary: raise it")]
    BlockTooSmall { block: u64 },
    #[error(
        "stream {stream} does not have an adequate number of samples for one batch of {batch}: reduce the batch size \
         or raise the stream's weight"
    )]
    StreamTooSmall { stream: u32, batch: u64 },
    /// A stream's part of the global batch rounds to nothing.
    #[error(
        "Number of samples for stream {stream} is 0 in a global batch of {global_batch}: raise the global batch size \
         or the stream's proportion"
    )]
    StreamPortionZero { stream: u32, global_batch: u64 },
    /// A stream's part of the shuffle block rounds to nothing.
    #[error("samples from stream {stream} are not being used: raise shuffle_block_size or the stream's proportion")]
    StreamBlockZero { stream: u32 },
    #[error(
        "device_per_stream batching needs num_canonical_nodes ({canonical}) to be divisible by the physical nodes \
         ({physical})"
    )]
    CanonicalNotMultiple { canonical: u64, physical: u64 },
    /// Device batches of one stream depend on the nodes, so their samples cannot be sorted over several batches.
    #[error("bucket_by works with every batching_method but `device_per_stream`")]
    BucketsOfDevices,
    #[error("bucket_batches of {rows} samples in a global batch are more than {window_max} samples together: lower it")]
    BucketsTooLarge { rows: u64, window_max: u64 },
    /// No sample of a stream has a weight.
    #[error("all samples of stream {stream} have the weight 0: give one of them a weight, or leave the stream out")]
    NoSampleWeight { stream: u32 },
    /// No sample is chosen.
    #[error(fmt = nothing_chosen)]
    NothingChosen { stream: Option<u32> },
    #[error("stream {stream} contains no samples")]
    EmptyStream { stream: u32 },
    #[error(
        "relative (proportion) and absolute (repeat, choose, none) stream weights are incompatible with each other \
         (stream {stream} differs from stream 0)"
    )]
    MixedWeights { stream: u32 },
    /// `epoch_size` was given together with absolute weights.
    #[error("epoch_size goes with proportions, or with no weights at all: remove it or repeat and choose")]
    EpochSizeWithAbsoluteWeights,
    /// Weights do not lead to a number of samples.
    #[error("the weight of stream {stream} {why}")]
    BadWeight { stream: u32, why: &'static str },
    /// The proportions leave more samples unassigned than there are streams, or none is positive.
    #[error("the proportions must be finite, not negative and not all zero")]
    BadProportions,
    /// An argument is outside its range.
    #[error("{argument} must be {allowed}")]
    OutOfRange { argument: &'static str, allowed: &'static str },
    /// An argument has an unknown name as its value.
    #[error("Invalid {argument}: {given}. Must be one of {allowed}")]
    Unknown { argument: &'static str, given: String, allowed: &'static str },
    #[error("World size must be divisible by your replication factor: {ranks} ranks, replication {replication}")]
    ReplicationDoesNotDivide { replication: u64, ranks: u64 },
    /// The list of an epoch's batches, which methods with batches or device batches of one stream make, is too long.
    #[error(
        "an epoch of {batches} batches of single streams needs a plan of more than 1 GiB, and {batches_max} are the \
         most: raise batch_size, lower epoch_size or the streams' weights, or use a different batching_method"
    )]
    TooManyBatches { batches: u64, batches_max: u64 },
    /// Weights repeat small shards too often.
    #[error(
        "an epoch that reads {shards} shards, each repeat counted, needs a plan of more than 1 GiB, and {shards_max} \
         are the most: lower the streams' weights or epoch_size, or write larger shards"
    )]
    TooManyShards { shards: u64, shards_max: u64 },
    /// Counts of packs are damaged, or of a different epoch or data set.
    #[error("the checkpoint's counts of packs are not of this data set and epoch: resume without them")]
    PackCounts,
    /// The plan does not fit in memory.
    #[error("the plan needs {bytes} bytes that this process cannot get")]
    OutOfMemory { bytes: u64 },
}

fn nothing_chosen(stream: &Option<u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match stream {
        Some(stream) => write!(f, "no sample of stream {stream} is chosen: raise its weight or leave it out"),
        None => f.write_str("no sample is chosen: raise a stream's weight"),
    }
}

impl OrderError {
    /// Returns [`OutOfRange`](Self::OutOfRange) unless `good`.
    pub(super) fn unless(good: bool, argument: &'static str, allowed: &'static str) -> Result<(), Self> {
        if good { Ok(()) } else { Err(Self::OutOfRange { argument, allowed }) }
    }
}

#[cfg(feature = "core")]
impl From<OrderError> for forebay_core::Error {
    fn from(error: OrderError) -> Self {
        use forebay_core::ErrorKind;
        let kind = match error {
            OrderError::ResumedPastEnd { .. } | OrderError::PackCounts => ErrorKind::State,
            OrderError::OutOfMemory { .. } => ErrorKind::Full,
            _ => ErrorKind::Config,
        };
        Self::new(kind, error.to_string())
    }
}

/// Warning of the reference about a plan that is valid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields, and some need no more")]
pub enum OrderWarning {
    /// There are hardly more samples than canonical nodes: many samples are repeated.
    #[error("Trying to partition {samples} samples over {canonical} canonical nodes: many will be repeated")]
    FewSamplesForNodes { samples: u64, canonical: u64 },
    /// A physical node has fewer samples than it needs for its ranks: many samples are repeated.
    #[error("Attempting to partition {samples} samples of a node over {ranks} ranks: many will be repeated")]
    FewSamplesForRanks { samples: u64, ranks: u64 },
    #[error("sample_in_epoch was rounded down to a multiple of {multiple}")]
    ResumeRoundedDown { multiple: u64 },
    #[error(
        "Shuffle block size was smaller than shard size for some shards, which therefore mix with no shard: raise \
         shuffle_block_size"
    )]
    BlockSmallerThanShard,
    /// A stream's last, incomplete batches are dropped.
    #[error("the last, incomplete batches of stream {stream} are dropped by the batching method")]
    StreamTailDropped { stream: u32 },
}
