//! Choice of the samples that are read: the same ones each time, spread over the data set.

use forebay_loader::order::{SampleId, ShardId};
use forebay_loader::worker::DataSet;

/// Most shards that are fetched for the samples.
const SHARDS_MAX: u64 = 16;

/// Returns the numbers of about `count` samples. Of shards that must be fetched for them at most `fetch_bytes_max`
/// bytes are taken, or one shard.
pub(super) fn samples(data: &DataSet, count: u64, fetch_bytes_max: u64) -> Vec<u64> {
    let shape = data.shape();
    let total = shape.num_samples();
    let whole = spread(total, count);
    let shard_of = |number: u64| shape.locate(SampleId(number)).map(|(shard, _)| shard);
    let mut shards: Vec<ShardId> = whole.iter().filter_map(|number| shard_of(*number)).collect();
    shards.dedup();
    if shards.iter().map(|shard| data.fetch_bytes(*shard)).fold(0, u64::saturating_add) <= fetch_bytes_max {
        return whole;
    }
    let mut left = fetch_bytes_max;
    let mut chosen: Vec<ShardId> = Vec::new();
    for shard in spread(shards.len() as u64, SHARDS_MAX).into_iter().map(|place| shards[place as usize]) {
        let bytes = data.fetch_bytes(shard);
        if chosen.is_empty() || bytes <= left {
            left = left.saturating_sub(bytes);
            chosen.push(shard);
        }
    }
    let of_each = count.div_ceil(chosen.len() as u64);
    let samples = chosen.iter().flat_map(|shard| {
        let first = shape.samples_in(*shard);
        spread(first.end - first.start, of_each).into_iter().map(move |index| first.start + index)
    });
    samples.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// Returns `count` numbers below `total`, evenly spread: all of them if there are no more.
fn spread(total: u64, count: u64) -> Vec<u64> {
    let count = count.min(total);
    let middle = |place: u64| (u128::from(2 * place + 1) * u128::from(total) / u128::from(2 * count)) as u64;
    (0..count).map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_numbers_are_spread_and_different() {
        assert_eq!(spread(10, 3), [1, 5, 8]);
        assert_eq!(spread(3, 10), [0, 1, 2]);
        assert_eq!(spread(0, 4), [0; 0]);
        assert!(spread(1 << 48, 256).is_sorted_by(|a, b| a < b));
    }
}
