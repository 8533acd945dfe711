//! Borders of a drawn size.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, FACTOR_MAX, Framed, Reframe, border, side};
use crate::decode::augment::{check_range, check_within};
use crate::decode::draw::OpDraws;
use crate::error::Result;
use forebay_picture::geometry::{PixelWindow, Size};

/// Puts a picture at a random position of a larger one of one colour, as torchvision's `RandomZoomOut`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomZoomOut {
    /// Colour.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Smallest and largest side of the result divided by the picture's.
    #[serde(default = "sides")]
    pub side_range: [f64; 2],
    /// The probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn sides() -> [f64; 2] {
    [1.0, 4.0]
}

fn half() -> f64 {
    0.5
}

impl Reframe for RandomZoomOut {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        check_within("RandomZoomOut", "p", self.p, 0.0, 1.0)?;
        check_range("RandomZoomOut", "side_range", self.side_range, 1.0, FACTOR_MAX)?;
        Ok(None)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let mut numbers = draws.numbers();
        if numbers.unit() >= self.p {
            return Cut::Nothing;
        }
        let by = numbers.uniform(self.side_range[0], self.side_range[1]);
        let [w, h] = [size.w, size.h].map(|length| side(f64::from(length) * by));
        let mut before = |lack: u32| (f64::from(lack) * numbers.unit()) as i64;
        let (left, top) = (before(w - size.w), before(h - size.h));
        Cut::Window { window: PixelWindow { x: -left, y: -top, size: Size { w, h } }, border: border(self.fill) }
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        Some(&mut self.fill)
    }

    fn counts_pixels(&self) -> bool {
        true
    }
}
