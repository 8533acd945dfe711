//! Each global batch from one stream. Streams are dealt for this world; their complete global batches are merged in a
//! random order of streams.

use super::args::BatchingArgs;
use super::origins;
use super::sequence::{RankPosition, RowSource, Sequence};
use crate::error::{OrderError, OrderWarning};
use crate::rng::Generator;

#[derive(Debug)]
pub(crate) struct PerStream {
    batch: u64,
    streams: usize,
    /// The stream of each global batch of the epoch.
    origins: Vec<u32>,
}

impl PerStream {
    /// Makes the sequences and the method, and counts the global batches of the epoch.
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Vec<Sequence>, Self, u64), OrderError> {
        let sequences = args.sequence_per_stream(|samples| args.partition_args(samples), warnings)?;
        let mut batches = Vec::with_capacity(sequences.len());
        for (stream, Sequence { partition, .. }) in sequences.iter().enumerate() {
            let full = partition.full_batches();
            if full == 0 {
                return Err(OrderError::StreamTooSmall { stream: stream as u32, batch: args.global_batch() });
            }
            if full != partition.batches() {
                warnings.push(OrderWarning::StreamTailDropped { stream: stream as u32 });
            }
            batches.push(full);
        }
        let origins = origins::shuffled(&mut Generator::new(args.shares_seed()), &batches, 1)?;
        let batches = origins.len() as u64;
        let method = PerStream { batch: args.config.batch_size, streams: sequences.len(), origins };
        Ok((sequences, method, batches))
    }

    pub(super) fn seek(&self, position: &mut RankPosition) {
        origins::count_to(position, &self.origins, self.streams, position.batch);
    }

    pub(super) fn row_source(&self, sequences: &[Sequence], position: &RankPosition, column: u64) -> Option<RowSource> {
        let partition = &sequences[position.sequence].partition;
        let cell = partition.cell(position.node, position.rank_of_node, position.row * self.batch + column)?;
        Some(RowSource { sequence: position.sequence, cell })
    }

    /// The global batch that each of a stream's batches becomes.
    pub(crate) fn batches_of(&self, stream: usize) -> Vec<u64> {
        origins::of_stream(&self.origins, stream).collect()
    }
}
