//! One running epoch: its stages, and the queues between them.
//!
//! ```text
//!  schedule --announce--> residency -request--> shard plane (fetch, unpack, publish)
//!      |                      |                        |
//!      | chunk (all shards    | parked chunks <--------+ resident
//!      |  resident)           v
//!      +----------------> [chunks] --> decode threads --miss--> read thread (ring)
//!                                        ^   |                      |
//!                                        |   +--last row--> deliver --> reorder --> Loader::next
//!                                        +------- [loaded] <--------+
//! ```
//!
//! Files that a JPEG sample in the page cache crosses, from the plan to its batch, in this order:
//!
//! 1. `order/rank.rs`: the rank's order, as planned samples;
//! 2. `pipeline/schedule.rs`: waits for the batch's turn, takes its slot, locates and announces the samples, and cuts
//!    them into chunks of tasks (`chunk`, `task`), each with its part of the slot;
//! 3. `pipeline/dispatch.rs`: sends a chunk to the decode threads (`sender`) if its shards are resident;
//! 4. `pipeline/shard/residency.rs`: holds which shards are resident, and parks the chunk otherwise;
//! 5. `pipeline/sample/decode.rs`: the decode loop;
//! 6. `pipeline/sample/page_cache.rs`: the sample's range, and its bytes (`sample_bytes`) from the page cache;
//! 7. `pipeline/shard/open_shards.rs`: the open shards, found through a small cache of the thread;
//! 8. `pipeline/shard/open_shard.rs`: the shard's descriptor and offset table;
//! 9. `io/file.rs`: the read;
//! 10. `pipeline/sample/decoder.rs`: the sample's columns, and a sink for each output's row;
//! 11. `decode/sample.rs`: each column to its output;
//! 12. `decode/image.rs`: the picture, in the folders `decode/jpeg` and `decode/resize`;
//! 13. `pipeline/sample/tally.rs`: the chunk's reads, for residency and statistics;
//! 14. `pipeline/sample/batch_builder.rs`: the count of rows, which shows the last one;
//! 15. `pipeline/sample/deliver.rs`: the filled slot becomes a batch, in host memory by `delivery/mod.rs`;
//! 16. `pipeline/reorder.rs`: the batch waits until it is next in plan order;
//! 17. `pipeline/consumer.rs`: `Loader::next` takes it.
//!
//! A device adds the stages in [`device`]. Pictures may stay encoded in the slot; such a batch goes to a thread that
//! submits it to the device's decoder instead of to `deliver`. Rows that are the stored bytes of a column may go to the
//! device before their batch is filled. They are copied from the read slot, or threads for direct storage read them
//! from the file instead of the read thread.
//!
//! The other files are `task` and `chunk` (the items), `shard` (the shard plane), `refill` (batches that lost every
//! sample), `skip` (bad samples), `stall`, `run` (stop and failure), `sender` (queues), `threads`, `workers` (the
//! threads of one NUMA node), `consumer` (the side that takes batches), and `setup` and `epoch`, which make the stages
//! and connect them. Stages never use `epoch`.
//!
//! Decode threads and a read thread with its pool of read slots work on each NUMA node that has decode threads. The
//! nodes share the queue of chunks; misses and loaded samples stay on their node. Batch slots come from one queue, which
//! keeps plan order, and are placed on the nodes in turn. A row may be written from another node, since chunks go to any
//! free thread.
//!
//! Bounds: at most `prefetch + 1` batches are in flight, so chunks, misses and loaded samples are bounded by their
//! rows; read slots are bounded by their pools; shards in progress by the shard plane's threads and byte budget.

mod chunk;
mod consumer;
mod device;
mod dispatch;
mod epoch;
mod refill;
mod reorder;
mod run;
mod sample;
mod schedule;
mod sender;
mod setup;
mod shard;
mod skip;
mod stall;
mod task;
mod threads;
mod workers;

pub(crate) use device::direct_rows::{COPIED_BYTES_MIN, DirectColumns, SlotCopies};
pub(crate) use device::direct_storage::{ROW_BYTES_MIN, StorageReader};
pub(crate) use device::features::DeviceFeatures;
pub(crate) use device::split::HostShare;
pub(crate) use epoch::Epoch;
pub(crate) use refill::{Refills, WholePlan};
pub(crate) use reorder::TakeOutcome;
pub(crate) use run::Run;
pub(crate) use sample::batch_layout::BatchLayout;
pub(crate) use schedule::Pace;
pub(crate) use setup::EpochSetup;
pub(crate) use shard::fetch::{FetchEvent, Origin, ShardFetch};
pub(crate) use shard::open_shard::read_offsets;
pub(crate) use shard::open_shards::OpenShards;
pub(crate) use shard::shard_table::{ShardCost, ShardTable};
pub(crate) use shard::source::NextPlan;
pub(crate) use workers::NumaWorkers;
