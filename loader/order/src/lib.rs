//! Order of samples, identical to MosaicML `streaming`'s and computed lazily.
//!
//! The module is pure: it computes a plan from shard sizes, a configuration, a world and an epoch. It reads no clock,
//! file or environment.
//!
//! ```
//! use forebay_order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
//!
//! // One stream of three shards with 8 samples, in batches of 2 for a single rank.
//! let shape = DataSetShape::new(&[vec![3, 3, 2]])?;
//! let config = OrderConfig { shuffle: true, batch_size: 2, ..OrderConfig::default() };
//! let plan = EpochPlan::new(&shape, &config, World::single(), 0, None)?;
//!
//! let (mut order, mut batch, mut samples) = (plan.rank(Rank(0)), Vec::new(), Vec::new());
//! while order.next_batch(&mut batch) {
//!     samples.extend(batch.iter().map(|row| row.sample.0));
//! }
//! let first_half = samples[..4].to_vec();
//! samples.sort_unstable();
//! assert_eq!(samples, [0, 1, 2, 3, 4, 5, 6, 7]);
//!
//! // A checkpoint after two batches resumes at the third.
//! let rest = EpochPlan::new(&shape, &config, World::single(), 0, Some(&plan.state(4)))?;
//! let rest: Vec<u64> = rest.rank(Rank(0)).map(|row| row.sample.0).collect();
//! assert_eq!(rest.len(), 4);
//! assert!(rest.iter().all(|sample| !first_half.contains(sample)));
//! # Ok::<(), forebay_order::OrderError>(())
//! ```
//!
//! ```text
//!  DataSetShape --+                                     shuffle: position -> draw, in windows made on demand
//!                 |                                     arrangement: position -> row of a draw
//!  OrderConfig ---+--> weights --> sampling (draws) --> partition: (node, rank, cell) -> position, arithmetic
//!  World ---------+                                     batching: (batch, column) -> cell, one file per method
//!  epoch, Resume -+                                        |
//!                                                      EpochPlan --> RankOrder (samples, batch by batch)
//!                                                                --> WorkerOrder (the reference's ids with -1)
//!                                                                --> shard_uses (uses of each shard by a node)
//! ```
//!
//! Samples may have weights ([`SampleNumbers`]), by which `weighted` draws with replacement: such draws are units with
//! picks like the picks of a fraction of a shard, so nothing after the sampling knows of them.
//!
//! Documents of known lengths can be packed first: [`PackPlan`] cuts their order into windows, packs each window, and
//! plans the packs as the samples of a second plan.
//!
//! [`arrays`] has the reference's own functions, which fill whole arrays, for programs that call them.
//!
//! Terms: a *draw* is an index in the epoch's resampled list; a *position* is an index in the shuffled epoch; a *cell*
//! is the result of the deal for a position (node, rank, index); a *row* is one of the occurrences of a draw, which are
//! one unless draws are repeated. *Canonical nodes* divide the epoch into parts that do not depend on the number of
//! physical nodes, so that global batches are the same in any valid world.
//!
//! A plan takes one pass over the random draws, which touches no sample, and keeps a snapshot of the generator per part
//! of a shard. Then any cell of the epoch can be read, in windows of ids: a plan of 100 million samples takes tens of
//! megabytes.
//!
//! In two cases the reference sorts equal keys in an order that depends on numpy's build and the CPU: `py1e`, and
//! `stratified` with streams that lose equally by rounding. Here the sort is stable.

mod arrangement;
mod arrays;
mod batching;
mod config;
mod epoch;
mod error;
pub mod ids;
mod numbers;
mod packing;
mod partition;
mod rank;
mod resume;
mod rng;
mod sample_numbers;
mod sampling;
mod shape;
mod shuffle;
mod token_targets;
mod uses;
mod weighted;
mod weights;
mod world;

pub use arrays::{Partitioning, partition, resample, sample_shards, shuffle};
pub use config::{
    BATCH_SIZE_MAX, BUCKET_WINDOW_MAX, BatchingMethod, Buckets, CANONICAL_NODES_MAX, OrderConfig, PartitionAlgo,
    REPEAT_AUGMENT_MAX, SHUFFLE_BLOCK_MAX, SamplingMethod, ShuffleAlgo, Weight,
};
pub use epoch::{BUCKETS, EpochPlan, REPEAT_AUGMENT, SAMPLE_WEIGHTS, arguments, check, shares_of};
pub use error::{OrderError, OrderWarning};
pub use ids::{Node, Rank, SampleId, ShardId, StreamId};
pub use packing::{
    AddedTokens, Overflow, PACK_LENGTH_MAX, PACK_WINDOW_MAX, PACKING, PackBatch, PackConfig, PackCounts, PackMethod,
    PackOrder, PackPlan, PackTotals, PackedFragment, ProportionUnit, TokenLengths,
};
pub use rank::{NEIGHBOURS, PlannedSample, RankOrder, WorkerOrder};
pub use resume::Resume;
pub use sample_numbers::SampleNumbers;
pub use shape::{DataSetShape, SAMPLES_MAX};
pub use uses::ShardUse;
pub use weights::{EpochShares, epoch_shares};
pub use world::World;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
