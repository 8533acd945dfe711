//! All streams in one sequence, which is dealt directly.

use super::args::BatchingArgs;
use super::sequence::{RankPosition, RowSource, Sequence};
use crate::error::{OrderError, OrderWarning};
use crate::ids::StreamId;
use crate::partition::PartitionArgs;

pub(super) fn build(args: &BatchingArgs<'_>, warnings: &mut Vec<OrderWarning>) -> Result<Sequence, OrderError> {
    let streams: Vec<(StreamId, u64)> =
        args.shares.choose.iter().enumerate().map(|(stream, &choose)| (StreamId(stream as u32), choose)).collect();
    let deal = |samples| PartitionArgs { drop_first: args.start.sample_in_epoch, ..args.partition_args(samples) };
    args.sequence(&streams, args.start.block, deal, warnings)
}

#[inline]
pub(super) fn row_source(sequence: &Sequence, position: &RankPosition, column: u64) -> Option<RowSource> {
    let k = position.batch * sequence.partition.args.batch + column;
    let cell = sequence.partition.cell(position.node, position.rank_of_node, k)?;
    Some(RowSource { sequence: 0, cell })
}
