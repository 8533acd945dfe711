//! A crop by the boxes of a picture.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, Framed, Reframe};
use crate::decode::augment::check_range;
use crate::decode::box_format::Corners;
use crate::decode::draw::{Draws, OpDraws};
use crate::error::{Error, Result};
use forebay_picture::geometry::{Region, Size};

/// Cuts a random part that overlaps with an object, as torchvision's `RandomIoUCrop`, or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomIoUCrop {
    /// Smallest side of the part divided by the picture's.
    #[serde(default = "scale_min")]
    pub min_scale: f64,
    /// Largest side of the part divided by the picture's.
    #[serde(default = "scale_max")]
    pub max_scale: f64,
    /// Smallest width divided by the height.
    #[serde(default = "ratio_min")]
    pub min_aspect_ratio: f64,
    /// Largest width divided by the height.
    #[serde(default = "ratio_max")]
    pub max_aspect_ratio: f64,
    /// Overlaps; one is drawn: the least that a box has with the part, as a share of their union. 1 or more:
    /// the picture stays as it is.
    #[serde(default = "options")]
    pub sampler_options: Vec<f64>,
    /// Parts that are drawn for an overlap before a further one is.
    #[serde(default = "trials")]
    pub trials: u32,
}

fn scale_min() -> f64 {
    0.3
}

fn scale_max() -> f64 {
    1.0
}

fn ratio_min() -> f64 {
    0.5
}

fn ratio_max() -> f64 {
    2.0
}

fn options() -> Vec<f64> {
    vec![0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
}

fn trials() -> u32 {
    40
}

/// Parts that are drawn at most; then the picture stays as it is. torchvision has no bound: with its
/// arguments it draws more for one picture in 1,000 of those that no part suits, and keeps them whole as well.
const TRIALS_MAX: u32 = 1_800;

/// Upper bound of the overlaps of a list.
const OPTIONS_MAX: usize = 1 << 10;

impl Reframe for RandomIoUCrop {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        const NAME: &str = "RandomIoUCrop";
        check_range(NAME, "min_scale, max_scale", [self.min_scale, self.max_scale], 0.0, 1.0)?;
        let ratios = [self.min_aspect_ratio, self.max_aspect_ratio];
        check_range(NAME, "min_aspect_ratio, max_aspect_ratio", ratios, 0.0, 1e6)?;
        if !(1..=OPTIONS_MAX).contains(&self.sampler_options.len())
            || self.sampler_options.iter().any(|least| !(*least >= 0.0 && least.is_finite()))
        {
            let message = format!("RandomIoUCrop needs 1 to {OPTIONS_MAX} overlaps of at least 0 in `sampler_options`");
            return Err(Error::config(message).with("sampler_options", format!("{:?}", self.sampler_options)));
        }
        if !(1..=TRIALS_MAX).contains(&self.trials) {
            let message = format!("RandomIoUCrop needs `trials` from 1 to {TRIALS_MAX}");
            return Err(Error::config(message).with("trials", self.trials));
        }
        Ok(None)
    }

    fn draw(&self, draws: OpDraws, picture: Framed<'_>) -> Cut {
        let mut numbers = draws.numbers();
        for _ in 0..TRIALS_MAX.div_ceil(self.trials) {
            let place = numbers.below(self.sampler_options.len() as u32) as usize;
            let Some(overlap) = self.sampler_options.get(place).filter(|least| **least < 1.0) else { break };
            let found = (0..self.trials).find_map(|_| self.draw_part(&mut numbers, picture, *overlap));
            if let Some(part) = found {
                return Cut::Objects(part);
            }
        }
        Cut::Nothing
    }

    fn counts_pixels(&self) -> bool {
        true
    }

    fn needs_boxes(&self) -> bool {
        true
    }
}

impl RandomIoUCrop {
    /// Draws a part; `None` if it does not suit the boxes.
    fn draw_part(&self, numbers: &mut Draws, Framed { size, boxes }: Framed<'_>, overlap: f64) -> Option<Region> {
        let mut scaled = |side: u32| (f64::from(side) * numbers.uniform(self.min_scale, self.max_scale)) as u32;
        let (w, h) = (scaled(size.w), scaled(size.h));
        let ratio = f64::from(w) / f64::from(h);
        if w == 0 || h == 0 || !(self.min_aspect_ratio..=self.max_aspect_ratio).contains(&ratio) {
            return None;
        }
        let mut start = |rest: u32| (f64::from(rest) * numbers.unit()) as u32;
        let part = Region { x: start(size.w - w), y: start(size.h - h), w, h };
        let around = corners(part);
        let mut inside = boxes.iter().filter(|one| is_middle_inside(one, &around)).peekable();
        inside.peek()?;
        // As torchvision's largest number: one that is none is too small.
        inside.any(|one| overlap_of(one, &around) >= overlap).then_some(part)
    }
}

fn corners(Region { x, y, w, h }: Region) -> Corners {
    [x, y, x + w, y + h].map(f64::from)
}

/// Returns true if the middle of a box is inside of a second one, not on its border.
pub(in crate::decode) fn is_middle_inside(&[l, t, r, b]: &Corners, &[left, top, right, bottom]: &Corners) -> bool {
    let (x, y) = (0.5 * (l + r), 0.5 * (t + b));
    left < x && x < right && top < y && y < bottom
}

/// Returns the share of their union that two boxes have in common.
fn overlap_of(a: &Corners, b: &Corners) -> f64 {
    let area = |[left, top, right, bottom]: &Corners| (right - left) * (bottom - top);
    let across = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let down = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let common = across * down;
    common / (area(a) + area(b) - common)
}
