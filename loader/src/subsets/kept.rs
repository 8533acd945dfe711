//! Kept samples of a shard.
//!
//! A shard has the smaller of two forms: ranges of 8 bytes, or a bit for each sample with a count for each 512. So a
//! random half of a billion samples takes 130 MB, and a thousand ranges of them 8 kB. The form follows from the
//! samples, hence equal selections have equal digests.

use std::ops::Range;

/// Bits of one count.
const BLOCK: usize = 512;
/// Words of 64 bits of one count.
const BLOCK_WORDS: usize = BLOCK / 64;

/// Kept samples of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSamples(KeptForm);

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeptForm {
    All,
    /// Ascending, none touching the next.
    Ranges(Box<[KeptRange]>),
    Bits {
        /// A bit for each sample of the shard.
        words: Box<[u64]>,
        /// For each [`BLOCK`] of samples, the kept ones before it.
        before: Box<[u32]>,
    },
}

/// Consecutive kept samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptRange {
    /// Index in the shard of the first.
    first: u32,
    /// Kept samples of the shard before it, and with the range.
    before: u32,
    end: u32,
}

impl KeptSamples {
    /// True if every sample of the shard is kept.
    pub(crate) fn is_all(&self) -> bool {
        self.0 == KeptForm::All
    }

    /// Number of kept samples of the shard, which has `samples`.
    pub(crate) fn count(&self, samples: u64) -> u64 {
        match &self.0 {
            KeptForm::All => samples,
            KeptForm::Ranges(ranges) => ranges.last().map_or(0, |range| range.end.into()),
            KeptForm::Bits { words, before } => {
                let rest = &words[(before.len().saturating_sub(1)) * BLOCK_WORDS..];
                u64::from(before.last().copied().unwrap_or(0)) + ones(rest)
            }
        }
    }

    /// Index in the shard of the kept sample number `nth`.
    ///
    /// # Panics
    ///
    /// `nth` is not below [`count`](Self::count).
    pub(crate) fn index(&self, nth: u32) -> u32 {
        match &self.0 {
            KeptForm::All => nth,
            KeptForm::Ranges(ranges) => {
                let range = ranges[ranges.partition_point(|range| range.end <= nth)];
                range.first + (nth - range.before)
            }
            KeptForm::Bits { words, before } => {
                let block = before.partition_point(|before| *before <= nth) - 1;
                let mut rest = nth - before[block];
                for (number, word) in words.iter().enumerate().skip(block * BLOCK_WORDS) {
                    let ones = word.count_ones();
                    if rest < ones {
                        return number as u32 * 64 + nth_one(*word, rest);
                    }
                    rest -= ones;
                }
                panic!("kept sample {nth} of a shard that keeps fewer")
            }
        }
    }

    /// Calls `visit` with each range of kept samples of a shard of `samples`, ascending.
    pub(crate) fn visit(&self, samples: u64, mut visit: impl FnMut(Range<u64>)) {
        match &self.0 {
            KeptForm::All if samples == 0 => {}
            KeptForm::All => visit(0..samples),
            KeptForm::Ranges(ranges) => {
                for range in ranges {
                    let first = u64::from(range.first);
                    visit(first..first + u64::from(range.end - range.before));
                }
            }
            KeptForm::Bits { words, .. } => {
                for (number, word) in words.iter().enumerate() {
                    let mut rest = *word;
                    while rest != 0 {
                        let index = number as u64 * 64 + u64::from(rest.trailing_zeros());
                        visit(index..index + 1);
                        rest &= rest - 1;
                    }
                }
            }
        }
    }

    /// Adds the kept samples to a hash: `update` gets bytes.
    pub(crate) fn hash(&self, mut update: impl FnMut(&[u8])) {
        match &self.0 {
            KeptForm::All => update(b"all"),
            KeptForm::Ranges(ranges) => {
                update(b"ranges");
                update(&(ranges.len() as u64).to_le_bytes());
                for range in ranges {
                    update(&range.first.to_le_bytes());
                    update(&range.end.to_le_bytes());
                }
            }
            KeptForm::Bits { words, .. } => {
                update(b"bits");
                words.iter().for_each(|word| update(&word.to_le_bytes()));
            }
        }
    }
}

/// Collects ranges of kept samples.
#[derive(Debug)]
pub(crate) struct KeptBuilder {
    samples: u64,
    kept: u64,
    ranges: Vec<Range<u64>>,
    /// The bits, once the ranges would take more memory.
    words: Option<Vec<u64>>,
}

impl KeptBuilder {
    /// Starts a shard of `samples`, at most 2^32 - 1.
    pub(crate) fn new(samples: u64) -> Self {
        Self { samples, kept: 0, ranges: Vec::new(), words: None }
    }

    /// Keeps the samples of `range`, which is after all earlier ones.
    pub(crate) fn push(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.kept += range.end - range.start;
        if let Some(words) = &mut self.words {
            set(words, range);
        } else if let Some(last) = self.ranges.last_mut().filter(|last| last.end == range.start) {
            last.end = range.end;
        } else {
            self.ranges.push(range);
            if self.ranges.len() > self.ranges_max() {
                let mut words = vec![0; self.samples.div_ceil(BLOCK as u64) as usize * BLOCK_WORDS];
                self.ranges.drain(..).for_each(|range| set(&mut words, range));
                self.words = Some(words);
            }
        }
    }

    /// The kept samples.
    pub(crate) fn finish(self) -> KeptSamples {
        if self.kept == self.samples {
            return KeptSamples(KeptForm::All);
        }
        let Some(words) = self.words else {
            let mut end = 0;
            let ranges = self.ranges.into_iter().map(|range| {
                let before = end;
                end += (range.end - range.start) as u32;
                KeptRange { first: range.start as u32, before, end }
            });
            return KeptSamples(KeptForm::Ranges(ranges.collect()));
        };
        let mut count = 0;
        let before = words.chunks(BLOCK_WORDS).map(|block| {
            let before = count;
            count += ones(block) as u32;
            before
        });
        let before = before.collect();
        KeptSamples(KeptForm::Bits { words: words.into(), before })
    }

    /// Most ranges that take no more memory than the bits.
    fn ranges_max(&self) -> usize {
        self.samples as usize / 8 / size_of::<KeptRange>() + 4
    }
}

fn set(words: &mut [u64], range: Range<u64>) {
    for index in range {
        words[index as usize / 64] |= 1 << (index % 64);
    }
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Position of the bit number `nth` that is set in `word`, which has more set bits than `nth`.
fn nth_one(mut word: u64, nth: u32) -> u32 {
    for _ in 0..nth {
        word &= word - 1;
    }
    word.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(samples: u64, is_kept: impl Fn(u64) -> bool) -> KeptSamples {
        let mut builder = KeptBuilder::new(samples);
        (0..samples).filter(|index| is_kept(*index)).for_each(|index| builder.push(index..index + 1));
        builder.finish()
    }

    #[test]
    fn every_form_gives_the_indices_of_its_samples() {
        type IsKept = fn(u64) -> bool;
        let rules: [(IsKept, &str); 7] = [
            (|_| true, "all"),
            (|_| false, "none"),
            (|n| n % 2 == 0, "bits"),
            (|n| n % 97 == 5, "few"),
            (|n| n > 1000, "one range"),
            (|n| n < 3 || (1500..1600).contains(&n) || n % 500 == 499, "ranges"),
            (|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 != 0, "three quarters"),
        ];
        for samples in [0, 1, 63, 64, 65, 511, 512, 513, 4097] {
            for (rule, name) in rules {
                let kept = kept(samples, rule);
                let expected: Vec<u64> = (0..samples).filter(|n| rule(*n)).collect();
                let count = kept.count(samples);
                let found: Vec<u64> = (0..count).map(|nth| kept.index(nth as u32).into()).collect();
                assert_eq!(found, expected, "{name} of {samples}: {kept:?}");
                let mut visited = Vec::new();
                kept.visit(samples, |range| visited.extend(range));
                assert_eq!(visited, expected, "{name} of {samples}");
                assert_eq!(kept.is_all(), count == samples);
            }
        }
        assert!(matches!(kept(4097, |n| n % 2 == 0).0, KeptForm::Bits { .. }));
        assert!(matches!(kept(4097, |n| n > 1000).0, KeptForm::Ranges(_)));
    }

    #[test]
    fn the_form_follows_from_the_samples_and_not_from_the_steps() {
        let mut pairs = KeptBuilder::new(4000);
        (0..1000).for_each(|n| pairs.push(4 * n..4 * n + 2));
        assert_eq!(pairs.finish(), kept(4000, |n| n % 4 < 2));
    }
}
