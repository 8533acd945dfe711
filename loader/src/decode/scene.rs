//! Parts of a scene that a picture shows. The pictures of a Joint show the same parts: the first one draws them, and
//! the rest are cut alike.

use super::framing::Cut;
use crate::error::{Error, Result};
use forebay_picture::geometry::{PixelWindow, Region, Size};

/// Sizes, boxes and windows of a picture that a second picture of the scene needs. It keeps its memory.
#[derive(Debug, Default)]
pub struct Scene {
    frames: Vec<DrawnFrame>,
    kept: Vec<KeptWindow>,
}

/// Picture before an operation that draws positions of its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DrawnFrame {
    size: Size,
    /// Box that `RandomResizedCrop` or an operation by the objects has drawn; `None` for operations with
    /// numbers that are pixels, and for no box.
    crop: Option<Region>,
}

/// Picture before an operation that keeps a window of it, in pixels that do not depend on draws.
#[derive(Clone, Copy, Debug)]
struct KeptWindow {
    size: Size,
    window: PixelWindow,
}

impl Scene {
    /// Empties the scene.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.kept.clear();
    }

    /// Becomes equal to `other`.
    pub fn copy(&mut self, other: &Self) {
        self.frames.clone_from(&other.frames);
        self.kept.clone_from(&other.kept);
    }

    /// Adds a box of a picture of `size`: the box that `first`, the scene of an earlier picture, has there, or else a
    /// drawn one.
    pub fn add_crop(&mut self, size: Size, first: Option<&Self>, draw: impl FnOnce() -> Region) -> Region {
        let crop = match self.same_frame(first) {
            Some(DrawnFrame { size: other, crop: Some(crop) }) if *other != size => same_part(*crop, *other, size),
            _ => draw(),
        };
        self.frames.push(DrawnFrame { size, crop: Some(crop) });
        crop
    }

    /// Adds an operation in pixels of a picture of `size`.
    ///
    /// # Errors
    /// `first`, the scene of an earlier picture, has a different size there, so that the same pixels are different
    /// parts of it.
    pub fn add_pixels(&mut self, size: Size, first: Option<&Self>) -> Result<()> {
        if let Some(other) = self.same_frame(first).map(|frame| frame.size).filter(|other| *other != size) {
            let message = "the pictures of a Joint have different sizes before an operation that counts pixels, such \
                           as RandomCrop or RandAugment: put a Resize to one (height, width) before it, in each of \
                           them";
            return Err(Error::decode(message).with("sizes", format!("{other} and {size}")));
        }
        self.frames.push(DrawnFrame { size, crop: None });
        Ok(())
    }

    /// Adds a part of a picture of `size` that was drawn by its objects: the one that `first`, the scene of an earlier
    /// picture, has there, or else `draw`'s.
    ///
    /// # Errors
    /// `first` has a different size there.
    pub fn add_part(&mut self, size: Size, first: Option<&Self>, draw: impl FnOnce() -> Cut) -> Result<Cut> {
        let frame = self.same_frame(first).copied();
        self.add_pixels(size, first)?;
        let part = match frame {
            Some(DrawnFrame { crop, .. }) => crop.map_or(Cut::Nothing, Cut::Objects),
            None => draw(),
        };
        if let (Cut::Objects(region), Some(last)) = (part, self.frames.last_mut()) {
            last.crop = Some(region);
        }
        Ok(part)
    }

    /// Adds a window that is kept of a picture of `size`.
    pub fn add_window(&mut self, size: Size, window: PixelWindow) {
        self.kept.push(KeptWindow { size, window });
    }

    /// Returns true if the draws of a picture are the same without `first`.
    pub fn is_drawn_without(&self, first: &Self) -> bool {
        self.frames.iter().map(|frame| frame.size).eq(first.frames.iter().map(|frame| frame.size))
    }

    /// Checks that the same windows of pictures of different sizes show the same parts.
    ///
    /// # Errors
    /// An operation has kept the same number of pixels as one of `first`, or cut off or added as many, of a different
    /// size.
    pub fn check_windows(&self, first: &Self) -> Result<()> {
        // Lists that differ cut different parts on purpose.
        let pairs = first.kept.iter().zip(&self.kept).filter(|_| first.kept.len() == self.kept.len());
        let Some((first, own)) = pairs.into_iter().find(|(first, own)| counts_alike(first, own)) else { return Ok(()) };
        let message = "the same CenterCrop or Pad of pictures of a Joint that have different sizes shows different \
                       parts: give each field the number of pixels for its size, or put a Resize to one (height, \
                       width) before it";
        Err(Error::decode(message).with("sizes", format!("{} and {}", first.size, own.size)))
    }

    /// Returns the entry of `first` that the next one of this scene has to match.
    fn same_frame<'a>(&self, first: Option<&'a Self>) -> Option<&'a DrawnFrame> {
        first?.frames.get(self.frames.len())
    }
}

/// Returns true if the same number of pixels was cut off or added, or the same number kept, of pictures of different
/// sizes.
fn counts_alike(one: &KeptWindow, other: &KeptWindow) -> bool {
    let border = |KeptWindow { size, window }: &KeptWindow| {
        let [w, h] =
            [(window.size.w, size.w), (window.size.h, size.h)].map(|(to, from)| i64::from(to) - i64::from(from));
        (window.x, window.y, w, h)
    };
    let changes = one.window.size != one.size || other.window.size != other.size;
    one.size != other.size && changes && (one.window.size == other.window.size || border(one) == border(other))
}

/// Returns the box in a picture of size `to` that shows the same part as `crop` in one of size `from`, rounded.
fn same_part(crop: Region, from: Size, to: Size) -> Region {
    let side = |start: u32, length: u32, from: u32, to: u32| {
        let scaled =
            |place: u32| ((u64::from(place) * u64::from(to) * 2 + u64::from(from)) / (u64::from(from) * 2)) as u32;
        let first = scaled(start).min(to - 1);
        (first, scaled(start + length).clamp(first + 1, to) - first)
    };
    let ((x, w), (y, h)) = (side(crop.x, crop.w, from.w, to.w), side(crop.y, crop.h, from.h, to.h));
    Region { x, y, w, h }
}
