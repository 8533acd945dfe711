//! Losses of quality: noise, and compression.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::operation::{Operation, Script, check_within};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};

/// Adds normally distributed noise to every level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianNoise {
    /// Mean of the noise, for levels from 0 to 1.
    #[serde(default)]
    pub mean: f64,
    /// Standard deviation of the noise, for levels from 0 to 1.
    #[serde(default = "deviation")]
    pub sigma: f64,
    /// If true, levels outside of 0 to 1 become the nearest of these. Otherwise they wrap around.
    #[serde(default = "yes")]
    pub clip: bool,
}

fn deviation() -> f64 {
    0.1
}

fn yes() -> bool {
    true
}

/// Largest mean and deviation: ten times the range of levels, which leaves nothing of the picture.
const NOISE_MAX: f64 = 10.0;

impl Operation for GaussianNoise {
    fn check(&self) -> Result<()> {
        check_within("GaussianNoise", "mean", self.mean, -NOISE_MAX, NOISE_MAX)?;
        check_within("GaussianNoise", "sigma", self.sigma, 0.0, NOISE_MAX)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let &Self { mean, sigma, clip } = self;
        script.push(Action::GaussianNoise { mean, sigma, clip, noise: draws.numbers() });
    }
}

/// Compresses to a JPEG and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jpeg {
    /// Smallest and largest quality, from 1 to 100, each as probable.
    pub quality: [u8; 2],
}

impl Operation for Jpeg {
    fn check(&self) -> Result<()> {
        let [low, high] = self.quality;
        if !(1 <= low && low <= high && high <= 100) {
            return Err(Error::config("JPEG needs a `quality` from 1 to 100, the smallest one first")
                .with("quality", format!("{:?}", self.quality)));
        }
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let [low, high] = self.quality;
        let above = draws.numbers().below(u32::from(high.saturating_sub(low)) + 1);
        // At most the upper bound.
        script.push(Action::Jpeg { quality: low.saturating_add(above as u8) });
    }
}
