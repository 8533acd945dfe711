//! Samples that are not in the page cache.

use super::batch_builder::BatchBuilder;
use crate::delivery::RowMemory;
use crate::error::Result;
use crate::memory::{ReadLease, RowMut};
use crate::pipeline::device::direct_rows::DirectSample;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::task::Task;
use crate::sync::Arc;

/// Sample to be read from disk.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) batch: Arc<BatchBuilder>,
    pub(crate) row: usize,
    pub(crate) task: Task,
    /// Memory of its row in each fixed output.
    pub(crate) rows: Vec<RowMut>,
    /// The consumer's memory for its row of bytes.
    pub(crate) consumer: Option<Box<dyn RowMemory>>,
    pub(crate) open: Arc<OpenShard>,
    /// Range to read.
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    /// Its rows that go directly to the device.
    pub(crate) direct: Option<DirectSample>,
}

/// A [`Miss`] that was read.
#[derive(Debug)]
pub(crate) struct LoadedSample {
    pub(crate) miss: Miss,
    pub(crate) outcome: Result<ReadOutcome>,
}

/// Result of reading a [`Miss`].
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// The range is in this slot.
    Slot(ReadLease),
    /// The direct rows are on the device; the rest of the sample must be read by the host.
    OnDevice,
    /// The device has not read the direct rows; the whole sample must be read by the host.
    Refused,
}
