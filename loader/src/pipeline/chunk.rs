//! Consecutive rows of one batch, scheduled together.

use super::sample::batch_builder::BatchBuilder;
use super::task::Task;
use crate::delivery::RowMemory;
use crate::memory::RowMut;
use crate::order::ShardId;
use crate::sync::Arc;

/// Consecutive rows of one batch. All their shards are resident when a decode thread takes the chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) batch: Arc<BatchBuilder>,
    /// Row of the first sample in the batch.
    pub(crate) first_row: usize,
    pub(crate) samples: Vec<Task>,
    /// Memory of the rows: one entry per fixed output, for all samples of the chunk.
    pub(crate) rows: Vec<RowMut>,
    /// The consumer's memory for each sample's row of bytes, once it was allocated: see
    /// [`ConsumerMemory`](super::sample::consumer_memory::ConsumerMemory).
    pub(crate) consumer_rows: Option<Vec<Option<Box<dyn RowMemory>>>>,
}

impl Chunk {
    /// Splits the chunk at each change of shard. The batch counts the pieces.
    pub(crate) fn split_by_shard(self) -> Vec<(ShardId, Chunk)> {
        let Self { batch, mut first_row, samples, mut rows, mut consumer_rows } = self;
        let runs: Vec<&[Task]> = samples.chunk_by(|a, b| a.shard == b.shard).collect();
        // The chunk itself is already counted.
        batch.add_chunks(runs.len() - 1);
        let pieces = runs.into_iter().map(|run| {
            let len = run.len();
            let piece = Chunk {
                batch: batch.clone(),
                first_row,
                samples: run.to_vec(),
                rows: rows
                    .iter_mut()
                    .zip(batch.row_bytes())
                    .map(|(rows, bytes)| rows.split_front(len * bytes))
                    .collect(),
                consumer_rows: consumer_rows.as_mut().map(|rows| rows.drain(..len).collect()),
            };
            first_row += len;
            (run[0].shard, piece)
        });
        pieces.collect()
    }
}
