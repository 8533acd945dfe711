//! From samples to pixels: upsampling and colour conversion, one output row at a time.

use super::frame::{Colours, Component, Frame, Upsampling};
use super::kernel::{Kernels, MARGIN};
use super::plane::Plane;
use super::stages::JpegStage;
use crate::geometry::Region;
use crate::kept::fit;
use crate::pixels::RowSink;

/// Writer of the pixels of a region, from top to bottom.
pub(super) struct PixelWriter<'a> {
    pub kernels: Kernels,
    /// Nothing is written before [`JpegStage::Pixels`].
    pub last_stage: JpegStage,
    pub frame: &'a Frame,
    pub region: Region,
    pub out: Output<'a>,
    /// Rows written.
    pub done: u32,
}

/// Memory or receiver of pixels.
pub(super) enum Output<'a> {
    /// The region's pixels, three bytes each.
    Pixels(&'a mut [u8]),
    Rows(&'a mut dyn RowSink),
}

impl PixelWriter<'_> {
    /// Writes the rows above `end`, a row number of the picture.
    pub(super) fn write_up_to(&mut self, end: u32, planes: &[Plane; 3], scratch: &mut [Vec<u8>; 3]) {
        if self.last_stage < JpegStage::Pixels {
            return;
        }
        let width = self.region.w as usize;
        let end = end.min(self.region.y + self.region.h);
        for y in self.region.y + self.done..end {
            let [a, b, c] = &mut *scratch;
            let row =
                |i: usize, scratch| row(self.kernels, &self.frame.components()[i], &planes[i], self.region, y, scratch);
            let rows = match self.frame.colours {
                Colours::Grey => [row(0, a); 3],
                Colours::Rgb | Colours::YCbCr => [row(0, a), row(1, b), row(2, c)],
            };
            let is_ycbcr = self.frame.colours == Colours::YCbCr;
            match &mut self.out {
                Output::Pixels(out) => {
                    let out = &mut out[self.done as usize * width * 3..][..width * 3];
                    if is_ycbcr { self.kernels.ycbcr(rows, out) } else { self.kernels.interleave(rows, out) }
                }
                Output::Rows(sink) => {
                    let out = sink.planes();
                    if is_ycbcr {
                        self.kernels.ycbcr_planes(rows, width, out);
                    } else {
                        out.into_iter().zip(rows).for_each(|(out, row)| out[..width].copy_from_slice(&row[..width]));
                    }
                    sink.take();
                }
            }
            self.done += 1;
        }
    }
}

/// Returns the samples of one row of pixels from the region's left edge on, followed by a margin.
fn row<'a>(
    kernels: Kernels,
    component: &Component,
    plane: &'a Plane,
    region: Region,
    y: u32,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    fit(scratch, region.w as usize + 2 + MARGIN, 0);
    let Upsampling { across, down, is_smooth } = component.upsampling;
    if (across, down) == (1, 1) {
        return plane.row(region.x, y);
    }
    if !is_smooth {
        let first = region.x / across;
        let samples = plane.row(first, y / down);
        for (i, out) in (region.x - first * across..).zip(&mut scratch[..region.w as usize]) {
            *out = samples[(i / across) as usize];
        }
        return scratch;
    }
    // The nearest row of samples, the second nearest, and the rounding of halves.
    let (near, far, bias) = match (down, y % 2) {
        (1, _) => (y, y, 0),
        (_, 0) => (y / 2, (y / 2).saturating_sub(1), 1),
        _ => (y / 2, (y / 2 + 1).min(component.size.h - 1), 2),
    };
    if across == 1 {
        let (near, far) = (plane.row(region.x, near), plane.row(region.x, far));
        kernels.smooth_down(near, far, bias, &mut scratch[..region.w as usize]);
        return scratch;
    }
    let (x, odd) = (region.x / 2, (region.x % 2) as usize);
    let pairs = (region.w as usize + odd).div_ceil(2);
    let out = &mut scratch[..2 * pairs];
    if down == 2 {
        kernels.smooth_both(plane.row_before(x, near), plane.row_before(x, far), out);
    } else {
        kernels.smooth_across(plane.row_before(x, near), out);
    }
    &scratch[odd..]
}
