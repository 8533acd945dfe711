//! timm's policies: RandAugment, AutoAugment, 3-Augment and AugMix, with strengths that are levels from 0 to 10, which
//! may be noisy. Operations, strengths and pixels are the same as in timm's `auto_augment.py`, for the same numbers.

use serde::{Deserialize, Serialize};

use super::check_count;
use super::mix::{CHAINS_MAX, Shares, depth, refused_for_labels};
use crate::decode::augment::action::{Action, Sampling};
use crate::decode::augment::operation::{ALPHA_MIN, Operation, Script, check_within};
use crate::decode::draw::{Draws, OpDraws};
use crate::error::{Error, Result};
use forebay_picture::Interpolation;

/// Largest level, unless a policy has a different bound.
const LEVELS: f64 = 10.0;

/// Threshold of `solarize_add`.
const ADD_THRESHOLD: u8 = 128;

/// Applies lists of operations that are drawn from `choices`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelAugment {
    /// Lists that are drawn from.
    pub choices: Vec<Vec<LevelOp>>,
    /// Lists per picture, or per chain, where 0 draws 1 to 3.
    #[serde(default = "one")]
    pub count: u32,
    /// Chains of lists that are blended with the picture, as AugMix does. 0: the lists change the picture itself.
    #[serde(default)]
    pub width: u32,
    /// Parameter of the distributions of the chains' weights.
    #[serde(default = "always")]
    pub alpha: f64,
    /// Weight of each list. With weights no list is drawn twice.
    #[serde(default)]
    pub weights: Option<Vec<f64>>,
    /// Standard deviation of the levels.
    #[serde(default)]
    pub magnitude_std: f64,
    /// True if levels are uniform between 0 and their own.
    #[serde(default)]
    pub is_uniform: bool,
    /// Upper bound of the levels.
    #[serde(default = "levels")]
    pub magnitude_max: f64,
    /// Filters; one is drawn where pixels are moved.
    pub interpolations: Vec<Interpolation>,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Pixels of the largest translation that is not relative.
    #[serde(default = "translate_const")]
    pub translate_const: f64,
    /// Share of a side of the largest relative translation.
    #[serde(default = "translate_pct")]
    pub translate_pct: f64,
}

fn one() -> u32 {
    1
}

fn levels() -> f64 {
    LEVELS
}

fn translate_const() -> f64 {
    250.0
}

fn translate_pct() -> f64 {
    0.45
}

fn always() -> f64 {
    1.0
}

/// Operation of a list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelOp {
    /// The operation.
    pub name: LevelKind,
    /// The probability.
    #[serde(default = "always")]
    pub p: f64,
    /// Its level.
    pub magnitude: f64,
}

/// Operation, by its name in timm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "timm documents them")]
pub enum LevelKind {
    AutoContrast,
    Equalize,
    Invert,
    Rotate,
    Posterize,
    PosterizeIncreasing,
    PosterizeOriginal,
    Solarize,
    SolarizeIncreasing,
    SolarizeAdd,
    Color,
    ColorIncreasing,
    Contrast,
    ContrastIncreasing,
    Brightness,
    BrightnessIncreasing,
    Sharpness,
    SharpnessIncreasing,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    TranslateXRel,
    TranslateYRel,
    Desaturate,
    GaussianBlur,
    GaussianBlurRand,
}

impl Operation for LevelAugment {
    fn check(&self) -> Result<()> {
        const NAME: &str = "LevelAugment";
        check_count(NAME, "count", self.count, 0)?;
        if self.width > CHAINS_MAX || self.width > 0 && self.count > CHAINS_MAX {
            return Err(Error::config(format!(
                "{NAME} needs a `width` of at most {CHAINS_MAX}, and a `count` of chains too"
            ))
            .with("width", self.width)
            .with("count", self.count));
        }
        check_within(NAME, "alpha", self.alpha, ALPHA_MIN, 1e3)?;
        let largest = self.choices.iter().map(Vec::len).max().unwrap_or(0) as u32;
        check_count(NAME, "choices", self.choices.len() as u32, 1)?;
        check_count(NAME, "operations", largest, 0)?;
        check_count(NAME, "interpolations", self.interpolations.len() as u32, 1)?;
        check_within(NAME, "magnitude_std", self.magnitude_std, 0.0, f64::MAX)?;
        check_within(NAME, "magnitude_max", self.magnitude_max, f64::MIN_POSITIVE, f64::MAX)?;
        check_within(NAME, "translate_const", self.translate_const, 0.0, f64::MAX)?;
        check_within(NAME, "translate_pct", self.translate_pct, 0.0, f64::MAX)?;
        for op in self.choices.iter().flatten() {
            check_within(NAME, "p", op.p, 0.0, 1.0)?;
            check_within(NAME, "magnitude", op.magnitude, -f64::MAX, f64::MAX)?;
        }
        if let Some(weights) = &self.weights {
            let used = weights.iter().filter(|weight| **weight > 0.0).count();
            let is_valid = weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite());
            if weights.len() != self.choices.len() || !is_valid || used < self.count as usize {
                return Err(Error::config(
                    "LevelAugment needs a weight of at least 0 for each choice, and as many above 0 as it draws",
                )
                .with("weights", weights.len())
                .with("choices", self.choices.len()));
            }
        }
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        if self.width == 0 {
            return self.draw_lists(self.count, &mut numbers, script);
        }
        let Shares { kept, chains, sum } = Shares::draw(self.alpha, self.width, &mut numbers);
        script.push(Action::StartMixture { weight: 0.0 });
        for weight in &chains[..self.width as usize] {
            let count = depth(i64::from(self.count), &mut numbers);
            self.draw_lists(count, &mut numbers, script);
            script.push(Action::AddToMixture { weight: *weight / sum });
        }
        script.push(Action::BlendMixture { share: 1.0 - kept });
    }

    fn moves(&self) -> bool {
        self.width == 0
    }

    fn check_labels(&self) -> Result<()> {
        if self.width > 0 { Err(refused_for_labels()) } else { Ok(()) }
    }
}

impl LevelAugment {
    fn draw_lists(&self, count: u32, numbers: &mut Draws, script: &mut Script) {
        let mut weights = self.weights.clone();
        for _ in 0..count {
            let place = match &mut weights {
                None => numbers.below(self.choices.len() as u32) as usize,
                Some(weights) => {
                    let mut rest = numbers.unit() * weights.iter().sum::<f64>();
                    let chosen = weights.iter().position(|weight| {
                        rest -= weight;
                        rest < 0.0
                    });
                    let last = || weights.iter().rposition(|weight| *weight > 0.0);
                    let place = chosen.or_else(last).unwrap_or(0);
                    weights[place] = 0.0;
                    place
                }
            };
            for op in &self.choices[place] {
                self.draw_op(*op, numbers, script);
            }
        }
    }

    fn draw_op(&self, op: LevelOp, numbers: &mut Draws, script: &mut Script) {
        // Each operation takes the same numbers, whatever it is.
        let (applies, noise, uniform) = (numbers.unit() < op.p, numbers.normal(), numbers.unit());
        let (is_negative, other) = (numbers.unit() < 0.5, numbers.unit());
        let filter = self.interpolations[numbers.below(self.interpolations.len() as u32) as usize];
        if !applies {
            return;
        }
        let magnitude =
            if self.is_uniform { uniform * op.magnitude } else { op.magnitude + noise * self.magnitude_std };
        let magnitude = magnitude.clamp(0.0, self.magnitude_max);
        let drawn = Level { part: magnitude / LEVELS, is_negative, other };
        let sampling = Sampling { interpolation: filter, fill: self.fill };
        if let Some(action) = self.action(op.name, drawn, sampling, script) {
            script.push(action);
        }
    }

    /// Returns the action of an operation, unless it changes nothing.
    fn action(&self, name: LevelKind, level: Level, sampling: Sampling, script: &Script) -> Option<Action> {
        use LevelKind::*;
        let moved = |matrix| Action::Transform { matrix, sampling };
        let [w, h] = [script.size.w, script.size.h].map(f64::from);
        let across = |pixels| moved([1.0, 0.0, pixels, 0.0, 1.0, 0.0]);
        let down = |pixels| moved([1.0, 0.0, 0.0, 0.0, 1.0, pixels]);
        let part = level.part;
        let action = match name {
            AutoContrast => Action::Autocontrast,
            Equalize => Action::Equalize,
            Invert => Action::Invert,
            Rotate => Action::Rotate { angle: level.signed(part * 30.0), expand: false, center: None, sampling },
            Posterize => return posterize((part * 4.0) as i64),
            PosterizeIncreasing => return posterize(4 - (part * 4.0) as i64),
            PosterizeOriginal => return posterize((part * 4.0) as i64 + 4),
            Solarize => Action::Solarize { threshold: solarize_threshold(part) },
            SolarizeIncreasing => Action::Solarize { threshold: 256.0 - solarize_threshold(part) },
            SolarizeAdd => {
                let add = (part * 110.0).trunc().min(128.0) as u8;
                Action::SolarizeAdd { add, threshold: ADD_THRESHOLD }
            }
            Color => Action::AdjustSaturation { factor: enhanced(part) },
            ColorIncreasing => Action::AdjustSaturation { factor: level.enhanced() },
            Contrast => Action::AdjustContrast { factor: enhanced(part) },
            ContrastIncreasing => Action::AdjustContrast { factor: level.enhanced() },
            Brightness => Action::AdjustBrightness { factor: enhanced(part) },
            BrightnessIncreasing => Action::AdjustBrightness { factor: level.enhanced() },
            Sharpness => Action::AdjustSharpness { factor: enhanced(part) },
            SharpnessIncreasing => Action::AdjustSharpness { factor: level.enhanced() },
            ShearX => moved([1.0, level.signed(part * 0.3), 0.0, 0.0, 1.0, 0.0]),
            ShearY => moved([1.0, 0.0, 0.0, level.signed(part * 0.3), 1.0, 0.0]),
            TranslateX => across(level.signed(part * self.translate_const)),
            TranslateY => down(level.signed(part * self.translate_const)),
            TranslateXRel => across(level.signed(part * self.translate_pct) * w),
            TranslateYRel => down(level.signed(part * self.translate_pct) * h),
            Desaturate => {
                let level = (0.5 + (1.0 - 0.5) * part).clamp(0.5, 1.0);
                Action::AdjustSaturation { factor: (1.0 - level).clamp(0.0, 1.0) }
            }
            GaussianBlur => Action::RadiusBlur { radius: (0.1 + (2.0 - 0.1) * part).clamp(0.1, 2.0) },
            GaussianBlurRand => {
                let factor = part.clamp(0.0, 1.0);
                Action::RadiusBlur { radius: 0.1 + (2.0 * factor - 0.1) * level.other }
            }
        };
        Some(action)
    }
}

/// Level of an operation, and its further draws.
#[derive(Clone, Copy)]
struct Level {
    /// The level in tenths.
    part: f64,
    is_negative: bool,
    other: f64,
}

impl Level {
    fn signed(self, value: f64) -> f64 {
        if self.is_negative { -value } else { value }
    }

    /// Returns a factor on either side of 1, at least a tenth.
    fn enhanced(self) -> f64 {
        (1.0 + self.signed(self.part * 0.9)).max(0.1)
    }
}

/// Returns a factor from 0.1 to 1.9.
fn enhanced(part: f64) -> f64 {
    part * 1.8 + 0.1
}

/// All bits are no change.
fn posterize(bits: i64) -> Option<Action> {
    (bits < 8).then_some(Action::Posterize { bits: bits.max(0) as u8 })
}

fn solarize_threshold(part: f64) -> f64 {
    (part * 256.0).trunc().min(256.0)
}
