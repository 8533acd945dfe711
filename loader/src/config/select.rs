//! Options of the samples of a stream that are kept or drawn.

use super::limits::require;
use super::options::{Fraction, OptionInfo, SampleValues, Subset, options};
use crate::error::Result;
use crate::subsets::filter::Filter;
use crate::subsets::fraction;
use serde::{Deserialize, Serialize};

options! {
    /// Samples of a stream to keep or draw.
    pub struct SelectConfig {
        /// Samples to keep, by number: text such as "0:1000, 5000:6000", a list of numbers, or a file of them.
        pub subset: Option<Subset> = None,
        /// Seeded part to keep, such as (0, 0.9) and (0.9, 1): neighbouring parts share no sample and miss none.
        pub fraction: Option<Fraction> = None,
        /// Seed of `fraction`. None: 0.
        pub fraction_seed: Option<u64> = None,
        /// Condition on number and text columns of the samples to keep, such as `class < 100 and name != "unknown"`.
        pub filter: Option<String> = None,
        /// Weight of each sample, to draw with replacement: a number column, an array of numbers, or its `.npy` file.
        pub weights: Option<SampleValues> = None,
        /// Column of the classes that an epoch draws equally often, with replacement.
        pub balance: Option<String> = None,
    }
}

impl SelectConfig {
    pub(super) fn validate(&self) -> Result<()> {
        self.fraction.map_or(Ok(()), fraction::check)?;
        self.filter.as_deref().map(Filter::parse).transpose()?;
        let is_one = self.weights.is_none() || self.balance.is_none();
        require(is_one, "a stream takes only one of weights and balance: 1 / count of each class is a weight, too")?;
        let has_part = self.fraction.is_some() || self.fraction_seed.is_none();
        require(has_part, "fraction_seed is the seed of fraction, which is not set: pass both, or neither")
    }
}
