//! Outputs that the plan gives, and not the sample: the mark of repeats, the samples' identities, and the keys of their
//! draws.

use crate::catalog::Catalog;
use crate::decode::{DType, DrawKey, Output, RowShape};
use crate::order::ShardId;

/// Output that the plan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkOutput {
    /// `repeat`: a byte that is 1 for repeats.
    Repeat,
    /// `sample_ids`: stream, shard of the stream and index in the shard, as int64.
    SampleIds,
    /// `sample_draws`: epoch, stream and draw of the key of the sample's random draws, as int64.
    SampleDraws,
}

/// Values of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowMark {
    repeat: bool,
    id: [i64; 3],
    draw: [i64; 3],
}

impl MarkOutput {
    /// Form of the output in a batch.
    pub(crate) fn output(self) -> Output {
        let (name, dtype, row) = match self {
            Self::Repeat => ("repeat", DType::UInt8, Vec::new()),
            Self::SampleIds => ("sample_ids", DType::Int64, vec![3]),
            Self::SampleDraws => ("sample_draws", DType::Int64, vec![3]),
        };
        Output { name: name.to_owned(), dtype, shape: RowShape::Fixed(row) }
    }

    /// Writes the value of a row.
    pub(super) fn write(self, row: &mut [u8], mark: &RowMark) {
        match self {
            Self::Repeat => row[0] = u8::from(mark.repeat),
            Self::SampleIds => write_numbers(row, mark.id),
            Self::SampleDraws => write_numbers(row, mark.draw),
        }
    }
}

fn write_numbers(row: &mut [u8], numbers: [i64; 3]) {
    for (place, number) in row.chunks_exact_mut(size_of::<i64>()).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
}

impl RowMark {
    /// Values of the row of the sample with this `index` in `shard` and with `key` for its draws.
    pub(crate) fn new(repeat: bool, (shard, index): (ShardId, u32), key: DrawKey, catalog: &Catalog) -> Self {
        let stream = catalog.shape().stream_of(shard);
        let first = catalog.shape().shards_of(stream).start;
        let id = [stream.0, shard.0 - first, index].map(i64::from);
        // Both numbers count, from 0, so they are far below the bound.
        let draw = [key.epoch as i64, i64::from(key.stream), key.draw as i64];
        Self { repeat, id, draw }
    }
}
