//! Masks of objects, drawn from polygons and run lengths with the pixels of pycocotools.
//!
//! ```text
//! polygon --polygon: edges--> pixels where the inside starts or ends --running parity--> pixels inside
//! counts, or their text --runs--> lengths -------------------------------------------------^
//! ```
//!
//! The pixels are in the order of pycocotools' run lengths: column by column. A pixel is inside of a polygon if the
//! number of the polygon's starts and ends up to it is odd. A byte for each pixel of the picture is therefore all the
//! memory that a polygon needs, however long its edges are. Several polygons of one object are united.

mod polygon;
mod runs;

use crate::geometry::Size;
use crate::kept::{fit, release};
use forebay_core::error::{Error, Result};
use polygon::{corner, crossings};
pub use runs::unpack;
use std::ops::Range;

/// Mask of one object. It keeps its memory from object to object.
#[derive(Debug, Default)]
pub struct ObjectMask {
    width: usize,
    height: usize,
    /// A byte for each pixel, column by column: 1 inside of the object. Zero outside of `used`.
    inside: Vec<u8>,
    /// Pixels that have a byte above zero, and perhaps more.
    used: Range<usize>,
    /// Parity of a polygon's starts and ends at each pixel, and after the last one. Zero between polygons.
    parity: Vec<u8>,
    corners: Vec<[i32; 2]>,
}

impl ObjectMask {
    /// Starts an empty mask of a picture of `size`.
    pub fn start(&mut self, size: Size) {
        self.inside[self.used.clone()].fill(0);
        (self.width, self.height, self.used) = (size.w as usize, size.h as usize, 0..0);
        let pixels = self.width * self.height;
        fit(&mut self.inside, pixels, 0);
        fit(&mut self.parity, pixels + 1, 0);
    }

    /// Ends the mask, and releases the memory of a far larger picture.
    pub fn release(&mut self) {
        self.inside[self.used.clone()].fill(0);
        self.used = 0..0;
        release(&mut self.inside);
        release(&mut self.parity);
        release(&mut self.corners);
    }

    /// Size of the picture: height and width.
    pub fn shape(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Adds the inside of a polygon, given as column and row of each corner in turn. A last number without a row is
    /// left out, and a polygon of fewer than three corners has no pixels, as in pycocotools.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Decode`] for a number that is not finite, or beyond 200 million pixels, where pycocotools
    /// has no defined result.
    pub fn add_polygon(&mut self, numbers: &[f64]) -> Result<()> {
        let Self { width, height, corners, parity, .. } = self;
        corners.clear();
        for pair in numbers.as_chunks::<2>().0 {
            corners.push(corner(*pair)?);
        }
        let (mut first, mut end) = (usize::MAX, 0);
        for (number, from) in corners.iter().enumerate() {
            let to = corners.get(number + 1).unwrap_or(&corners[0]);
            crossings(*from, *to, [*width, *height], |column, row| {
                let place = column * *height + row;
                parity[place] ^= 1;
                (first, end) = (first.min(place), end.max(place + 1));
            });
        }
        if first < end {
            self.fill_from_parity(first, end);
        }
        Ok(())
    }

    /// Adds the pixels inside by the starts and ends from pixel `first` to `end`, and clears these.
    fn fill_from_parity(&mut self, first: usize, end: usize) {
        let pixels = self.width * self.height;
        let mut is_inside = 0;
        for (parity, inside) in self.parity[first..end].iter_mut().zip(&mut self.inside[first..pixels]) {
            is_inside ^= std::mem::take(parity);
            *inside |= is_inside;
        }
        // An end after the last pixel has no pixel.
        self.parity[end - 1] = 0;
        let mut end = end.min(pixels);
        if is_inside != 0 {
            // An edge of millions of pixels has lost its end by a rounding, in pycocotools as well.
            self.inside[end..pixels].fill(1);
            end = pixels;
        }
        self.use_pixels(first..end);
    }

    /// Adds the pixels of run lengths, column by column: of pixels outside of the object and inside in turn.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Decode`] for runs of more or fewer pixels than the picture has. pycocotools refuses more,
    /// and leaves the pixels after too few undefined.
    pub fn add_runs(&mut self, runs: impl IntoIterator<Item = u32>) -> Result<()> {
        let (pixels, mut start) = (self.width * self.height, 0);
        let size = format!("{:?}", self.shape());
        let failed = |message: &str| Err(Error::decode(message.to_owned()).with("pixels", pixels).with("size", &size));
        for (number, run) in runs.into_iter().enumerate() {
            let end = start + run as usize;
            if end > pixels {
                return failed("the run lengths of a mask have more pixels than its size");
            }
            if number % 2 == 1 && start < end {
                self.inside[start..end].fill(1);
                self.use_pixels(start..end);
            }
            start = end;
        }
        if start < pixels { failed("the run lengths of a mask have fewer pixels than its size") } else { Ok(()) }
    }

    fn use_pixels(&mut self, pixels: Range<usize>) {
        let Range { start, end } = self.used;
        self.used = if start == end { pixels } else { start.min(pixels.start)..end.max(pixels.end) };
    }

    /// Calls `pixel` with the column and row of each pixel inside of the object.
    pub fn for_each_pixel(&self, mut pixel: impl FnMut(usize, usize)) {
        if self.used.is_empty() {
            return;
        }
        let (first, end) = (self.used.start / self.height, self.used.end.div_ceil(self.height));
        for column in first..end {
            let rows = &self.inside[column * self.height..][..self.height];
            rows.iter().enumerate().filter(|(_, inside)| **inside != 0).for_each(|(row, _)| pixel(column, row));
        }
    }

    /// The pixels, column by column: 1 inside of the object, 0 outside.
    pub fn columns(&self) -> &[u8] {
        &self.inside[..self.width * self.height]
    }
}

#[cfg(test)]
mod tests;
