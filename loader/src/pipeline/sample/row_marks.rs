//! Outputs that the plan gives, and not the sample: the mark of repeats, and the samples' identities.

use crate::catalog::Catalog;
use crate::decode::{DType, Output, RowShape};
use crate::order::ShardId;

/// Output that the plan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkOutput {
    /// `repeat`: a byte that is 1 for repeats.
    Repeat,
    /// `sample_ids`: stream, shard of the stream and index in the shard, as int64.
    SampleIds,
}

/// Values of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowMark {
    repeat: bool,
    id: [i64; 3],
}

impl MarkOutput {
    /// Form of the output in a batch.
    pub(crate) fn output(self) -> Output {
        let (name, dtype, row) = match self {
            Self::Repeat => ("repeat", DType::UInt8, Vec::new()),
            Self::SampleIds => ("sample_ids", DType::Int64, vec![3]),
        };
        Output { name: name.to_owned(), dtype, shape: RowShape::Fixed(row) }
    }

    /// Writes the value of a row.
    pub(super) fn write(self, row: &mut [u8], mark: &RowMark) {
        match self {
            Self::Repeat => row[0] = u8::from(mark.repeat),
            Self::SampleIds => {
                for (place, number) in row.chunks_exact_mut(size_of::<i64>()).zip(mark.id) {
                    place.copy_from_slice(&number.to_ne_bytes());
                }
            }
        }
    }
}

impl RowMark {
    /// Values of the row of the sample with this `index` in `shard`.
    pub(crate) fn new(repeat: bool, shard: ShardId, index: u32, catalog: &Catalog) -> Self {
        let stream = catalog.shape().stream_of(shard);
        let first = catalog.shape().shards_of(stream).start;
        Self { repeat, id: [stream.0, shard.0 - first, index].map(i64::from) }
    }
}
