//! Rows that are written to the batch on the device before the rest of the batch is filled.
//!
//! ```text
//! read slot --copy on a separate stream--> rows in the batch's block ---+     (slot released after the copy's event)
//! shard --cuFile-------------------------> rows in the batch's block ---+
//! batch slot --copies of further rows (row_copy)------------------------+--> event --> slot released
//! ```
//!
//! The block is taken with the first direct row of a batch and is used by nothing else until the batch is filled. It
//! must be idle: cuFile's reads are not ordered with any stream, and copies must not wait for a consumer, or the read
//! slots would too. Therefore the copies of direct rows also have a separate stream and release thread, while copies on
//! the delivery's stream wait for the consumers that still read the memory. When the batch is filled, its reads are
//! done, and its remaining rows are copied after the direct rows.
//!
//! Not tested on hardware: the tests use a fake driver and a fake library in host memory.

use crate::context::{Event, Stream};
use crate::cufile::File;
use crate::device::CudaDevice;
use crate::memory::Block;
use crate::partial_batch::PartialDeviceBatch;
use crate::release::ReleaseThread;
use crate::row_copy::{CompletedRows, RowSource};
use forebay_loader::delivery::{DeviceRows, DirectBatch, DirectFile, DirectRows};
use forebay_loader::memory::ReadLease;
use forebay_loader::sync::{Arc, Mutex, OnceLock};
use forebay_loader::{Error, Result};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Takes direct rows to a CUDA device.
pub(crate) struct CudaDirectRows {
    device: Arc<CudaDevice>,
    /// Created with the first batch.
    copier: OnceLock<Arc<RowCopier>>,
}

/// Stream for copies from read slots, and the thread that releases these.
struct RowCopier {
    stream: Arc<Stream>,
    release_thread: ReleaseThread,
    /// Held while a copy is queued, so that copies and release requests have the same order.
    order: Mutex<()>,
}

impl CudaDirectRows {
    /// Creates direct rows without a stream.
    pub(crate) fn new(device: &Arc<CudaDevice>) -> Self {
        Self { device: device.clone(), copier: OnceLock::new() }
    }

    fn copier(&self) -> Result<Arc<RowCopier>> {
        if let Some(copier) = self.copier.get() {
            return Ok(copier.clone());
        }
        let stream = self.device.streams.open(&self.device.context)?;
        let release_thread = ReleaseThread::start("forebay-rows", self.device.handles())?;
        let copier = Arc::new(RowCopier { stream, release_thread, order: Mutex::new(()) });
        Ok(self.copier.get_or_init(|| copier).clone())
    }
}

impl std::fmt::Debug for CudaDirectRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDirectRows").field("device", &self.device.context.number).finish_non_exhaustive()
    }
}

impl DirectRows for CudaDirectRows {
    fn allocate(&self, bytes: usize, may_wait: bool) -> Result<Option<Arc<dyn DirectBatch>>> {
        let CudaDevice { context, blocks, .. } = &*self.device;
        let copier = self.copier()?;
        let block = if may_wait {
            Some(blocks.take_after_wait(context, bytes)?)
        } else {
            blocks.try_take_idle(context, bytes)?
        };
        let Some(block) = block else { return Ok(None) };
        let (device, block) = (self.device.clone(), RwLock::new(Some(block)));
        Ok(Some(Arc::new(CudaDirectBatch { device, block, copier, copies: Mutex::default() })))
    }
}

/// Copies that have been queued to a block.
#[derive(Default)]
enum QueuedCopies {
    #[default]
    None,
    /// All of them have ended when the event has fired.
    Until(Arc<Event>),
    /// A call of the driver failed, so copies may be in flight with no event recorded.
    Unknown,
}

/// Memory of a batch while direct rows are written to it.
struct CudaDirectBatch {
    device: Arc<CudaDevice>,
    /// Taken when the batch is filled, or on drop. Writers share it, since their rows are at separate offsets.
    block: RwLock<Option<Block>>,
    copier: Arc<RowCopier>,
    copies: Mutex<QueuedCopies>,
}

impl std::fmt::Debug for CudaDirectBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDirectBatch").field("device", &self.device.context.number).finish_non_exhaustive()
    }
}

impl DirectBatch for CudaDirectBatch {
    fn copy(&self, slot: ReadLease, rows: &[(Range<usize>, usize)]) -> Result<()> {
        let RowCopier { stream, release_thread, order } = &*self.copier;
        let block = self.block.read().unwrap_or_else(PoisonError::into_inner);
        let block = block.as_ref().ok_or_else(|| Error::internal("a row was copied to a batch that is filled"))?;
        let copied = Arc::new(Event::new(&self.device.context)?);
        let _order = order.lock();
        let started = rows.iter().try_for_each(|(bytes, at)| {
            let source = slot.get(bytes.clone()).filter(|source| block.has(*at, source.len()));
            let source = source.ok_or_else(|| Error::internal("a row is beyond the end of its sample or its batch"))?;
            // SAFETY: the release thread holds the slot, which is not written, until the event has fired or the stream
            // has been waited for; rows are at separate offsets in the block, and this one is the caller's.
            unsafe { stream.copy_in(block.address + *at as u64, source) }
        });
        if let Err(error) = started.and_then(|()| copied.record(stream.handle)) {
            *self.copies.lock() = QueuedCopies::Unknown;
            release_thread.release_after_own_streams(Some(slot.into()), None);
            return Err(error);
        }
        let mut copies = self.copies.lock();
        if !matches!(*copies, QueuedCopies::Unknown) {
            *copies = QueuedCopies::Until(copied.clone());
        }
        release_thread.release_after(copied, slot.into());
        Ok(())
    }

    fn read(&self, file: &dyn DirectFile, offset: u64, bytes: usize, at: usize) -> Result<()> {
        let file = file.as_any().downcast_ref::<File>();
        let file = file.ok_or_else(|| Error::internal("a file belongs to a different delivery"))?;
        let block = self.block.read().unwrap_or_else(PoisonError::into_inner);
        let block = block.as_ref().ok_or_else(|| Error::internal("a row was read to a batch that is filled"))?;
        // SAFETY: the memory is the caller's, and no queued work uses it: copies to the block have different offsets.
        unsafe { file.read((offset, bytes), block, at) }
    }

    fn finish(&self, rows: usize, done: &[(usize, usize)]) -> Result<Box<dyn DeviceRows>> {
        let mut block = self.block.write().unwrap_or_else(PoisonError::into_inner);
        let copied = match &*self.copies.lock() {
            QueuedCopies::None => None,
            QueuedCopies::Until(copied) => Some(copied.clone()),
            QueuedCopies::Unknown => {
                return Err(Error::internal("a batch was filled although copies of its rows failed"));
            }
        };
        let block = block.take().ok_or_else(|| Error::internal("a batch was filled twice"))?;
        let done: CompletedRows = done.iter().map(|row| (*row, RowSource::Direct)).collect();
        Ok(Box::new(PartialDeviceBatch::new(&self.device, (block, copied), (0..rows).collect(), done, false)))
    }
}

impl Drop for CudaDirectBatch {
    /// The batch was not filled.
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(block) = block.filter(|_| self.device.context.is_own_process()) else { return };
        match std::mem::take(self.copies.get_mut()) {
            QueuedCopies::None => self.device.blocks.release(block, Vec::new()),
            QueuedCopies::Until(copied) => self.device.blocks.release(block, vec![copied]),
            QueuedCopies::Unknown => self.device.release_block_after_streams(block, &self.device.blocks),
        }
    }
}
