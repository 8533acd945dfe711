//! One CUDA device, as the delivery, its batches and its decoder share it.

use crate::context::{Context, Event, OwnStreams, Stream};
use crate::memory::{Block, BlockPool};
use crate::release::{DeviceHandles, HostSlot, ReleaseThread};
use forebay_loader::Result;
use forebay_loader::sync::{Arc, Mutex};
use std::any::Any;

/// Streams, memory pool and release thread of one device.
pub(crate) struct CudaDevice {
    pub(crate) context: Arc<Context>,
    /// Stream on which filled batches are copied.
    pub(crate) stream: Arc<Stream>,
    /// All streams that this crate has opened on the device, `stream` included.
    pub(crate) streams: Arc<OwnStreams>,
    /// Pool of batch memory.
    pub(crate) blocks: Arc<BlockPool>,
    release_thread: ReleaseThread,
    /// Recorded before all work. A query of it returns any error that the device has had since.
    opened: Event,
    /// Held from taking a block until its copy is queued and its slot is handed to the release thread, so that copies
    /// and release requests have the same order.
    pub(crate) order: Mutex<()>,
}

impl CudaDevice {
    /// Opens the stream for copies and starts the release thread.
    ///
    /// # Errors
    ///
    /// Errors of the driver; `Full` when the thread cannot be started.
    pub(crate) fn open(context: &Arc<Context>) -> Result<Arc<Self>> {
        let (streams, blocks) = (Arc::new(OwnStreams::default()), Arc::<BlockPool>::default());
        let stream = streams.open(context)?;
        let handles = DeviceHandles { context: context.clone(), streams: streams.clone(), blocks: blocks.clone() };
        let release_thread = ReleaseThread::start("forebay-release", handles)?;
        let opened = Event::new(context)?;
        opened.record(stream.handle)?;
        let order = Mutex::new(());
        Ok(Arc::new(Self { context: context.clone(), stream, streams, blocks, release_thread, opened, order }))
    }

    /// Fails if an earlier call has lost the device.
    pub(crate) fn check(&self) -> Result<()> {
        // The event has fired long ago; the query reports earlier errors of the device.
        self.opened.has_fired().map(drop)
    }

    /// Releases `slot` after `read` has fired.
    pub(crate) fn release_slot_after(&self, read: Arc<Event>, slot: impl Into<HostSlot>) {
        self.release_thread.release_after(read, slot.into());
    }

    /// Releases the slot and the block of a batch after all queued work on the crate's own streams.
    pub(crate) fn release_batch_after_streams(&self, slot: impl Into<HostSlot>, block: Block) {
        self.release_thread.release_after_own_streams(Some(slot.into()), Some((block, self.blocks.clone())));
    }

    /// Releases `block` to `pool` after all queued work on the crate's own streams.
    pub(crate) fn release_block_after_streams(&self, block: Block, pool: &Arc<BlockPool>) {
        self.release_thread.release_after_own_streams(None, Some((block, pool.clone())));
    }

    /// Releases the block of a batch after the queued work on `streams`, once none of them captures a graph.
    pub(crate) fn release_block_after_consumers(&self, block: Block, streams: Vec<i64>) {
        self.release_thread.release_after_consumers(block, streams);
    }

    /// Releases the block of a batch after all work that is queued on the device.
    pub(crate) fn release_block_after_device(&self, block: Block) {
        self.release_thread.release_after_device(block);
    }

    /// Drops `value` on the release thread, since its drop may wait for the device. Waits for it, but not without
    /// limit.
    pub(crate) fn drop_on_release_thread(&self, value: impl Any + Send) {
        self.release_thread.drop_value(Box::new(value));
    }

    /// Handles for a second release thread.
    pub(crate) fn handles(&self) -> DeviceHandles {
        let (context, streams, blocks) = (self.context.clone(), self.streams.clone(), self.blocks.clone());
        DeviceHandles { context, streams, blocks }
    }
}
