//! Sizes, boxes, and steps from picture to picture.
//!
//! A [`Stage`] is one such step: *crop* an integer box, *resize* it, keep a *window* of the result, and mirror it if
//! needed. It limits the work: pixels outside the box are not decoded, and pixels outside the window are not resized.

use super::border::Border;
use super::interpolation::Interpolation;
pub use super::size::{PIXELS_MAX, PixelWindow, Region, Size};

/// Reduced size at which a JPEG is decoded: its blocks of 8 x 8 pixels become blocks of 8, 4, 2 or 1 in each direction.
/// A pixel is the mean of the stored pixels that it replaces; subsampled colours are reduced by less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As large as stored.
    #[default]
    Full = 1,
    /// Half as wide and high.
    Half = 2,
    /// A quarter.
    Quarter = 4,
    /// An eighth.
    Eighth = 8,
}

impl Scale {
    /// Returns the smallest scale at which `stage` enlarges neither side. The nearest pixel must be one of the
    /// picture's.
    pub fn of(stage: &Stage) -> Self {
        let Stage { crop, resized, interpolation, .. } = *stage;
        if interpolation == Interpolation::Nearest {
            return Self::Full;
        }
        let fits = |scale: &Self| {
            let by = u64::from(scale.divisor());
            u64::from(resized.w) * by <= u64::from(crop.w) && u64::from(resized.h) * by <= u64::from(crop.h)
        };
        [Self::Eighth, Self::Quarter, Self::Half].into_iter().find(fits).unwrap_or_default()
    }

    /// Stored pixels per decoded pixel, in each direction.
    pub fn divisor(self) -> u32 {
        self as u32
    }

    /// Size that a picture of `size` is decoded to.
    pub fn size(self, size: Size) -> Size {
        Size { w: size.w.div_ceil(self.divisor()), h: size.h.div_ceil(self.divisor()) }
    }
}

/// Positions of the pixels of a picture that was decoded at a reduced size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Full-size pixels per decoded pixel, in each direction. A stage's coordinates are in full-size pixels.
    pub by: u32,
    /// Full-size pixels of the first column that are left of the picture. The last decoded column may extend beyond the
    /// picture, and it becomes the first if the picture is mirrored.
    pub left: u32,
    /// Full-size pixels of the first row that are above the picture.
    pub above: u32,
}

impl Grid {
    /// A picture decoded at its full size.
    pub const FULL: Self = Self { by: 1, left: 0, above: 0 };
}

/// One step from picture to picture: crop, resize, keep a window, mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Box that is cut out of the source first.
    pub crop: Region,
    /// Size that the box is resized to; its own size if there is no resize.
    pub resized: Size,
    /// Filter of the resize.
    pub interpolation: Interpolation,
    /// Part of the resized picture that is kept, in unmirrored coordinates.
    pub window: PixelWindow,
    /// Pixels of the window that are outside of the resized picture.
    pub border: Border,
    /// True if the window is mirrored left to right.
    pub flip: bool,
}

impl Stage {
    /// Returns a stage that changes nothing.
    pub fn identity(size: Size) -> Self {
        Self {
            crop: Region::all(size),
            resized: size,
            interpolation: Interpolation::Bilinear,
            window: PixelWindow { x: 0, y: 0, size },
            border: Border::BLACK,
            flip: false,
        }
    }

    /// Size of the result.
    #[inline]
    pub fn output(&self) -> Size {
        self.window.size
    }

    /// Returns true if devices, which have one filter and one colour of borders, have those that it needs.
    pub fn is_device_decodable(&self) -> bool {
        self.interpolation == Interpolation::Bilinear
            && (self.border == Border::BLACK || self.window.is_inside(self.resized))
    }

    /// Returns true if the stage changes the size of its box.
    #[inline]
    pub fn is_resized(&self) -> bool {
        self.resized != self.crop.size()
    }
}
