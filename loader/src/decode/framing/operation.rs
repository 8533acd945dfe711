//! Interface of the operations: each draws one cut of a picture.

use crate::decode::box_format::Corners;
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::geometry::{PixelWindow, Region, Size};
use forebay_picture::{Border, Interpolation, PaddingMode};

/// Operation on the size and the frame of a picture.
pub trait Reframe {
    /// Checks the arguments, before any picture is decoded, and returns the size of the results if it is the same for
    /// all pictures. `size` is the one before the operation.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for an argument outside of its range.
    fn check(&self, size: Option<Size>) -> Result<Option<Size>>;

    /// Draws the numbers for one picture.
    fn draw(&self, draws: OpDraws, picture: Framed<'_>) -> Cut;

    /// Makes it an operation on labels, which are never blended.
    fn become_labels(&mut self) {}

    /// The colour of its borders, if it adds some.
    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        None
    }

    /// Returns true if it draws. Otherwise the result depends only on the picture's size.
    fn is_random(&self) -> bool {
        true
    }

    /// Returns true if its draws are numbers of pixels, so that the pictures of a Joint need one size before it.
    fn counts_pixels(&self) -> bool {
        false
    }

    /// Returns true if it adds borders that repeat the picture, which boxes cannot follow.
    fn repeats_picture(&self) -> bool {
        false
    }

    /// Returns true if it draws by the boxes of the picture.
    fn needs_boxes(&self) -> bool {
        false
    }
}

/// Picture before an operation.
#[derive(Clone, Copy, Debug)]
pub struct Framed<'a> {
    /// Its size.
    pub size: Size,
    /// Boxes around its objects, for operations that need them: left, top, right and bottom.
    pub boxes: &'a [Corners],
}

/// Effect of an operation on one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// None.
    Nothing,
    /// A resize.
    Resize {
        /// Size of the result.
        to: Size,
        /// The filter.
        interpolation: Interpolation,
    },
    /// A part, which may reach beyond the picture.
    Window {
        /// The part.
        window: PixelWindow,
        /// Pixels outside of the picture.
        border: Border,
    },
    /// A part with the objects with their middle inside. Boxes of the rest have no area.
    Objects(Region),
}

/// Returns a border of one colour.
pub(super) fn border(fill: [u8; 3]) -> Border {
    Border { mode: PaddingMode::Constant, fill }
}

/// Upper bound of a factor of sides, far above the largest picture of one pixel.
pub(super) const FACTOR_MAX: f64 = 1e6;

/// Returns a side of at least one pixel, without its fraction. A side above the bound of a picture is found later.
pub(super) fn side(length: f64) -> u32 {
    length.clamp(1.0, f64::from(u32::MAX)) as u32
}

/// Checks that both sides of an argument of an operation have a pixel.
pub(super) fn check_sides(operation: &str, name: &'static str, sides: [u32; 2]) -> Result<()> {
    if sides.contains(&0) {
        let message = format!("{operation} needs `{name}` of at least 1 x 1 pixel");
        return Err(Error::config(message).with(name, format!("{sides:?}")));
    }
    Ok(())
}
