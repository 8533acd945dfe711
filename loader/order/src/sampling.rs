//! Resampled list of an epoch: the samples that the epoch takes from each shard.
//!
//! A *draw* is an index in this list, the reference's "big" sample id. The list is kept as *units*: a whole shard, or
//! a partial one with its picks. Without weights there is one unit per shard and nothing per sample. The units of a
//! stream with weighted samples are partial, and their picks may repeat a sample: see
//! [`weighted`](super::weighted).

use std::sync::Arc;

use super::error::OrderError;
use super::ids::{SampleId, ShardId, StreamId};
use super::numbers::Numbers;
use super::rng::{ChooseScratch, Generator};
use super::sample_numbers::SampleNumbers;
use super::shape::{DataSetShape, SAMPLES_MAX, Steps};
use super::token_targets::TokenTargets;
use super::weighted::{Counts, WeightTable};

/// Units that an epoch may have even if the data set has fewer shards. A unit takes some 30 bytes here and 50 in the
/// shuffle, so that they are up to 1.3 GB in every process.
const UNITS_MAX: u64 = 1 << 24;
/// Draws in succession that are too long to be taken out, or are out already, after which a stream keeps the rest.
const MISSES_MAX: u32 = 1000;
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

/// Checks that an epoch of `streams`, each with its samples in the epoch, needs a reasonable number of units: memory
/// that no data set needs is an error before any of it is taken.
///
/// # Errors
/// Huge weights of tiny shards.
pub(super) fn check_units(shape: &DataSetShape, streams: &[(StreamId, u64)]) -> Result<(), OrderError> {
    let samples_in = |shard| shape.samples_in(ShardId(shard));
    let units_of = |&(stream, choose): &(StreamId, u64)| {
        let shards = shape.shards_of(stream).filter(|&shard| !samples_in(shard).is_empty()).count() as u64;
        let samples = shape.samples_of(stream);
        let samples = (samples.end - samples.start).max(1);
        // Each drawn sample beyond whole repeats may be of a different shard.
        shards.saturating_mul(choose / samples).saturating_add(shards.min(choose % samples))
    };
    let units = streams.iter().map(units_of).fold(0, u64::saturating_add);
    let units_max = UNITS_MAX.max(shape.num_shards() as u64);
    if units > units_max { Err(OrderError::TooManyShards { shards: units, shards_max: units_max }) } else { Ok(()) }
}

impl Draws {
    /// Makes the list for `streams` of `shape`, `choose[i]` samples of the i-th, all from one generator. `weights` has
    /// the weights of each stream's samples; a stream after its end has none. With `targets` each stream has as many
    /// samples as its tokens need, and `choose[i]` is a first estimate.
    pub(super) fn new(
        shape: &DataSetShape,
        streams: &[(StreamId, u64)],
        granularity: u64,
        seeds: SamplingSeeds,
        (weights, targets): (&[Option<Arc<SampleNumbers>>], Option<&TokenTargets>),
    ) -> Result<Self, OrderError> {
        let weights_of = |stream: StreamId| weights.get(stream.index()).and_then(Option::as_deref);
        let is_plain = |(stream, _): &&(StreamId, u64)| weights_of(*stream).is_none();
        check_units(shape, &streams.iter().filter(is_plain).copied().collect::<Vec<_>>())?;
        let mut generator = Generator::new(seeds.picks);
        let mut scratch = ChooseScratch::default();
        let mut units = Units { starts: vec![0], ..Units::default() };
        for &(stream, mut choose) in streams {
            let (weights, before) = (weights_of(stream), units.end());
            // The picks of the remaining streams do not depend on a stream with weights.
            let seed = seeds.picks | (u128::from(stream.0) + 1) << 96;
            let beyond = loop {
                match weights {
                    Some(weights) => units.add_weighted(shape, stream, choose, weights, Generator::new(seed))?,
                    None => {
                        let sizes = sizes_of(shape, stream);
                        let shares = shares(&sizes, choose, granularity, seeds.shares)?;
                        // Samples beyond the repeats of the whole stream may be taken out again.
                        let repeats = targets.map(|targets| targets.repeats(stream));
                        let shares = (&*sizes, &*shares, repeats);
                        units.add_shares(shape.shards_of(stream), shares, &mut generator, &mut scratch)?;
                    }
                }
                let Some(targets) = targets else { break None };
                let (tokens, target) = (units.tokens_from(before, shape, stream, targets), targets.of(stream));
                if tokens >= target {
                    break Some((targets, tokens - target));
                }
                units.truncate(before);
                choose = targets.more_samples(stream, weights.is_some(), choose, target - tokens);
            };
            if let Some((targets, excess)) = beyond {
                units.take_out(before, (shape, stream), targets, excess, Generator::new(seed | 1 << 90));
            }
        }
        if units.total() == 0 {
            let stream = (shape.num_streams() > 1 && streams.len() == 1).then(|| streams[0].0.0);
            return Err(OrderError::NothingChosen { stream });
        }
        let Units { starts, shards, picks_at, picks } = units;
        let mut draws = Self { units: Steps::new(starts), shards, picks_at, picks, identity: None };
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

/// Samples of each shard of a stream. The shape bounds a shard to 2^32 - 1 samples.
fn sizes_of(shape: &DataSetShape, stream: StreamId) -> Vec<u32> {
    let samples = shape.shards_of(stream).map(|shard| shape.samples_in(ShardId(shard)));
    samples.map(|samples| (samples.end - samples.start) as u32).collect()
}

/// Units as they are added.
#[derive(Default)]
struct Units {
    /// First draw of each unit, and the number of draws at the end.
    starts: Vec<u64>,
    shards: Vec<u32>,
    picks_at: Vec<u64>,
    picks: Vec<u32>,
}

impl Units {
    fn total(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Checks that an epoch may have `draws` more.
    fn check_room(&self, draws: u64) -> Result<(), OrderError> {
        let is_good = self.total() + draws <= SAMPLES_MAX;
        OrderError::unless(is_good, "the weights", "such that an epoch has at most 2^48 samples")
    }

    /// Adds a unit of `draws` of `shard`.
    fn add(&mut self, shard: u32, draws: u64) {
        self.starts.push(self.total() + draws);
        self.shards.push(shard);
    }

    /// Begins the picks of the next unit.
    fn start_picks(&mut self) {
        self.picks_at.resize(self.shards.len(), WHOLE);
        self.picks_at.push(self.picks.len() as u64);
    }

    /// Adds the `shares` of the samples of `shards`, which have these `sizes`. Beyond `repeats` repeats they are picks,
    /// also of all samples of a shard.
    fn add_shares(
        &mut self,
        shards: std::ops::Range<u32>,
        (sizes, shares, repeats): (&[u32], &[u64], Option<u64>),
        generator: &mut Generator,
        scratch: &mut ChooseScratch,
    ) -> Result<(), OrderError> {
        for (at, shard) in shards.enumerate() {
            let (size, share) = (u64::from(sizes[at]), shares[at]);
            if size == 0 || share == 0 {
                continue;
            }
            let (mut times, mut part) = (share / size, share % size);
            if part == 0 && repeats.is_some_and(|repeats| times > repeats) {
                (times, part) = (times - 1, size);
            }
            self.check_room(share)?;
            for _ in 0..times {
                self.add(shard, size);
            }
            if part > 0 {
                self.start_picks();
                if part == size {
                    self.picks.extend(0..size as u32);
                } else {
                    self.picks.extend_from_slice(generator.choose_sorted(size as u32, part as u32, scratch));
                }
                self.add(shard, part);
            }
        }
        Ok(())
    }

    /// The numbers of units and of picks.
    fn end(&self) -> (usize, usize) {
        (self.shards.len(), self.picks.len())
    }

    /// Removes the units and picks after these numbers.
    fn truncate(&mut self, (units, picks): (usize, usize)) {
        self.starts.truncate(units + 1);
        self.shards.truncate(units);
        self.picks_at.truncate(units);
        self.picks.truncate(picks);
    }

    /// The shard of each unit from the number `first` on, with its draws and the start of its picks if it has some.
    fn units_from(&self, first: usize) -> impl Iterator<Item = (u32, u64, Option<usize>)> + '_ {
        (first..self.shards.len()).map(|unit| {
            let picks = self.picks_at.get(unit).filter(|at| **at != WHOLE).map(|at| *at as usize);
            (self.shards[unit], self.starts[unit + 1] - self.starts[unit], picks)
        })
    }

    /// Tokens of the units of `stream`, which begin at `before`.
    fn tokens_from(
        &self,
        before: (usize, usize),
        shape: &DataSetShape,
        stream: StreamId,
        targets: &TokenTargets,
    ) -> u64 {
        let of_stream = shape.samples_of(stream).start;
        let tokens_of = |(shard, draws, picks): (u32, u64, Option<usize>)| -> u64 {
            let first = shape.samples_in(ShardId(shard)).start - of_stream;
            match picks {
                None => (first..first + draws).map(|number| targets.tokens_of(stream, number)).sum(),
                Some(at) => {
                    let picks = &self.picks[at..at + draws as usize];
                    picks.iter().map(|&pick| targets.tokens_of(stream, first + u64::from(pick))).sum()
                }
            }
        };
        self.units_from(before.0).map(tokens_of).sum()
    }

    /// Takes random picks out of the units of `stream`, which begin at `before`, until they have `excess` tokens less,
    /// or nearly.
    fn take_out(
        &mut self,
        before: (usize, usize),
        (shape, stream): (&DataSetShape, StreamId),
        targets: &TokenTargets,
        mut excess: u64,
        mut generator: Generator,
    ) {
        let (units, picks) = (self.units_from(before.0).collect::<Vec<_>>(), self.picks[before.1..].to_vec());
        let starts = units.iter().filter_map(|(shard, _, picks)| Some(((*picks)? - before.1, *shard)));
        let (starts, of_stream) = (starts.collect::<Vec<_>>(), shape.samples_of(stream).start);
        let mut is_out = vec![false; picks.len()];
        // The shortest draw among the ones that are longer than the excess.
        let (mut misses, mut longer) = (0, None);
        while excess > 0 && misses < MISSES_MAX {
            let Some(at) = generator.integer(0, picks.len() as u64).map(|at| at as usize) else { break };
            let shard = starts[starts.partition_point(|(start, _)| *start <= at) - 1].1;
            let number = shape.samples_in(ShardId(shard)).start - of_stream + u64::from(picks[at]);
            let tokens = targets.tokens_of(stream, number);
            if is_out[at] || tokens == 0 || tokens > excess {
                misses += 1;
                if !is_out[at] && tokens > excess && longer.is_none_or(|(least, _)| tokens < least) {
                    longer = Some((tokens, at));
                }
                continue;
            }
            is_out[at] = true;
            (excess, misses) = (excess - tokens, 0);
        }
        if let Some((_, at)) = longer.filter(|(tokens, _)| *tokens < 2 * excess) {
            is_out[at] = true;
        }
        self.truncate(before);
        for (shard, draws, at) in units {
            let Some(at) = at else {
                self.add(shard, draws);
                continue;
            };
            let range = at - before.1..at - before.1 + draws as usize;
            let kept: Vec<u32> = range.filter(|&at| !is_out[at]).map(|at| picks[at]).collect();
            if !kept.is_empty() {
                self.start_picks();
                self.picks.extend_from_slice(&kept);
                self.add(shard, kept.len() as u64);
            }
        }
    }

    /// Adds `choose` draws of a stream in proportion to the weights of its samples.
    fn add_weighted(
        &mut self,
        shape: &DataSetShape,
        stream: StreamId,
        choose: u64,
        weights: &SampleNumbers,
        mut generator: Generator,
    ) -> Result<(), OrderError> {
        let first = shape.samples_of(stream).start;
        let weights_in = |shard: u32| {
            let samples = shape.samples_in(ShardId(shard));
            let weights = &weights.values()[(samples.start - first) as usize..(samples.end - first) as usize];
            weights.iter().map(|&weight| f64::from(weight))
        };
        if choose == 0 {
            return Ok(());
        }
        self.check_room(choose)?;
        let shards = shape.shards_of(stream);
        let by_shard = WeightTable::new(shards.clone().map(|shard| weights_in(shard).sum()))
            .ok_or(OrderError::NoSampleWeight { stream: stream.0 })?;
        // First, since the draws of more than fit would take hours.
        self.picks.try_reserve_exact(choose as usize).map_err(|_| OrderError::OutOfMemory { bytes: 4 * choose })?;
        let mut draws = vec![0_u64; shards.len()];
        (0..choose).for_each(|_| draws[by_shard.draw(&mut generator)] += 1);
        let sizes = shards.clone().map(|shard| weights_in(shard).len() as u64);
        let units = draws.iter().zip(sizes).map(|(draws, size)| draws.div_ceil(size.max(1))).sum::<u64>();
        let units_max = UNITS_MAX.max(shape.num_shards() as u64);
        if self.shards.len() as u64 + units > units_max {
            return Err(OrderError::TooManyShards { shards: self.shards.len() as u64 + units, shards_max: units_max });
        }
        let (mut table, mut counts) = (WeightTable::empty(), Counts::default());
        for (shard, mut remaining) in shards.zip(draws) {
            if remaining > 0 {
                table.refill(weights_in(shard));
            }
            while remaining > 0 {
                // A unit of more draws than the shard has samples would hold up a block of the shuffle.
                let unit = remaining.min(weights_in(shard).len() as u64);
                self.start_picks();
                counts.append_draws(&table, unit, &mut generator, &mut self.picks);
                self.add(shard, unit);
                remaining -= unit;
            }
        }
        Ok(())
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
        let error = Draws::new(&shape, &streams(SAMPLES_MAX, 1), 1, seeds, (&[], None)).expect_err("too many");
        assert_eq!(error, OrderError::TooManyShards { shards: SAMPLES_MAX + 1, shards_max: UNITS_MAX });
    }
}
