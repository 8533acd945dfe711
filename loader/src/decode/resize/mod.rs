//! Antialiased bilinear resize with crop, window and mirror in one pass: one [`Stage`] from pixels to rows.
//!
//! Separable, columns first as in Pillow: every source row that is needed is split into its channels and blended along
//! x, once, into a row of 16-bit values (7 bits of fraction); an output row is a blend of these. Only the window's rows
//! and columns are computed. The few rows between source and output usually stay in the first-level cache. The weights
//! are Pillow's. Pillow rounds to 8 bits in between, so some results differ by a grey level. All arithmetic is integer:
//! every machine computes the same pixels with every kernel.

mod kernel;
mod planes;
mod weights;

use super::aligned::AlignedVec;
use super::geometry::{Filter, Grid, Region, Stage};
use super::pixels::Pixels;
use kernel::{Columns, Kernels, MANY_ROWS};
use planes::{MARGIN, Planes, three_rows};
use weights::{Axis, ONE, Span};

/// Resizer of one thread: the weights of the current picture and its row buffers.
#[derive(Default)]
pub struct Resizer {
    kernels: Kernels,
    plan: Option<Plan>,
    columns: Axis,
    rows: Axis,
    packed: Columns,
    /// Source row by channels.
    source: Planes<u8>,
    blended: BlendedRows,
    /// Sums of an output row that is a blend of many rows.
    sums: Vec<i32>,
    /// Columns of an output row that show the picture.
    inner: Planes<u8>,
    /// Complete output row with its borders.
    row: Planes<u8>,
}

/// The last source rows that were blended along x; as many as an output row can need.
#[derive(Default)]
struct BlendedRows {
    values: AlignedVec<i16>,
    /// Values of each of a row's three planes.
    plane: usize,
    /// Source row in each place.
    row_by_place: Vec<Option<u32>>,
    /// Starts of the rows that are needed now.
    starts: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Plan {
    stage: Stage,
    /// Columns and rows of the resized picture that the window shows: start, and one past the end.
    x: (u32, u32),
    y: (u32, u32),
    /// Region of the source that they need, and the first row of the crop.
    needed: Region,
    top: u32,
    /// True if the window is entirely outside the picture.
    is_blank: bool,
}

impl Resizer {
    /// Computes the weights of `filter` for `stage`. Returns the region of the source that [`run`](Self::run) will
    /// read.
    pub fn plan(&mut self, stage: &Stage, filter: Filter) -> Region {
        self.plan_reduced(stage, filter, Grid::FULL)
    }

    /// Plans as [`plan`](Self::plan) does, for a source that is smaller than the picture of `stage`. Returns a region
    /// of the source.
    pub fn plan_reduced(&mut self, stage: &Stage, filter: Filter, grid: Grid) -> Region {
        let Stage { crop, resized, window, flip } = *stage;
        let shown = |corner: i64, side: u32, of: u32| {
            let start = corner.clamp(0, i64::from(of)) as u32;
            let end = (corner + i64::from(side)).clamp(0, i64::from(of)) as u32;
            // A window that shows nothing still needs a pixel to read.
            if start < end { (start, end) } else { (start.min(of - 1), start.min(of - 1) + 1) }
        };
        let x = shown(window.x, window.size.w, resized.w);
        let y = shown(window.y, window.size.h, resized.h);
        let (across, down) =
            (Span::new(grid.left + crop.x, crop.w, grid.by), Span::new(grid.above + crop.y, crop.h, grid.by));
        self.columns.compute(filter, across, resized.w, x, flip);
        self.rows.compute(filter, down, resized.h, y, false);
        self.packed.pack(&self.columns, self.kernels.window());
        let (cx, cy) = (self.columns.span(), self.rows.span());
        let needed = Region { x: across.first + cx.0, y: down.first + cy.0, w: cx.1 - cx.0, h: cy.1 - cy.0 };
        let is_blank = window.x >= i64::from(resized.w) || window.x + i64::from(window.size.w) <= 0;
        self.plan = Some(Plan { stage: *stage, x, y, needed, top: down.first, is_blank });
        needed
    }

    /// Runs the planned stage over `source`, which contains at least the region that [`plan`](Self::plan) returned.
    /// Passes every output row, top to bottom, to `sink`: its number, and its red, green and blue.
    pub fn run(&mut self, source: &Pixels, mut sink: impl FnMut(u32, [&[u8]; 3])) {
        let Some(Plan { stage, x, y, needed, top, is_blank }) = self.plan else { return };
        let Self { kernels, rows, packed, source: split, blended, sums, inner, row, .. } = self;
        let window = stage.window;
        let (width, inner_width) = (window.size.w as usize, (x.1 - x.0) as usize);
        let left = if stage.flip {
            (window.x + i64::from(window.size.w) - i64::from(x.1)).max(0)
        } else {
            (i64::from(x.0) - window.x).max(0)
        } as usize;
        split.start(needed.w as usize, MARGIN);
        inner.start(inner_width, 0);
        row.start(width, 0);
        row.all_mut().fill(0);
        blended.start(rows.taps_max().min(MANY_ROWS), inner.stride);
        let is_copy = stage.resized == stage.crop.size();
        for out_y in 0..window.size.h {
            let resized_y = i64::from(out_y) + window.y;
            if is_blank || resized_y < i64::from(y.0) || resized_y >= i64::from(y.1) {
                row.all_mut().fill(0);
                sink(out_y, row.rows());
                continue;
            }
            let (first, weights) = rows.taps((resized_y - i64::from(y.0)) as usize);
            let source_row = |row: u32| source.from(needed.x, top + row);
            if is_copy {
                kernels.split(source_row(first), split);
                copy(split.rows(), stage.flip, inner.padded_rows_mut());
            } else {
                // With a weight of one, the other rows have no effect.
                let (first, weights) = match weights.iter().position(|w| i32::from(*w) == ONE) {
                    Some(only) => (first + only as u32, &weights[only..=only]),
                    None => (first, weights),
                };
                let mut blend = |row, out: [&mut [i16]; 3]| {
                    kernels.split(source_row(row), split);
                    kernels.blend_columns(split, packed, out);
                };
                if weights.len() < MANY_ROWS {
                    blended.ensure(first, weights.len(), blend);
                    kernels.blend_rows(&blended.values, &blended.starts, weights, inner.all_mut());
                } else {
                    sums.clear();
                    sums.resize(inner.all_mut().len(), 0);
                    for (row, weight) in (first..).zip(weights) {
                        blended.ensure(row, 1, &mut blend);
                        kernels.add_row(blended.row(), *weight, sums);
                    }
                    kernels.finish_sums(sums, inner.all_mut());
                }
            }
            if inner_width == width {
                sink(out_y, inner.rows());
            } else {
                for (row, inner) in row.padded_rows_mut().into_iter().zip(inner.rows()) {
                    row[left..left + inner_width].copy_from_slice(inner);
                }
                sink(out_y, row.rows());
            }
        }
    }
}

impl BlendedRows {
    /// Drops all rows, and makes room for `count` of three planes of `plane` values each.
    fn start(&mut self, count: usize, plane: usize) {
        self.plane = plane;
        self.row_by_place.clear();
        self.row_by_place.resize(count, None);
        self.values.fit(count * 3 * plane);
    }

    /// Puts the places of `count` rows from `first` on into [`starts`](Self::starts). Rows that are missing come from
    /// `blend`.
    fn ensure(&mut self, first: u32, count: usize, mut blend: impl FnMut(u32, [&mut [i16]; 3])) {
        let len = 3 * self.plane;
        self.starts.clear();
        for row in (first..).take(count) {
            let place = row as usize % self.row_by_place.len();
            let start = place * len;
            self.starts.push(start);
            if self.row_by_place[place] != Some(row) {
                blend(row, three_rows(&mut self.values[start..start + len]));
                self.row_by_place[place] = Some(row);
            }
        }
    }

    fn row(&self) -> &[i16] {
        &self.values[self.starts[0]..][..3 * self.plane]
    }
}

/// Copies rows, mirrored if `flip`.
fn copy(from: [&[u8]; 3], flip: bool, to: [&mut [u8]; 3]) {
    for (from, to) in from.into_iter().zip(to) {
        let to = &mut to[..from.len()];
        to.copy_from_slice(from);
        if flip {
            to.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::geometry::{Size, Window};
    use crate::decode::pixels::interleaved;

    fn noise(size: Size, seed: u32) -> Pixels {
        let mut pixels = Pixels::default();
        let mut state = seed;
        for byte in pixels.start(Region::all(size), 3) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        pixels
    }

    fn run(stage: &Stage, source: &Pixels) -> Vec<Vec<[u8; 3]>> {
        let mut resizer = Resizer::default();
        resizer.plan(stage, Filter::Bilinear);
        let mut out = Vec::new();
        resizer.run(source, |y, row| {
            assert_eq!(y as usize, out.len());
            out.push(interleaved(row).collect());
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
            (6, 1000, 4, 20),
            (20, 4000, 5, 7),
        ] {
            let (size, to) = (Size { w, h }, Size { w: ow, h: oh });
            let source = noise(size, w * h);
            for (row, want) in run(&resize(size, to), &source).iter().zip(exact(&source, size, to)) {
                for (p, want) in row.iter().zip(want) {
                    for (c, want) in want.iter().enumerate() {
                        let got = f64::from(p[c]);
                        assert!((got - want).abs() < 0.75, "{w}x{h} to {ow}x{oh}: {got} for {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_resizer_keeps_nothing_from_one_picture_to_the_next() {
        let mut used = Resizer::default();
        for (seed, (w, h, ow, oh)) in (1..).zip([
            (300, 200, 90, 80),
            (9, 7, 5, 4),
            (3, 2000, 8, 9),
            (40, 30, 40, 30),
            (64, 64, 50, 50),
            (5, 5, 64, 90),
        ]) {
            let (size, to) = (Size { w, h }, Size { w: ow, h: oh });
            let (source, stage) = (noise(size, seed), resize(size, to));
            used.plan(&stage, Filter::Bilinear);
            let want = run(&stage, &source);
            used.run(&source, |y, row| {
                assert_eq!(interleaved(row).collect::<Vec<_>>(), want[y as usize], "{size:?} to {to:?}");
            });
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
            let beside = [(-9, 2, 9, 9), (-9, 2, 4, 4), (40, 3, 5, 5), (3, 30, 4, 4), (3, -8, 4, 8)];
            let windows = [(3, 4, 10, 9), (-3, -2, 60, 70), (20, 20, 30, 3), (-5, 5, 8, 4)];
            for (x, y, w, h) in windows.into_iter().chain(beside) {
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
                            assert_eq!(*got, want.copied().unwrap_or_default(), "{window:?} {flip} {i} {j}");
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
        let needed = Resizer::default().plan(&stage, Filter::Bilinear);
        assert!(needed.w < 40 && needed.h < 35, "{needed:?}");
        let mut part = Pixels::default();
        let rows = source.rgb().chunks_exact(80 * 3).skip(needed.y as usize);
        for (out, row) in part.start(needed, 3).chunks_exact_mut(needed.w as usize * 3).zip(rows) {
            out.copy_from_slice(&row[needed.x as usize * 3..][..needed.w as usize * 3]);
        }
        assert_eq!(run(&stage, &part), run(&stage, &source));
    }
}
