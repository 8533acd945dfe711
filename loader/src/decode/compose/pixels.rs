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
}

impl Planes {
    /// Copies a picture to its place in `to`, a picture of the size `to_size`, and fills the rest of its part with the
    /// pixel `fill`, an element for each channel; without one the rest stays as it is.
    pub(super) fn place(
        self,
        from: Option<(&[u8], Size)>,
        (to, to_size): (&mut [u8], Size),
        Placement { at, bounds: [left, top, right, bottom] }: Placement,
        fill: &[u8],
    ) {
        let (from, from_size) = from.unwrap_or((&[], Size { w: 0, h: 0 }));
        // The columns and rows that the picture covers; none of them if it is outside.
        let [w, h] = [from_size.w, from_size.h].map(i64::from);
        let [first, last] = [at[0].clamp(left, right), (at[0] + w).clamp(left, right)];
        let [above, below] = [at[1].clamp(top, bottom), (at[1] + h).clamp(top, bottom)];
        let start = |plane: usize, size: Size, x: i64, y: i64| {
            ((plane * size.h as usize + y as usize) * size.w as usize + x as usize) * self.pixel
        };
        for plane in 0..self.count {
            let colour = fill.get(plane * self.pixel..).and_then(|rest| rest.get(..self.pixel)).unwrap_or(&[]);
            for y in top..bottom {
                let row = &mut to[start(plane, to_size, left, y)..][..(right - left) as usize * self.pixel];
                if first >= last || !(above..below).contains(&y) {
                    repeat(colour, row);
                    continue;
                }
                let (before, rest) = row.split_at_mut((first - left) as usize * self.pixel);
                let (own, after) = rest.split_at_mut((last - first) as usize * self.pixel);
                repeat(colour, before);
                own.copy_from_slice(&from[start(plane, from_size, first - at[0], y - at[1])..][..own.len()]);
                repeat(colour, after);
            }
        }
    }

    /// Copies the pixels of `from` that are marked to `to`, a picture of the same size.
    pub(super) fn copy_marked(self, from: &[u8], to: &mut [u8], marks: &[u8]) {
        let mut end = 0;
        for run in marks.chunk_by(|mark, next| (*mark == 0) == (*next == 0)) {
            let start = end;
            end += run.len();
            if run.first().is_none_or(|mark| *mark == 0) {
                continue;
            }
            for plane in 0..self.count {
                let [start, end] = [start, end].map(|place| (plane * marks.len() + place) * self.pixel);
                to[start..end].copy_from_slice(&from[start..end]);
            }
        }
    }
}

/// Fills a row with a pixel, if there is one: the part that is filled doubles with each copy.
fn repeat(pixel: &[u8], row: &mut [u8]) {
    let mut filled = pixel.len().min(row.len());
    row[..filled].copy_from_slice(&pixel[..filled]);
    while filled > 0 && filled < row.len() {
        let more = filled.min(row.len() - filled);
        row.copy_within(..more, filled);
        filled += more;
    }
}
