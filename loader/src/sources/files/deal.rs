//! Division of files into shards, so that each shard has samples of every folder.
//!
//! A shuffle mixes only samples whose shards are in the same block of the epoch. If each shard held one folder, a block
//! would have the classes of a few folders. Therefore the samples are dealt like cards to `n` hands: hand 0 gets the
//! samples 0, n, 2n and so on. Each hand has its share of every folder, and becomes a shard.

use std::ops::Range;

/// Bytes and samples of a hand. It is as large as a usual shard: where only some samples of a shard are used, few
/// requests are wasted.
const HAND_BYTES: u64 = 32 << 20;
const HAND_SAMPLES_MAX: usize = 1024;

/// Bytes of a shard, unless one sample has more. Files differ in length, so a hand may have more bytes and is divided.
const SHARD_BYTES_MAX: u64 = 2 * HAND_BYTES;

/// Returns the number of hands for samples of `bytes` bytes together.
pub(super) fn hands(samples: usize, bytes: u64) -> usize {
    let of_bytes = usize::try_from(bytes.div_ceil(HAND_BYTES)).unwrap_or(usize::MAX);
    samples.div_ceil(HAND_SAMPLES_MAX).max(of_bytes).min(samples).max(1)
}

/// Returns the samples in the order of their shards.
pub(super) fn dealt(samples: usize, hands: usize) -> Vec<usize> {
    (0..hands).flat_map(|hand| (hand..samples).step_by(hands.max(1))).collect()
}

/// Divides samples with these `bytes`, in the order of their shards, into shards: each is a hand, or a part of one.
pub(super) fn shards(bytes: &[u64], hands: usize) -> Vec<Range<usize>> {
    let (samples, hands) = (bytes.len(), hands.max(1));
    let (mut shards, mut start) = (Vec::new(), 0);
    for hand in 0..hands {
        // If the samples do not divide evenly, the first hands have one more.
        let end = start + samples / hands + usize::from(hand < samples % hands);
        let (first, mut sum) = (start, 0_u64);
        for (at, bytes) in (first..).zip(&bytes[first..end]) {
            if at > start && sum.saturating_add(*bytes) > SHARD_BYTES_MAX {
                shards.push(start..at);
                (start, sum) = (at, 0);
            }
            sum = sum.saturating_add(*bytes);
        }
        if end > start {
            shards.push(start..end);
        }
        start = end;
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_dealt_once_and_each_hand_has_its_share() {
        for (samples, bytes) in [(0, 0), (1, 0), (1, 1 << 40), (1025, 0), (10_007, 11), (300, 1 << 30)] {
            let hands = hands(samples, bytes);
            let order = dealt(samples, hands);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..samples).collect::<Vec<_>>());
            let ranges = shards(&vec![1; samples], hands);
            assert_eq!(ranges.iter().map(|range| range.len()).sum::<usize>(), samples);
            assert_eq!(ranges.len(), hands.min(samples));
            for range in &ranges {
                assert!(range.len() <= HAND_SAMPLES_MAX);
                assert!(order[range.clone()].windows(2).all(|pair| pair[1] == pair[0] + hands), "{samples}: {range:?}");
            }
        }
        assert_eq!(dealt(7, 3), [0, 3, 6, 1, 4, 2, 5]);
    }

    #[test]
    fn a_hand_of_large_samples_is_divided() {
        let bytes = [SHARD_BYTES_MAX, 1, SHARD_BYTES_MAX - 1, 1, SHARD_BYTES_MAX * 3, 0];
        assert_eq!(shards(&bytes, 1), [0..1, 1..3, 3..4, 4..5, 5..6]);
        assert_eq!(shards(&bytes, 2), [0..1, 1..3, 3..4, 4..5, 5..6]);
        assert_eq!(shards(&[u64::MAX, u64::MAX], 1), [0..1, 1..2]);
    }
}
