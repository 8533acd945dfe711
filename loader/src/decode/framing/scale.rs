//! Resizes to a drawn size that keep the ratio of the sides.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, FACTOR_MAX, Framed, Reframe, check_sides, side};
use crate::decode::augment::check_range;
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::Interpolation;
use forebay_picture::geometry::Size;

/// Resizes to fit into a frame, times a drawn factor, as torchvision's `ScaleJitter`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleJitter {
    /// The frame: the first number is compared with the width and the second with the height, as in torchvision.
    pub target_size: [u32; 2],
    /// Smallest and largest factor.
    #[serde(default = "factors")]
    pub scale_range: [f64; 2],
    /// Filter; for labels always the nearest pixel.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
}

fn factors() -> [f64; 2] {
    [0.1, 2.0]
}

impl Reframe for ScaleJitter {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        check_sides("ScaleJitter", "target_size", self.target_size)?;
        check_range("ScaleJitter", "scale_range", self.scale_range, 1.0 / FACTOR_MAX, FACTOR_MAX)?;
        Ok(None)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let factor = draws.numbers().uniform(self.scale_range[0], self.scale_range[1]);
        let [across, down] = self.target_size.map(f64::from);
        let by = (across / f64::from(size.w)).min(down / f64::from(size.h)) * factor;
        Cut::Resize { to: scaled(size, by), interpolation: self.interpolation }
    }

    fn become_labels(&mut self) {
        self.interpolation = Interpolation::Nearest;
    }
}

/// Resizes the short side to a drawn length, and less where the long side would be too long, as torchvision's
/// `RandomShortestSize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomShortestSize {
    /// Lengths of the short side, each as probable.
    pub min_size: Vec<u32>,
    /// Upper bound of the long side.
    #[serde(default)]
    pub max_size: Option<u32>,
    /// Filter; for labels always the nearest pixel.
    #[serde(default = "Interpolation::bilinear")]
    pub interpolation: Interpolation,
}

/// Upper bound of the lengths of a list.
const LENGTHS_MAX: usize = 1 << 16;

impl Reframe for RandomShortestSize {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        if !(1..=LENGTHS_MAX).contains(&self.min_size.len()) {
            let message = format!("RandomShortestSize needs 1 to {LENGTHS_MAX} lengths in `min_size`");
            return Err(Error::config(message).with("min_size", self.min_size.len()));
        }
        self.min_size.iter().try_for_each(|side| check_sides("RandomShortestSize", "min_size", [*side; 2]))?;
        self.max_size.map_or(Ok(()), |side| check_sides("RandomShortestSize", "max_size", [side; 2]))?;
        Ok(None)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let place = draws.numbers().below(self.min_size.len() as u32) as usize;
        let (short, long) = (f64::from(size.w.min(size.h)), f64::from(size.w.max(size.h)));
        let by = self.min_size.get(place).map_or(1.0, |side| f64::from(*side) / short);
        let by = self.max_size.map_or(by, |most| by.min(f64::from(most) / long));
        Cut::Resize { to: scaled(size, by), interpolation: self.interpolation }
    }

    fn become_labels(&mut self) {
        self.interpolation = Interpolation::Nearest;
    }
}

fn scaled(size: Size, by: f64) -> Size {
    Size { w: side(f64::from(size.w) * by), h: side(f64::from(size.h) * by) }
}
