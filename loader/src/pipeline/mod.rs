//! One epoch under way: threads, queues, and what flows between them.
//!
//! ```text
//!  schedule --announce--> residency --wanted--> shard plane (fetch, unpack, publish)
//!      |                      |                        |
//!      | chunk (all shards    | chunks that waited <---+ resident
//!      |  resident)           v
//!      +----------------> [chunks] --> decode threads --miss--> read thread (ring)
//!                                        ^   |                      |
//!                                        |   +--last row--> place --|--> reorder --> Loader::next
//!                                        +------- [loaded] <--------+
//! ```
//!
//! Rows that the target reads from files itself take the same way, by threads of their own in the read thread's place.
//!
//! * `schedule` walks the plan and hands out chunks of rows, batch after batch.
//! * `residency` knows which shards are on disk and parks the chunks that must wait.
//! * `shard` is the shard plane, `sample` the sample plane, `open` the descriptors between them.
//! * `reorder` puts batches back into plan order and sets the pace.
//! * `refill` says what stands in a batch that lost every sample.
//! * `shutdown` is how everything ends.
//!
//! Where the target decodes pictures, batches with files go to a thread that places them, since the target may make it wait.
//!
//! Decode threads and a read thread with its pool of read slots make a crew. There is one on every NUMA node that has
//! decode threads: crews share the queue of chunks, and each has queues of its own for what it misses and has loaded.
//!
//! Bounds: at most `prefetch + 1` batches are under way, so chunks, misses and loaded samples are bounded by their rows;
//! read slots are bounded by their pools; shards under way by the shard plane's threads and byte budget.

mod device;
mod epoch;
mod refill;
mod reorder;
mod run;
mod sample;
mod schedule;
mod shard;

pub(crate) use device::direct_rows::{COPIED_BYTES_MIN, EarlyColumns, SlotCopies};
pub(crate) use device::direct_storage::{ROW_BYTES_MIN, Storage};
pub(crate) use device::split::HostShare;
pub(crate) use epoch::{Epoch, EpochParts, NumaWorkers};
pub(crate) use refill::{Refills, WholePlan};
pub(crate) use reorder::Taken;
pub(crate) use run::Run;
pub(crate) use sample::batch_builder::BatchLayout;
pub(crate) use schedule::Pace;
pub(crate) use shard::open_shards::{OpenShards, read_offsets};
pub(crate) use shard::{CachedShards, FetchEvent, NextPlan, Origin, ShardFetch};

use crate::delivery::RowMemory;
use crate::error::Result;
use crate::memory::{ReadLease, RowMut};
use crate::order::{PlannedSample, ShardId};
use crate::sync::Arc;
use device::direct_rows::EarlySample;
use sample::batch_builder::BatchBuilder;
use shard::open_shards::OpenShard;

/// One sample on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    planned: PlannedSample,
    shard: ShardId,
    /// Number of the sample in its shard.
    index: u32,
    /// Its place among the rank's samples of this run, from 0.
    position: u64,
}

/// Consecutive rows of one batch, all of whose shards are resident when it reaches a decode thread.
#[derive(Debug)]
pub(crate) struct Chunk {
    batch: Arc<BatchBuilder>,
    /// Row of the first sample in the batch.
    first_row: usize,
    samples: Vec<Task>,
    /// The rows' places: one per fixed output, covering all samples of the chunk.
    rows: Vec<RowMut>,
    /// The consumer's memory for each sample's row of bytes, once it was asked for: see [`sample::consumer_memory`].
    given: Option<Vec<Option<Box<dyn RowMemory>>>>,
}

impl Chunk {
    /// Cuts it where the shard changes, into chunks that the batch counts.
    fn cut(self) -> Vec<(ShardId, Chunk)> {
        let Self { batch, mut first_row, samples, mut rows, mut given } = self;
        let runs: Vec<&[Task]> = samples.chunk_by(|a, b| a.shard == b.shard).collect();
        // The whole is counted already.
        batch.add_chunks(runs.len() - 1);
        let pieces = runs.into_iter().map(|run| {
            let len = run.len();
            let piece = Chunk {
                batch: batch.clone(),
                first_row,
                samples: run.to_vec(),
                rows: rows
                    .iter_mut()
                    .zip(batch.row_bytes())
                    .map(|(rows, bytes)| rows.split_front(len * bytes))
                    .collect(),
                given: given.as_mut().map(|given| given.drain(..len).collect()),
            };
            first_row += len;
            (run[0].shard, piece)
        });
        pieces.collect()
    }
}

/// Where one sample goes.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its row of each fixed output.
    fixed: Vec<RowMut>,
    /// The consumer's memory for its row of bytes.
    given: Option<Box<dyn RowMemory>>,
}

/// A sample that was not in the page cache.
#[derive(Debug)]
pub(crate) struct Miss {
    batch: Arc<BatchBuilder>,
    row: usize,
    task: Task,
    place: Place,
    open: Arc<OpenShard>,
    offset: u64,
    bytes: usize,
    /// How it is read, if some of its rows go right to the target.
    stored: Option<EarlySample>,
}

/// A [`Miss`] whose bytes have been read.
#[derive(Debug)]
pub(crate) struct Loaded {
    miss: Miss,
    brought: Result<Brought>,
}

/// Where bytes have been read to.
#[derive(Debug)]
pub(crate) enum Brought {
    /// To memory of the host.
    Bytes(ReadLease),
    /// To the target: what else is needed of the sample is to be read now.
    AtTarget,
    /// Nowhere: the sample is to be read by the host.
    Refused,
}
