//! Answers for the samples of all shards of a stream, as far as they are known.

use super::answer::bytes_of;
use crate::error::{Error, ErrorKind, Result};

/// Answers of the shards, all in one allocation: a stream of 100 million samples with lengths needs 400 MB once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Bits of the shards, the first in the lowest bit; a shard begins at a new word.
    words: Vec<u32>,
    shards: Vec<ShardAnswers>,
}

/// Answers of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShardAnswers {
    /// First of its words.
    start: usize,
    bits: u64,
    is_known: bool,
}

impl Answers {
    /// Makes a list for shards with answers of these numbers of bits. None is known.
    ///
    /// # Errors
    ///
    /// `Full` without memory.
    pub(super) fn new(bits: &[u64]) -> Result<Self> {
        let mut end = 0_u64;
        let place = |bits: &u64| {
            let start = end as usize;
            end = end.saturating_add(bits.div_ceil(u32::BITS.into()));
            ShardAnswers { start, bits: *bits, is_known: false }
        };
        let shards = bits.iter().map(place).collect();
        let mut words = Vec::new();
        let length = usize::try_from(end).unwrap_or(usize::MAX);
        let no_memory = |_| Error::new(ErrorKind::Full, "no memory for a number for each sample").with("words", end);
        words.try_reserve_exact(length).map_err(no_memory)?;
        words.resize(length, 0);
        Ok(Self { words, shards })
    }

    /// Number of bits of the answer of `shard`; `None` without such a shard.
    pub(super) fn bits_of(&self, shard: u32) -> Option<u64> {
        self.shards.get(shard as usize).map(|shard| shard.bits)
    }

    /// True if the answer of `shard` is known.
    pub(super) fn has(&self, shard: u32) -> bool {
        self.shards[shard as usize].is_known
    }

    /// Sets the answer of `shard` to `bytes`, which are [`bytes_of`] its bits.
    pub(super) fn set(&mut self, shard: u32, bytes: &[u8]) {
        let shard = &mut self.shards[shard as usize];
        debug_assert_eq!(bytes.len(), bytes_of(shard.bits));
        for (word, bytes) in self.words[shard.start..].iter_mut().zip(bytes.chunks(size_of::<u32>())) {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(whole);
        }
        shard.is_known = true;
    }

    /// The bit of a sample; false where it is not known.
    pub(super) fn bit(&self, shard: u32, index: u64) -> bool {
        let word = self.known_word(shard, index / u64::from(u32::BITS));
        word.is_some_and(|word| word >> (index % u64::from(u32::BITS)) & 1 == 1)
    }

    /// The answer of 64 bits for a sample; all bits are 1 where it is not known.
    pub(super) fn long(&self, shard: u32, index: u64) -> u64 {
        let words = (self.known_word(shard, 2 * index), self.known_word(shard, 2 * index + 1));
        words.0.zip(words.1).map_or(u64::MAX, |(low, high)| u64::from(high) << 32 | u64::from(low))
    }

    /// Returns the answers of 32 bits for all samples; 0 where they are not known.
    pub(super) fn into_counts(self) -> Vec<u32> {
        self.words
    }

    fn known_word(&self, shard: u32, place: u64) -> Option<u32> {
        let shard = self.shards.get(shard as usize).filter(|shard| shard.is_known)?;
        let is_inside = place < shard.bits.div_ceil(u32::BITS.into());
        if is_inside { self.words.get(shard.start + place as usize).copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_any_width_are_those_that_were_set() {
        let mut bits = Answers::new(&[3, 0, 40, 9]).expect("room");
        bits.set(2, &[0b10, 0, 0, 0x80, 1]);
        bits.set(1, &[]);
        let ones = (0..50).filter(|index| bits.bit(2, *index)).collect::<Vec<_>>();
        assert_eq!(ones, [1, 31, 32]);
        assert_eq!([0, 1, 2, 3].map(|shard| bits.has(shard)), [false, true, true, false]);
        assert!(!bits.bit(0, 0) && !bits.bit(3, 8) && !bits.bit(9, 0));
        let mut longs = Answers::new(&[64, 128]).expect("room");
        longs.set(1, &[7_u64.to_le_bytes(), (5_u64 << 40).to_le_bytes()].concat());
        assert_eq!(
            [longs.long(0, 0), longs.long(1, 0), longs.long(1, 1), longs.long(1, 2)],
            [u64::MAX, 7, 5 << 40, u64::MAX]
        );
        let mut counts = Answers::new(&[64, 32]).expect("room");
        counts.set(0, &[1, 0, 0, 0, 0, 1, 0, 0]);
        counts.set(1, &[9, 0, 0, 0]);
        assert_eq!(counts.into_counts(), [1, 256, 9]);
    }

    #[test]
    fn an_index_with_more_samples_than_memory_is_an_error() {
        assert_eq!(Answers::new(&[u64::MAX, u64::MAX]).expect_err("room").kind(), ErrorKind::Full);
    }
}
