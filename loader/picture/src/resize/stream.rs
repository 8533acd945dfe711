//! Resize of a source that comes row by row, such as a JPEG's: each row is blended along x when it comes, and an output
//! row is made as soon as its last one is there. The source is never in memory as a whole.

use super::kernel::MANY_ROWS;
use super::planes::MARGIN;
use super::{Plan, Resizer};
use crate::interpolation::Interpolation;
use crate::pixels::{PLANE_PAD, RowSink};

const _: () = assert!(MARGIN >= PLANE_PAD);

/// Planned stage that takes the rows of its region, and passes rows of its output on.
pub struct RowStream<'a> {
    resizer: &'a mut Resizer,
    plan: Plan,
    /// The next row of the source, counted from the crop's edge, and the next output row.
    row: u32,
    out_y: u32,
    sink: &'a mut dyn FnMut(u32, [&[u8]; 3]),
}

impl Resizer {
    /// Starts the planned stage for rows of exactly the region that [`plan`](Self::plan) returned. Its results, which
    /// `sink` gets as from [`run`](Self::run), are the same.
    ///
    /// Returns `None` for a stage that needs rows in a different order or more than once, or has hardly any work.
    pub fn stream<'a>(&'a mut self, sink: &'a mut dyn FnMut(u32, [&[u8]; 3])) -> Option<RowStream<'a>> {
        let plan = self.plan?;
        let Plan { stage, needed, inside, top, .. } = plan;
        let is_in_order = stage.window.is_inside(stage.resized) && !plan.is_rows_first;
        let is_blended = stage.interpolation != Interpolation::Nearest && stage.is_resized();
        if !is_in_order || !is_blended || self.rows.taps_max() >= MANY_ROWS {
            return None;
        }
        self.source.start(needed.w as usize, MARGIN);
        self.inner.start(inside.computed, 0);
        self.blended.start(self.rows.taps_max(), self.rows.is_fine(), self.inner.stride);
        Some(RowStream { resizer: self, plan, row: needed.y - top, out_y: 0, sink })
    }
}

impl RowSink for RowStream<'_> {
    fn planes(&mut self) -> [&mut [u8]; 3] {
        self.resizer.source.padded_rows_mut()
    }

    fn take(&mut self) {
        let Plan { stage, y, .. } = self.plan;
        let Resizer { kernels, rows, packed, source, blended, inner, .. } = &mut *self.resizer;
        blended.put(self.row, |_, out| kernels.blend_columns(source, packed, out));
        self.row += 1;
        while self.out_y < stage.window.size.h {
            // The window is inside of the resized picture, and its first row is the first that is computed.
            let shown = (i64::from(self.out_y) + stage.window.y - i64::from(y.0)) as usize;
            let (first, weights) = rows.taps(shown);
            if first + weights.len() as u32 > self.row {
                break;
            }
            let missing = |row, _: [&mut [i16]; 3]| unreachable!("row {row} came before");
            if rows.is_fine() {
                blended.combine_finely(*kernels, first, weights, rows.fine(shown), missing, inner.all_mut());
            } else {
                blended.combine(*kernels, first, weights, missing, inner.all_mut());
            }
            (self.sink)(self.out_y, inner.rows());
            self.out_y += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::geometry::{PixelWindow, Region, Size, Stage};
    use crate::interpolation::Interpolation;
    use crate::pixels::{Pixels, RowSink, interleaved};
    use crate::resize::Resizer;

    fn collect(rows: &mut Vec<Vec<[u8; 3]>>, y: u32, row: [&[u8]; 3]) {
        assert_eq!(y as usize, rows.len(), "rows come in order");
        rows.push(interleaved(row).collect());
    }

    /// Compares the rows of a stream with those of [`Resizer::run`]. Returns false for a stage that is not streamed.
    fn is_streamed(stage: &Stage, source: &Pixels) -> bool {
        let mut resizer = Resizer::default();
        let needed = resizer.plan(stage);
        let (mut want, mut got) = (Vec::new(), Vec::new());
        resizer.run(source, |y, row| collect(&mut want, y, row));
        let mut sink = |y, row: [&[u8]; 3]| collect(&mut got, y, row);
        let Some(mut stream) = resizer.stream(&mut sink) else { return false };
        for y in needed.y..needed.y + needed.h {
            let pixels = &source.from(needed.x, y)[..3 * needed.w as usize];
            for (c, plane) in stream.planes().into_iter().enumerate() {
                plane.fill(0xa5);
                plane.iter_mut().zip(pixels.iter().skip(c).step_by(3)).for_each(|(to, from)| *to = *from);
            }
            stream.take();
        }
        assert!(want == got, "{stage:?}");
        true
    }

    #[test]
    fn a_stream_of_rows_gives_the_rows_of_the_whole_picture() {
        let size = Size { w: 123, h: 97 };
        let mut source = Pixels::default();
        let bytes = source.start(Region::all(size), 3);
        bytes.iter_mut().zip(0_u32..).for_each(|(byte, i)| *byte = (i.wrapping_mul(2_654_435_761) >> 23) as u8);
        let mut streamed = 0;
        for interpolation in [Interpolation::Bilinear, Interpolation::Bicubic] {
            for (w, h) in [(30, 30), (123, 40), (60, 97), (200, 150), (122, 300), (12, 9)] {
                for flip in [false, true] {
                    let (resized, crop) = (Size { w, h }, Region { x: 7, y: 11, w: 90, h: 80 });
                    let window = PixelWindow { x: 3, y: 2, size: Size { w: w - 4, h: h - 5 } };
                    let all = PixelWindow { x: 0, y: 0, size: resized };
                    for (crop, window) in [(crop, window), (Region::all(size), all)] {
                        let stage = Stage { crop, resized, interpolation, window, flip, ..Stage::identity(size) };
                        streamed += u32::from(is_streamed(&stage, &source));
                    }
                }
            }
        }
        // Of 48, all but bicubic ones that blend rows first.
        assert_eq!(streamed, 40);
    }

    #[test]
    fn borders_copies_and_huge_reductions_are_not_streamed() {
        let size = Size { w: 40, h: 90 };
        let mut source = Pixels::default();
        source.start(Region::all(size), 3).fill(7);
        let resized = Size { w: 20, h: 20 };
        let outside = PixelWindow { x: -1, y: 0, size: resized };
        assert!(!is_streamed(&Stage::identity(size), &source));
        assert!(!is_streamed(&Stage { resized, window: outside, ..Stage::identity(size) }, &source));
        let (resized, window) = (Size { w: 20, h: 2 }, PixelWindow { x: 0, y: 0, size: Size { w: 20, h: 2 } });
        assert!(!is_streamed(&Stage { resized, window, ..Stage::identity(size) }, &source));
    }
}
