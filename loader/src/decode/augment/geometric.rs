//! Operations that move pixels.

use serde::{Deserialize, Serialize};

use super::action::{Action, Sampling};
use super::operation::{Operation, Script, check_range, check_within};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::Interpolation;
use forebay_picture::picture_ops::perspective_coefficients;

/// Rotates by an angle that is uniform between bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotation {
    /// Smallest and largest angle, degrees counter-clockwise.
    pub degrees: [f64; 2],
    /// Resampling.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// If true, the picture grows to hold all of its pixels. Otherwise it keeps its size.
    #[serde(default)]
    pub expand: bool,
    /// Column and row of the point that stays. Default: the middle.
    #[serde(default)]
    pub center: Option<[f64; 2]>,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Operation for RandomRotation {
    fn check(&self) -> Result<()> {
        check_range("RandomRotation", "degrees", self.degrees, -ANGLE_MAX, ANGLE_MAX)?;
        if self.expand && self.center.is_some() {
            // Pillow's result has different parts of the picture than its name promises, and torchvision's boxes are
            // elsewhere.
            return Err(Error::config(
                "RandomRotation with `expand` turns about the middle, so that the whole picture is in the result: \
                 leave out `center`",
            ));
        }
        check_center("RandomRotation", self.center)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let &Self { degrees: [low, high], interpolation, expand, center, fill } = self;
        let angle = draws.numbers().uniform(low, high);
        script.push(Action::Rotate { angle, expand, center, sampling: Sampling { interpolation, fill } });
    }

    fn moves(&self) -> bool {
        true
    }

    fn keeps_size(&self) -> bool {
        !self.expand
    }
}

/// Rotates, moves, scales and shears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAffine {
    /// Smallest and largest angle, degrees clockwise.
    pub degrees: [f64; 2],
    /// Largest move as fractions of the width and the height.
    #[serde(default)]
    pub translate: Option<[f64; 2]>,
    /// Smallest and largest factor.
    #[serde(default)]
    pub scale: Option<[f64; 2]>,
    /// Smallest and largest shear along columns, then along rows, degrees.
    #[serde(default)]
    pub shear: Option<[f64; 4]>,
    /// Resampling.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Column and row of the point about which it rotates. Default: the middle.
    #[serde(default)]
    pub center: Option<[f64; 2]>,
}

impl Operation for RandomAffine {
    fn check(&self) -> Result<()> {
        check_range("RandomAffine", "degrees", self.degrees, -ANGLE_MAX, ANGLE_MAX)?;
        for share in self.translate.into_iter().flatten() {
            check_within("RandomAffine", "translate", share, 0.0, 1.0)?;
        }
        if let Some(scale) = self.scale {
            check_range("RandomAffine", "scale", scale, SCALE_MIN, 1.0 / SCALE_MIN)?;
        }
        if let Some([x_low, x_high, y_low, y_high]) = self.shear {
            check_range("RandomAffine", "shear", [x_low, x_high], -ANGLE_MAX, ANGLE_MAX)?;
            check_range("RandomAffine", "shear", [y_low, y_high], -ANGLE_MAX, ANGLE_MAX)?;
        }
        check_center("RandomAffine", self.center)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let &Self { degrees: [low, high], translate, scale, shear, interpolation, fill, center } = self;
        let mut numbers = draws.numbers();
        let angle = numbers.uniform(low, high);
        let [share_x, share_y] = translate.unwrap_or_default();
        let mut shift = |share: f64, side: u32| {
            let most = share * f64::from(side);
            // Adding 0 turns -0 into 0.
            numbers.uniform(-most, most).round_ties_even() + 0.0
        };
        let translate = [shift(share_x, script.size.w), shift(share_y, script.size.h)];
        let [low, high] = scale.unwrap_or([1.0, 1.0]);
        let scale = numbers.uniform(low, high);
        let [x_low, x_high, y_low, y_high] = shear.unwrap_or_default();
        let shear = [numbers.uniform(x_low, x_high), numbers.uniform(y_low, y_high)];
        let sampling = Sampling { interpolation, fill };
        script.push(Action::Affine { angle, translate, scale, shear, center, sampling });
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Moves the corners towards the middle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPerspective {
    /// Largest move of a corner, as a fraction of half the side.
    #[serde(default = "half")]
    pub distortion_scale: f64,
    /// The probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Resampling.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
    /// Colour outside of the picture.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn half() -> f64 {
    0.5
}

impl Operation for RandomPerspective {
    fn check(&self) -> Result<()> {
        check_within("RandomPerspective", "distortion_scale", self.distortion_scale, 0.0, 1.0)?;
        check_within("RandomPerspective", "p", self.p, 0.0, 1.0)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        if numbers.unit() >= self.p {
            return;
        }
        let size = script.size;
        let bound = |side: u32| (self.distortion_scale * f64::from(side / 2)) as u32 + 1;
        let mut corner = |is_right: bool, is_below: bool| {
            let mut place = |side: u32, is_far: bool| {
                let bound = bound(side);
                f64::from(numbers.below(bound) + if is_far { side - bound } else { 0 })
            };
            [place(size.w, is_right), place(size.h, is_below)]
        };
        let endpoints = [corner(false, false), corner(true, false), corner(true, true), corner(false, true)];
        let (right, below) = (f64::from(size.w) - 1.0, f64::from(size.h) - 1.0);
        let corners = [[0.0, 0.0], [right, 0.0], [right, below], [0.0, below]];
        // A picture of one row or column has no perspective.
        if let Some(coefficients) = perspective_coefficients(&corners, &endpoints) {
            let sampling = Sampling { interpolation: self.interpolation, fill: self.fill };
            script.push(Action::Perspective { endpoints, coefficients, sampling });
        }
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Upper bound of an angle, degrees: far more, and its remainder would have no exact digits.
const ANGLE_MAX: f64 = 1e6;

/// Lower bound of a scale, and the inverse of the upper one, so that every position is a finite number.
const SCALE_MIN: f64 = 1e-6;

/// Upper bound of a centre's coordinates, pixels.
const CENTER_MAX: f64 = 1e9;

fn check_center(operation: &str, center: Option<[f64; 2]>) -> Result<()> {
    match center {
        Some(center) if !center.iter().all(|side| side.abs() <= CENTER_MAX) => {
            let message = format!("{operation} needs a finite `center`: a column and a row");
            Err(Error::config(message).with("center", format!("{center:?}")))
        }
        _ => Ok(()),
    }
}
