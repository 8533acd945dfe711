//! Rows of a batch that are on the device before the others: read or copied there by themselves ([`direct_rows`](crate::direct_rows)), or
//! pictures that were decoded there while others of the batch, which were refused, are decoded on the host.
//!
//! They wait in the batch's own memory on the device, in the rows that they had when they got there. A batch that lost
//! samples meanwhile has fewer rows when it comes again: then rows move up, each copied to a place that has been copied away
//! before.

use crate::context::{Context, Event, Stream};
use crate::delivery::Shared;
use crate::driver::checked;
use crate::memory::Block;
use cudarc::driver::result::memcpy_dtod_async;
use forebay_loader::delivery::{OutputLayout, RowPicture};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::collections::BTreeMap;

/// Rows that are there, by output and row of the slot: whether it is a picture that the engines decoded.
pub(crate) type Done = BTreeMap<(usize, usize), bool>;

/// A batch's memory on the device.
pub(crate) struct Partial {
    shared: Arc<Shared>,
    /// Taken when the batch comes again, or when dropped.
    block: Option<Block>,
    /// The rows that the batch kept, ascending.
    rows: Vec<usize>,
    done: Done,
    /// What may still be under way to it ends before this fires.
    after: Option<Arc<Event>>,
}

impl Partial {
    /// With nothing under way that touches `block`.
    pub(crate) fn new(shared: &Arc<Shared>, block: Block, rows: &[usize], done: Done) -> Self {
        Self { shared: shared.clone(), block: Some(block), rows: rows.to_vec(), done, after: None }
    }

    /// With nothing under way when this has fired.
    pub(crate) fn after(mut self, after: Option<Arc<Event>>) -> Self {
        self.after = after;
        self
    }

    /// Whether `picture` is decoded.
    pub(crate) fn has(&self, picture: &RowPicture) -> bool {
        self.done.contains_key(&(picture.output, picture.row))
    }

    /// The same without these pictures.
    pub(crate) fn without(mut self, pictures: &[RowPicture]) -> Self {
        for picture in pictures {
            self.done.remove(&(picture.output, picture.row));
        }
        self
    }

    /// The memory for a batch that now keeps `rows`, and what is done in it. Moves pictures whose rows lie elsewhere now, in
    /// `stream`'s order.
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub(crate) fn take_up(
        mut self,
        rows: &[usize],
        outputs: &[OutputLayout],
        stream: &Stream,
    ) -> Result<(Block, Done)> {
        let done = std::mem::take(&mut self.done);
        if let Some(after) = &self.after {
            after.hold_back(stream.handle)?;
        }
        let block = self.block.take().ok_or_else(|| Error::internal("a batch was taken up twice"))?;
        for (output, row) in done.keys() {
            // A sample that was given up leaves its other pictures behind.
            let (Ok(from), Ok(to)) = (self.rows.binary_search(row), rows.binary_search(row)) else { continue };
            if from != to
                && let Err(error) = move_row(&self.shared.context, &block, outputs[*output], (from, to), stream)
            {
                self.shared.keep_block(block, &self.shared.blocks);
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
    place: OutputLayout,
    (from, to): (usize, usize),
    stream: &Stream,
) -> Result<()> {
    let at = |row: usize| block.address + (place.offset + row * place.row_bytes) as u64;
    context.enter(|| {
        // SAFETY: both rows lie in the block, which is one batch's and nobody else's, and they are not the same.
        let answer = unsafe { memcpy_dtod_async(at(to), at(from), place.row_bytes, stream.handle) };
        checked(answer, "cuMemcpyDtoDAsync")
    })
}

impl Drop for Partial {
    /// The batch does not come again.
    fn drop(&mut self) {
        if let Some(block) = self.block.take().filter(|_| self.shared.context.is_ours()) {
            self.shared.blocks.give_back(block, self.after.take().into_iter().collect());
        }
    }
}
