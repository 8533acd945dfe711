//! Input of a shuffle.

use crate::order::shape::Steps;

pub(in crate::order) struct ShuffleArgs<'a> {
    /// The draws of each unit.
    pub(in crate::order) units: &'a Steps,
    pub(in crate::order) canonical: u64,
    pub(in crate::order) seed: u64,
    pub(in crate::order) epoch: u64,
    pub(in crate::order) block: u64,
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
