//! AugMix: a blend of a picture with several chains of operations on it.

use serde::{Deserialize, Serialize};

use super::space::MIX;
use crate::decode::augment::action::{Action, Sampling};
use crate::decode::augment::operation::{ALPHA_MIN, Operation, Script, check_within};
use crate::decode::draw::{Draws, OpDraws};
use crate::error::{Error, Result};
use forebay_picture::Interpolation;

/// Blends a picture with chains of drawn operations on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugMix {
    /// Strengths that are drawn from, 1 to 10 of 10.
    #[serde(default = "three")]
    pub severity: u32,
    /// Number of chains.
    #[serde(default = "three")]
    pub mixture_width: u32,
    /// Operations per chain; 0 or less draws 1 to 3.
    #[serde(default = "drawn")]
    pub chain_depth: i64,
    /// Parameter of the distributions of the weights.
    #[serde(default = "one")]
    pub alpha: f64,
    /// If true, brightness, colour, contrast and sharpness are among the operations.
    #[serde(default = "yes")]
    pub all_ops: bool,
    /// Resampling.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn three() -> u32 {
    3
}

fn drawn() -> i64 {
    -1
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// Number of strengths.
const BINS: u32 = 10;

/// Entries of the space without `all_ops`.
const PARTIAL: u32 = 9;

/// Upper bound of the chains and of their length.
pub(super) const CHAINS_MAX: u32 = 64;

impl Operation for AugMix {
    fn check(&self) -> Result<()> {
        check_within("AugMix", "severity", f64::from(self.severity), 1.0, f64::from(BINS))?;
        check_within("AugMix", "alpha", self.alpha, ALPHA_MIN, 1e3)?;
        check_within("AugMix", "mixture_width", f64::from(self.mixture_width), 1.0, f64::from(CHAINS_MAX))?;
        check_within("AugMix", "chain_depth", self.chain_depth.max(0) as f64, 0.0, f64::from(CHAINS_MAX))
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let sampling = Sampling { interpolation: self.interpolation, fill: self.fill };
        let mut numbers = draws.numbers();
        let space = if self.all_ops { MIX.len() as u32 } else { PARTIAL };
        let Shares { kept, chains, sum } = Shares::draw(self.alpha, self.mixture_width, &mut numbers);
        script.push(Action::StartMixture { weight: kept });
        for weight in &chains[..self.mixture_width.min(CHAINS_MAX) as usize] {
            for _ in 0..depth(self.chain_depth, &mut numbers) {
                let entry = &MIX[numbers.below(space) as usize];
                let (bin, is_negative) = (numbers.below(self.severity), numbers.unit() < 0.5);
                entry.push(bin, BINS, is_negative, sampling, script);
            }
            script.push(Action::AddToMixture { weight: (1.0 - kept) * *weight / sum });
        }
        script.push(Action::EndMixture);
    }

    fn check_labels(&self) -> Result<()> {
        Err(refused_for_labels())
    }
}

/// Shares of a mixture: of the picture itself, and of each chain among the chains, which add up to `sum`.
pub(super) struct Shares {
    pub(super) kept: f64,
    /// Those after the number of chains are 0.
    pub(super) chains: [f64; CHAINS_MAX as usize],
    pub(super) sum: f64,
}

impl Shares {
    /// Draws the shares of `width` chains.
    pub(super) fn draw(alpha: f64, width: u32, numbers: &mut Draws) -> Self {
        // A Beta distribution is the first of two Dirichlet weights.
        let (kept, changed) = (numbers.gamma(alpha), numbers.gamma(alpha));
        let mut chains = [0.0; CHAINS_MAX as usize];
        let drawn = &mut chains[..width.min(CHAINS_MAX) as usize];
        drawn.fill_with(|| numbers.gamma(alpha));
        let sum = drawn.iter().sum();
        Self { kept: kept / (kept + changed), chains, sum }
    }
}

/// Returns the number of a chain's operations: `fixed`, or 1 to 3 if that is not above 0.
pub(super) fn depth(fixed: i64, numbers: &mut Draws) -> u32 {
    u32::try_from(fixed).ok().filter(|depth| *depth > 0).unwrap_or_else(|| 1 + numbers.below(3))
}

pub(super) fn refused_for_labels() -> Error {
    Error::config("AugMix blends pictures, which labels cannot follow: leave it out of the Mask and of its Joint")
}
