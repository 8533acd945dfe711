//! Device memory, kept for reuse: `cuMemAlloc` and `cuMemFree` wait for the device, so steady epochs do neither.

use crate::context::{Context, Event, Stream};
use crate::driver::checked;
use cudarc::driver::result::{free_sync, malloc_sync, memcpy_dtoh_async};
use cudarc::driver::sys::CUdeviceptr;
use forebay_loader::Result;
use forebay_loader::sync::{Arc, Mutex};

/// The driver maps device memory in pages of this size: a smaller difference costs nothing.
const PAGE_BYTES: usize = 2 << 20;

/// A piece of device memory.
pub(crate) struct Block {
    context: Arc<Context>,
    pub(crate) address: CUdeviceptr,
    bytes: usize,
    /// What may still be queued that uses it: reads by consumers, or a copy of a batch that nobody has looked at.
    readers: Vec<Arc<Event>>,
}

impl Block {
    /// At least `bytes`.
    ///
    /// # Errors
    ///
    /// `Full` when there is none.
    pub(crate) fn alloc(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let address = context.enter(|| {
            // SAFETY: memory that nothing is read from before it has been written.
            checked(unsafe { malloc_sync(bytes) }, "cuMemAlloc").map_err(|e| e.with("bytes", bytes))
        })?;
        Ok(Self { context: context.clone(), address, bytes, readers: Vec::new() })
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has `bytes` bytes from `at` on.
    pub(crate) fn has(&self, at: usize, bytes: usize) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Whether nothing uses it any more.
    fn is_idle(&self) -> Result<bool> {
        self.readers.iter().try_fold(true, |is_idle, reader| Ok(is_idle && reader.has_fired()?))
    }

    /// Fills it with a word that is known, and waits until it is.
    pub(crate) fn fill(&self, word: u32, stream: &Stream) -> Result<()> {
        // SAFETY: the block has as many bytes, from a page's start on.
        unsafe { stream.fill(self.address, word, self.bytes) }?;
        stream.wait()
    }

    /// Its first `bytes` bytes, when `stream` has done what it was given. Waits for that.
    pub(crate) fn read(&self, bytes: usize, stream: &Stream) -> Result<Vec<u8>> {
        let mut copy = vec![0u8; bytes.min(self.bytes)];
        let started = self.context.enter(|| {
            // SAFETY: the block has as many bytes; the vector is kept until the copy is known to have ended.
            let answer = unsafe { memcpy_dtoh_async(&mut copy, self.address, stream.handle) };
            checked(answer, "cuMemcpyDtoHAsync")
        });
        match started.and_then(|()| stream.wait()) {
            Ok(()) => Ok(copy),
            Err(error) => {
                // The device may still write to it.
                std::mem::forget(copy);
                Err(error)
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: allocated in `alloc`, freed once; the driver waits for what still uses it.
            let _ = self.context.enter(|| checked(unsafe { free_sync(self.address) }, "cuMemFree"));
        }
    }
}

/// Blocks that nobody has: at most as many as batches were out at once.
#[derive(Default)]
pub(crate) struct BlockPool(Mutex<Vec<Block>>);

impl BlockPool {
    /// A block of at least `bytes`, which `stream` may write: it waits for the block's last readers, the caller does not.
    pub(crate) fn take(&self, context: &Arc<Context>, bytes: usize, stream: &Stream) -> Result<Block> {
        let mut block = self.take_busy(context, bytes)?;
        for reader in block.readers.drain(..) {
            reader.delay(stream.handle)?;
        }
        Ok(block)
    }

    /// The same for whoever writes without a stream: waits on the host until nothing uses the block.
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

    /// The same for whoever must not wait. `None` where all blocks may still be used; a new one is made only where none is kept, or
    /// a consumer that queues work far ahead would have it all made new.
    pub(crate) fn try_take_idle(&self, context: &Arc<Context>, bytes: usize) -> Result<Option<Block>> {
        match self.find_idle(bytes)? {
            // Whatever comes back meanwhile may still be used.
            (false, _) => Block::alloc(context, bytes).map(Some),
            (true, block) => Ok(block),
        }
    }

    /// Whether a block of at least `bytes` is kept, and one of those that nothing uses.
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

    /// A block of at least `bytes`, which may still be used.
    fn take_busy(&self, context: &Arc<Context>, bytes: usize) -> Result<Block> {
        let (fitting, outgrown) = {
            let mut blocks = self.0.lock();
            // Batches of a loader are equally large up to a short last one, which gets a block of the others.
            match blocks.iter().position(|b| b.bytes >= bytes) {
                Some(i) => (Some(blocks.swap_remove(i)), Vec::new()),
                None => (None, std::mem::take(&mut *blocks)),
            }
        };
        let Some(block) = fitting else {
            // Freed before the larger one is asked for, or both would have to fit.
            drop(outgrown);
            return Block::alloc(context, bytes);
        };
        Ok(block)
    }

    /// Takes a block back, for a writer that waits for `readers`: whatever may still use it.
    pub(crate) fn release(&self, mut block: Block, readers: Vec<Arc<Event>>) {
        block.readers = readers;
        self.0.lock().push(block);
    }
}
