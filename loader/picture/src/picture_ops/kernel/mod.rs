//! Inner loops of the operations. [`portable`] has them all, written so that the compiler finds vectors in them; the
//! remaining levels are the same code, compiled for more instructions.

/// Defines the kernels that are the portable ones with all vectors, compiled with `$features`.
macro_rules! portable_kernels {
    ($features:literal) => {
        $crate::kernel::portable_with! { $features:
            fn blend(degenerate: &[u8], pixels: &mut [u8], factor: f32);
            fn convolve_row(source: &[u8], weights: &[f32], channels: usize, out: &mut [f32]);
            fn convolve_rows(values: &[f32], starts: &[usize], weights: &[f32], out: &mut [u8]);
            fn grayscale(pixels: &mut [u8]);
            fn luma_sum(pixels: &[u8]) -> u64;
            fn saturate(pixels: &mut [u8], factor: f32);
            fn smooth(rows: [&[u8]; 3], channels: usize, out: &mut [u8]);
            fn turn_hue(pixels: &mut [u8], shift: u8);
            fn bicubic_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
            fn bilinear_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
            fn fixed_row(source: &[u8], shape: Shape, start: [i32; 2], step: [i32; 2], fill: [u8; 3], out: &mut [u8]);
            fn nearest_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod samples;

pub(super) use portable::{SUMS, blended};
pub(super) use samples::Map;

use super::Shape;
use crate::kernel::dispatch;
use crate::vectors::{Level, Vectors};

/// Selection of the kernels for this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels(Vectors);

impl Default for Kernels {
    /// Returns the kernels that decoders use.
    fn default() -> Self {
        Self(Vectors::in_use())
    }
}

impl Kernels {
    /// Replaces every byte by its value in `table`.
    pub(super) fn look_up(self, table: &[u8; 256], pixels: &mut [u8]) {
        dispatch!(self.0.level(), look_up(table, pixels));
    }

    /// Replaces the bytes of every pixel by those in the three tables.
    pub(super) fn look_up_3(self, tables: &[[u8; 256]; 3], pixels: &mut [u8]) {
        dispatch!(self.0.level(), look_up_3(tables, pixels));
    }

    /// Returns the sum of the pixels' luma.
    pub(super) fn luma_sum(self, pixels: &[u8]) -> u64 {
        dispatch!(self.0.level(), luma_sum(pixels))
    }

    /// Sets all channels to the luma.
    pub(super) fn grayscale(self, pixels: &mut [u8]) {
        dispatch!(self.0.level(), grayscale(pixels));
    }

    /// Blends every pixel with its luma, see [`blended`].
    pub(super) fn saturate(self, pixels: &mut [u8], factor: f32) {
        dispatch!(self.0.level(), saturate(pixels, factor));
    }

    /// Adds `shift` to the hue of every pixel.
    pub(super) fn turn_hue(self, pixels: &mut [u8], shift: u8) {
        dispatch!(self.0.level(), turn_hue(pixels, shift));
    }

    /// Blends every byte of `pixels` with the same byte of `degenerate`, see [`blended`].
    pub(super) fn blend(self, degenerate: &[u8], pixels: &mut [u8], factor: f32) {
        dispatch!(self.0.level(), blend(degenerate, pixels, factor));
    }

    /// Means of 3 x 3 pixels around each of the middle row, which itself counts five times. The first and the last
    /// pixel of `out` are not written. All rows have the length of `out`.
    pub(super) fn smooth(self, rows: [&[u8]; 3], channels: usize, out: &mut [u8]) {
        dispatch!(self.0.level(), smooth(rows, channels, out));
    }

    /// Blurs a row along x: output value i = sum of weight j times the bytes j pixels before and after byte i. `source`
    /// has as many pixels before and after the row as there are weights after the first. Whole blocks of [`SUMS`].
    pub(super) fn convolve_row(self, source: &[u8], weights: &[f32], channels: usize, out: &mut [f32]) {
        debug_assert!(out.len().is_multiple_of(SUMS), "whole blocks");
        dispatch!(self.0.level(), convolve_row(source, weights, channels, out));
    }

    /// Blurs along y: output byte i = sum of weight j times the values i of the rows j before and after the middle one.
    /// `starts` are the starts of the rows in `values`; the rows are whole blocks of [`SUMS`].
    pub(super) fn convolve_rows(self, values: &[f32], starts: &[usize], weights: &[f32], out: &mut [u8]) {
        dispatch!(self.0.level(), convolve_rows(values, starts, weights, out));
    }

    /// Fills row `y` of a result from positions of `source`, with the pixels that have the positions.
    pub(super) fn nearest_row(self, source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
        dispatch!(self.0.level(), nearest_row(source, shape, map, y, fill, out));
    }

    /// As [`nearest_row`](Self::nearest_row), with means of 2 x 2 pixels.
    pub(super) fn bilinear_row(self, source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
        dispatch!(self.0.level(), bilinear_row(source, shape, map, y, fill, out));
    }

    /// As [`nearest_row`](Self::nearest_row), with cubics of 4 x 4 pixels.
    pub(super) fn bicubic_row(self, source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
        dispatch!(self.0.level(), bicubic_row(source, shape, map, y, fill, out));
    }

    /// Fills a row from the positions at `start` and every `step` after it, in 65,536ths of a pixel.
    pub(super) fn fixed_row(
        self,
        source: &[u8],
        shape: Shape,
        start: [i32; 2],
        step: [i32; 2],
        fill: [u8; 3],
        out: &mut [u8],
    ) {
        dispatch!(self.0.level(), fixed_row(source, shape, start, step, fill, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(|_| byte()).collect()
    }

    /// Results of all kernels for a row of `width` pixels.
    fn results(kernels: Kernels, width: usize) -> Vec<Vec<u8>> {
        let len = width * 3;
        let source = noise(4 * len + 200);
        let table = std::array::from_fn(|i| (i * 91 + 7) as u8);
        let tables = [table, table.map(|value| value ^ 0x55), table.map(|value| value / 2)];
        let in_place = |run: &dyn Fn(&mut [u8])| {
            let mut pixels = source[..len].to_vec();
            run(&mut pixels);
            pixels
        };
        let shape = Shape::new(width, 4, 3);
        let affine = Map::Affine([0.83, 0.2, -1.3, -0.1, 0.9, 0.7]);
        let perspective = Map::Perspective([0.9, 0.1, 0.4, 0.05, 1.1, -0.3, 0.001, -0.02]);
        let weights = [0.4, 0.2, 0.1];
        let stride = len.next_multiple_of(SUMS);
        let mut results = vec![
            kernels.luma_sum(&source[..len]).to_le_bytes().to_vec(),
            in_place(&|pixels| kernels.look_up(&table, pixels)),
            in_place(&|pixels| kernels.look_up_3(&tables, pixels)),
            in_place(&|pixels| kernels.grayscale(pixels)),
            in_place(&|pixels| kernels.saturate(pixels, 1.7)),
            in_place(&|pixels| kernels.saturate(pixels, 0.3)),
            in_place(&|pixels| kernels.turn_hue(pixels, 77)),
            in_place(&|pixels| kernels.blend(&source[len..], pixels, 1.9)),
            in_place(&|pixels| {
                if width > 2 {
                    kernels.smooth([&source, &source[len..], &source[2 * len..]], 3, pixels);
                }
            }),
            in_place(&|pixels| {
                let mut values = vec![0.0; 5 * stride];
                for values in values.chunks_exact_mut(stride) {
                    kernels.convolve_row(&source, &weights, 3, values);
                }
                kernels.convolve_rows(&values, &[0, 1, 2, 3, 4].map(|row| row * stride), &weights, pixels);
            }),
            in_place(&|pixels| kernels.fixed_row(&source, shape, [-9_000, 70_000], [61_000, 900], [1, 2, 3], pixels)),
        ];
        for map in [affine, perspective] {
            let source = &source[..shape.bytes()];
            for y in 0..4 {
                results.push(in_place(&|pixels| kernels.nearest_row(source, shape, &map, y, [1, 2, 3], pixels)));
                results.push(in_place(&|pixels| kernels.bilinear_row(source, shape, &map, y, [1, 2, 3], pixels)));
                results.push(in_place(&|pixels| kernels.bicubic_row(source, shape, &map, y, [1, 2, 3], pixels)));
            }
        }
        results
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        for width in [1, 2, 3, 5, 21, 22, 31, 64, 65, 130] {
            let mut levels = Vectors::available().into_iter().map(|vectors| results(Kernels(vectors), width));
            let portable = levels.next().expect("every machine has one");
            for other in levels {
                for (number, (want, got)) in portable.iter().zip(&other).enumerate() {
                    assert_eq!(want, got, "result {number} of {width} pixels");
                }
            }
        }
    }
}
