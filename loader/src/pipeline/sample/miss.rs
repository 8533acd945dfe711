//! Samples that are not in the page cache, and the parts that the read threads read.

use super::batch_builder::BatchBuilder;
use super::large::LargeValue;
use super::stored_columns::StoredColumns;
use crate::batch::RowBytes;
use crate::error::{Error, Result};
use crate::memory::{ReadLease, RowMut};
use crate::pipeline::schedule::Task;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::sync::Arc;
use std::collections::VecDeque;

/// Sample that is not in the page cache.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) batch: Arc<BatchBuilder>,
    pub(crate) row: usize,
    pub(crate) task: Task,
    /// Memory of its row in each fixed output.
    pub(crate) rows: Vec<RowMut>,
    /// Memory for its row of bytes.
    pub(crate) consumer: Option<RowBytes>,
    pub(crate) open: Arc<OpenShard>,
    /// Range to read: the sample, or a part of the rest.
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    /// The rest of a sample with rows that have been read already.
    pub(crate) rest: Option<SampleRest>,
    /// Value that is read directly into its row.
    pub(crate) large: Option<LargeValue>,
}

/// A [`Miss`] that was read.
#[derive(Debug)]
pub(crate) struct LoadedSample {
    pub(crate) miss: Miss,
    /// The range that was read; `None` if there was none.
    pub(crate) slot: Result<Option<ReadLease>>,
}

/// Bytes of a sample without the columns with rows that have been read already, in the order of the file.
#[derive(Debug)]
pub(crate) struct SampleRest {
    pub(crate) stored: Arc<StoredColumns>,
    /// Bytes that have been read.
    pub(crate) bytes: Vec<u8>,
    /// Ranges of the shard (offset, length) that have yet to be read.
    pub(crate) ranges: VecDeque<(u64, usize)>,
}

impl SampleRest {
    /// Reads from the page cache as far as possible. Returns the range that must be read from disk; `None` when the
    /// rest is complete.
    pub(crate) fn read_hot(&mut self, open: &OpenShard) -> Option<(u64, usize)> {
        while let Some((offset, bytes)) = self.ranges.pop_front() {
            let start = self.bytes.len();
            self.bytes.resize(start + bytes, 0);
            if !open.read_hot(offset, &mut self.bytes[start..]) {
                self.bytes.truncate(start);
                return Some((offset, bytes));
            }
        }
        None
    }
}

impl Miss {
    /// Reads the sample with a [`LargeValue`], which goes to its row, into the slot `into`, and waits for the disk.
    ///
    /// # Errors
    ///
    /// As [`LargeValue::read`].
    pub(super) fn read_large(&mut self, into: &mut [u8]) -> Result<()> {
        let Self { batch, rows, open, offset, large, .. } = self;
        let large = large.as_mut().ok_or_else(|| Error::internal("a sample without a large value"))?;
        large.read((open, *offset), into, (batch, rows))
    }
}
