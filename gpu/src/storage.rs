//! Rows that cuFile reads from shards right into a batch's memory on the device.
//!
//! ```text
//! shard --cuFile--> rows of the batch's block ---------------------+
//! batch slot --copies, for what else the batch has (rows)----------+--> event --> slot goes back
//! ```
//!
//! The block is taken with the batch's first such row, and until the batch is filled only these reads use it. They go by no
//! stream, so whatever may still use the block is waited for on the host first; this and the reads themselves are for threads
//! that have nothing else to do. When the batch is filled the reads are done, and the rest goes the usual way.
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

use crate::context::Event;
use crate::cufile::library::Library;
use crate::cufile::{Driver, File};
use crate::memory::Block;
use crate::partial::{Done, Partial};
use crate::rows::copy_rows;
use crate::target::{DeviceBatch, Shared};
use forebay_loader::sync::Arc;
use forebay_loader::target::{Decoded, HalfBatch, RowsAtTarget, StorageReader, StoredFile, TensorMemory};
use forebay_loader::{Error, Result};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock};

/// Reads files into a CUDA device's memory.
pub(crate) struct DeviceStorage {
    shared: Arc<Shared>,
    driver: Arc<Driver>,
}

impl DeviceStorage {
    /// Opens what `library` offers for the target's device.
    ///
    /// # Errors
    ///
    /// What the driver and the library say; `Unsupported` where it only copies by way of host memory.
    pub(crate) fn open(shared: &Arc<Shared>, library: Library) -> Result<Self> {
        let driver = Driver::open(library, &shared.context)?;
        Ok(Self { shared: shared.clone(), driver })
    }
}

impl std::fmt::Debug for DeviceStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceStorage").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl StoredFile for File {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl StorageReader for DeviceStorage {
    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn open(&self, file: OwnedFd) -> Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(File::register(&self.driver, file)?))
    }

    fn begin(&self, bytes: usize) -> Result<Arc<dyn RowsAtTarget>> {
        let block = self.shared.blocks.take_idle(&self.shared.context, bytes)?;
        Ok(Arc::new(Rows { shared: self.shared.clone(), block: RwLock::new(Some(block)) }))
    }

    fn place(&self, batch: HalfBatch<'_>) -> Result<Arc<dyn TensorMemory>> {
        let HalfBatch { mut slot, outputs, rows, decoded } = batch;
        let shared = &self.shared;
        let before = decoded.downcast::<Partial>();
        let before = before.map_err(|_| Error::internal("a batch on the device comes from another target"))?;
        let copied = Arc::new(Event::new(&shared.context)?);
        let unfinished = || Error::internal("a batch was placed before its rows were done");
        let _order = shared.order.lock();
        let (block, done) = before.take_up(rows, outputs, &shared.stream)?;
        let started = slot.bytes_mut().ok_or_else(unfinished).and_then(|filled| {
            // SAFETY: the keeper holds the slot until the event has fired or the whole device has been waited for.
            unsafe { copy_rows(&shared.stream, filled, &block, outputs, rows, &done) }
        });
        let Ok(filled) = slot.freeze() else {
            shared.keep_block(block, &shared.blocks);
            return Err(unfinished());
        };
        if let Err(error) = started.and_then(|()| copied.record(shared.stream.handle)) {
            shared.keep_unnamed(filled, block);
            return Err(error);
        }
        shared.keep_slot(copied.clone(), filled);
        Ok(Arc::new(DeviceBatch::new(shared, block, copied)))
    }
}

/// A batch's memory while files are read into it.
struct Rows {
    shared: Arc<Shared>,
    /// Taken when the reading ends, or when dropped. Readers share it: each has places of its own.
    block: RwLock<Option<Block>>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl RowsAtTarget for Rows {
    fn read(&self, file: &dyn StoredFile, offset: u64, bytes: usize, at: usize) -> Result<()> {
        let file = file.as_any().downcast_ref::<File>();
        let file = file.ok_or_else(|| Error::internal("a file comes from another target"))?;
        let block = self.block.read().unwrap_or_else(PoisonError::into_inner);
        let block = block.as_ref().ok_or_else(|| Error::internal("a row was read for a batch that is filled"))?;
        // SAFETY: nothing that the device was given uses the block, which nobody else has; rows have a place each, and this
        // one is the caller's.
        unsafe { file.read((offset, bytes), block, at) }
    }

    fn finish(&self, rows: usize, read: &[(usize, usize)]) -> Result<Decoded> {
        let block = self.block.write().unwrap_or_else(PoisonError::into_inner).take();
        let block = block.ok_or_else(|| Error::internal("a batch was filled twice"))?;
        let done: Done = read.iter().map(|row| (*row, false)).collect();
        let rows: Vec<usize> = (0..rows).collect();
        Ok(Box::new(Partial::new(&self.shared, block, &rows, done)))
    }
}

impl Drop for Rows {
    /// The batch is not filled.
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(block) = block.filter(|_| self.shared.context.is_ours()) {
            self.shared.blocks.give_back(block, Vec::new());
        }
    }
}
