//! From scheduled chunks to decode threads.

use super::chunk::Chunk;
use super::sender::StageSender;
use super::shard::residency::Residency;
use crate::sync::Arc;

/// Sends chunks to the decode threads once their shards are resident.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    residency: Arc<Residency<Chunk>>,
    chunks: StageSender<Chunk>,
}

impl Dispatcher {
    /// Sends ready chunks to `chunks` and parks the others in `residency`.
    pub(crate) fn new(residency: Arc<Residency<Chunk>>, chunks: StageSender<Chunk>) -> Self {
        Self { residency, chunks }
    }

    /// Sends `chunk` to the decode threads, now or when its shards are resident.
    ///
    /// A chunk with missing shards is split so that no piece waits for more than one: the disk may hold fewer shards
    /// than a chunk uses, which would then never be resident together.
    pub(crate) fn dispatch(&self, chunk: Chunk) {
        if self.residency.are_resident(chunk.samples.iter().map(|task| task.shard)) {
            self.send(chunk);
            return;
        }
        for (shard, piece) in chunk.split_by_shard() {
            if let Some(ready) = self.residency.park(piece, shard) {
                self.send(ready);
            }
        }
    }

    /// Sends a chunk whose shards are resident to the decode threads.
    pub(crate) fn send(&self, chunk: Chunk) {
        self.chunks.send(chunk);
    }

    /// Ends the decode threads' queue.
    pub(crate) fn close(&self) {
        self.chunks.close();
    }
}
