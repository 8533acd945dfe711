//! timm's resize to a frame.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, FACTOR_MAX, Framed, Reframe, check_sides, side};
use crate::decode::augment::{check_range, check_within};
use crate::decode::draw::OpDraws;
use crate::error::Result;
use forebay_picture::Interpolation;
use forebay_picture::geometry::Size;

/// Resizes to fit a frame, as timm's `ResizeKeepRatio`, by chance with a different scale or ratio of the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeKeepRatio {
    /// Height and width of the frame.
    pub size: [u32; 2],
    /// 0: the picture covers the frame; 1: it is inside of the frame; between, its scale is between those.
    #[serde(default)]
    pub longest: f64,
    /// Filter; for labels always the nearest pixel.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
    /// Filter of half of the pictures, if they are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Interpolation>,
    /// Probability of a different scale.
    #[serde(default)]
    pub random_scale_prob: f64,
    /// Smallest and largest factor of the scale.
    #[serde(default = "scales")]
    pub random_scale_range: [f64; 2],
    /// If true, the factor is a share of an area that is shown: smaller ones enlarge the picture.
    #[serde(default)]
    pub random_scale_area: bool,
    /// Probability of a different ratio of the sides.
    #[serde(default)]
    pub random_aspect_prob: f64,
    /// Smallest and largest factor of the ratio, drawn on a logarithmic scale.
    #[serde(default = "aspects")]
    pub random_aspect_range: [f64; 2],
}

fn scales() -> [f64; 2] {
    [0.85, 1.05]
}

fn aspects() -> [f64; 2] {
    [0.9, 1.11]
}

impl Reframe for ResizeKeepRatio {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        const NAME: &str = "ResizeKeepRatio";
        check_sides(NAME, "size", self.size)?;
        check_within(NAME, "longest", self.longest, 0.0, 1.0)?;
        check_within(NAME, "random_scale_prob", self.random_scale_prob, 0.0, 1.0)?;
        check_within(NAME, "random_aspect_prob", self.random_aspect_prob, 0.0, 1.0)?;
        check_range(NAME, "random_scale_range", self.random_scale_range, 1.0 / FACTOR_MAX, FACTOR_MAX)?;
        check_range(NAME, "random_aspect_range", self.random_aspect_range, 1.0 / FACTOR_MAX, FACTOR_MAX)?;
        Ok(None)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let mut numbers = draws.numbers();
        let (h, w) = (f64::from(size.h), f64::from(size.w));
        let (down, across) = (h / f64::from(self.size[0]), w / f64::from(self.size[1]));
        let ratio = down.max(across) * self.longest + down.min(across) * (1.0 - self.longest);
        let (mut by_h, mut by_w) = (1.0, 1.0);
        if self.random_scale_prob > 0.0 && numbers.unit() < self.random_scale_prob {
            let factor = numbers.uniform(self.random_scale_range[0], self.random_scale_range[1]);
            by_h = if self.random_scale_area { 1.0 / factor.sqrt() } else { factor };
            by_w = by_h;
        }
        if self.random_aspect_prob > 0.0 && numbers.unit() < self.random_aspect_prob {
            let [low, high] = self.random_aspect_range.map(f64::ln);
            let factor = numbers.uniform(low, high).exp().sqrt();
            (by_h, by_w) = (by_h / factor, by_w * factor);
        }
        let other = self.alternative.filter(|_| numbers.unit() < 0.5);
        let rounded = |length: f64| side(length.round_ties_even());
        let to = Size { w: rounded(w * by_w / ratio), h: rounded(h * by_h / ratio) };
        Cut::Resize { to, interpolation: other.unwrap_or(self.interpolation) }
    }

    fn become_labels(&mut self) {
        (self.interpolation, self.alternative) = (Interpolation::Nearest, None);
    }

    fn is_random(&self) -> bool {
        self.random_scale_prob > 0.0 || self.random_aspect_prob > 0.0
    }
}
