//! Policies: they draw operations and their strength from tables.
//!
//! `space` has the operations with the ranges of their strengths, and `tables` the pairs of AutoAugment. Both are
//! torchvision's, and so are the strengths: single precision, where a rounding decides between two whole numbers of
//! pixels.

mod levels;
mod mix;
mod space;
mod tables;

use serde::{Deserialize, Serialize};

use super::action::Sampling;
use super::operation::{Operation, Script};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::Interpolation;
use space::{AUTO, RAND, TRIVIAL_WIDE, entry};
use tables::pairs;

pub use levels::{LevelAugment, LevelKind, LevelOp};
pub use mix::AugMix;
pub use tables::Policy;

/// Upper bound of a policy's operations per picture, and of its strengths.
const COUNT_MAX: u32 = 1 << 10;

/// Applies one operation with a strength, both drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrivialAugmentWide {
    /// Number of strengths.
    #[serde(default = "bins")]
    pub num_magnitude_bins: u32,
    /// Resampling.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn bins() -> u32 {
    31
}

impl Operation for TrivialAugmentWide {
    fn check(&self) -> Result<()> {
        check_count("TrivialAugmentWide", "num_magnitude_bins", self.num_magnitude_bins, 2)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        let entry = &TRIVIAL_WIDE[numbers.below(TRIVIAL_WIDE.len() as u32) as usize];
        let bin = numbers.below(self.num_magnitude_bins);
        let is_negative = numbers.unit() < 0.5;
        let sampling = Sampling { interpolation: self.interpolation, fill: self.fill };
        entry.push(bin, self.num_magnitude_bins, is_negative, sampling, script);
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Applies several drawn operations, all with one strength.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandAugment {
    /// Operations per picture.
    #[serde(default = "two")]
    pub num_ops: u32,
    /// The strength, from 0 and below `num_magnitude_bins`.
    #[serde(default = "nine")]
    pub magnitude: u32,
    /// Number of strengths.
    #[serde(default = "bins")]
    pub num_magnitude_bins: u32,
    /// Resampling.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn two() -> u32 {
    2
}

fn nine() -> u32 {
    9
}

impl Operation for RandAugment {
    fn check(&self) -> Result<()> {
        check_count("RandAugment", "num_magnitude_bins", self.num_magnitude_bins, 2)?;
        check_count("RandAugment", "num_ops", self.num_ops, 0)?;
        if self.magnitude >= self.num_magnitude_bins {
            return Err(Error::config("RandAugment needs a `magnitude` below `num_magnitude_bins`")
                .with("magnitude", self.magnitude)
                .with("num_magnitude_bins", self.num_magnitude_bins));
        }
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let sampling = Sampling { interpolation: self.interpolation, fill: self.fill };
        let mut numbers = draws.numbers();
        // Strengths in pixels follow the size that the picture has before the first operation.
        for _ in 0..self.num_ops {
            let entry = &RAND[numbers.below(RAND.len() as u32) as usize];
            let is_negative = numbers.unit() < 0.5;
            entry.push(self.magnitude, self.num_magnitude_bins, is_negative, sampling, script);
        }
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Applies a drawn pair of a learned policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoAugment {
    /// The policy.
    #[serde(default)]
    pub policy: Policy,
    /// Resampling.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

/// Strengths of AutoAugment.
const AUTO_BINS: u32 = 10;

impl Operation for AutoAugment {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let sampling = Sampling { interpolation: self.interpolation, fill: self.fill };
        let mut numbers = draws.numbers();
        let pairs = pairs(self.policy);
        for (kind, p, bin) in pairs[numbers.below(pairs.len() as u32) as usize] {
            let (applies, is_negative) = (numbers.unit() < p, numbers.unit() < 0.5);
            if applies {
                entry(&AUTO, kind).push(bin, AUTO_BINS, is_negative, sampling, script);
            }
        }
    }

    fn moves(&self) -> bool {
        true
    }
}

fn check_count(operation: &str, name: &'static str, count: u32, least: u32) -> Result<()> {
    if (least..=COUNT_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::config(format!("{operation} needs `{name}` from {least} to {COUNT_MAX}")).with(name, count))
}
