//! Input of a shuffle.

use crate::shape::Steps;

pub(crate) struct ShuffleArgs<'a> {
    /// The draws of each unit.
    pub(crate) units: &'a Steps,
    pub(crate) canonical: u64,
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) block: u64,
}

impl ShuffleArgs<'_> {
    pub(super) fn epoch_seed(&self) -> u128 {
        u128::from(self.seed) + u128::from(self.epoch)
    }

    /// The bounds of random block sizes, in the rounding of doubles.
    pub(super) fn block_bounds(&self) -> (u64, u64) {
        ((0.75 * self.block as f64) as u64, (1.25 * self.block as f64) as u64)
    }
}
