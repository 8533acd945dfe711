//! Antialiased resize with crop, window and mirror in one pass: one [`Stage`] from pixels to rows.
//!
//! Separable, columns first as in Pillow: every source row that is needed is split into its channels and blended along
//! x, once, into a row of 16-bit values (7 bits of fraction); an output row is a blend of these. Only the window's rows
//! and columns are computed. The few rows between source and output usually stay in the first-level cache. The weights
//! are Pillow's. Pillow rounds to 8 bits in between, so some results of the bilinear filter differ by a grey level.
//!
//! The bicubic filter has weights below 0, so values between the passes may be outside of the grey levels, where Pillow
//! clips them. It has Pillow's arithmetic: grey levels in between, weights of 22 bits, and rows first where Pillow 13
//! does so. Its results are equal. So are results of the bilinear filter for colours with an opacity.
//!
//! [`RowStream`] takes the source row by row, with the same results.
//!
//! All arithmetic is integer: every machine computes the same pixels with every kernel.

mod blended;
mod kernel;
mod planes;
mod stream;
mod weights;

use super::aligned::AlignedVec;
use super::border::PaddingMode;
use super::geometry::{Grid, PixelWindow, Region, Stage};
use super::pixels::{Content, Pixels, RowKernels};
use blended::BlendedRows;
use kernel::{Columns, Kernels};
use planes::{MARGIN, Planes, three_rows};
pub use stream::RowStream;
use weights::{Axis, Method, Span};
pub use weights::{ExactWeights, exact_weights};

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
    /// Blend of source rows before the blend of their columns, and the values after it.
    tall: Planes<u8>,
    values: AlignedVec<i16>,
    /// Computed columns of an output row.
    inner: Planes<u8>,
    /// Columns of an output row that show different columns of the picture, with the positions of these in `inner`.
    outside: Vec<[usize; 2]>,
    /// Complete output row with its borders.
    row: Planes<u8>,
}

#[derive(Clone, Copy)]
struct Plan {
    stage: Stage,
    /// Rows of the resized picture that are computed: start, and one past the end.
    y: (u32, u32),
    /// Region of the source that they need, and the first row of the crop.
    needed: Region,
    top: u32,
    inside: Inside,
    is_rows_first: bool,
}

/// Columns of the window that are inside of the resized picture.
#[derive(Clone, Copy)]
struct Inside {
    /// Computed columns of the resized picture, from `from` on.
    computed: usize,
    from: usize,
    /// Column of the window that it is, and the number of columns.
    to: usize,
    count: usize,
}

impl Inside {
    /// `shown` are the columns that are computed, mirrored as the stage is.
    fn new(stage: &Stage, shown: (u32, u32)) -> Self {
        let &Stage { window: PixelWindow { x, size, .. }, resized, flip, .. } = stage;
        let (end, side) = (x + i64::from(size.w), i64::from(resized.w));
        let (from, to) =
            if flip { (i64::from(shown.1) - end.min(side), end - side) } else { (x.max(0) - i64::from(shown.0), -x) };
        let count = (end.min(side) - x.max(0)).max(0) as usize;
        let (from, to) = if count == 0 { (0, 0) } else { (from as usize, to.max(0) as usize) };
        Self { computed: (shown.1 - shown.0) as usize, from, to, count }
    }
}

/// Returns each column of the window that shows a pixel in a different position of the picture, and the computed column
/// that has it.
fn outside(stage: &Stage, shown: (u32, u32)) -> impl Iterator<Item = [usize; 2]> {
    let Stage { window: PixelWindow { x, size, .. }, resized, border, flip, .. } = *stage;
    let columns = if border.mode == PaddingMode::Constant { 0 } else { size.w };
    (0..columns).filter_map(move |column| {
        let position = x + i64::from(if flip { size.w - 1 - column } else { column });
        let shows = border.position(position, resized.w).filter(|shows| i64::from(*shows) != position)?;
        Some([column, if flip { shown.1 - 1 - shows } else { shows - shown.0 }].map(|column| column as usize))
    })
}

impl Resizer {
    /// Computes the weights for `stage`. Returns the region of the source that [`run`](Self::run) will read.
    pub fn plan(&mut self, stage: &Stage) -> Region {
        self.plan_reduced(stage, Content::Colours, Grid::FULL)
    }

    /// Plans as [`plan`](Self::plan) does, for pixels of `content`. With an opacity the bilinear filter has Pillow's
    /// bits as well.
    pub fn plan_for(&mut self, stage: &Stage, content: Content) -> Region {
        self.plan_reduced(stage, content, Grid::FULL)
    }

    /// Plans as [`plan_for`](Self::plan_for) does, for a source that is smaller than the picture of `stage`. Returns a
    /// region of the source.
    pub fn plan_reduced(&mut self, stage: &Stage, content: Content, grid: Grid) -> Region {
        let Stage { crop, resized, interpolation, window, border, flip } = *stage;
        let shown = |corner: i64, side: u32, of: u32| {
            if border.mode != PaddingMode::Constant {
                let positions = (corner..corner + i64::from(side)).filter_map(|position| border.position(position, of));
                let (start, last) =
                    positions.fold((of - 1, 0), |(start, last), position| (start.min(position), last.max(position)));
                return (start, last + 1);
            }
            let start = corner.clamp(0, i64::from(of)) as u32;
            let end = (corner + i64::from(side)).clamp(0, i64::from(of)) as u32;
            // A window that shows nothing still needs a pixel to read.
            if start < end { (start, end) } else { (start.min(of - 1), start.min(of - 1) + 1) }
        };
        let x = shown(window.x, window.size.w, resized.w);
        let y = shown(window.y, window.size.h, resized.h);
        let (across, down) =
            (Span::new(grid.left + crop.x, crop.w, grid.by), Span::new(grid.above + crop.y, crop.h, grid.by));
        let method = Method::new(interpolation, content);
        self.columns.compute(method, across, resized.w, x, flip);
        self.rows.compute(method, down, resized.h, y, false);
        self.packed.pack(&self.columns, self.kernels.window());
        let (cx, cy) = (self.columns.span(), self.rows.span());
        let needed = Region { x: across.first + cx.0, y: down.first + cy.0, w: cx.1 - cx.0, h: cy.1 - cy.0 };
        self.plan = Some(Plan {
            stage: *stage,
            y,
            needed,
            top: down.first,
            inside: Inside::new(stage, x),
            is_rows_first: method.is_fine() && is_rows_first_in_pillow(stage),
        });
        self.outside.clear();
        self.outside.extend(outside(stage, x));
        needed
    }

    /// Runs the planned stage over `source`, which contains at least the region that [`plan`](Self::plan) returned.
    /// Passes every output row, top to bottom, to `sink`: its number, and its red, green and blue.
    pub fn run(&mut self, source: &Pixels, mut sink: impl FnMut(u32, [&[u8]; 3])) {
        self.run_rows(source, &mut sink);
    }

    /// Compiled once, in this crate, for every sink: a call per row costs nothing compared with the row.
    fn run_rows(&mut self, source: &Pixels, sink: &mut dyn FnMut(u32, [&[u8]; 3])) {
        let Some(Plan { stage, y, needed, top, inside, is_rows_first }) = self.plan else { return };
        let Self { kernels, rows, packed, source: split, blended, tall, values, inner, outside, row, .. } = self;
        let Stage { window, border, .. } = stage;
        let width = window.size.w as usize;
        let is_blank = inside.count == 0 && outside.is_empty();
        split.start(needed.w as usize, MARGIN);
        inner.start(inside.computed, 0);
        row.start(width, 0);
        fill(row, border.fill);
        blended.start(rows.taps_max(), rows.is_fine(), if is_rows_first { split.stride } else { inner.stride });
        if is_rows_first {
            tall.start(needed.w as usize, MARGIN);
            values.fit(3 * inner.stride);
        }
        let is_copy = !stage.is_resized();
        for out_y in 0..window.size.h {
            let shown = border.position(i64::from(out_y) + window.y, stage.resized.h);
            let Some(shown) = shown.filter(|_| !is_blank) else {
                fill(row, border.fill);
                sink(out_y, row.rows());
                continue;
            };
            let shown_y = (shown - y.0) as usize;
            let (first, weights) = rows.taps(shown_y);
            let source_row = |row: u32| source.from(needed.x, top + row);
            if is_copy {
                kernels.split(source_row(first), split);
                copy(split.rows(), stage.flip, inner.padded_rows_mut());
            } else if is_rows_first {
                let mut widen = |row, out: [&mut [i16]; 3]| {
                    kernels.split(source_row(row), split);
                    for (out, levels) in out.into_iter().zip(split.padded_rows()) {
                        out.iter_mut().zip(levels).for_each(|(out, level)| *out = i16::from(*level));
                    }
                };
                blended.combine_finely(*kernels, first, weights, rows.fine(shown_y), &mut widen, tall.all_mut());
                let values = &mut values[..3 * inner.stride];
                kernels.blend_columns(tall, packed, three_rows(values));
                inner.all_mut().iter_mut().zip(values).for_each(|(level, value)| *level = *value as u8);
            } else {
                let mut blend = |row, out: [&mut [i16]; 3]| {
                    kernels.split(source_row(row), split);
                    kernels.blend_columns(split, packed, out);
                };
                if rows.is_fine() {
                    blended.combine_finely(*kernels, first, weights, rows.fine(shown_y), &mut blend, inner.all_mut());
                } else {
                    blended.combine(*kernels, first, weights, &mut blend, inner.all_mut());
                }
            }
            if inside.count == width {
                sink(out_y, inner.rows());
            } else {
                for (row, inner) in row.padded_rows_mut().into_iter().zip(inner.rows()) {
                    row[inside.to..][..inside.count].copy_from_slice(&inner[inside.from..][..inside.count]);
                    outside.iter().for_each(|[to, from]| row[*to] = inner[*from]);
                }
                sink(out_y, row.rows());
            }
        }
    }

    /// Computes the planned stage of the pixels of `source`, as [`run`](Self::run) does, into `output`.
    pub fn run_into(&mut self, source: &Pixels, output: &mut Pixels) {
        let Some(Plan { stage, .. }) = self.plan else { return };
        let width = stage.output().w as usize;
        let pixels = output.start(Region::all(stage.output()), 3).as_chunks_mut::<3>().0;
        let kernels = RowKernels::default();
        self.run(source, |y, row| kernels.interleave(row, &mut pixels[y as usize * width..][..width]));
    }
}

/// Returns true if Pillow from version 13 on blends rows before columns: if they are reduced by far more.
pub fn is_rows_first_in_pillow(stage: &Stage) -> bool {
    let Stage { crop, resized, .. } = *stage;
    let fewer = |from: u32, to: u32| i64::from(from) - i64::from(to);
    let rows = fewer(crop.h, resized.h);
    rows > 0 && rows > 2 * fewer(crop.w, resized.w)
}

/// Sets a row to a colour.
fn fill(row: &mut Planes<u8>, colour: [u8; 3]) {
    row.padded_rows_mut().into_iter().zip(colour).for_each(|(plane, level)| plane.fill(level));
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
    use crate::border::Border;
    use crate::geometry::Size;
    use crate::interpolation::Interpolation;
    use crate::pixels::interleaved;

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
        run_for(stage, Content::Colours, source)
    }

    fn run_for(stage: &Stage, content: Content, source: &Pixels) -> Vec<Vec<[u8; 3]>> {
        let mut resizer = Resizer::default();
        resizer.plan_for(stage, content);
        let mut out = Vec::new();
        resizer.run(source, |y, row| {
            assert_eq!(y as usize, out.len());
            out.push(interleaved(row).collect());
        });
        out
    }

    fn resize(size: Size, to: Size) -> Stage {
        Stage { resized: to, window: PixelWindow { x: 0, y: 0, size: to }, ..Stage::identity(size) }
    }

    fn bicubic(size: Size, to: Size) -> Stage {
        Stage { interpolation: Interpolation::Bicubic, ..resize(size, to) }
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

    fn cubic(x: f64) -> f64 {
        match x.abs() {
            x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            _ => 0.0,
        }
    }

    fn triangle(x: f64) -> f64 {
        (1.0 - x.abs()).max(0.0)
    }

    /// Pillow's resize: rounded and clipped to grey levels after each direction.
    fn pillow(source: &Pixels, size: Size, to: Size, kernel: fn(f64) -> f64) -> Vec<Vec<[u8; 3]>> {
        let axis = |input: u32, output: u32| -> Vec<Vec<i32>> {
            let scale = f64::from(input) / f64::from(output);
            let slope = 1.0 / scale.max(1.0);
            let weights = |o: u32| {
                let position = |i: u32| f64::from(i) + 0.5 - (f64::from(o) + 0.5) * scale;
                let exact: Vec<f64> = (0..input).map(|i| kernel(position(i) * slope)).collect();
                let sum: f64 = exact.iter().sum();
                exact.iter().map(|w| (w / sum * 4_194_304.0).round() as i32).collect()
            };
            (0..output).map(weights).collect()
        };
        let blend = |pixels: &mut dyn Iterator<Item = [u8; 3]>, weights: &[i32]| {
            let mut sums = [1 << 21; 3];
            for (pixel, weight) in pixels.zip(weights) {
                (0..3).for_each(|c| sums[c] += i32::from(pixel[c]) * weight);
            }
            sums.map(|sum| (sum >> 22).clamp(0, 255) as u8)
        };
        let across = |rows: Vec<Vec<[u8; 3]>>| -> Vec<Vec<[u8; 3]>> {
            let columns = axis(size.w, to.w);
            let row = |row: &Vec<[u8; 3]>| columns.iter().map(|w| blend(&mut row.iter().copied(), w)).collect();
            rows.iter().map(row).collect()
        };
        let down = |rows: Vec<Vec<[u8; 3]>>| -> Vec<Vec<[u8; 3]>> {
            let column = |x: usize, w: &[i32]| blend(&mut rows.iter().map(|row| row[x]), w);
            axis(size.h, to.h).iter().map(|w| (0..rows[0].len()).map(|x| column(x, w)).collect()).collect()
        };
        let rows = source.rgb().as_chunks().0.chunks(size.w as usize).map(<[_]>::to_vec).collect();
        if to.h < size.h && size.h + 2 * to.w > to.h + 2 * size.w { across(down(rows)) } else { down(across(rows)) }
    }

    #[test]
    fn bicubic_results_and_bilinear_ones_with_an_opacity_are_pillow_s() {
        for (w, h, ow, oh) in [
            (50, 37, 22, 22),
            (7, 5, 30, 31),
            (64, 64, 64, 20),
            (64, 64, 20, 64),
            (1, 1, 5, 5),
            (200, 3, 3, 200),
            (33, 90, 1, 1),
            (300, 2, 7, 2),
            (6, 1000, 4, 20),
            (700, 40, 90, 37),
            (20, 2000, 5, 31),
            (20, 4000, 5, 7),
        ] {
            let (size, to) = (Size { w, h }, Size { w: ow, h: oh });
            let mut source = noise(size, w * h);
            // Edges between black and white, next to which the values are outside of the grey levels.
            source.rgb_mut().chunks_mut(29).step_by(2).for_each(|run| run.fill(run[0] / 128 * 255));
            assert!(run(&bicubic(size, to), &source) == pillow(&source, size, to, cubic), "{w}x{h} to {ow}x{oh}");
            let bilinear = run_for(&resize(size, to), Content::Opacity, &source);
            assert!(bilinear == pillow(&source, size, to, triangle), "{w}x{h} to {ow}x{oh}");
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
            let source = noise(size, seed);
            for stage in [resize(size, to), bicubic(size, to)] {
                used.plan(&stage);
                let want = run(&stage, &source);
                used.run(&source, |y, row| {
                    assert_eq!(interleaved(row).collect::<Vec<_>>(), want[y as usize], "{stage:?}");
                });
            }
        }
    }

    #[test]
    fn a_mirrored_stage_is_the_mirror_image() {
        let size = Size { w: 61, h: 40 };
        let source = noise(size, 4);
        for to in [Size { w: 30, h: 30 }, Size { w: 90, h: 90 }, size] {
            for plain in [resize(size, to), bicubic(size, to)] {
                let mirrored = run(&Stage { flip: true, ..plain }, &source);
                for (a, b) in run(&plain, &source).into_iter().zip(mirrored) {
                    assert_eq!(a, b.into_iter().rev().collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn a_window_shows_part_of_the_whole_and_the_border_around_it() {
        let size = Size { w: 40, h: 30 };
        let source = noise(size, 5);
        for plain in [resize(size, Size { w: 25, h: 24 }), bicubic(size, Size { w: 25, h: 24 }), resize(size, size)] {
            let whole = run(&plain, &source);
            let beside = [(-9, 2, 9, 9), (-9, 2, 4, 4), (40, 3, 5, 5), (3, 30, 4, 4), (3, -8, 4, 8)];
            let windows = [(3, 4, 10, 9), (-3, -2, 60, 70), (20, 20, 30, 3), (-5, 5, 8, 4)];
            for (x, y, w, h) in windows.into_iter().chain(beside) {
                let modes = [PaddingMode::Constant, PaddingMode::Edge, PaddingMode::Reflect, PaddingMode::Symmetric];
                for (mode, flip) in modes.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
                    let window = PixelWindow { x, y, size: Size { w, h } };
                    let border = Border { mode, fill: [9, 8, 7] };
                    let got = run(&Stage { window, border, flip, ..plain }, &source);
                    for (j, row) in got.iter().enumerate() {
                        for (i, got) in row.iter().enumerate() {
                            let column = i64::from(if flip { w - 1 - i as u32 } else { i as u32 });
                            let position = border
                                .position(j as i64 + y, plain.resized.h)
                                .zip(border.position(column + x, plain.resized.w));
                            let want = position.map_or(border.fill, |(y, x)| whole[y as usize][x as usize]);
                            assert_eq!(*got, want, "{window:?} {border:?} {flip} {i} {j}");
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
        for interpolation in [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic] {
            let stage = Stage {
                crop: Region { x: 7, y: 5, w: 60, h: 50 },
                resized: Size { w: 24, h: 20 },
                interpolation,
                window: PixelWindow { x: 5, y: 6, size: Size { w: 9, h: 8 } },
                border: Border::BLACK,
                flip: true,
            };
            let needed = Resizer::default().plan(&stage);
            assert!(needed.w < 40 && needed.h < 35, "{needed:?}");
            let mut part = Pixels::default();
            let rows = source.rgb().chunks_exact(80 * 3).skip(needed.y as usize);
            for (out, row) in part.start(needed, 3).chunks_exact_mut(needed.w as usize * 3).zip(rows) {
                out.copy_from_slice(&row[needed.x as usize * 3..][..needed.w as usize * 3]);
            }
            assert_eq!(run(&stage, &part), run(&stage, &source));
        }
    }
}
