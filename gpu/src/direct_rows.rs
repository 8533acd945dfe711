//! Rows that are on the device before their batch is filled.
//!
//! ```text
//! read slot --copy on a stream of its own--> rows of the batch's block ---+     (the slot goes back when its event has fired)
//! shard --cuFile---------------------------> rows of the batch's block ---+
//! batch slot --copies, for what else the batch has (rows)-----------------+--> event --> slot goes back
//! ```
//!
//! The block is taken with the batch's first such row, and until the batch is filled nothing else uses it. It is one that
//! nothing uses any more: cuFile's reads go by no stream, and copies must not wait for a consumer, or read slots would. For
//! that reason these copies have a stream and a keeper of their own; the target's wait for whoever reads the memory that they
//! write next. When the batch is filled the reads are done, and the rest goes the usual way, behind the copies.
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

use crate::context::{Event, Stream};
use crate::cufile::File;
use crate::delivery::{DeviceBatch, Shared};
use crate::memory::Block;
use crate::partial_batch::{Done, Partial};
use crate::release::Keeper;
use crate::row_copy::copy_rows;
use forebay_loader::delivery::{DeviceRows, DirectBatch, DirectFile, DirectRows, PartialBatch, TensorMemory};
use forebay_loader::memory::ReadLease;
use forebay_loader::sync::{Arc, Mutex, OnceLock};
use forebay_loader::{Error, Result};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Takes rows of batches to a device.
pub(crate) struct CudaDirectRows {
    shared: Arc<Shared>,
    /// Made with the first batch.
    copies: OnceLock<Arc<Copies>>,
}

/// Where rows are copied.
struct Copies {
    stream: Arc<Stream>,
    keeper: Keeper,
    /// Held over a copy: copies and the keeper's queue have one order.
    order: Mutex<()>,
}

impl CudaDirectRows {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), copies: OnceLock::new() }
    }

    fn copies(&self) -> Result<Arc<Copies>> {
        if let Some(copies) = self.copies.get() {
            return Ok(copies.clone());
        }
        let stream = self.shared.streams.open(&self.shared.context)?;
        let keeper = Keeper::start("forebay-rows", self.shared.site())?;
        let copies = Arc::new(Copies { stream, keeper, order: Mutex::new(()) });
        Ok(self.copies.get_or_init(|| copies).clone())
    }
}

impl std::fmt::Debug for CudaDirectRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDirectRows").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl DirectRows for CudaDirectRows {
    fn allocate(&self, bytes: usize, may_wait: bool) -> Result<Option<Arc<dyn DirectBatch>>> {
        let Shared { context, blocks, .. } = &*self.shared;
        let copies = self.copies()?;
        let block =
            if may_wait { Some(blocks.take_idle(context, bytes)?) } else { blocks.take_unused(context, bytes)? };
        let Some(block) = block else { return Ok(None) };
        let (shared, block) = (self.shared.clone(), RwLock::new(Some(block)));
        Ok(Some(Arc::new(Rows { shared, copies, block, copied: Mutex::default() })))
    }

    fn deliver(&self, batch: PartialBatch<'_>) -> Result<Arc<dyn TensorMemory>> {
        let PartialBatch { mut slot, outputs, rows, on_device } = batch;
        let shared = &self.shared;
        let before = on_device.downcast::<Partial>();
        let before = before.map_err(|_| Error::internal("a batch on the device comes from another target"))?;
        let copied = Arc::new(Event::new(&shared.context)?);
        let unfinished = || Error::internal("a batch was placed before its rows were done");
        let _order = shared.order.lock();
        let (block, done) = before.take_up(rows, outputs, &shared.stream)?;
        let started = slot.bytes_mut().ok_or_else(unfinished).and_then(|filled| {
            // SAFETY: the keeper holds the slot until the event has fired or the streams have been waited for.
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

/// What has been copied to a block.
#[derive(Default)]
enum Copied {
    #[default]
    None,
    /// All of it is there when this has fired.
    Until(Arc<Event>),
    /// The driver has refused something, and what is under way no event names.
    Unknown,
}

/// A batch's memory while rows come to it.
struct Rows {
    shared: Arc<Shared>,
    /// Taken when the batch is filled, or when dropped. Those who bring rows share it: each has places of its own.
    block: RwLock<Option<Block>>,
    copies: Arc<Copies>,
    copied: Mutex<Copied>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl DirectBatch for Rows {
    fn copy(&self, slot: ReadLease, rows: &[(Range<usize>, usize)]) -> Result<()> {
        let Copies { stream, keeper, order } = &*self.copies;
        let block = self.block.read().unwrap_or_else(PoisonError::into_inner);
        let block = block.as_ref().ok_or_else(|| Error::internal("a row was copied for a batch that is filled"))?;
        let copied = Arc::new(Event::new(&self.shared.context)?);
        let _order = order.lock();
        let started = rows.iter().try_for_each(|(bytes, at)| {
            let source = slot.get(bytes.clone()).filter(|source| block.has(*at, source.len()));
            let source = source.ok_or_else(|| Error::internal("a row lies behind its sample or its batch"))?;
            // SAFETY: the keeper holds the slot, which nobody writes, until the event has fired or the stream has been
            // waited for; rows have a place each in the block, and this one is the caller's.
            unsafe { stream.copy_in(block.address + *at as u64, source) }
        });
        if let Err(error) = started.and_then(|()| copied.record(stream.handle)) {
            *self.copied.lock() = Copied::Unknown;
            keeper.unnamed(Some(slot.into()), None);
            return Err(error);
        }
        let mut all = self.copied.lock();
        if !matches!(*all, Copied::Unknown) {
            *all = Copied::Until(copied.clone());
        }
        keeper.slot(copied, slot.into());
        Ok(())
    }

    fn read(&self, file: &dyn DirectFile, offset: u64, bytes: usize, at: usize) -> Result<()> {
        let file = file.as_any().downcast_ref::<File>();
        let file = file.ok_or_else(|| Error::internal("a file comes from another target"))?;
        let block = self.block.read().unwrap_or_else(PoisonError::into_inner);
        let block = block.as_ref().ok_or_else(|| Error::internal("a row was read for a batch that is filled"))?;
        // SAFETY: nothing that the device was given uses this place, which is the caller's: copies to the block have others.
        unsafe { file.read((offset, bytes), block, at) }
    }

    fn finish(&self, rows: usize, done: &[(usize, usize)]) -> Result<DeviceRows> {
        let mut block = self.block.write().unwrap_or_else(PoisonError::into_inner);
        let copied = match &*self.copied.lock() {
            Copied::None => None,
            Copied::Until(copied) => Some(copied.clone()),
            Copied::Unknown => return Err(Error::internal("a batch was filled whose rows were not copied")),
        };
        let block = block.take().ok_or_else(|| Error::internal("a batch was filled twice"))?;
        let done: Done = done.iter().map(|row| (*row, false)).collect();
        let rows: Vec<usize> = (0..rows).collect();
        Ok(Box::new(Partial::new(&self.shared, block, &rows, done).after(copied)))
    }
}

impl Drop for Rows {
    /// The batch is not filled.
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(block) = block.filter(|_| self.shared.context.is_ours()) else { return };
        match std::mem::take(self.copied.get_mut()) {
            Copied::None => self.shared.blocks.give_back(block, Vec::new()),
            Copied::Until(copied) => self.shared.blocks.give_back(block, vec![copied]),
            Copied::Unknown => self.shared.keep_block(block, &self.shared.blocks),
        }
    }
}
