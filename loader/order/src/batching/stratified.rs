//! A fixed share of every stream in each global batch. Streams are dealt to a single node, and each contributes its
//! next part to every global batch, stream by stream.

use super::args::BatchingArgs;
use super::sequence::{RankPosition, RowSource, Sequence};
use crate::error::{OrderError, OrderWarning};
use crate::partition::PartitionArgs;

/// Layout of the global batches.
#[derive(Debug)]
pub(crate) struct Stratified {
    /// Rows of a rank's batch.
    batch: u64,
    ranks_per_node: u64,
    /// Start of each stream's part of a global batch, and the size of the global batch at the end.
    parts: Vec<u64>,
    /// Global batches of the epoch.
    batches: u64,
}

/// Returns each stream's samples in a global batch: its share rounded down, and one more for the streams that lose most
/// by the rounding. Of equal losses, later streams come first.
fn portions(proportion: &[f64], global_batch: u64) -> Result<Vec<u64>, OrderError> {
    let whole = global_batch as f64;
    let mut portions: Vec<u64> = proportion.iter().map(|p| (p * whole) as u64).collect();
    let missing = global_batch.saturating_sub(portions.iter().sum());
    let loss = |stream: usize| whole * proportion[stream] - portions[stream] as f64;
    let mut streams: Vec<usize> = (0..portions.len()).collect();
    streams.sort_by(|&a, &b| loss(a).total_cmp(&loss(b)));
    for stream in streams.into_iter().rev().take(missing as usize) {
        portions[stream] += 1;
    }
    match portions.iter().position(|&portion| portion == 0) {
        Some(stream) => Err(OrderError::StreamPortionZero { stream: stream as u32, global_batch }),
        None => Ok(portions),
    }
}

impl Stratified {
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Vec<Sequence>, Self, u64), OrderError> {
        let global_batch = args.global_batch();
        let deal = |samples| PartitionArgs { nodes: 1, batch: 1, ..args.partition_args(samples) };
        let mut sequences = args.sequence_per_stream(deal, warnings)?;
        let portions = portions(&args.shares.proportion, global_batch)?;
        let mut parts = vec![0];
        let mut batches = u64::MAX;
        for (stream, (sequence, &portion)) in sequences.iter_mut().zip(&portions).enumerate() {
            sequence.arrangement.set_batch(portion);
            let samples = sequence.partition.deal.node_len_padded;
            if !samples.is_multiple_of(portion) {
                warnings.push(OrderWarning::StreamTailDropped { stream: stream as u32 });
            }
            batches = batches.min(samples / portion);
            parts.push(parts[stream] + portion);
        }
        let ranks_per_node = args.ranks_per_node();
        Ok((sequences, Stratified { batch: args.config.batch_size, ranks_per_node, parts, batches }, batches))
    }

    /// Returns the source of row `column` of the batch at `position`; `None` for padding.
    pub(super) fn row_source(&self, sequences: &[Sequence], position: &RankPosition, column: u64) -> Option<RowSource> {
        let rank = position.node * self.ranks_per_node + position.rank_of_node;
        let in_batch = rank * self.batch + column;
        let sequence = self.parts.partition_point(|&start| start <= in_batch) - 1;
        let portion = self.parts[sequence + 1] - self.parts[sequence];
        let index = position.batch * portion + (in_batch - self.parts[sequence]);
        let cell = sequences[sequence].partition.deal.node_cell(0, index)?;
        Some(RowSource { sequence, cell })
    }

    /// Returns the first and the last global batch to which a stream's samples from index `first` to `last` go; `None`
    /// if all are dropped.
    pub(crate) fn batches_between(&self, stream: usize, first: u64, last: u64) -> Option<(u64, u64)> {
        let portion = self.parts[stream + 1] - self.parts[stream];
        let last_batch = self.batches.checked_sub(1)?;
        (first / portion <= last_batch).then(|| (first / portion, (last / portion).min(last_batch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_samples_go_to_the_largest_losses_and_later_streams() {
        assert_eq!(portions(&[0.5, 0.25, 0.25], 6), Ok(vec![3, 1, 2]));
        assert_eq!(portions(&[0.45, 0.55], 10), Ok(vec![4, 6]));
        assert_eq!(portions(&[0.75, 0.2, 0.05], 5), Err(OrderError::StreamPortionZero { stream: 2, global_batch: 5 }));
    }
}
