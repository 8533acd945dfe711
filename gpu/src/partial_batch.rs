//! Batch of which some rows are on the device: direct rows ([`direct_rows`](crate::direct_rows)), or decoded pictures
//! of a batch whose rejected pictures the host decodes.
//!
//! The rows are in the memory of the batch, at the places that they had when they were written. If samples were skipped
//! meanwhile, the batch has fewer rows when it is submitted again. Then rows move up, each to a place whose own row has
//! been moved before.

use crate::context::{Context, Event, Stream};
use crate::driver::checked;
use crate::memory::Block;
use crate::state::DeviceState;
use cudarc::driver::result::memcpy_dtod_async;
use forebay_loader::delivery::{OutputLayout, RowPicture};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::collections::BTreeMap;

/// Rows that are complete on the device, by output and row of the slot. True for pictures that the engines decoded.
pub(crate) type CompletedRows = BTreeMap<(usize, usize), bool>;

/// Memory of a batch on the device.
pub(crate) struct PartialDeviceBatch {
    state: Arc<DeviceState>,
    /// Taken when the batch is submitted again, or on drop.
    block: Option<Block>,
    /// Rows that the batch kept, ascending.
    rows: Vec<usize>,
    done: CompletedRows,
    /// Fires when the copies in flight to the block have ended.
    copied: Option<Arc<Event>>,
}

impl PartialDeviceBatch {
    /// Creates a partial batch in `block`, which no work in flight uses.
    pub(crate) fn new(state: &Arc<DeviceState>, block: Block, rows: &[usize], done: CompletedRows) -> Self {
        Self { state: state.clone(), block: Some(block), rows: rows.to_vec(), done, copied: None }
    }

    /// Sets the event that fires when the copies in flight to the block have ended.
    pub(crate) fn with_copies_until(mut self, copied: Option<Arc<Event>>) -> Self {
        self.copied = copied;
        self
    }

    /// Returns true if `picture` is decoded.
    pub(crate) fn contains(&self, picture: &RowPicture) -> bool {
        self.done.contains_key(&(picture.output, picture.row))
    }

    /// Returns the batch without these pictures.
    pub(crate) fn without(mut self, pictures: &[RowPicture]) -> Self {
        for picture in pictures {
            self.done.remove(&(picture.output, picture.row));
        }
        self
    }

    /// Returns the memory for a batch that now keeps `rows`, and its completed rows. Moves rows to their new places in
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
        if let Some(copied) = &self.copied {
            copied.delay(stream.handle)?;
        }
        let block = self.block.take().ok_or_else(|| Error::internal("a partial batch was resumed twice"))?;
        for (output, row) in done.keys() {
            // Pictures of a skipped sample may be among the completed rows.
            let (Ok(from), Ok(to)) = (self.rows.binary_search(row), rows.binary_search(row)) else { continue };
            if from != to
                && let Err(error) = move_row(&self.state.context, &block, outputs[*output], (from, to), stream)
            {
                self.state.release_block_after_streams(block, &self.state.blocks);
                return Err(error);
            }
        }
        Ok((block, done))
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
        if let Some(block) = self.block.take().filter(|_| self.state.context.is_own_process()) {
            self.state.blocks.release(block, self.copied.take().into_iter().collect());
        }
    }
}
