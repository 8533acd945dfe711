//! Inverse transform at a smaller scale: 4, 2 or 1 samples across and down from a block.
//!
//! Apart from rounding, each sample is the mean of the full-size samples there. The mean of neighbouring values
//! of a cosine is again a cosine, with a smaller amplitude, so the means are computed from the same coefficients with
//! different weights. In a pass to N outputs the `j`-th output weights the coefficient `u` with the cosine of `(2 j +
//! 1) u` times 180 degrees by 2 N. All coefficients are used, not only the first N.

use super::super::order::BLOCK;
use super::islow::fits;
use super::layout::BlockRow;

/// Bits of fraction of the weights.
const FRACTION: u32 = 13;

/// Weights of a pass from eight values, for the first half of the outputs. The coefficients are in the order
/// of pairs: 0, 4, 2, 6, 7, 1, 3, 5. The second half mirrors the first: odd coefficients have the opposite weights.
pub(super) type Weights<const HALF: usize> = [[i32; 8]; HALF];

pub(super) const TO_FOUR: Weights<2> = [
    [2 << FRACTION, 0, 15137, -6270, -4176, 20995, 7373, -4926],
    [2 << FRACTION, 0, -15137, 6270, -1730, 8697, -17799, 11893],
];

const TO_TWO: Weights<1> = [[4 << FRACTION, 0, 0, 0, -5906, 29692, -10426, 6967]];

/// Runs a pass over `LANES` columns or rows at a time. Sums wrap, so that any coefficients give pixels.
#[inline(always)]
fn pass<const SIDE: usize, const HALF: usize, const LANES: usize>(
    weights: Weights<HALF>,
    values: &[[i32; LANES]; 8],
    shift: u32,
) -> [[i32; LANES]; SIDE] {
    let mut out = [[0; LANES]; SIDE];
    for (j, weights) in weights.into_iter().enumerate() {
        for lane in 0..LANES {
            let sum = |range: std::ops::Range<usize>| {
                range.fold(0_i32, |sum, k| sum.wrapping_add(values[k][lane].wrapping_mul(weights[k])))
            };
            let (even, odd) = (sum(0..4).wrapping_add(1 << (shift - 1)), sum(4..8));
            out[j][lane] = even.wrapping_add(odd) >> shift;
            out[SIDE - 1 - j][lane] = even.wrapping_sub(odd) >> shift;
        }
    }
    out
}

/// Decodes a block by pairs, and returns whether its values fit. Values that do not fit give the results of
/// libjpeg-turbo's vector code for x86.
#[inline(always)]
pub(super) fn block<const SIDE: usize, const HALF: usize>(
    weights: Weights<HALF>,
    block: &[i16; BLOCK],
    quantisation: &[i16; BLOCK],
) -> ([[u8; SIDE]; SIDE], bool) {
    // The weights are twice as large in a pass to 4, four times in one to 2: the passes shift by these bits more.
    let more = SIDE.ilog2().abs_diff(3);
    let position = |k: usize, n: usize| k / 2 * 16 + n * 2 + k % 2;
    let mut values = [[0; 8]; 8];
    for (k, row) in values.iter_mut().enumerate() {
        for (n, value) in row.iter_mut().enumerate() {
            *value = block[position(k, n)].wrapping_mul(quantisation[position(k, n)]).into();
        }
    }
    let mut rows: [[i32; 8]; SIDE] = pass(weights, &values, FRACTION - 2 + more);
    let all_fit = values.as_flattened().iter().chain(rows.as_flattened()).all(|v| fits(*v));
    let packed = |v: i32| v.clamp(i16::MIN.into(), i16::MAX.into());
    if SIDE == 4 {
        // The coefficients of row 4 are not used.
        if block[16..].iter().all(|v| *v == 0) {
            rows = [values[0].map(|v| i32::from((v << 2) as i16)); SIDE];
        }
        rows = rows.map(|row| row.map(packed));
    } else {
        // All but the first column.
        rows.iter_mut().for_each(|row| row[1..].iter_mut().for_each(|v| *v = packed(*v)));
    }
    let columns = std::array::from_fn(|n| std::array::from_fn(|y| rows[y][n]));
    let columns: [[i32; SIDE]; SIDE] = pass(weights, &columns, FRACTION + 5 + more);
    (std::array::from_fn(|y| std::array::from_fn(|x| sample(columns[x][y]))), all_fit)
}

/// Decodes a row of blocks, which `by_pairs` reorders, to `SIDE` rows. Returns true if all values fit.
#[inline(always)]
fn blocks<const SIDE: usize, const HALF: usize>(
    weights: Weights<HALF>,
    row: BlockRow<'_>,
    by_pairs: impl Fn(&[i16; BLOCK]) -> [i16; BLOCK],
    out: &mut [u8],
    stride: usize,
) -> bool {
    let mut all_fit = true;
    for (i, offset) in row.offsets.iter().enumerate() {
        let (rows, fits): ([[u8; SIDE]; SIDE], bool) = block(weights, &by_pairs(row.at(*offset)), row.quantisation);
        all_fit &= fits;
        for (y, samples) in rows.iter().enumerate() {
            out[y * stride + i * SIDE..][..SIDE].copy_from_slice(samples);
        }
    }
    all_fit
}

/// Decodes a row of blocks to a row of their means.
#[inline(always)]
fn means(row: BlockRow<'_>, out: &mut [u8]) {
    for (out, offset) in out.iter_mut().zip(row.offsets) {
        let sum = i32::from(row.coefficients[*offset as usize]) * i32::from(row.quantisation[0]);
        // libjpeg-turbo uses ten bits of values that are out of range.
        *out = sample(((sum + 4) >> 3) << 22 >> 22);
    }
}

/// See [`Kernels::idct`](super::Kernels::idct); to `side` samples a block. `by_pairs` reorders a block.
#[inline(always)]
pub(super) fn idct(
    side: u32,
    row: BlockRow<'_>,
    by_pairs: impl Fn(&[i16; BLOCK]) -> [i16; BLOCK],
    out: &mut [u8],
    stride: usize,
) -> bool {
    match side {
        4 => blocks::<4, 2>(TO_FOUR, row, by_pairs, out, stride),
        2 => blocks::<2, 1>(TO_TWO, row, by_pairs, out, stride),
        _ => {
            means(row, out);
            true
        }
    }
}

#[inline(always)]
fn sample(value: i32) -> u8 {
    (value.clamp(-128, 127) + 128) as u8
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
/// Defines `pass_to_four`, a pass from eight to four on vectors, with the functions that
/// [`passes`](super::islow::passes) uses.
macro_rules! pass_to_four {
    ($features:literal) => {
        /// Runs a pass from eight to four, as in [`reduced`](super::reduced).
        #[inline]
        #[target_feature(enable = $features)]
        fn pass_to_four<const SHIFT: u32>(pairs: [Pairs; 4]) -> [Vector; 4] {
            let round = set_32(1 << (SHIFT - 1));
            let [outer, inner] = super::layout::map_inline(super::reduced::TO_FOUR, |w| {
                let even =
                    add_product(add_product(round, pairs[0], weights(w[0], w[1])), pairs[1], weights(w[2], w[3]));
                let odd = add_product(multiply_pairs(pairs[2], weights(w[4], w[5])), pairs[3], weights(w[6], w[7]));
                [add_32(even, odd), subtract_32(even, odd)]
            });
            super::layout::map_inline([outer[0], inner[0], inner[1], outer[1]], |sum| shift_right_32::<SHIFT>(sum))
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use pass_to_four;
