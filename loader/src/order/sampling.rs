//! Resampled list of an epoch: the samples that the epoch takes from each shard.
//!
//! A *draw* is an index in this list, the reference's "big" sample id. The list is kept as *units*: a whole shard, or
//! a partial one with its picks. Without weights there is one unit per shard and nothing per sample.

use super::error::OrderError;
use super::ids::{SampleId, ShardId, StreamId};
use super::numbers::Numbers;
use super::rng::{ChooseScratch, Generator};
use super::shape::{DataSetShape, SAMPLES_MAX, Steps};

/// Units that an epoch may have even if the data set has fewer shards. A unit takes some 30 bytes here and 50 in the
/// shuffle, so that they are up to 1.3 GB in every process.
const UNITS_MAX: u64 = 1 << 24;
/// In `Draws::picks_at`: the unit is the whole shard.
const WHOLE: u64 = u64::MAX;

/// Seeds of one epoch's sampling.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplingSeeds {
    /// Seed of the shards' shares.
    pub(super) shares: u128,
    /// Seed of the samples of a partial shard.
    pub(super) picks: u128,
}

/// An epoch's resampled list.
#[derive(Debug)]
pub(super) struct Draws {
    /// The draws of each unit: spans of the shuffle.
    pub(super) units: Steps,
    /// The shard of each unit.
    shards: Vec<u32>,
    /// Start of each unit's picks, or `WHOLE`; ends with the last partial unit.
    picks_at: Vec<u64>,
    /// Indices in the shard, ascending within a unit.
    picks: Vec<u32>,
    /// First sample, if the list is an unchanged range of the data set.
    identity: Option<u64>,
}

/// Checks that an epoch of `streams`, each with its samples in the epoch, needs a reasonable number of units: memory that
/// no data set needs is an error before any of it is taken.
///
/// # Errors
/// Huge weights of tiny shards.
pub(super) fn check_units(shape: &DataSetShape, streams: &[(StreamId, u64)]) -> Result<(), OrderError> {
    let samples_in = |shard| shape.samples_in(ShardId(shard));
    let units_of = |&(stream, choose): &(StreamId, u64)| {
        let shards = shape.shards_of(stream).filter(|&shard| !samples_in(shard).is_empty()).count() as u64;
        let samples = shape.samples_of(stream);
        let samples = (samples.end - samples.start).max(1);
        // Each drawn sample beyond whole repeats may be of another shard.
        shards.saturating_mul(choose / samples).saturating_add(shards.min(choose % samples))
    };
    let units = streams.iter().map(units_of).fold(0, u64::saturating_add);
    let units_max = UNITS_MAX.max(shape.num_shards() as u64);
    if units > units_max { Err(OrderError::TooManyShards { shards: units, shards_max: units_max }) } else { Ok(()) }
}

impl Draws {
    /// Makes the list for `streams` of `shape`, `choose[i]` samples of the i-th, all from one generator.
    pub(super) fn new(
        shape: &DataSetShape,
        streams: &[(StreamId, u64)],
        granularity: u64,
        seeds: SamplingSeeds,
    ) -> Result<Self, OrderError> {
        check_units(shape, streams)?;
        let mut generator = Generator::new(seeds.picks);
        let mut scratch = ChooseScratch::default();
        let (mut all_shards, mut picks_at, mut picks) = (Vec::new(), Vec::new(), Vec::new());
        let mut starts = vec![0_u64];
        let mut total = 0_u64;
        for &(stream, choose) in streams {
            let shards = shape.shards_of(stream);
            let samples = shards.clone().map(|shard| shape.samples_in(ShardId(shard)));
            // The shape bounds a shard to 2^32 - 1 samples.
            let sizes: Vec<u32> = samples.map(|samples| (samples.end - samples.start) as u32).collect();
            let shares = shares(&sizes, choose, granularity, seeds.shares)?;
            for (at, shard) in shards.enumerate() {
                let (size, share) = (u64::from(sizes[at]), shares[at]);
                if size == 0 || share == 0 {
                    continue;
                }
                let (times, part) = (share / size, share % size);
                OrderError::unless(
                    total + share <= SAMPLES_MAX,
                    "the weights",
                    "such that an epoch has at most 2^48 samples",
                )?;
                for _ in 0..times {
                    total += size;
                    starts.push(total);
                    all_shards.push(shard);
                }
                if part > 0 {
                    picks_at.resize(all_shards.len(), WHOLE);
                    picks_at.push(picks.len() as u64);
                    picks.extend_from_slice(generator.choose_sorted(size as u32, part as u32, &mut scratch));
                    total += part;
                    starts.push(total);
                    all_shards.push(shard);
                }
            }
        }
        if total == 0 {
            let stream = (shape.num_streams() > 1 && streams.len() == 1).then(|| streams[0].0.0);
            return Err(OrderError::NothingChosen { stream });
        }
        let mut draws = Self { units: Steps::new(starts), shards: all_shards, picks_at, picks, identity: None };
        draws.identity = draws.find_identity(shape);
        Ok(draws)
    }

    /// True if the units are the shards of a range of the data set, each once and in order.
    fn find_identity(&self, shape: &DataSetShape) -> Option<u64> {
        let first = shape.samples_in(ShardId(*self.shards.first()?)).start;
        let is_stretch = self.picks.is_empty()
            && self.shards.iter().enumerate().all(|(unit, &shard)| {
                shape.samples_in(ShardId(shard)) == (first + self.units.start(unit)..first + self.units.start(unit + 1))
            });
        is_stretch.then_some(first)
    }

    pub(super) fn len(&self) -> u64 {
        self.units.total()
    }

    pub(super) fn shard(&self, unit: usize) -> ShardId {
        ShardId(self.shards[unit])
    }

    #[inline]
    pub(super) fn sample(&self, shape: &DataSetShape, draw: u64) -> SampleId {
        if let Some(first) = self.identity {
            return SampleId(first + draw);
        }
        let unit = self.units.find(draw);
        let within = draw - self.units.start(unit);
        let first = shape.samples_in(self.shard(unit)).start;
        match self.picks_at.get(unit) {
            None | Some(&WHOLE) => SampleId(first + within),
            Some(&at) => SampleId(first + u64::from(self.picks[(at + within) as usize])),
        }
    }
}

/// Returns the samples of each shard in an epoch. Not all shards are empty.
pub(super) fn shares(sizes: &[u32], choose: u64, granularity: u64, seed: u128) -> Result<Vec<u64>, OrderError> {
    let samples: u64 = sizes.iter().map(|&s| u64::from(s)).sum();
    let mut shares: Vec<u64> = sizes.iter().map(|&size| u64::from(size) * (choose / samples)).collect();
    let mut left = choose % samples;
    if left == 0 {
        return Ok(shares);
    }
    let picks = Steps::of_sizes(sizes.iter().map(|&size| u64::from(size).div_ceil(granularity)));
    let last_pick = last_pick_sizes(sizes, &picks, granularity);
    let order = Numbers::permutation(seed, picks.total())?;
    for pick in (0..picks.total()).map_while(|at| order.get(at)) {
        let shard = picks.find(pick);
        let is_last = pick + 1 == picks.start(shard + 1);
        let size = if is_last { last_pick[shard] } else { granularity }.min(left);
        shares[shard] += size;
        left -= size;
        if left == 0 {
            break;
        }
    }
    Ok(shares)
}

/// The size of each shard's last pick: the rest of the shard.
///
/// The reference writes an empty shard's remainder (a whole pick) over the last pick of the shard before it, or, for
/// leading empty shards, over the very last one, which its own shard then corrects. The order depends on it.
fn last_pick_sizes(sizes: &[u32], picks: &Steps, granularity: u64) -> Vec<u64> {
    let mut last = vec![granularity; sizes.len()];
    let mut before = None;
    for (shard, &size) in sizes.iter().enumerate() {
        if size > 0 {
            last[shard] = u64::from(size) - (picks.size(shard) - 1) * granularity;
            before = Some(shard);
        } else if let Some(before) = before {
            last[before] = granularity;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_take_gigabytes_are_rejected_before_they_are_taken() {
        let shape = DataSetShape::new(&[vec![1; 8], vec![1000, 0]]).expect("two streams");
        let streams = |tiny, large| [(StreamId(0), tiny), (StreamId(1), large)];
        // Drawing these would be slow and take 400 MB.
        check_units(&shape, &streams(UNITS_MAX - 1, 1000)).expect("the most");
        check_units(&shape, &streams(8, 1000 * (UNITS_MAX - 8))).expect("few shards");
        for streams in [streams(UNITS_MAX, 1000), streams(8, 1000 * UNITS_MAX), streams(SAMPLES_MAX, SAMPLES_MAX)] {
            let error = check_units(&shape, &streams).expect_err("too many");
            assert!(error.to_string().contains("lower the streams' weights"), "{error}");
        }
        let seeds = SamplingSeeds { shares: 0, picks: 0 };
        let error = Draws::new(&shape, &streams(SAMPLES_MAX, 1), 1, seeds).expect_err("too many");
        assert_eq!(error, OrderError::TooManyShards { shards: SAMPLES_MAX + 1, shards_max: UNITS_MAX });
    }
}
