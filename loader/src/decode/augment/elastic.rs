//! Elastic transforms.

use serde::{Deserialize, Serialize};

use super::action::{Action, Sampling};
use super::operation::{Operation, Script, check_within};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::Interpolation;

/// Moves each pixel by a smooth field of random displacements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElasticTransform {
    /// Strength of the displacements along columns and along rows.
    #[serde(default = "strength")]
    pub alpha: [f64; 2],
    /// Deviations of the kernel that smooths them, pixels.
    #[serde(default = "deviations")]
    pub sigma: [f64; 2],
    /// Resampling: nearest or bilinear.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn strength() -> [f64; 2] {
    [50.0; 2]
}

fn deviations() -> [f64; 2] {
    [5.0; 2]
}

/// Upper bound of a strength, far above any that leaves something of a picture.
const ALPHA_MAX: f64 = 1e6;

/// Upper bound of a deviation: a kernel, eight times as wide, must not be able to take minutes.
const SIGMA_MAX: f64 = 64.0;

impl Operation for ElasticTransform {
    fn check(&self) -> Result<()> {
        for (alpha, sigma) in self.alpha.into_iter().zip(self.sigma) {
            check_within("ElasticTransform", "alpha", alpha, -ALPHA_MAX, ALPHA_MAX)?;
            check_within("ElasticTransform", "sigma", sigma, 0.0, SIGMA_MAX)?;
        }
        if (self.sigma[0] > 0.0) != (self.sigma[1] > 0.0) {
            let message = "ElasticTransform needs two numbers above 0 as `sigma`, or 0 for no smoothing";
            return Err(Error::config(message).with("sigma", format!("{:?}", self.sigma)));
        }
        if self.interpolation == Interpolation::Bicubic {
            return Err(Error::config("ElasticTransform needs the `interpolation` \"nearest\" or \"bilinear\""));
        }
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let &Self { alpha, sigma, interpolation, fill } = self;
        let sampling = Sampling { interpolation, fill };
        script.push(Action::Elastic { alpha, sigma, sampling, noise: draws.numbers() });
    }

    fn moves(&self) -> bool {
        true
    }
}
