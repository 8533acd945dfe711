//! All streams in one sequence, which is dealt directly.

use super::args::BatchingArgs;
use super::sequence::{RankPlace, RowSource, Sequence};
use crate::order::error::{OrderError, OrderWarning};
use crate::order::ids::StreamId;
use crate::order::partition::PartitionArgs;

#[derive(Debug)]
pub(in crate::order) struct Random {
    batch: u64,
}

impl Random {
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Sequence, Self), OrderError> {
        let streams: Vec<(StreamId, u64)> =
            args.shares.choose.iter().enumerate().map(|(stream, &choose)| (StreamId(stream as u32), choose)).collect();
        let deal = |samples| PartitionArgs { drop_first: args.start.sample_in_epoch, ..args.partition_args(samples) };
        let sequence = args.sequence(&streams, args.start.block, deal, warnings)?;
        Ok((sequence, Random { batch: args.config.batch_size }))
    }

    #[inline]
    pub(super) fn row_source(&self, sequences: &[Sequence], place: &RankPlace, column: u64) -> Option<RowSource> {
        let k = place.batch * self.batch + column;
        let cell = sequences[0].partition.cell(place.node, place.rank_of_node, k)?;
        Some(RowSource { sequence: 0, cell })
    }
}
