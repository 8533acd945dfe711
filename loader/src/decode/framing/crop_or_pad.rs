//! Parts of a fixed size, with borders where the picture is smaller.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, Framed, Reframe, border, check_sides};
use crate::decode::draw::OpDraws;
use crate::error::Result;
use forebay_picture::geometry::{PixelWindow, Size};
use forebay_picture::{Border, PaddingMode};

/// Cuts at a random position, and adds borders right and below where the picture is smaller, as the `FixedSizeCrop` of
/// torchvision's reference scripts: both positions have the same fraction of the part that is cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedSizeCrop {
    /// Height and width of the result.
    pub size: [u32; 2],
    /// Colour.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Reframe for FixedSizeCrop {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        check_fixed("FixedSizeCrop", self.size)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let to = of_pair(self.size);
        let share = draws.numbers().unit();
        let start = |have: u32, want: u32| (f64::from(have.saturating_sub(want)) * share) as i64;
        let window = PixelWindow { x: start(size.w, to.w), y: start(size.h, to.h), size: to };
        Cut::Window { window, border: border(self.fill) }
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        Some(&mut self.fill)
    }

    fn counts_pixels(&self) -> bool {
        true
    }
}

/// Adds borders right and below where the picture is smaller, as the `PadIfSmaller` of torchvision's reference scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PadIfSmaller {
    /// Least height and width of the result.
    pub size: [u32; 2],
    /// Colour.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Position of the picture in the result.
    #[serde(default)]
    pub position: PadPosition,
}

/// Position of a picture that gets borders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadPosition {
    /// Borders right and below.
    #[default]
    TopLeft,
    /// Borders around it, the odd pixel right and below, as the `PadIfNeeded` of albumentations.
    Center,
}

impl PadIfSmaller {
    fn output(&self, size: Size) -> Size {
        let least = of_pair(self.size);
        Size { w: size.w.max(least.w), h: size.h.max(least.h) }
    }
}

impl Reframe for PadIfSmaller {
    fn check(&self, size: Option<Size>) -> Result<Option<Size>> {
        check_sides("PadIfSmaller", "size", self.size)?;
        Ok(size.map(|size| self.output(size)))
    }

    fn draw(&self, _draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let to = self.output(size);
        let window = match self.position {
            PadPosition::TopLeft => PixelWindow { x: 0, y: 0, size: to },
            PadPosition::Center => center(size, to),
        };
        if to == size { Cut::Nothing } else { Cut::Window { window, border: border(self.fill) } }
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        Some(&mut self.fill)
    }

    fn is_random(&self) -> bool {
        false
    }
}

/// Cuts the middle, with borders around a smaller picture, as timm's `CenterCropOrPad`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CenterCropOrPad {
    /// Height and width of the result.
    pub size: [u32; 2],
    /// Colour.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Kind of the borders; `fill` is for constant ones.
    #[serde(default)]
    pub padding_mode: PaddingMode,
}

impl Reframe for CenterCropOrPad {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        check_fixed("CenterCropOrPad", self.size)
    }

    fn draw(&self, _draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        Cut::Window {
            window: center(size, of_pair(self.size)),
            border: Border { mode: self.padding_mode, fill: self.fill },
        }
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        Some(&mut self.fill)
    }

    fn is_random(&self) -> bool {
        false
    }

    fn repeats_picture(&self) -> bool {
        self.padding_mode != PaddingMode::Constant
    }
}

/// Cuts at a random position, with borders of a random width around a smaller picture, as timm's `RandomCropOrPad`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomCropOrPad {
    /// Height and width of the result.
    pub size: [u32; 2],
    /// Colour.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Kind of the borders; `fill` is for constant ones.
    #[serde(default)]
    pub padding_mode: PaddingMode,
}

impl Reframe for RandomCropOrPad {
    fn check(&self, _size: Option<Size>) -> Result<Option<Size>> {
        check_fixed("RandomCropOrPad", self.size)
    }

    fn draw(&self, draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let (mut numbers, to) = (draws.numbers(), of_pair(self.size));
        let mut start = |have: u32, want: u32| {
            let place = i64::from(numbers.below(have.abs_diff(want).saturating_add(1)));
            if have < want { -place } else { place }
        };
        let y = start(size.h, to.h);
        let x = start(size.w, to.w);
        Cut::Window {
            window: PixelWindow { x, y, size: to },
            border: Border { mode: self.padding_mode, fill: self.fill },
        }
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        Some(&mut self.fill)
    }

    fn counts_pixels(&self) -> bool {
        true
    }

    fn repeats_picture(&self) -> bool {
        self.padding_mode != PaddingMode::Constant
    }
}

fn of_pair([h, w]: [u32; 2]) -> Size {
    Size { w, h }
}

fn check_fixed(operation: &str, size: [u32; 2]) -> Result<Option<Size>> {
    check_sides(operation, "size", size)?;
    Ok(Some(of_pair(size)))
}

/// Returns the window of the middle: a smaller picture gets borders, the odd pixel right and below.
pub(in crate::decode) fn center(size: Size, to: Size) -> PixelWindow {
    let corner = |have: u32, want: u32| {
        if want > have {
            -i64::from((want - have) / 2)
        } else {
            (f64::from(have - want) / 2.0).round_ties_even() as i64
        }
    };
    PixelWindow { x: corner(size.w, to.w), y: corner(size.h, to.h), size: to }
}
