//! Pictures in memory, and copies of parts of them.

use crate::decode::field::PixelLayout;
use forebay_picture::geometry::Size;

/// Form of the pixels of an output.
#[derive(Clone, Debug)]
pub(in crate::decode) struct PixelForm {
    /// Order of the dimensions; `None` for labels.
    pub layout: Option<PixelLayout>,
    pub channels: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Elements of a pixel without a picture, one for each channel; empty if there are none.
    pub fill: Vec<u8>,
}

/// Planes of pixels of several bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub count: usize,
    /// Bytes of a pixel in a plane.
    pub pixel: usize,
}

/// Part of a picture at its place in a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Column and row of the picture's origin in the second one, which may be outside of it.
    pub at: [i64; 2],
    /// Part of the second one that is written: left, top, right and bottom, the last two exclusive.
    pub bounds: [i64; 4],
}

impl PixelForm {
    pub(super) fn planes(&self) -> Planes {
        match self.layout {
            Some(PixelLayout::Nhwc) => Planes { count: 1, pixel: self.channels * self.element },
            Some(PixelLayout::Nchw) | None => Planes { count: self.channels, pixel: self.element },
        }
    }

    /// Returns the shape of a picture of `size`.
    pub(in crate::decode) fn shape(&self, size: Size) -> Vec<usize> {
        let (w, h) = (size.w as usize, size.h as usize);
        match self.layout {
            Some(PixelLayout::Nchw) => vec![self.channels, h, w],
            Some(PixelLayout::Nhwc) => vec![h, w, self.channels],
            None => vec![h, w],
        }
    }

    /// Returns the size of a picture of this shape.
    pub(in crate::decode) fn size_of(&self, shape: &[usize]) -> Option<Size> {
        let [h, w] = match (self.layout, shape) {
            (Some(PixelLayout::Nchw), &[_, h, w]) | (Some(PixelLayout::Nhwc), &[h, w, _]) => [h, w],
            (None, &[h, w]) => [h, w],
            _ => return None,
        };
        Some(Size { w: u32::try_from(w).ok()?, h: u32::try_from(h).ok()? })
    }

    /// Fills a picture with the pixel of places without one.
    pub(super) fn clear(&self, out: &mut [u8]) {
        let planes = self.planes();
        let bytes = out.len() / planes.count.max(1);
        let colours = self.fill.chunks_exact(planes.pixel.max(1));
        for (plane, colour) in out.chunks_exact_mut(bytes.max(1)).zip(colours) {
            plane.chunks_exact_mut(planes.pixel).for_each(|pixel| pixel.copy_from_slice(colour));
        }
    }
}

impl Planes {
    /// Copies a picture of the size `from_size` to its place in `to`, a picture of the size `to_size`.
    pub(super) fn copy(self, from: (&[u8], Size), to: (&mut [u8], Size), Placement { at, bounds }: Placement) {
        let ((from, from_size), (to, to_size)) = (from, to);
        let [left, right] = [bounds[0].max(at[0]), bounds[2].min(at[0] + i64::from(from_size.w))];
        let [top, bottom] = [bounds[1].max(at[1]), bounds[3].min(at[1] + i64::from(from_size.h))];
        if left >= right || top >= bottom {
            return;
        }
        let bytes = (right - left) as usize * self.pixel;
        let start = |plane: usize, size: Size, x: i64, y: i64| {
            ((plane * size.h as usize + y as usize) * size.w as usize + x as usize) * self.pixel
        };
        for plane in 0..self.count {
            for y in top..bottom {
                let source = &from[start(plane, from_size, left - at[0], y - at[1])..][..bytes];
                to[start(plane, to_size, left, y)..][..bytes].copy_from_slice(source);
            }
        }
    }

    /// Copies the pixels of `from` that are marked to `to`, a picture of the same size.
    pub(super) fn copy_marked(self, from: &[u8], to: &mut [u8], marks: &[u8]) {
        let bytes = marks.len() * self.pixel;
        for (from, to) in from.chunks_exact(bytes.max(1)).zip(to.chunks_exact_mut(bytes.max(1))) {
            let pixels = from.chunks_exact(self.pixel).zip(to.chunks_exact_mut(self.pixel)).zip(marks);
            pixels.filter(|(_, mark)| **mark != 0).for_each(|((from, to), _)| to.copy_from_slice(from));
        }
    }
}
