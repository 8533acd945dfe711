//! Device memory, kept for reuse: `cuMemAlloc` and `cuMemFree` wait for the device, so an epoch calls neither after its
//! start.

use crate::context::{Context, Event, Stream};
use crate::driver::checked;
use cudarc::driver::result::{free_sync, malloc_sync, memcpy_dtoh_async};
use cudarc::driver::sys::CUdeviceptr;
use forebay_loader::Result;
use forebay_loader::sync::{Arc, Mutex};

/// Page size of the driver's mapping of device memory. Blocks are rounded up to it at no cost.
const PAGE_BYTES: usize = 2 << 20;

/// Block of device memory.
pub(crate) struct Block {
    context: Arc<Context>,
    pub(crate) address: CUdeviceptr,
    bytes: usize,
    /// Events after which the block is idle: reads by consumers, or the copy of a batch that was never read.
    readers: Vec<Arc<Event>>,
}

impl Block {
    /// Allocates at least `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Full` when the device has no memory.
    pub(crate) fn alloc(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let address = context.enter(|| {
            // SAFETY: the memory is written before it is read.
            checked(unsafe { malloc_sync(bytes) }, "cuMemAlloc").map_err(|e| e.with("bytes", bytes))
        })?;
        Ok(Self { context: context.clone(), address, bytes, readers: Vec::new() })
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if the block has `bytes` bytes from offset `at` on.
    pub(crate) fn has(&self, at: usize, bytes: usize) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Returns true if nothing uses the block any more.
    fn is_idle(&self) -> Result<bool> {
        self.readers.iter().try_fold(true, |is_idle, reader| Ok(is_idle && reader.has_fired()?))
    }

    /// Fills the block with `word` and waits for it.
    pub(crate) fn fill(&self, word: u32, stream: &Stream) -> Result<()> {
        // SAFETY: the block has this many bytes and starts with a page.
        unsafe { stream.fill(self.address, word, self.bytes) }?;
        stream.wait()
    }

    /// Returns the first `bytes` bytes after the work queued on `stream`, with a wait for it.
    pub(crate) fn read(&self, bytes: usize, stream: &Stream) -> Result<Vec<u8>> {
        let mut copy = vec![0u8; bytes.min(self.bytes)];
        let started = self.context.enter(|| {
            // SAFETY: the block has this many bytes; the vector is kept until the copy has ended.
            let result = unsafe { memcpy_dtoh_async(&mut copy, self.address, stream.handle) };
            checked(result, "cuMemcpyDtoHAsync")
        });
        match started.and_then(|()| stream.wait()) {
            Ok(()) => Ok(copy),
            Err(error) => {
                // The device may still write to the vector.
                std::mem::forget(copy);
                Err(error)
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: allocated in `alloc`, freed once; the driver waits for work that uses it.
            let _ = self.context.enter(|| checked(unsafe { free_sync(self.address) }, "cuMemFree"));
        }
    }
}

/// Pool of free blocks. It grows to the largest number of batches that were in use at once.
#[derive(Default)]
pub(crate) struct BlockPool(Mutex<Vec<Block>>);

impl BlockPool {
    /// Takes a block of at least `bytes` bytes for writes on `stream`. The stream waits for the block's readers; the
    /// caller does not.
    pub(crate) fn take(&self, context: &Arc<Context>, bytes: usize, stream: &Stream) -> Result<Block> {
        let mut block = self.take_busy(context, bytes)?;
        for reader in block.readers.drain(..) {
            reader.delay(stream.handle)?;
        }
        Ok(block)
    }

    /// Takes a block for writes that are not ordered with a stream. Waits on the host until the block is idle.
    pub(crate) fn take_after_wait(&self, context: &Arc<Context>, bytes: usize) -> Result<Block> {
        if let Some(block) = self.find_idle(bytes)?.1 {
            return Ok(block);
        }
        let mut block = self.take_busy(context, bytes)?;
        while let Some(reader) = block.readers.last() {
            if let Err(error) = reader.wait() {
                self.0.lock().push(block);
                return Err(error);
            }
            block.readers.pop();
        }
        Ok(block)
    }

    /// Takes a block for writes that are not ordered with a stream, without a wait. Returns `None` if all blocks of
    /// this size may still be in use. A new block is allocated only if there is none, or a consumer that queues work
    /// far ahead would cause an allocation for each batch.
    pub(crate) fn try_take_idle(&self, context: &Arc<Context>, bytes: usize) -> Result<Option<Block>> {
        match self.find_idle(bytes)? {
            // A block that is released meanwhile may still be in use.
            (false, _) => Block::alloc(context, bytes).map(Some),
            (true, block) => Ok(block),
        }
    }

    /// Returns whether the pool has blocks of at least `bytes` bytes, and takes an idle one of them.
    fn find_idle(&self, bytes: usize) -> Result<(bool, Option<Block>)> {
        let mut blocks = self.0.lock();
        let fitting: Vec<_> = (0..blocks.len()).filter(|i| blocks[*i].bytes >= bytes).collect();
        for i in &fitting {
            if blocks[*i].is_idle()? {
                let mut block = blocks.swap_remove(*i);
                block.readers.clear();
                return Ok((true, Some(block)));
            }
        }
        Ok((!fitting.is_empty(), None))
    }

    /// Takes a block of at least `bytes` bytes, which may still be in use.
    fn take_busy(&self, context: &Arc<Context>, bytes: usize) -> Result<Block> {
        let (fitting, outgrown) = {
            let mut blocks = self.0.lock();
            // All batches of a loader have the same size except a short last one, which gets a block of the same size.
            match blocks.iter().position(|b| b.bytes >= bytes) {
                Some(i) => (Some(blocks.swap_remove(i)), Vec::new()),
                None => (None, std::mem::take(&mut *blocks)),
            }
        };
        let Some(block) = fitting else {
            // Freed before the larger block is allocated, since the device may not have memory for both.
            drop(outgrown);
            return Block::alloc(context, bytes);
        };
        Ok(block)
    }

    /// Returns a block to the pool. It is idle when `readers` have fired.
    pub(crate) fn release(&self, mut block: Block, readers: Vec<Arc<Event>>) {
        block.readers = readers;
        self.0.lock().push(block);
    }
}
