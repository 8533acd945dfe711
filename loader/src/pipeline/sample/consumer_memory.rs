//! Rows of bytes in the consumer's own memory.
//!
//! A Python `bytes` object has its own memory, allocated under the interpreter's lock. Copying a sample there costs
//! as much as reading it, so samples are read directly into the object. Engine threads never take the consumer's locks:
//! a decode thread computes the lengths of a chunk's rows and parks the chunk here, a thread inside `Loader::next`
//! allocates the memory with the [`RowAllocator`](crate::delivery::RowAllocator), and the chunk returns to the decode
//! threads.
//!
//! Only the chunk waits. The consumer is interrupted if it waits for a batch, and otherwise allocates whenever it takes
//! one. A chunk that is parked while the consumer works on a batch waits for the next call, and is filled during the
//! step after it: it belongs to a batch that is taken `prefetch` calls later, so no call waits for it with a `prefetch`
//! of 1 or more, and with 0 no batch is filled ahead in any case.

use crate::delivery::Delivery;
use crate::error::Result;
use crate::pipeline::done_batch::DoneBatch;
use crate::pipeline::schedule::{Chunk, Dispatcher};
use crate::sync::{Arc, Mutex};
use forebay_core::flow::ReorderQueue;
use forebay_core::flow::Run;

/// Chunks that wait for the consumer's memory.
pub(crate) struct ConsumerMemory {
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) reorder: Arc<ReorderQueue<DoneBatch>>,
    pub(crate) run: Arc<Run>,
    /// Chunks in the order of their requests, with the length of each sample's row. Bounded by the batches in flight.
    pub(crate) waiting: Mutex<Vec<(Chunk, Vec<Option<usize>>)>>,
}

impl ConsumerMemory {
    /// True if the consumer allocates rows of bytes itself.
    pub(crate) fn is_available(&self) -> bool {
        self.delivery.row_allocator().is_some()
    }

    /// Parks `chunk` until the consumer has allocated its rows of bytes; `lengths` has one entry per sample, `None`
    /// where the length is not known.
    pub(crate) fn request(&self, chunk: Chunk, lengths: Vec<Option<usize>>) {
        self.waiting.lock().push((chunk, lengths));
        if self.run.is_stopped() {
            // The stop may have cleared the list before this chunk was added.
            self.clear();
        }
        self.reorder.interrupt();
    }

    /// Allocates memory for all waiting chunks. Only the consumer's threads may call this.
    ///
    /// # Errors
    ///
    /// Errors of the allocator, which end the run.
    pub(crate) fn allocate(&self) -> Result<()> {
        let Some(allocator) = self.delivery.row_allocator() else { return Ok(()) };
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (mut chunk, lengths) in waiting {
            match allocator.allocate(&lengths) {
                Ok(rows) => chunk.consumer_rows = Some(rows),
                Err(error) => {
                    self.run.fail(error.duplicate());
                    return Err(error);
                }
            }
            self.dispatcher.chunks.send(chunk);
        }
        Ok(())
    }

    /// True if no chunk waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Drops all waiting chunks.
    pub(crate) fn clear(&self) {
        let chunks = std::mem::take(&mut *self.waiting.lock());
        // Dropped without the lock: rows return to their batch.
        drop(chunks);
    }
}
