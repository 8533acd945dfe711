//! Rows of bytes in the consumer's own memory.
//!
//! A Python `bytes` object has memory of its own, made under the interpreter's lock. To copy a sample there from memory of
//! ours costs as much as reading it, so it is read right into the object. Engine threads never take the consumer's locks:
//! a decode thread works out how long the rows of a chunk are and puts the chunk aside here, whoever is inside
//! `Loader::next` gets the memory from the [`RowAllocator`](crate::delivery::RowAllocator), and the chunk goes back to the decode
//! threads. Nobody waits for it but the chunk itself: the consumer is called when it waits for a batch, and otherwise
//! looks whenever it takes one. A chunk that asks while the consumer works on a batch is so put off to the next call, and
//! has the step after that to be filled in: it belongs to a batch that is taken `prefetch` calls later, so nobody waits
//! for it with a `prefetch` of 1 or more, and with 0 nothing is filled ahead in any case.

use crate::error::Result;
use crate::pipeline::Chunk;
use crate::pipeline::epoch::Shared;
use crate::sync::Mutex;

/// Chunks that wait for memory, in the order of asking. Bounded by the batches under way.
#[derive(Debug, Default)]
pub(crate) struct Wanted(Mutex<Vec<(Chunk, Vec<Option<usize>>)>>);

impl Wanted {
    /// Whether no chunk waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Lets go of all chunks.
    pub(crate) fn clear(&self) {
        let chunks = std::mem::take(&mut *self.0.lock());
        // Dropped outside of the lock: rows go back to their batch.
        drop(chunks);
    }
}

impl Shared {
    /// Puts `chunk` aside until the consumer has given memory for its rows of bytes; `lengths` has one entry for each
    /// sample, `None` where the length is not known.
    pub(crate) fn want_rows(&self, chunk: Chunk, lengths: Vec<Option<usize>>) {
        self.wanted.0.lock().push((chunk, lengths));
        if self.run.is_stopped() {
            // Whoever stopped the run may have looked before this one came.
            self.wanted.clear();
        }
        self.reorder.call();
    }

    /// Gets memory for all chunks that wait for it. Called by the consumer's threads alone.
    ///
    /// # Errors
    ///
    /// What the consumer says, which ends the run.
    pub(crate) fn give_rows(&self) -> Result<()> {
        let Some(source) = self.target.row_allocator() else { return Ok(()) };
        let waiting = std::mem::take(&mut *self.wanted.0.lock());
        for (mut chunk, lengths) in waiting {
            match source.allocate(&lengths) {
                Ok(rows) => chunk.given = Some(rows),
                Err(error) => {
                    self.run.fail(error.duplicate());
                    return Err(error);
                }
            }
            self.send(chunk);
        }
        Ok(())
    }
}
