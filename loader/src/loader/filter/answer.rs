//! Answers to a question: some bits for each sample of a shard.

use crate::catalog::IndexedStream;
use crate::error::Result;
use crate::subsets::question::Reply;

/// Opens the stream with only the columns of a question.
pub(super) type Open<'a> = &'a dyn Fn(&[String]) -> Result<IndexedStream>;

/// Way of a source to the answers.
pub(super) trait Answer: Sync {
    /// True if the answers cost reads, so that they are kept.
    fn is_kept(&self) -> bool {
        true
    }

    /// Opens the data to read. It is called once, and only if an answer is not known.
    ///
    /// # Errors
    ///
    /// The errors of `open`, and `Stale` for files that have changed.
    fn open(&mut self, _open: Open<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns the bits of shard number `shard`, and calls `progress` for each part that is read.
    ///
    /// # Errors
    ///
    /// Errors of stores and files, and `Format` for values that are none of their columns.
    fn of_shard(&self, shard: u32, progress: &dyn Fn()) -> Result<Bits>;
}

/// Answers for the samples of a shard: a bit for each of them, or a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    len: u64,
}

impl Bits {
    /// Makes an empty list for `bits`.
    pub(super) fn new(bits: u64) -> Self {
        Self { bytes: Vec::with_capacity(bytes_of(bits)), len: 0 }
    }

    /// The list of `samples` equal bits.
    pub(super) fn all(samples: u64, bit: bool) -> Self {
        let mut bytes = vec![if bit { 0xff } else { 0 }; bytes_of(samples)];
        if let (Some(last), true) = (bytes.last_mut(), bit && !samples.is_multiple_of(8)) {
            *last = (1 << (samples % 8)) - 1;
        }
        Self { bytes, len: samples }
    }

    /// Adds the bit of the next sample.
    pub(super) fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
    }

    /// Adds the answer for the next sample. All of a list have the same number of bits.
    pub(super) fn add(&mut self, reply: Reply) {
        match reply {
            Reply::Bit(bit) => self.push(bit),
            Reply::Count(count) => {
                self.bytes.extend(count.to_le_bytes());
                self.len += u64::from(u32::BITS);
            }
            Reply::Word(word) => {
                self.bytes.extend(word.to_le_bytes());
                self.len += u64::from(u64::BITS);
            }
        }
    }

    /// Number of bits.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The bits as bytes, the first in the lowest bit.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of `samples` bits.
pub(super) fn bytes_of(samples: u64) -> usize {
    samples.div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bits_are_those_that_are_added_one_by_one() {
        for samples in [0, 1, 7, 8, 9, 64, 1001] {
            for bit in [false, true] {
                let mut added = Bits::new(samples);
                (0..samples).for_each(|_| added.push(bit));
                assert_eq!(Bits::all(samples, bit), added, "{samples} {bit}");
            }
        }
    }
}
