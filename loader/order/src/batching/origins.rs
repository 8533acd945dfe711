//! Streams of the batches, in the order of the batches.

use super::sequence::RankPosition;
use crate::error::OrderError;
use crate::numbers::reserve;
use crate::rng::Generator;

/// Most batches of an epoch, of all nodes together. They take 4 bytes each here, so up to 1 GiB in every process.
const ORIGINS_MAX: u64 = 1 << 28;

/// Returns each stream `s` `batches[s]` times, shuffled: the list of one node of `nodes`.
pub(super) fn shuffled(generator: &mut Generator, batches: &[u64], nodes: u64) -> Result<Vec<u32>, OrderError> {
    let total: u64 = batches.iter().sum();
    let of_epoch = total.saturating_mul(nodes);
    if of_epoch > ORIGINS_MAX {
        return Err(OrderError::TooManyBatches { batches: of_epoch, batches_max: ORIGINS_MAX });
    }
    let mut origins = reserve(total)?;
    for (stream, &batches) in batches.iter().enumerate() {
        origins.extend(std::iter::repeat_n(stream as u32, batches as usize));
    }
    generator.shuffle(&mut origins);
    Ok(origins)
}

/// Returns the cells of a stream in `origins`.
pub(super) fn of_stream(origins: &[u32], stream: usize) -> impl Iterator<Item = u64> {
    let cells = origins.iter().enumerate().filter(move |&(_, &origin)| origin as usize == stream);
    cells.map(|(at, _)| at as u64)
}

/// Moves a reader to `origins[at]`: its stream, and the number of earlier batches of the stream. A step forward takes
/// time for the batches in between; a step back starts from the first batch.
pub(super) fn count_to(position: &mut RankPosition, origins: &[u32], streams: usize, at: u64) {
    if at < position.counted || position.counts.len() != streams {
        position.counts.clear();
        position.counts.resize(streams, 0);
        position.counted = 0;
    }
    let end = (at as usize).min(origins.len());
    for &stream in &origins[position.counted as usize..end] {
        position.counts[stream as usize] += 1;
    }
    position.counted = end as u64;
    if let Some(&stream) = origins.get(at as usize) {
        position.sequence = stream as usize;
        position.row = position.counts[stream as usize];
    }
}
