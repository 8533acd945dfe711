//! Inner loops of the resize, each for any machine and for vectors of 16, 32 and 64 bytes; all give the same bits.
//!
//! ```text
//! RGB row --split--> a row of bytes per channel --blend_columns--> rows of 16-bit values --blend_rows--> bytes
//! ```
//!
//! A filter with fine weights has its own kernels, `..._finely`: sums of products with 22 bits of fraction, rounded to
//! bytes after each direction. They are Pillow's, and its results have the same bits.
//!
//! [`Kernels`] selects the kernels of this machine once; its methods document the kernels of the same names.
//! [`portable`] defines the result of every kernel.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod columns;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

pub(super) use columns::Columns;

use super::planes::{CHUNK, Planes};
use super::weights::ONE;
use crate::kernel::dispatch;
use crate::vectors::{Level, Vectors};

/// Number of rows from which on the products are added before they are rounded. Each rounding may cost half of a
/// fraction's last bit, always in the same direction on an even surface. Then no row is kept for the next output row,
/// because as many would be needed as the picture is high.
pub(super) const MANY_ROWS: usize = 32;

/// Selection of the kernels for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels(Vectors);

impl Default for Kernels {
    /// Returns the kernels that decoders use.
    fn default() -> Self {
        Self(Vectors::in_use())
    }
}

impl Kernels {
    /// Returns the number of output pixels that the column kernel computes from one window of the source, and the bytes
    /// of a vector: a window has one or two. `None` if the kernel has no windows.
    pub(super) fn window(self) -> Option<(usize, usize)> {
        match self.0.level() {
            Level::Portable => None,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Some((4, 16)),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Some((16, 64)),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => Some((4, 16)),
        }
    }

    /// Splits the first pixels of `rgb`, as many as a plane is wide, into three planes.
    pub(super) fn split(self, rgb: &[u8], planes: &mut Planes<u8>) {
        let width = planes.width;
        assert!(rgb.len() >= width * 3, "a row of pixels");
        dispatch!(self.0.level(), split(rgb, width, planes.padded_rows_mut()));
    }

    /// Output value i of every plane = sum over its taps of weight * byte: with 7 bits of fraction, or with fine
    /// weights rounded to a byte.
    pub(super) fn blend_columns(self, planes: &Planes<u8>, columns: &Columns, out: [&mut [i16]; 3]) {
        let len = columns.len.next_multiple_of(CHUNK);
        assert!(planes.stride >= columns.reach, "the row continues after its last pixel");
        assert!(out.iter().all(|out| out.len() >= len), "the output holds whole chunks");
        let (planes, taps) = (planes.padded_rows(), &columns.taps);
        match (columns.windows(), columns.is_fine) {
            (Some(windows), false) => dispatch!(self.0.level(), blend_windows(planes, windows, out)),
            (Some(windows), true) => dispatch!(self.0.level(), blend_windows_finely(planes, windows, out)),
            (None, false) => dispatch!(self.0.level(), blend_taps(planes, taps, out)),
            (None, true) => dispatch!(self.0.level(), blend_taps_finely(planes, taps, out)),
        }
    }

    /// Output byte i = sum over rows of weight * value i. `starts` are the starts of the rows in `values`.
    pub(super) fn blend_rows(self, values: &[i16], starts: &[usize], weights: &[i16], out: &mut [u8]) {
        assert!(out.len().is_multiple_of(CHUNK), "whole chunks");
        assert!(!starts.is_empty() && starts.len() == weights.len(), "a weight for every row");
        assert!(starts.iter().all(|start| values.len() >= start + out.len()), "whole rows");
        if starts.len() == 1 {
            return dispatch!(self.0.level(), drop_fractions(&values[starts[0]..], out));
        }
        assert!(starts.len() < MANY_ROWS, "many rows are added up");
        // Otherwise a weight does not fit when it is doubled.
        debug_assert!(weights.iter().all(|w| (0..ONE).contains(&i32::from(*w))), "several weights add up to one");
        dispatch!(self.0.level(), blend_rows(values, starts, weights, out));
    }

    /// Output byte i = sum over rows of weight * byte i, with fine weights.
    pub(super) fn blend_rows_finely(
        self,
        values: &[i16],
        starts: &[usize],
        weights: &[i16],
        fine: &[i16],
        out: &mut [u8],
    ) {
        assert!(out.len().is_multiple_of(CHUNK), "whole chunks");
        assert!(starts.len() == weights.len() && starts.len() == fine.len(), "a weight for every row");
        assert!(starts.iter().all(|start| values.len() >= start + out.len()), "whole rows");
        dispatch!(self.0.level(), blend_rows_finely(values, starts, weights, fine, out));
    }

    /// Adds weight * value to each sum.
    pub(super) fn add_row(self, values: &[i16], weight: i16, sums: &mut [i32]) {
        assert!(values.len() == sums.len() && values.len().is_multiple_of(CHUNK), "whole chunks");
        dispatch!(self.0.level(), add_row(values, weight, sums));
    }

    /// Adds weight * byte to each sum, with a fine weight.
    pub(super) fn add_row_finely(self, values: &[i16], weight: i16, fine: i16, sums: &mut [i32]) {
        assert!(values.len() == sums.len() && values.len().is_multiple_of(CHUNK), "whole chunks");
        dispatch!(self.0.level(), add_row_finely(values, weight, fine, sums));
    }

    /// Converts sums of rows to bytes, after fine weights.
    pub(super) fn finish_sums_finely(self, sums: &[i32], out: &mut [u8]) {
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = portable::fine_byte(*sum));
    }

    /// Converts sums of rows with weights that add up to one to bytes.
    pub(super) fn finish_sums(self, sums: &[i32], out: &mut [u8]) {
        const SHIFT: i32 = portable::ROW_SHIFT + ONE.ilog2() as i32;
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = ((sum + (1 << (SHIFT - 1))) >> SHIFT) as u8;
        }
    }
}

/// Returns two weights as 32 bits, or one and 0.
#[cfg(target_arch = "x86_64")]
fn pair(weights: &[i16]) -> i32 {
    let bits = |position: usize| weights.get(position).map_or(0, |weight| u32::from(weight.cast_unsigned()));
    (bits(0) | bits(1) << 16).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::super::planes::{MARGIN, three_rows};
    use super::super::weights::{Axis, Method, Span};
    use super::*;

    /// Returns the kernels of all levels that this machine has, the best last.
    fn all_kernels() -> Vec<Kernels> {
        Vectors::available().into_iter().map(Kernels).collect()
    }

    struct Lcg(u32);

    impl Lcg {
        fn byte(&mut self) -> u8 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 24) as u8
        }
    }

    /// Bytes with many at the limit.
    fn source(len: usize) -> Vec<u8> {
        let mut random = Lcg(1);
        (0..len).map(|i| if i % 7 == 0 { 255 } else { random.byte() }).collect()
    }

    fn planes(width: usize) -> Planes<u8> {
        let mut planes = Planes::default();
        planes.start(width, MARGIN);
        let bytes = source(planes.stride * 3);
        planes.all_mut().copy_from_slice(&bytes);
        planes
    }

    #[test]
    fn every_kernel_splits_rows_alike() {
        for width in [1, 2, 15, 16, 17, 63, 64, 65, 129, 500] {
            for more in [0, 1, 64, 300] {
                let rgb = source(width * 3 + more);
                for kernels in all_kernels() {
                    let mut got = planes(width);
                    kernels.split(&rgb, &mut got);
                    for (c, plane) in got.padded_rows().into_iter().enumerate() {
                        let want: Vec<u8> = rgb[..width * 3].iter().skip(c).step_by(3).copied().collect();
                        assert_eq!(plane[..width], want, "{width} {kernels:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_row_kernel_gives_the_same_bytes() {
        for rows in [1_usize, 2, 3, 4, 5, 11, 31] {
            for len in [32_usize, 96, 128, 160, 672] {
                let values: Vec<i16> = source(len * rows + 5).iter().map(|byte| i16::from(*byte) * 128).collect();
                let starts: Vec<usize> = (0..rows).rev().map(|row| row * len + 5).collect();
                let mut weights = vec![(ONE / rows as i32) as i16; rows];
                weights[0] += (ONE - ONE / rows as i32 * rows as i32) as i16;
                let mut want = vec![0; len];
                all_kernels()[0].blend_rows(&values, &starts, &weights, &mut want);
                for kernels in all_kernels() {
                    let mut got = vec![7; len];
                    kernels.blend_rows(&values, &starts, &weights, &mut got);
                    assert_eq!(want, got, "{rows} rows of {len}, {kernels:?}");
                }
            }
        }
    }

    #[test]
    fn every_row_kernel_with_fine_weights_gives_the_same_bytes() {
        for rows in [1_usize, 2, 3, 4, 5, 11, 32, 127] {
            for len in [32_usize, 64, 96, 128, 160, 672] {
                let values: Vec<i16> = source(len * rows + 5).iter().map(|byte| i16::from(*byte)).collect();
                let starts: Vec<usize> = (0..rows).rev().map(|row| row * len + 5).collect();
                // Some below 0, so that sums are outside of the grey levels.
                let share = ONE / rows as i32;
                let weights: Vec<i16> =
                    (0..rows as i32).map(|row| (share + [share / 3, 0, -share / 2][row as usize % 3]) as i16).collect();
                let fine: Vec<i16> = (0..rows).map(|row| (row * 97 % 256) as i16).collect();
                let results: Vec<Vec<u8>> = all_kernels()
                    .into_iter()
                    .map(|kernels| {
                        let mut out = vec![7; len];
                        kernels.blend_rows_finely(&values, &starts, &weights, &fine, &mut out);
                        out
                    })
                    .collect();
                assert!(results.iter().all(|out| *out == results[0]), "{rows} rows of {len}");
                let mut sums = vec![0; len];
                for (start, (weight, fine)) in starts.iter().zip(weights.iter().zip(&fine)) {
                    for kernels in all_kernels() {
                        let mut added = sums.clone();
                        kernels.add_row_finely(&values[*start..][..len], *weight, *fine, &mut added);
                        let mut want = sums.clone();
                        all_kernels()[0].add_row_finely(&values[*start..][..len], *weight, *fine, &mut want);
                        assert_eq!(added, want, "{kernels:?}");
                    }
                    all_kernels()[0].add_row_finely(&values[*start..][..len], *weight, *fine, &mut sums);
                }
                let mut out = vec![7; len];
                all_kernels()[0].finish_sums_finely(&sums, &mut out);
                assert_eq!(out, results[0], "{rows} rows of {len}");
            }
        }
    }

    #[test]
    fn an_even_surface_keeps_its_value_however_many_rows_there_are() {
        for rows in [1_usize, 2, 3, 7, 31] {
            for level in [0, 1, 127, 254, 255_u8] {
                let values = vec![i16::from(level) * 128; 64 * rows];
                let starts: Vec<usize> = (0..rows).map(|row| row * 64).collect();
                let mut weights = vec![(ONE / rows as i32) as i16; rows];
                weights[0] += (ONE - ONE / rows as i32 * rows as i32) as i16;
                for kernels in all_kernels() {
                    let mut got = vec![7; 64];
                    kernels.blend_rows(&values, &starts, &weights, &mut got);
                    assert_eq!(got, [level; 64], "{rows} rows, {kernels:?}");
                }
            }
        }
    }

    #[test]
    fn every_kernel_adds_rows_up_alike_and_many_keep_an_even_surface() {
        for rows in [32_usize, 33, 600] {
            let values: Vec<i16> = source(96 * rows).iter().map(|byte| i16::from(*byte) * 128).collect();
            let weight = |row: usize| ((row + 1) * ONE as usize / rows - row * ONE as usize / rows) as i16;
            let sums = |kernels: Kernels, values: &[i16]| {
                let mut sums = vec![0; 96];
                for (row, values) in values.chunks(96).enumerate() {
                    kernels.add_row(values, weight(row), &mut sums);
                }
                sums
            };
            let want = sums(all_kernels()[0], &values);
            for kernels in all_kernels() {
                assert_eq!(want, sums(kernels, &values), "{rows} rows, {kernels:?}");
                for level in [0, 1, 127, 254, 255_u8] {
                    let mut got = [7; 96];
                    kernels.finish_sums(&sums(kernels, &vec![i16::from(level) * 128; 96 * rows]), &mut got);
                    assert_eq!(got, [level; 96], "{rows} rows, {kernels:?}");
                }
            }
        }
    }

    #[test]
    fn every_column_kernel_gives_the_same_bits() {
        let (mut windowed, mut wide) = (0, 0);
        for (input, output) in [
            (500, 224),
            (100, 224),
            (7, 3),
            (1000, 10),
            (1, 6),
            (448, 224),
            (224, 225),
            (600, 224),
            (850, 224),
            (900, 224),
            (1300, 224),
            (1600, 224),
            (1700, 224),
            (3, 900),
            (4_194_400, 224),
        ] {
            for (flip, method) in [
                (false, Method::Bilinear),
                (true, Method::Bilinear),
                (true, Method::Nearest),
                (true, Method::FineBilinear),
                (false, Method::Bicubic),
                (true, Method::Bicubic),
            ] {
                for shown in [(0, output), (output / 3, output / 2 + 1)] {
                    let mut axis = Axis::default();
                    axis.compute(method, Span::new(0, input, 1), output, shown, flip);
                    let planes = planes(axis.span().1 as usize);
                    let mut columns = Columns::default();
                    let len = axis.len().next_multiple_of(CHUNK);
                    let run = |kernels: Kernels, columns: &Columns| {
                        let mut out = vec![7; 3 * len];
                        kernels.blend_columns(&planes, columns, three_rows(&mut out));
                        out.chunks(len).map(|plane| plane[..axis.len()].to_vec()).collect::<Vec<_>>()
                    };
                    let portable = all_kernels()[0];
                    columns.pack(&axis, portable.window());
                    let want = run(portable, &columns);
                    for kernels in all_kernels() {
                        columns.pack(&axis, kernels.window());
                        windowed += u32::from(columns.windows().is_some());
                        wide += u32::from(columns.windows().is_some_and(|windows| windows.is_wide));
                        let about = format!("{input} to {output}, {shown:?}, {flip}, {kernels:?}");
                        assert_eq!(want, run(kernels, &columns), "{about}");
                    }
                }
            }
        }
        // Large reductions need more than a window.
        let levels = all_kernels().len() as u32 - 1;
        assert!(levels == 0 || (levels * 60 < windowed && windowed < levels * 140), "{windowed}");
        assert!(levels == 0 || wide > levels * 12, "{wide}");
    }
}
