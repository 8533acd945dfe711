//! Antialiased bilinear resize with crop, window and mirror folded in: one [`Stage`] from pixels to rows.
//!
//! Separable, rows first: for every output row the source rows above it are blended into one row of 16-bit values
//! (7 bits of fraction), and that row is blended along x into output pixels. Only the window's rows and columns are
//! computed, one row at a time, so everything between the source and the finished row stays in the first-level cache.
//! The weights are Pillow's; Pillow goes along x first and rounds to 8 bits in between, so results differ by a grey
//! level now and then. All arithmetic is integer: every machine gets the same pixels, whichever kernel runs.

mod kernel;
mod weights;

use super::geometry::{Filter, Region, Stage};
use super::pixels::Pixels;
use weights::Axis;

/// One thread's resizer: the weights of the current picture and its row buffers.
#[derive(Default)]
pub struct Resizer {
    plan: Option<Plan>,
    columns: Axis,
    rows: Axis,
    packed: kernel::Columns,
    /// One blended row, 16 bits per channel.
    blended: Vec<i16>,
    /// The columns of the window that show the picture.
    inner: Vec<u32>,
    /// A finished row with its borders.
    row: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Plan {
    stage: Stage,
    /// Columns and rows of the resized picture that the window shows: start, and one past the end.
    x: (u32, u32),
    y: (u32, u32),
    /// What of the source they need.
    needed: Region,
}

impl Resizer {
    /// An idle resizer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Works out the weights of `filter` for `stage` and says which region of the source [`run`](Self::run) will read.
    pub fn plan(&mut self, stage: &Stage, filter: Filter) -> Region {
        let Stage { crop, resized, window, flip } = *stage;
        let shown = |corner: i64, side: u32, of: u32| {
            let start = corner.clamp(0, i64::from(of)) as u32;
            let end = (corner + i64::from(side)).clamp(0, i64::from(of)) as u32;
            // A window that shows nothing still needs a pixel to stand on.
            if start < end { (start, end) } else { (start.min(of - 1), start.min(of - 1) + 1) }
        };
        let x = shown(window.x, window.size.w, resized.w);
        let y = shown(window.y, window.size.h, resized.h);
        self.columns.compute(filter, crop.w, resized.w, x, flip);
        self.rows.compute(filter, crop.h, resized.h, y, false);
        self.packed.pack(&self.columns);
        let (cx, cy) = (self.columns.span(), self.rows.span());
        let needed = Region { x: crop.x + cx.0, y: crop.y + cy.0, w: cx.1 - cx.0, h: cy.1 - cy.0 };
        self.plan = Some(Plan { stage: *stage, x, y, needed });
        needed
    }

    /// Runs the planned stage over `source`, which holds at least the region that [`plan`](Self::plan) asked for, and
    /// hands every output row, top to bottom, to `sink`: its number and its pixels as `0x00BBGGRR`.
    pub fn run(&mut self, source: &Pixels, mut sink: impl FnMut(u32, &[u32])) {
        let Some(Plan { stage, x, y, needed }) = self.plan else { return };
        let window = stage.window;
        let (width, inner_width) = (window.size.w as usize, (x.1 - x.0) as usize);
        let left = if stage.flip {
            (window.x + i64::from(window.size.w) - i64::from(x.1)).max(0)
        } else {
            (i64::from(x.0) - window.x).max(0)
        } as usize;
        self.row.clear();
        self.row.resize(width, 0);
        self.inner.resize(inner_width.next_multiple_of(kernel::GROUP), 0);
        let values = needed.w as usize * 3;
        self.blended.resize(self.packed.row_len(), 0);
        let is_copy = stage.resized == stage.crop.size();
        for out_y in 0..window.size.h {
            let resized_y = i64::from(out_y) + window.y;
            if resized_y < i64::from(y.0) || resized_y >= i64::from(y.1) {
                self.row.fill(0);
                sink(out_y, &self.row);
                continue;
            }
            let (first, weights) = self.rows.taps((resized_y - i64::from(y.0)) as usize);
            let from = source.from(needed.x, stage.crop.y + first);
            if is_copy {
                copy(&from[..values], stage.flip, &mut self.inner);
            } else {
                kernel::blend_rows(from, source.stride(), values, weights, &mut self.blended);
                kernel::blend_columns(&self.blended, &self.packed, &mut self.inner);
            }
            if inner_width == width {
                sink(out_y, &self.inner[..width]);
            } else {
                self.row[left..left + inner_width].copy_from_slice(&self.inner[..inner_width]);
                sink(out_y, &self.row);
            }
        }
    }
}

/// RGB bytes to pixels, perhaps mirrored.
fn copy(rgb: &[u8], flip: bool, out: &mut [u32]) {
    let pixels = rgb.chunks_exact(3).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0]));
    if flip {
        out.iter_mut().zip(pixels.rev()).for_each(|(out, p)| *out = p);
    } else {
        out.iter_mut().zip(pixels).for_each(|(out, p)| *out = p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::geometry::{Size, Window};

    fn noise(size: Size, seed: u32) -> Pixels {
        let mut pixels = Pixels::new();
        let mut state = seed;
        for byte in pixels.start(Region::all(size), 3) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        pixels
    }

    fn run(stage: &Stage, source: &Pixels) -> Vec<Vec<u32>> {
        let mut resizer = Resizer::new();
        resizer.plan(stage, Filter::Bilinear);
        let mut out = Vec::new();
        resizer.run(source, |y, row| {
            assert_eq!(y as usize, out.len());
            out.push(row.to_vec());
        });
        out
    }

    fn resize(size: Size, to: Size) -> Stage {
        Stage { resized: to, window: Window { x: 0, y: 0, size: to }, ..Stage::identity(size) }
    }

    /// The definition in floating point, without any rounding in between.
    fn exact(source: &Pixels, size: Size, to: Size) -> Vec<Vec<[f64; 3]>> {
        let axis = |input: u32, output: u32, o: u32| -> Vec<f64> {
            let scale = f64::from(input) / f64::from(output);
            let wide = scale.max(1.0);
            let center = (f64::from(o) + 0.5) * scale;
            let w: Vec<f64> =
                (0..input).map(|i| (1.0 - ((f64::from(i) + 0.5 - center) / wide).abs()).max(0.0)).collect();
            let sum: f64 = w.iter().sum();
            w.into_iter().map(|w| w / sum).collect()
        };
        let columns: Vec<_> = (0..to.w).map(|o| axis(size.w, to.w, o)).collect();
        (0..to.h)
            .map(|y| {
                let wy = axis(size.h, to.h, y);
                columns
                    .iter()
                    .map(|wx| {
                        let mut sum = [0.0; 3];
                        for (j, wy) in wy.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                            for (i, wx) in wx.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                                for (c, sum) in sum.iter_mut().enumerate() {
                                    *sum += wx * wy * f64::from(source.rgb()[(j * size.w as usize + i) * 3 + c]);
                                }
                            }
                        }
                        sum
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn results_stay_within_a_grey_level_of_the_definition() {
        for (w, h, ow, oh) in [
            (50, 37, 22, 22),
            (7, 5, 30, 31),
            (64, 64, 64, 20),
            (1, 1, 5, 5),
            (200, 3, 3, 200),
            (33, 90, 1, 1),
            (300, 2, 7, 2),
        ] {
            let (size, to) = (Size { w, h }, Size { w: ow, h: oh });
            let source = noise(size, w * h);
            for (row, want) in run(&resize(size, to), &source).iter().zip(exact(&source, size, to)) {
                for (p, want) in row.iter().zip(want) {
                    for (c, want) in want.iter().enumerate() {
                        let got = f64::from(p.to_le_bytes()[c]);
                        assert!((got - want).abs() < 0.75, "{w}x{h} to {ow}x{oh}: {got} for {want}");
                    }
                    assert_eq!(p.to_le_bytes()[3], 0);
                }
            }
        }
    }

    #[test]
    fn a_mirrored_stage_is_the_mirror_image() {
        let size = Size { w: 61, h: 40 };
        let source = noise(size, 4);
        for to in [Size { w: 30, h: 30 }, Size { w: 90, h: 90 }, size] {
            let plain = resize(size, to);
            let mirrored = run(&Stage { flip: true, ..plain }, &source);
            for (a, b) in run(&plain, &source).into_iter().zip(mirrored) {
                assert_eq!(a, b.into_iter().rev().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_window_shows_part_of_the_whole_and_black_around_it() {
        let size = Size { w: 40, h: 30 };
        let source = noise(size, 5);
        for to in [Size { w: 25, h: 24 }, size] {
            let whole = run(&resize(size, to), &source);
            for (x, y, w, h) in [(3, 4, 10, 9), (-3, -2, 60, 70), (20, 20, 30, 3), (-5, 5, 8, 4)] {
                for flip in [false, true] {
                    let window = Window { x, y, size: Size { w, h } };
                    let got = run(&Stage { window, flip, ..resize(size, to) }, &source);
                    for (j, row) in got.iter().enumerate() {
                        for (i, got) in row.iter().enumerate() {
                            let column = if flip { w as usize - 1 - i } else { i } as i64;
                            let want = usize::try_from(j as i64 + y)
                                .ok()
                                .and_then(|y| whole.get(y))
                                .and_then(|r| usize::try_from(column + x).ok().and_then(|x| r.get(x)));
                            assert_eq!(*got, want.copied().unwrap_or(0), "{window:?} {flip} {i} {j}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_the_region_asked_for_is_read() {
        let size = Size { w: 80, h: 60 };
        let source = noise(size, 6);
        let stage = Stage {
            crop: Region { x: 7, y: 5, w: 60, h: 50 },
            resized: Size { w: 24, h: 20 },
            window: Window { x: 5, y: 6, size: Size { w: 9, h: 8 } },
            flip: true,
        };
        let needed = Resizer::new().plan(&stage, Filter::Bilinear);
        assert!(needed.w < 40 && needed.h < 35, "{needed:?}");
        let mut part = Pixels::new();
        let rows = source.rgb().chunks_exact(80 * 3).skip(needed.y as usize);
        for (out, row) in part.start(needed, 3).chunks_exact_mut(needed.w as usize * 3).zip(rows) {
            out.copy_from_slice(&row[needed.x as usize * 3..][..needed.w as usize * 3]);
        }
        assert_eq!(run(&stage, &part), run(&stage, &source));
    }
}
