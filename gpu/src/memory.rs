//! Device memory by size, kept for reuse: `cuMemAlloc` and `cuMemFree` wait for the device, so steady epochs do neither.

use crate::context::{Context, Event, Stream};
use crate::driver::DevicePtr;
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{ErrorKind, Result};

/// A piece of device memory.
pub(crate) struct Block {
    context: Arc<Context>,
    pub(crate) address: DevicePtr,
    bytes: usize,
    /// What consumers may still have queued that reads it.
    readers: Vec<Event>,
}

impl Block {
    fn alloc(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let mut address = 0;
        context.enter(|driver| {
            // SAFETY: writes one address.
            driver.check(unsafe { (driver.memory_alloc)(&mut address, bytes) }, "cuMemAlloc")
        })?;
        Ok(Self { context: context.clone(), address, bytes, readers: Vec::new() })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.context.is_ours() {
            // SAFETY: allocated in `alloc`, freed once; the driver waits for what still uses it.
            let _ =
                self.context.enter(|driver| driver.check(unsafe { (driver.memory_free)(self.address) }, "cuMemFree"));
        }
    }
}

/// Blocks that nobody has.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Vec<Block>>);

impl Blocks {
    /// A block of at least `bytes`, which `stream` may write: it waits for the block's last readers, the caller does not.
    pub(crate) fn take(&self, context: &Arc<Context>, bytes: usize, stream: &Stream) -> Result<Block> {
        // Batches of one loader are equally large up to a short last one; powers of two serve several loaders.
        let bytes = bytes.max(1).next_power_of_two();
        let free = {
            let mut blocks = self.0.lock();
            blocks.iter().position(|b| b.bytes == bytes).map(|i| blocks.swap_remove(i))
        };
        let Some(mut block) = free else {
            return Block::alloc(context, bytes).or_else(|error| {
                if error.kind() != ErrorKind::Full {
                    return Err(error);
                }
                // Blocks of other sizes may be what is missing.
                let others = std::mem::take(&mut *self.0.lock());
                drop(others);
                Block::alloc(context, bytes).map_err(|e| e.with("bytes", bytes))
            });
        };
        for reader in block.readers.drain(..) {
            reader.hold_back(stream.handle)?;
        }
        Ok(block)
    }

    /// Takes a block back, for a writer that waits for `readers`.
    pub(crate) fn give_back(&self, mut block: Block, readers: Vec<Event>) {
        block.readers = readers;
        self.0.lock().push(block);
    }
}
