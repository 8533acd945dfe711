//! Detection of pictures that nvJPEG reported as decoded and never wrote.
//!
//! Scratch memory is filled with [`BLANK`](crate::kernel::BLANK) before pictures are decoded into it. After the kernel
//! that makes the rows, a second kernel looks for blank pixels and writes one byte per picture. These bytes are read
//! before the batch is delivered.

use crate::context::{Event, Stream};
use crate::device::CudaDevice;
use crate::memory::{Block, BlockPool};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};

/// Device memory with one byte per picture of a batch, nonzero for undecoded pictures.
pub(super) struct UndecodedFlags {
    device: Arc<CudaDevice>,
    /// Pool of these blocks, which are much smaller than batches.
    pool: Arc<BlockPool>,
    /// Taken when it was read, or on drop.
    block: Option<Block>,
    count: usize,
}

impl UndecodedFlags {
    /// Takes a block for `count` pictures and zeroes it in the order of `stream`.
    ///
    /// # Errors
    ///
    /// `Full` when the device has no memory; errors of the driver.
    pub(super) fn take(device: &Arc<CudaDevice>, pool: &Arc<BlockPool>, count: usize, stream: &Stream) -> Result<Self> {
        let block = pool.take(&device.context, count, stream)?;
        let address = block.address;
        let flags = Self { device: device.clone(), pool: pool.clone(), block: Some(block), count };
        // SAFETY: nothing else uses the block, and blocks are whole pages.
        unsafe { stream.fill(address, 0, count) }?;
        Ok(flags)
    }

    /// Returns the address of the byte of picture `number`.
    pub(super) fn address(&self, number: usize) -> Result<u64> {
        match &self.block {
            Some(block) if number < self.count => Ok(block.address + number as u64),
            _ => Err(Error::internal("a picture number is beyond the pictures of its batch")),
        }
    }

    /// Returns the numbers of the undecoded pictures, ascending, after the device has finished the batch. Reads on
    /// `stream`, which is used for nothing else, and waits for it.
    pub(super) fn read(mut self, stream: &Stream) -> Result<Vec<usize>> {
        let Some(block) = self.block.take() else { return Ok(Vec::new()) };
        let bytes = block.read(self.count, stream);
        self.pool.release(block, Vec::new());
        Ok(bytes?.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(number, _)| number).collect())
    }

    /// Releases the block without a read; the device has finished with it when `ended` has fired.
    pub(super) fn release_after(mut self, ended: &Arc<Event>) {
        if let Some(block) = self.block.take() {
            self.pool.release(block, vec![ended.clone()]);
        }
    }
}

impl Drop for UndecodedFlags {
    /// The batch has failed, and the device may still write the flags.
    fn drop(&mut self) {
        if let Some(block) = self.block.take().filter(|_| self.device.context.is_own_process()) {
            self.device.release_block_after_streams(block, &self.pool);
        }
    }
}
