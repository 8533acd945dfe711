//! Numbers of a stream's samples, such as weights and lengths.

use super::error::OrderError;
use super::shape::Hasher;

/// A number for each sample of a stream, in the order of the samples: 4 bytes each.
#[derive(Debug, PartialEq)]
pub struct SampleNumbers {
    values: Vec<f32>,
    /// Hash of the values, for checkpoints.
    hash: u64,
}

impl SampleNumbers {
    /// Checks and hashes `values`.
    ///
    /// # Errors
    /// A number is negative, infinite or not a number.
    pub fn new(values: Vec<f32>) -> Result<Self, OrderError> {
        let is_good = values.iter().all(|value| value.is_finite() && *value >= 0.0);
        OrderError::unless(is_good, "the number of each sample", "finite and not negative")?;
        let mut hash = Hasher::default();
        hash.number(values.len() as u64);
        // Two zeros have different bits.
        values.iter().for_each(|value| hash.word((value + 0.0).to_bits().into()));
        Ok(Self { values, hash: hash.finish() })
    }

    /// The numbers.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Hash of the numbers of all streams.
pub(super) fn hash_of<'a>(streams: impl Iterator<Item = Option<&'a SampleNumbers>>) -> u64 {
    let mut hash = Hasher::default();
    streams.for_each(|numbers| hash.number(numbers.map_or(0, SampleNumbers::hash)));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_an_order_and_negative_ones_are_rejected() {
        for value in [f32::NAN, f32::INFINITY, -1.0] {
            let error = SampleNumbers::new(vec![1.0, value]).expect_err("no number").to_string();
            assert!(error.contains("finite and not negative"), "{error}");
        }
        let [zero, other] = [0.0, -0.0].map(|zero| SampleNumbers::new(vec![zero, 1.0]).expect("numbers"));
        assert_eq!(zero.hash(), other.hash());
        assert_ne!(zero.hash(), SampleNumbers::new(vec![0.0, 2.0]).expect("numbers").hash());
    }
}
