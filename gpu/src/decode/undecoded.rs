//! Pictures that were decoded by nobody, though the library said that they were.
//!
//! Memory for pixels is [`BLANK`](crate::kernel::BLANK) before pictures are decoded to it. Behind the kernel that makes rows of
//! them another one looks whether that is what it read, and says so in a byte for each picture. These are read before the
//! batch is handed out.

use crate::context::{Event, Stream};
use crate::delivery::Shared;
use crate::memory::{Block, Blocks};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};

/// A byte of the device's for each picture of a batch.
pub(super) struct LeftOut {
    shared: Arc<Shared>,
    /// Where it came from: these are much smaller than batches.
    pool: Arc<Blocks>,
    /// Taken when it has been read, or when dropped.
    block: Option<Block>,
    count: usize,
}

impl LeftOut {
    /// For `count` pictures, none of which is left out yet, in `stream`'s order.
    ///
    /// # Errors
    ///
    /// `Full` when there is no memory; what the driver says.
    pub(super) fn take(shared: &Arc<Shared>, pool: &Arc<Blocks>, count: usize, stream: &Stream) -> Result<Self> {
        let block = pool.take(&shared.context, count, stream)?;
        let address = block.address;
        let left_out = Self { shared: shared.clone(), pool: pool.clone(), block: Some(block), count };
        // SAFETY: the block is nobody else's, and blocks are whole pages.
        unsafe { stream.fill(address, 0, count) }?;
        Ok(left_out)
    }

    /// Where the byte of picture `number` is.
    pub(super) fn at(&self, number: usize) -> Result<u64> {
        match &self.block {
            Some(block) if number < self.count => Ok(block.address + number as u64),
            _ => Err(Error::internal("a batch has no such picture")),
        }
    }

    /// The numbers of those that were left out, when the device is done with the batch. Waits for `stream`, which has nothing to do
    /// with it.
    pub(super) fn read(mut self, stream: &Stream) -> Result<Vec<usize>> {
        let Some(block) = self.block.take() else { return Ok(Vec::new()) };
        let bytes = block.read(self.count, stream);
        self.pool.give_back(block, Vec::new());
        Ok(bytes?.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(number, _)| number).collect())
    }

    /// Nobody wants to know, and `ended` fires when the device is done with the batch.
    pub(super) fn forget(mut self, ended: &Arc<Event>) {
        if let Some(block) = self.block.take() {
            self.pool.give_back(block, vec![ended.clone()]);
        }
    }
}

impl Drop for LeftOut {
    /// The batch has failed.
    fn drop(&mut self) {
        if let Some(block) = self.block.take().filter(|_| self.shared.context.is_ours()) {
            self.shared.keep_block(block, &self.pool);
        }
    }
}
