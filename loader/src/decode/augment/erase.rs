//! Random erasing: a box of the finished row, after `Normalize`.

use serde::{Deserialize, Serialize};

use super::operation::{check_range, check_within};
use crate::decode::draw::{Draws, OpDraws};
use crate::error::{Error, Result};
use forebay_picture::geometry::{Region, Size};

/// Replaces a random box of the row by a value, or by noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomErasing {
    /// The probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Smallest and largest fraction of the picture's area.
    #[serde(default = "shares")]
    pub scale: [f64; 2],
    /// Smallest and largest height / width of the box.
    #[serde(default = "ratios")]
    pub ratio: [f64; 2],
    /// Value per channel, in the units of the row; `None` is normally distributed noise.
    #[serde(default = "zeros")]
    pub value: Option<[f32; 3]>,
    /// True if the noise is one number per channel of a box.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_noise_of_box: bool,
    /// Largest number of boxes, which is drawn. Each has that part of the area.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Smallest number of boxes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub min_count: u32,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Upper bound of the boxes.
const COUNT_MAX: u32 = 1 << 10;

fn half() -> f64 {
    0.5
}

fn shares() -> [f64; 2] {
    [0.02, 0.33]
}

fn ratios() -> [f64; 2] {
    [0.3, 3.3]
}

fn zeros() -> Option<[f32; 3]> {
    Some([0.0; 3])
}

/// Box of one row to be erased, and the noise for it.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// The box.
    pub region: Region,
    /// Value per channel; `None` is noise.
    pub value: Option<[f32; 3]>,
    noise: Draws,
}

impl RandomErasing {
    /// Number of its kind, like the numbers in the table of operations.
    const NUMBER: u32 = 100;

    /// Checks the arguments. `level_max` is the largest level of rows that hold levels.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for an argument outside of its range, and for noise in grey levels.
    pub(in crate::decode) fn check(&self, level_max: Option<u16>) -> Result<()> {
        check_within("RandomErasing", "p", self.p, 0.0, 1.0)?;
        check_range("RandomErasing", "scale", self.scale, 0.0, 1.0)?;
        check_range("RandomErasing", "ratio", self.ratio, 1e-6, 1e6)?;
        if !(1..=COUNT_MAX).contains(&self.count) {
            let message = format!("RandomErasing needs `count` from 1 to {COUNT_MAX}");
            return Err(Error::config(message).with("count", self.count));
        }
        if !(1..=self.count).contains(&self.min_count) {
            let message = format!("RandomErasing needs `min_count` from 1 to its `count`, {}", self.count);
            return Err(Error::config(message).with("min_count", self.min_count));
        }
        let is_suitable = |value: &f32| match level_max {
            Some(max) => (0.0..=f32::from(max)).contains(value) && value.fract() == 0.0,
            None => value.is_finite(),
        };
        match self.value {
            Some(value) if value.iter().all(is_suitable) => Ok(()),
            Some(value) => {
                let message = match level_max {
                    Some(max) => format!("RandomErasing needs a `value` that is a level from 0 to {max}"),
                    None => "RandomErasing needs a finite `value`".to_owned(),
                };
                Err(Error::config(message).with("value", format!("{value:?}")))
            }
            None if level_max.is_none() => Ok(()),
            None => Err(Error::config(
                "the noise of RandomErasing has no grey levels: add Normalize, pass a float dtype, or pass a `value`",
            )),
        }
    }

    /// Draws the boxes of the `occurrence`-th erasing of a list.
    pub(in crate::decode) fn draw(self, draws: impl Fn(u32) -> OpDraws, size: Size) -> impl Iterator<Item = Erasure> {
        let draws = draws(Self::NUMBER);
        let mut numbers = draws.numbers();
        let count = match self.count.saturating_sub(self.min_count) {
            _ if numbers.unit() >= self.p => 0,
            0 => self.count,
            more => self.min_count + numbers.below(more + 1),
        };
        (0..count).filter_map(move |place| self.draw_box(&mut numbers, count, size, draws.part(place).numbers()))
    }

    /// Draws one of `count` boxes, as torchvision does: an area uniform in `scale`, a ratio log-uniform in `ratio`, ten
    /// tries, else nothing.
    fn draw_box(&self, numbers: &mut Draws, count: u32, size: Size, mut noise: Draws) -> Option<Erasure> {
        let area = size.pixels() as f64 / f64::from(count);
        for _ in 0..10 {
            let erased = area * numbers.uniform(self.scale[0], self.scale[1]);
            let ratio = numbers.uniform(self.ratio[0].ln(), self.ratio[1].ln()).exp();
            let h = (erased * ratio).sqrt().round_ties_even();
            let w = (erased / ratio).sqrt().round_ties_even();
            if h < f64::from(size.h) && w < f64::from(size.w) {
                let (h, w) = (h as u32, w as u32);
                let y = numbers.below(size.h - h + 1);
                let x = numbers.below(size.w - w + 1);
                let mut value = self.value;
                if self.is_noise_of_box {
                    value = Some([(); 3].map(|()| noise.normal() as f32));
                }
                return Some(Erasure { region: Region { x, y, w, h }, value, noise });
            }
        }
        None
    }
}

impl Erasure {
    /// Returns the values of the box, channel by channel and row by row.
    pub(in crate::decode) fn values(self) -> impl FnMut(usize) -> f32 {
        let Self { value, noise, .. } = self;
        let mut noise = noise.into_normals();
        move |channel| match value {
            // A fourth channel has the value of the first three.
            Some(value) => value[channel.min(2)],
            None => noise(),
        }
    }
}
