//! Seeded part of a stream.
//!
//! The samples of a stream are put in the order of a keyed hash of their numbers, and a fraction is a range of that
//! order. So the parts between neighbouring bounds share no sample, miss none, and have exact sizes. The hash of sample
//! `n` is output number `n` of SplitMix64 with the state `mix(seed)`: different numbers have different hashes. Nothing
//! else counts, neither the world nor the shards. When a stream grows at its end, only samples near the bounds change
//! sides.

use crate::error::{Error, Result};

/// Largest stream that a fraction is taken of: its samples are hashed one by one, some 10^8 a second.
pub(crate) const FRACTION_SAMPLES_MAX: u64 = 1 << 34;

/// Bits of a hash that number its bucket in the search for a bound.
const BUCKET_BITS: u32 = 16;

/// Part of a stream's samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    state: u64,
    /// Least hash of the part.
    first: Bound,
    /// Least hash after it.
    end: Bound,
}

/// A hash, or a bound above all.
type Bound = Option<u64>;

/// Checks the bounds of a fraction.
///
/// # Errors
///
/// `Config` unless 0 <= first < end <= 1.
pub(crate) fn check((first, end): (f64, f64)) -> Result<()> {
    if 0.0 <= first && first < end && end <= 1.0 {
        return Ok(());
    }
    Err(Error::config(format!("fraction is a pair of bounds with 0 <= first < end <= 1, and not ({first}, {end})")))
}

impl Fraction {
    /// The part between `bounds`, which [`check`] accepts, of a stream of `samples`.
    pub(crate) fn new((first, end): (f64, f64), seed: u64, samples: u64) -> Self {
        let state = mix(seed);
        // Neighbouring parts have the same bound, which is rounded in the same way.
        let rank = |bound: f64| ((bound * samples as f64).round() as u64).min(samples);
        let [first, end] = hashes_of_rank(state, samples, [rank(first), rank(end)]);
        Self { state, first, end }
    }

    /// True if sample `number` of the stream is in the part.
    #[inline]
    pub(crate) fn contains(&self, number: u64) -> bool {
        let hash = hash(self.state, number);
        self.first.is_some_and(|first| hash >= first) && self.end.is_none_or(|end| hash < end)
    }
}

/// The hashes with `ranks` hashes below them, among the hashes of `samples` numbers; `None` for rank `samples`.
fn hashes_of_rank(state: u64, samples: u64, ranks: [u64; 2]) -> [Bound; 2] {
    let bucket = |hash: u64| (hash >> (u64::BITS - BUCKET_BITS)) as usize;
    let mut counts = vec![0_u64; 1 << BUCKET_BITS];
    (0..samples).for_each(|number| counts[bucket(hash(state, number))] += 1);
    // The bucket of each rank, and the rank in it.
    let places = ranks.map(|mut rank| {
        let place = counts.iter().position(|count| {
            let is_here = rank < *count;
            rank -= if is_here { 0 } else { *count };
            is_here
        });
        place.map(|place| (place, rank as usize))
    });
    let mut hashes: [Vec<u64>; 2] = Default::default();
    for hash in (0..samples).map(|number| hash(state, number)) {
        for (place, hashes) in places.iter().zip(&mut hashes) {
            if place.is_some_and(|(place, _)| place == bucket(hash)) {
                hashes.push(hash);
            }
        }
    }
    let [first, end] = &mut hashes;
    [(places[0], first), (places[1], end)]
        .map(|(place, hashes)| place.map(|(_, rank)| *hashes.select_nth_unstable(rank).1))
}

/// Output number `number` of SplitMix64 with this state.
#[inline]
fn hash(state: u64, number: u64) -> u64 {
    mix(state.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Finalizer of SplitMix64, a bijection.
#[inline]
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bounds: (f64, f64), seed: u64, samples: u64) -> Vec<u64> {
        let fraction = Fraction::new(bounds, seed, samples);
        (0..samples).filter(|number| fraction.contains(*number)).collect()
    }

    #[test]
    fn neighbouring_parts_have_exact_sizes_and_every_sample_is_in_one() {
        for samples in [1, 2, 7, 1000, 70_001] {
            for seed in [0, 1, u64::MAX] {
                let bounds = [0.0, 0.1, 1.0 / 3.0, 0.5, 0.9, 1.0];
                let parts = bounds.windows(2).map(|pair| part((pair[0], pair[1]), seed, samples));
                let mut all = Vec::new();
                for (part, pair) in parts.zip(bounds.windows(2)) {
                    let [first, end] = [pair[0], pair[1]].map(|bound| (bound * samples as f64).round() as usize);
                    assert_eq!(part.len(), end - first, "{pair:?} of {samples}");
                    all.extend(part);
                }
                all.sort_unstable();
                assert_eq!(all, (0..samples).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_part_is_a_range_of_the_numbers_sorted_by_their_hashes() {
        let mut sorted: Vec<u64> = (0..1000).collect();
        sorted.sort_by_key(|number| hash(mix(17), *number));
        let mut expected = sorted[200..350].to_vec();
        expected.sort_unstable();
        assert_eq!(part((0.2, 0.35), 17, 1000), expected);
        // Recorded: parts must not change between versions.
        assert_eq!(part((0.0, 0.1), 0, 40), RECORDED);
    }

    const RECORDED: [u64; 4] = [2, 4, 32, 33];

    #[test]
    fn seeds_give_different_parts_and_growth_moves_few_samples() {
        let (one, other) = (part((0.0, 0.5), 1, 10_000), part((0.0, 0.5), 2, 10_000));
        let common = one.iter().filter(|number| other.binary_search(number).is_ok()).count();
        assert!((2300..2700).contains(&common), "{common}");
        let grown = part((0.0, 0.5), 1, 11_000);
        let moved = (0..10_000).filter(|n| one.binary_search(n).is_ok() != grown.binary_search(n).is_ok()).count();
        assert!(moved < 200, "{moved}");
    }

    #[test]
    fn bounds_that_are_no_part_are_rejected() {
        for bounds in [(0.0, 0.0), (0.5, 0.1), (-0.1, 0.5), (0.0, 1.1), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            let error = check(bounds).expect_err("no part").to_string();
            assert!(error.contains("0 <= first < end <= 1"), "{error}");
        }
        check((0.0, 1.0)).expect("all");
    }
}
