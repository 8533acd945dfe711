//! Changes of hue, saturation and value in OpenCV's HSV.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::operation::{Operation, Script, check_range, check_within};
use crate::decode::draw::OpDraws;
use crate::error::Result;

/// Hues of OpenCV's 8 bits, and with them the turn of a gain of 1.
const HUES: f64 = 180.0;

/// Multiplies saturation and value and turns the hue, as the `RandomHSV` of YOLO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomHsv {
    /// Largest turn of the hue, as a share of the circle.
    #[serde(default = "hue_gain")]
    pub hgain: f64,
    /// Largest change of the saturation's factor from 1.
    #[serde(default = "saturation_gain")]
    pub sgain: f64,
    /// Largest change of the value's factor from 1.
    #[serde(default = "value_gain")]
    pub vgain: f64,
}

fn hue_gain() -> f64 {
    0.015
}

fn saturation_gain() -> f64 {
    0.7
}

fn value_gain() -> f64 {
    0.4
}

impl Operation for RandomHsv {
    fn check(&self) -> Result<()> {
        let gains = [("hgain", self.hgain), ("sgain", self.sgain), ("vgain", self.vgain)];
        gains.into_iter().try_for_each(|(name, gain)| check_within("RandomHSV", name, gain, 0.0, 1.0))
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        let gains = [self.hgain, self.sgain, self.vgain];
        let [hue, saturation, value] = gains.map(|gain| numbers.uniform(-1.0, 1.0) * gain);
        if gains != [0.0; 3] {
            script.push(Action::AdjustHsv {
                hue: hue * HUES,
                saturation: [saturation + 1.0, 0.0],
                value: [value + 1.0, 0.0],
            });
        }
    }
}

/// Adds to hue, saturation and value, as the `HueSaturationValue` of albumentations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HueSaturationValue {
    /// Smallest and largest number that is added to hues, of two degrees each.
    #[serde(default = "shifts")]
    pub hue_shift_limit: [f64; 2],
    /// Smallest and largest number that is added to saturations, from 0 to 255.
    #[serde(default = "saturation_shifts")]
    pub sat_shift_limit: [f64; 2],
    /// Smallest and largest number that is added to values, from 0 to 255.
    #[serde(default = "shifts")]
    pub val_shift_limit: [f64; 2],
    /// The probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn shifts() -> [f64; 2] {
    [-20.0, 20.0]
}

fn saturation_shifts() -> [f64; 2] {
    [-30.0, 30.0]
}

fn half() -> f64 {
    0.5
}

/// Largest shift: it leaves nothing of a level.
const SHIFT_MAX: f64 = 255.0;

impl Operation for HueSaturationValue {
    fn check(&self) -> Result<()> {
        const NAME: &str = "HueSaturationValue";
        check_within(NAME, "p", self.p, 0.0, 1.0)?;
        check_range(NAME, "hue_shift_limit", self.hue_shift_limit, -SHIFT_MAX, SHIFT_MAX)?;
        check_range(NAME, "sat_shift_limit", self.sat_shift_limit, -SHIFT_MAX, SHIFT_MAX)?;
        check_range(NAME, "val_shift_limit", self.val_shift_limit, -SHIFT_MAX, SHIFT_MAX)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        if numbers.unit() >= self.p {
            return;
        }
        let limits = [self.hue_shift_limit, self.sat_shift_limit, self.val_shift_limit];
        let [hue, saturation, value] = limits.map(|[low, high]| numbers.uniform(low, high));
        // albumentations drops the fractions of these two.
        let [saturation, value] = [saturation, value].map(|shift| [1.0, shift.trunc()]);
        script.push(Action::AdjustHsv { hue, saturation, value });
    }
}
