//! One running epoch: its stages, and the queues between them.
//!
//! ```text
//!  schedule --announce--> residency -request--> shard plane (fetch, unpack, publish)
//!      |                      |                        |
//!      | chunk (all shards    | parked chunks <--------+ resident
//!      |  resident)           v
//!      +----------------> [chunks] --> decode threads --miss--> read thread (ring)
//!                                        ^   |                      |
//!                                        |   +--last row--> place ----> reorder --> Loader::next
//!                                        +------- [loaded] <--------+
//! ```
//!
//! Files that a JPEG sample in the page cache crosses, from the plan to its batch, in this order:
//!
//! 1. `order/rank.rs`: the rank's order, as planned samples;
//! 2. `pipeline/schedule.rs`: waits for the batch's turn, takes its slot, locates and announces the samples, and sends
//!    them to the decode threads in chunks, each with its part of the slot;
//! 3. `pipeline/shard/residency.rs`: holds which shards are resident, and parks a chunk whose shards are not;
//! 4. `pipeline/sample/decode.rs`: the decode loop, and the thread's counts for residency and statistics;
//! 5. `pipeline/sample/page_cache.rs`: the sample's range, and its bytes from the page cache. The thread's first sample
//!    of a shard opens it, through the table `pipeline/shard/open_shards.rs`;
//! 6. `pipeline/shard/open_shard.rs`: the shard's descriptor and offset table;
//! 7. `io/file.rs`: the read;
//! 8. `pipeline/sample/decoder.rs`: the sample's columns, and a sink for each output's row;
//! 9. `decode/sample.rs`: each column to its output;
//! 10. `decode/image.rs`: the picture, in the folders `jpeg` and `resize` of the crate `picture`;
//! 11. `pipeline/sample/place.rs`: the filled slot becomes a batch, when its last row is there;
//! 12. `pipeline/sample/batch_builder.rs`: the count of rows and chunks;
//! 13. `delivery/mod.rs`: its memory, in host memory the slot itself;
//! 14. `core/src/flow/reorder.rs`: the batch waits until it is next in plan order;
//! 15. `pipeline/consumer.rs`: `Loader::next` takes it, or learns that the epoch makes no progress.
//!
//! The remaining files are `plan` (batches of samples or of packs), `shard` (the shard plane), `sample/read`
//! (samples that are not in the page cache), `refill` (batches that lost every sample), `skip` (bad samples),
//! `threads`, `workers` (the threads of one NUMA node), and `epoch`, which makes the stages and connects them.
//! Stages never use it. A device takes work over through `sample/offload`, which [`device`] implements; only
//! `epoch` uses [`device`].
//!
//! Decode threads and a read thread with its pool of read slots work on each NUMA node that has decode threads. The
//! nodes share the queue of chunks; misses and loaded samples stay on their node. Batch slots come from one queue,
//! which keeps plan order, and are placed on the nodes in turn. A row may be written from a different node, since
//! chunks go to any free thread.
//!
//! Bounds: at most `prefetch + 1` batches are in flight, so chunks, misses and loaded samples are bounded by their
//! rows; read slots are bounded by their pools; shards in progress by the shard plane's threads and byte budget.

mod consumer;
mod device;
mod done_batch;
mod epoch;
mod plan;
mod refill;
mod sample;
mod schedule;
mod shard;
mod skip;
mod threads;
mod workers;

pub(crate) use device::direct_rows::{COPIED_BYTES_MIN, DirectColumns, SlotCopies};
pub(crate) use device::direct_storage::{ROW_BYTES_MIN, StorageReader};
pub(crate) use device::offload::DeviceFeatures;
pub(crate) use epoch::{Epoch, EpochSetup};
pub(crate) use forebay_core::flow::{Run, TakeOutcome};
pub(crate) use plan::{BatchPlan, PlannedBatch, RowFragment};
pub(crate) use refill::MakePlan;
pub(crate) use sample::batch_layout::BatchLayout;
pub(crate) use sample::pack_layout::PackLayout;
pub(crate) use sample::row_marks::MarkOutput;
pub(crate) use schedule::Pace;
pub(crate) use shard::fetch::{Origin, ShardFetch};
pub(crate) use shard::fetch_event::FetchEvent;
pub(crate) use shard::loose_files::LooseFiles;
pub(crate) use shard::open_shard::read_offsets;
pub(crate) use shard::open_shards::OpenShards;
pub(crate) use shard::plane::ShardPlane;
pub(crate) use shard::ranges::RangeFetch;
pub(crate) use shard::shard_table::{ShardCost, ShardTable};
pub(crate) use workers::NumaWorkers;
