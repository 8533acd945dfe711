//! Errors and warnings of plans.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// Error of a plan. The first group are the reference's own errors, returned in the same cases.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OrderError {
    /// The checkpoint is after the end of the epoch.
    ResumedPastEnd {
        /// `sample_in_epoch` of the checkpoint.
        resumed: u64,
        /// Samples of the epoch.
        samples: u64,
    },
    /// Neither number of nodes divides the other.
    NodesDoNotDivide {
        /// Canonical nodes.
        canonical: u64,
        /// Physical nodes.
        physical: u64,
    },
    /// With `relaxed` partitioning, the global batch must divide over the devices of the first run.
    GlobalBatchDoesNotDivide {
        /// Samples of a global batch.
        global_batch: u64,
        /// Devices of the first run.
        devices: u64,
    },
    /// Too few samples to fill the canonical nodes' padding.
    TooFewForPadding {
        /// Samples to partition.
        samples: u64,
        /// Canonical nodes.
        canonical: u64,
        /// Physical nodes.
        physical: u64,
    },
    /// `py1e` has nothing to place in a canonical node.
    EmptyCanonicalNode {
        /// Canonical nodes.
        canonical: u64,
    },
    /// The shuffle block is too small to draw block sizes from.
    BlockTooSmall {
        /// Samples of a block.
        block: u64,
    },
    /// A stream has too few samples for one batch.
    StreamTooSmall {
        /// The stream.
        stream: u32,
        /// Samples of the batch that cannot be filled.
        batch: u64,
    },
    /// A stream's part of the global batch rounds to nothing.
    StreamPortionZero {
        /// The stream.
        stream: u32,
        /// Samples of a global batch.
        global_batch: u64,
    },
    /// A stream's part of the shuffle block rounds to nothing.
    StreamBlockZero {
        /// The stream.
        stream: u32,
    },
    /// `device_per_stream` needs canonical nodes in multiples of physical nodes.
    CanonicalNotMultiple {
        /// Canonical nodes.
        canonical: u64,
        /// Physical nodes.
        physical: u64,
    },
    /// No sample is chosen.
    NothingChosen {
        /// The stream, or `None` for all of them.
        stream: Option<u32>,
    },
    /// A stream has no samples.
    EmptyStream {
        /// The stream.
        stream: u32,
    },
    /// Relative and absolute weights are mixed.
    MixedWeights {
        /// The first stream that differs from stream 0.
        stream: u32,
    },
    /// `epoch_size` was given together with absolute weights.
    EpochSizeWithAbsoluteWeights,
    /// Weights do not lead to a number of samples.
    BadWeight {
        /// The stream.
        stream: u32,
        /// Reason.
        why: &'static str,
    },
    /// The proportions leave more samples unassigned than there are streams, or none is positive.
    BadProportions,
    /// An argument is outside its range.
    OutOfRange {
        /// Its name.
        argument: &'static str,
        /// Allowed values.
        allowed: &'static str,
    },
    /// An argument has an unknown name as its value.
    Unknown {
        /// The argument.
        argument: &'static str,
        /// The value.
        given: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// `replication` does not divide the number of ranks.
    ReplicationDoesNotDivide {
        /// The replication.
        replication: u64,
        /// The number of ranks.
        ranks: u64,
    },
    /// The plan does not fit in memory.
    OutOfMemory {
        /// Bytes that the system refused.
        bytes: u64,
    },
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResumedPastEnd { resumed, samples } => {
                write!(f, "Resuming further into the dataset ({resumed}) than it has samples ({samples})")
            }
            Self::NodesDoNotDivide { canonical, physical } => write!(
                f,
                "Either canonical or physical nodes must be evenly divisible by the other: set num_canonical_nodes \
                 ({canonical}) to a multiple or a divisor of the physical nodes ({physical})"
            ),
            Self::GlobalBatchDoesNotDivide { global_batch, devices } => write!(
                f,
                "a global batch of {global_batch} is not evenly divisible by the {devices} devices of the first run: \
                 keep the global batch size when resuming"
            ),
            Self::TooFewForPadding { samples, canonical, physical } => write!(
                f,
                "{samples} samples are too few to pad {canonical} canonical nodes for {physical} physical nodes: use \
                 fewer nodes or more samples"
            ),
            Self::EmptyCanonicalNode { canonical } => write!(
                f,
                "The number of samples assigned to a canonical node is 0: reduce num_canonical_nodes ({canonical}) below \
                 the samples of every stream"
            ),
            Self::BlockTooSmall { block } => {
                write!(f, "high <= 0: a shuffle_block_size of {block} is too small to vary: raise it")
            }
            Self::StreamTooSmall { stream, batch } => write!(
                f,
                "stream {stream} does not have an adequate number of samples for one batch of {batch}: reduce the \
                 batch size or raise the stream's weight"
            ),
            Self::StreamPortionZero { stream, global_batch } => write!(
                f,
                "Number of samples for stream {stream} is 0 in a global batch of {global_batch}: raise the global batch \
                 size or the stream's proportion"
            ),
            Self::StreamBlockZero { stream } => write!(
                f,
                "samples from stream {stream} are not being used: raise shuffle_block_size or the stream's proportion"
            ),
            Self::CanonicalNotMultiple { canonical, physical } => write!(
                f,
                "device_per_stream batching needs num_canonical_nodes ({canonical}) to be divisible by the physical \
                 nodes ({physical})"
            ),
            Self::NothingChosen { stream: Some(stream) } => {
                write!(f, "no sample of stream {stream} is chosen: raise its weight or leave it out")
            }
            Self::NothingChosen { stream: None } => f.write_str("no sample is chosen: raise a stream's weight"),
            Self::EmptyStream { stream } => write!(f, "stream {stream} contains no samples"),
            Self::MixedWeights { stream } => write!(
                f,
                "relative (proportion) and absolute (repeat, choose, none) stream weights are incompatible with each \
                 other (stream {stream} differs from stream 0)"
            ),
            Self::EpochSizeWithAbsoluteWeights => f.write_str(
                "epoch_size goes with proportions, or with no weights at all: remove it or repeat and choose",
            ),
            Self::BadWeight { stream, why } => write!(f, "the weight of stream {stream} {why}"),
            Self::BadProportions => f.write_str("the proportions must be finite, not negative and not all zero"),
            Self::OutOfRange { argument, allowed } => write!(f, "{argument} must be {allowed}"),
            Self::Unknown { argument, given, allowed } => {
                write!(f, "Invalid {argument}: {given}. Must be one of {allowed}")
            }
            Self::ReplicationDoesNotDivide { replication, ranks } => write!(
                f,
                "World size must be divisible by your replication factor: {ranks} ranks, replication {replication}"
            ),
            Self::OutOfMemory { bytes } => write!(f, "the plan needs {bytes} bytes that this process cannot get"),
        }
    }
}

impl std::error::Error for OrderError {}

impl From<OrderError> for Error {
    fn from(error: OrderError) -> Self {
        let kind = match error {
            OrderError::ResumedPastEnd { .. } => ErrorKind::State,
            OrderError::OutOfMemory { .. } => ErrorKind::Full,
            _ => ErrorKind::Config,
        };
        Self::new(kind, error.to_string())
    }
}

/// Warning of the reference about a plan that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderWarning {
    /// There are hardly more samples than canonical nodes: many samples are repeated.
    FewSamplesForNodes {
        /// Samples to partition.
        samples: u64,
        /// Canonical nodes.
        canonical: u64,
    },
    /// A physical node has fewer samples than it needs for its ranks: many samples are repeated.
    FewSamplesForRanks {
        /// Samples of a physical node.
        samples: u64,
        /// Ranks of a node.
        ranks: u64,
    },
    /// `sample_in_epoch` was rounded down to a multiple of this.
    ResumeRoundedDown {
        /// Physical nodes, or samples of a global batch.
        multiple: u64,
    },
    /// Some shards are larger than their shuffle block and mix with no other.
    BlockSmallerThanShard,
    /// A stream's last, incomplete batches are dropped.
    StreamTailDropped {
        /// The stream.
        stream: u32,
    },
}

impl fmt::Display for OrderWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewSamplesForNodes { samples, canonical } => {
                write!(
                    f,
                    "Trying to partition {samples} samples over {canonical} canonical nodes: many will be repeated"
                )
            }
            Self::FewSamplesForRanks { samples, ranks } => {
                write!(
                    f,
                    "Attempting to partition {samples} samples of a node over {ranks} ranks: many will be repeated"
                )
            }
            Self::ResumeRoundedDown { multiple } => {
                write!(f, "sample_in_epoch was rounded down to a multiple of {multiple}")
            }
            Self::BlockSmallerThanShard => f.write_str(
                "Shuffle block size was smaller than shard size for some shards, which therefore mix with no other: \
                     raise shuffle_block_size",
            ),
            Self::StreamTailDropped { stream } => {
                write!(f, "the last, incomplete batches of stream {stream} are dropped by the batching method")
            }
        }
    }
}
