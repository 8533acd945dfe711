//! The order of samples: MosaicML `streaming`'s, bit for bit, and lazily.
//!
//! Pure: shard sizes, a configuration, a world and an epoch go in, a plan comes out. Nothing here reads a clock, a file
//! or the environment.
//!
//! ```text
//!  DataSetShape --+                                     shuffle: position -> draw, in windows made on demand
//!  OrderConfig ---+--> weights --> sampling (draws) --> partition: (node, rank, place) -> position, arithmetic
//!  World ---------+                                     batching: (batch, column) -> place, one file per method
//!  epoch, Resume -+                                        |
//!                                                      EpochPlan --> RankOrder (samples, batch by batch)
//!                                                                --> WorkerOrder (the reference's ids with -1)
//!                                                                --> shard_uses (when a node uses each shard)
//! ```
//!
//! [`arrays`] has the reference's own functions, which fill whole arrays, for programs that call them.
//!
//! Words: a *draw* is an index in the epoch's resampled list; a *position* is an index in the shuffled epoch; a *place*
//! is where the deal puts a position (node, rank, index). *Canonical nodes* cut the epoch into parts that do not
//! depend on how many physical nodes there are, which keeps global batches the same on any legal world.
//!
//! The plan takes one pass over the random draws, which touches no sample; then any place of the epoch can be read.
//! Where the reference sorts equal keys in an order that depends on numpy's build and the CPU (`py1e`, `stratified`
//! with streams that lose equally by rounding), this order is the stable one.

mod arrays;
mod batching;
mod config;
mod epoch;
mod error;
pub mod ids;
mod partition;
mod rank;
mod resume;
mod rng;
mod sampling;
mod shape;
mod shuffle;
mod uses;
mod weights;
mod world;

pub use arrays::{Partitioning, partition, resample, sample_shards, shuffle};
pub use config::{
    BATCH_SIZE_MAX, BatchingMethod, CANONICAL_NODES_MAX, OrderConfig, PartitionAlgo, SHUFFLE_BLOCK_MAX, SamplingMethod,
    ShuffleAlgo, Weight,
};
pub use epoch::{EpochPlan, arguments, shares_of};
pub use error::{OrderError, OrderWarning};
pub use ids::{Node, Rank, SampleId, ShardId, StreamId};
pub use rank::{PlannedSample, RankOrder, WorkerOrder};
pub use resume::Resume;
pub use shape::{DataSetShape, SAMPLES_MAX};
pub use uses::ShardUse;
pub use weights::{EpochShares, epoch_shares};
pub use world::World;
