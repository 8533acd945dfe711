//! Lengths of the samples in tokens.

use crate::error::OrderError;
use crate::shape::Hasher;

/// Number of tokens of each sample of a stream, in the order of the samples: 4 bytes each.
#[derive(Debug, PartialEq, Eq)]
pub struct TokenLengths {
    values: Vec<u32>,
    /// Tokens of all samples.
    total: u64,
    /// Hash of the values, for checkpoints.
    hash: u64,
}

impl TokenLengths {
    /// Sums and hashes `values`.
    pub fn new(values: Vec<u32>) -> Self {
        let mut hash = Hasher::default();
        hash.number(values.len() as u64);
        let mut total = 0;
        for &value in &values {
            hash.word(value.into());
            total += u64::from(value);
        }
        Self { values, total, hash: hash.finish() }
    }

    /// The numbers.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// Tokens of all samples.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Checks that there is a length for each sample of each stream.
///
/// # Errors
/// There are more or fewer.
pub(super) fn check<'a>(
    samples: impl ExactSizeIterator<Item = u64>,
    lengths: impl ExactSizeIterator<Item = &'a TokenLengths>,
) -> Result<(), OrderError> {
    let is_good = samples.len() == lengths.len()
        && samples.zip(lengths).all(|(samples, lengths)| samples == lengths.values.len() as u64);
    OrderError::unless(is_good, "the lengths in tokens", "one for each sample of each stream")
}
