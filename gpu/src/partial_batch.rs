//! Batch with some rows on the device: direct rows ([`direct_rows`](crate::direct_rows)) and decoded pictures.
//!
//! The rows are in the memory of the batch, at the offsets that they had when they were written. If samples are skipped
//! after that, the batch has fewer rows when it is delivered. Then rows move up, each to an offset after the row there
//! has been moved before.

use crate::batch::DeviceBatch;
use crate::context::{Context, Event, Stream};
use crate::device::CudaDevice;
use crate::driver::checked;
use crate::memory::Block;
use crate::row_copy::{CompletedRows, copy_rows};
use cudarc::driver::result::memcpy_dtod_async;
use forebay_loader::delivery::{DeviceRows, OutputLayout, PartialBatch, TensorMemory};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::any::Any;

/// Batch with some or all rows on the device.
pub(crate) struct PartialDeviceBatch {
    device: Arc<CudaDevice>,
    /// Taken when the batch is delivered or submitted, or on drop.
    block: Option<Block>,
    /// Rows that the batch kept, ascending.
    rows: Vec<usize>,
    done: CompletedRows,
    /// Fires when the work in flight on the block has ended.
    ended: Option<Arc<Event>>,
    /// All rows are on the device.
    is_complete: bool,
}

impl PartialDeviceBatch {
    /// Creates a partial batch in `block`. The work in flight on it ends with the event.
    pub(crate) fn new(
        device: &Arc<CudaDevice>,
        (block, ended): (Block, Option<Arc<Event>>),
        rows: Vec<usize>,
        done: CompletedRows,
        is_complete: bool,
    ) -> Self {
        Self { device: device.clone(), block: Some(block), rows, done, ended, is_complete }
    }

    /// Returns the memory for a batch that now keeps `rows`, and its completed rows. Moves rows to their new offsets in
    /// the order of `stream`.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(crate) fn resume(
        mut self,
        rows: &[usize],
        outputs: &[OutputLayout],
        stream: &Stream,
    ) -> Result<(Block, CompletedRows)> {
        let done = std::mem::take(&mut self.done);
        if let Some(ended) = &self.ended {
            ended.delay(stream.handle)?;
        }
        let block = self.block.take().ok_or_else(|| Error::internal("a partial batch was resumed twice"))?;
        // Ascending: a row moves only to an offset after the row there has been moved.
        for (output, row) in done.keys() {
            // Pictures of a skipped sample may be among the completed rows.
            let (Ok(from), Ok(to)) = (self.rows.binary_search(row), rows.binary_search(row)) else { continue };
            if from != to
                && let Err(error) = move_row(&self.device.context, &block, outputs[*output], (from, to), stream)
            {
                self.device.release_block_after_streams(block, &self.device.blocks);
                return Err(error);
            }
        }
        Ok((block, done))
    }
}

impl std::fmt::Debug for PartialDeviceBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartialDeviceBatch").field("done", &self.done.len()).finish_non_exhaustive()
    }
}

impl DeviceRows for PartialDeviceBatch {
    fn deliver(mut self: Box<Self>, batch: PartialBatch<'_>) -> Result<Arc<dyn TensorMemory>> {
        let PartialBatch { mut slot, outputs, rows } = batch;
        let device = self.device.clone();
        if self.is_complete
            && let (Some(block), Some(ended)) = (self.block.take(), self.ended.take())
        {
            return Ok(Arc::new(DeviceBatch::new(&device, block, ended)));
        }
        let copied = Arc::new(Event::new(&device.context)?);
        let unfilled = || Error::internal("a batch was delivered before its rows were filled");
        let _order = device.order.lock();
        let (block, done) = self.resume(rows, outputs, &device.stream)?;
        let started = slot.bytes_mut().ok_or_else(unfilled).and_then(|filled| {
            // SAFETY: the release thread holds the slot until the event has fired or the streams have been waited for.
            unsafe { copy_rows(&device.stream, filled, &block, outputs, rows, &done) }
        });
        let Ok(filled) = slot.freeze() else {
            device.release_block_after_streams(block, &device.blocks);
            return Err(unfilled());
        };
        if let Err(error) = started.and_then(|()| copied.record(device.stream.handle)) {
            device.release_batch_after_streams(filled, block);
            return Err(error);
        }
        device.release_slot_after(copied.clone(), filled);
        Ok(Arc::new(DeviceBatch::new(&device, block, copied)))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Starts moving row `from` of an output to row `to`.
fn move_row(
    context: &Context,
    block: &Block,
    layout: OutputLayout,
    (from, to): (usize, usize),
    stream: &Stream,
) -> Result<()> {
    let at = |row: usize| block.address + (layout.offset + row * layout.row_bytes) as u64;
    context.enter(|| {
        // SAFETY: both rows are in the block, which belongs to this batch alone, and they differ.
        let result = unsafe { memcpy_dtod_async(at(to), at(from), layout.row_bytes, stream.handle) };
        checked(result, "cuMemcpyDtoDAsync")
    })
}

impl Drop for PartialDeviceBatch {
    /// The batch was abandoned.
    fn drop(&mut self) {
        if let Some(block) = self.block.take().filter(|_| self.device.context.is_own_process()) {
            self.device.blocks.release(block, self.ended.take().into_iter().collect());
        }
    }
}
