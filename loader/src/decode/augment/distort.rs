//! Distortion of colours, as detectors are trained with it, and the exchange of channels.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::operation::{Operation, Script, check_range, check_within};
use crate::decode::draw::{Draws, OpDraws};
use crate::error::Result;

/// Changes brightness, contrast, saturation and hue, and exchanges the channels, each by chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPhotometricDistort {
    /// Smallest and largest share of the picture in a blend with black.
    #[serde(default = "brightness")]
    pub brightness: [f64; 2],
    /// Smallest and largest share of the picture in a blend with the mean of its luma.
    #[serde(default = "contrast")]
    pub contrast: [f64; 2],
    /// Smallest and largest share of the picture in a blend with its luma.
    #[serde(default = "contrast")]
    pub saturation: [f64; 2],
    /// Smallest and largest turn of the hue, from -0.5 to 0.5.
    #[serde(default = "hue")]
    pub hue: [f64; 2],
    /// The probability of each change.
    #[serde(default = "half")]
    pub p: f64,
}

fn brightness() -> [f64; 2] {
    [0.875, 1.125]
}

fn contrast() -> [f64; 2] {
    [0.5, 1.5]
}

fn hue() -> [f64; 2] {
    [-0.05, 0.05]
}

fn half() -> f64 {
    0.5
}

impl Operation for RandomPhotometricDistort {
    fn check(&self) -> Result<()> {
        for (name, range, least, most) in [
            ("brightness", self.brightness, 0.0, f64::MAX),
            ("contrast", self.contrast, 0.0, f64::MAX),
            ("saturation", self.saturation, 0.0, f64::MAX),
            ("hue", self.hue, -0.5, 0.5),
        ] {
            check_range("RandomPhotometricDistort", name, range, least, most)?;
        }
        check_within("RandomPhotometricDistort", "p", self.p, 0.0, 1.0)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        // Drawn even if it is not used, so that one draw does not change the rest.
        let mut factor = |[low, high]: [f64; 2]| {
            let (chance, factor) = (numbers.unit(), numbers.uniform(low, high));
            (chance < self.p).then_some(factor)
        };
        let [brightness, contrast, saturation, hue] =
            [self.brightness, self.contrast, self.saturation, self.hue].map(&mut factor);
        let is_contrast_first = numbers.unit() < 0.5;
        let is_permuted = numbers.unit() < self.p;
        let contrast = |is_now: bool| contrast.filter(|_| is_now).map(|factor| Action::AdjustContrast { factor });
        let actions = [
            brightness.map(|factor| Action::AdjustBrightness { factor }),
            contrast(is_contrast_first),
            saturation.map(|factor| Action::AdjustSaturation { factor }),
            hue.map(|factor| Action::AdjustHue { factor }),
            contrast(!is_contrast_first),
            is_permuted.then(|| permuted(&mut numbers)),
        ];
        actions.into_iter().flatten().for_each(|action| script.push(action));
    }
}

/// Exchanges the channels, in a drawn order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomChannelPermutation {}

impl Operation for RandomChannelPermutation {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        script.push(permuted(&mut draws.numbers()));
    }
}

fn permuted(numbers: &mut Draws) -> Action {
    let mut permutation = [0; 3];
    numbers.shuffle(&mut permutation);
    Action::PermuteChannels { permutation }
}
