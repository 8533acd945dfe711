//! Batch in device memory.

use crate::context::Event;
use crate::device::CudaDevice;
use crate::memory::Block;
use crate::release::{dlpack_stream, record_readers};
use forebay_loader::delivery::{Device, TensorMemory};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{Error, Result};
use std::any::Any;

/// DLPack's numbers that are no address of a stream.
const CONSUMER_ORDERS_ITSELF: i64 = -1;
const LEGACY_DEFAULT_STREAM: i64 = 1;
/// A different stream on each thread.
const PER_THREAD_STREAM: i64 = 2;

/// Batch in device memory. Its block returns to the pool when the batch is dropped.
pub(crate) struct DeviceBatch {
    device: Arc<CudaDevice>,
    /// Taken on drop.
    block: Option<Block>,
    copied: Arc<Event>,
    /// Streams on which consumers use the batch, by DLPack's numbers.
    streams: Mutex<Vec<i64>>,
}

impl DeviceBatch {
    /// Creates a batch from `block`, with contents that are complete when `copied` has fired.
    pub(crate) fn new(device: &Arc<CudaDevice>, block: Block, copied: Arc<Event>) -> Self {
        Self { device: device.clone(), block: Some(block), copied, streams: Mutex::default() }
    }
}

impl std::fmt::Debug for DeviceBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBatch").field("device", &self.device.context.number).finish_non_exhaustive()
    }
}

impl TensorMemory for DeviceBatch {
    fn device(&self) -> Device {
        Device::Cuda(self.device.context.number)
    }

    fn address(&self) -> *mut u8 {
        let address = self.block.as_ref().map_or(0, |b| b.address);
        std::ptr::with_exposed_provenance_mut(address as usize)
    }

    fn host(&self) -> Option<&[u8]> {
        None
    }

    fn order_before(&self, consumer: Option<i64>) -> Result<()> {
        let number = match consumer {
            Some(CONSUMER_ORDERS_ITSELF) => return Ok(()),
            None => LEGACY_DEFAULT_STREAM,
            Some(number) if number > 0 => number,
            Some(number) => {
                let message = "invalid stream number: DLPack allows -1, 1, 2 and addresses of streams";
                return Err(Error::config(message).with("stream", number));
            }
        };
        if self.device.context.is_captured(dlpack_stream(number))? {
            let message = "a batch cannot be taken on a stream that captures a graph: take the batch before the \
                           capture and copy it into the graph's own memory";
            return Err(Error::config(message).with("stream", number));
        }
        self.copied.delay(dlpack_stream(number))?;
        let mut streams = self.streams.lock();
        if !streams.contains(&number) {
            streams.push(number);
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for DeviceBatch {
    fn drop(&mut self) {
        let Some(block) = self.block.take().filter(|_| self.device.context.is_own_process()) else {
            return;
        };
        let streams = std::mem::take(&mut *self.streams.lock());
        // This thread's default stream may differ from the consumer's. Without an event only a wait on the host
        // is left, which must not happen on this thread.
        if streams.contains(&PER_THREAD_STREAM) {
            return self.device.release_block_after_device(block);
        }
        match record_readers(&self.device.context, &streams) {
            Ok(None) => self.device.release_block_after_consumers(block, streams),
            Ok(Some(mut readers)) => {
                // Without a consumer's stream no one has waited for the copy, and the next writer may use a second
                // stream or none at all.
                if readers.is_empty() && !self.copied.has_fired().unwrap_or(false) {
                    readers.push(self.copied.clone());
                }
                self.device.blocks.release(block, readers);
            }
            Err(error) => {
                log::debug!("memory of a batch is released after all work of the device: {error}");
                self.device.release_block_after_device(block);
            }
        }
    }
}
