//! Selections: the samples of a stream that a loader keeps, as if the rest did not exist.
//!
//! ```text
//!   subset: text, index file --> ranges of numbers --+
//!   fraction, seed --> range of hashes --------------+--> select: a `KeptSamples` for each shard --> the catalog
//!   filter --> cells of its columns, read once ------+
//! ```
//!
//! All of it is pure. The order sees shards with fewer samples, so ranks, resumption, shuffles and weights keep their
//! guarantees. A sample of the order is "kept sample number k of shard s", and [`KeptSamples::index`] gives its index
//! in the shard's file. The catalog asks for it in one function. Shards without kept samples are never used.
//!
//! * [`numbers`]: samples by number; `npy` reads arrays of numbers.
//! * [`fraction`]: a seeded part of a stream.
//! * [`filter`]: conditions on columns.
//! * [`kept`]: the kept samples of a shard, in a few bits each at most;
//! * [`question`]: questions about each sample, such as a filter, or a column with weights;
//! * [`values`]: a number for each sample, from an array.
//!
//! The conditions of a stream hold together, and each is about the number of a sample in the whole stream. So their
//! order does not matter, and a fraction is the same part with and without a subset.

pub(crate) mod filter;
pub(crate) mod fraction;
pub(crate) mod kept;
mod npy;
pub(crate) mod numbers;
pub(crate) mod question;
pub(crate) mod values;

use fraction::Fraction;
use kept::{KeptBuilder, KeptSamples};
use std::ops::Range;

/// Conditions on the numbers of a stream's samples.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// Ranges that are taken, ascending and disjoint.
    pub(crate) subset: Option<Vec<Range<u64>>>,
    /// Part of the stream that is taken.
    pub(crate) fraction: Option<Fraction>,
}

/// Returns the kept samples of each shard, for shards of `sizes` samples. No shard has more than 2^32 - 1.
pub(crate) fn select(sizes: &[u64], conditions: &Conditions) -> Vec<KeptSamples> {
    let mut start = 0;
    let mut kept = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let shard = start..start + size;
        let mut builder = KeptBuilder::new(size);
        let mut take = |numbers: Range<u64>| match &conditions.fraction {
            None => builder.push((numbers.start - shard.start)..(numbers.end - shard.start)),
            Some(fraction) => {
                for number in numbers.filter(|number| fraction.contains(*number)) {
                    builder.push((number - shard.start)..(number + 1 - shard.start));
                }
            }
        };
        match &conditions.subset {
            None => take(shard.clone()),
            Some(ranges) => {
                let first = ranges.partition_point(|range| range.end <= shard.start);
                for range in ranges[first..].iter().take_while(|range| range.start < shard.end) {
                    take(range.start.max(shard.start)..range.end.min(shard.end));
                }
            }
        }
        kept.push(builder.finish());
        start = shard.end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in the stream of the samples that `kept` has.
    fn numbers(sizes: &[u64], kept: &[KeptSamples]) -> Vec<u64> {
        let mut start = 0;
        let mut numbers = Vec::new();
        for (size, kept) in sizes.iter().zip(kept) {
            numbers.extend((0..kept.count(*size)).map(|nth| start + u64::from(kept.index(nth as u32))));
            start += size;
        }
        numbers
    }

    #[test]
    fn the_conditions_of_a_stream_hold_together_in_every_shard() {
        let sizes = [5, 0, 700, 1, 3000];
        let total = sizes.iter().sum::<u64>();
        let subset = || Some(vec![2..4, 6..8, 100..2000, 3705..3706]);
        let in_subset = |n: &u64| subset().expect("some").iter().any(|range| range.contains(n));
        for bounds in [None, Some((0.0, 1.0)), Some((0.25, 0.75)), Some((0.9, 1.0))] {
            let fraction = || bounds.map(|bounds| Fraction::new(bounds, 3, total));
            let in_fraction = |n: &u64| fraction().is_none_or(|fraction| fraction.contains(*n));
            let kept = select(&sizes, &Conditions { subset: None, fraction: fraction() });
            assert_eq!(numbers(&sizes, &kept), (0..total).filter(in_fraction).collect::<Vec<_>>());
            let kept = select(&sizes, &Conditions { subset: subset(), fraction: fraction() });
            let both = (0..total).filter(in_subset).filter(in_fraction).collect::<Vec<_>>();
            assert_eq!(numbers(&sizes, &kept), both, "{bounds:?}");
        }
        let all = select(&sizes, &Conditions::default());
        assert!(all.iter().all(KeptSamples::is_all), "{all:?}");
    }
}
