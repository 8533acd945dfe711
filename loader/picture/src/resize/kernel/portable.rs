//! Kernels for any machine, which define the result of every kernel.

use super::super::weights::{FINE_BITS, ONE};
use super::columns::{RUN, Taps, Windows};

/// Bits that the column blend drops: 8 + 14 bits become 15, 7 of them a fraction.
pub(super) const COLUMN_SHIFT: i32 = 7;

/// Bits of fraction that the row blend drops at the end.
pub(super) const ROW_SHIFT: i32 = 7;

/// Bits of fraction of fine weights.
pub(super) const FINE_SHIFT: i32 = (ONE.ilog2() + FINE_BITS) as i32;

/// Half of a grey level in sums of products with fine weights.
pub(super) const FINE_HALF: i32 = 1 << (FINE_SHIFT - 1);

#[inline(always)]
pub(super) fn split(rgb: &[u8], width: usize, planes: [&mut [u8]; 3]) {
    split_from(0, rgb, width, planes);
}

/// Splits the pixels from `start` on.
#[inline(always)]
pub(super) fn split_from(start: usize, rgb: &[u8], width: usize, planes: [&mut [u8]; 3]) {
    let [r, g, b] = planes.map(|plane| &mut plane[start..width]);
    let pixels = rgb[start * 3..width * 3].as_chunks::<3>().0;
    for (((r, g), b), pixel) in r.iter_mut().zip(g).zip(b).zip(pixels) {
        [*r, *g, *b] = *pixel;
    }
}

/// These kernels have no windows.
pub(super) fn blend_windows(_: [&[u8]; 3], _: &Windows, _: [&mut [i16]; 3]) {
    unreachable!("windows are for vectors");
}

#[inline(always)]
pub(super) fn blend_taps(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]) {
    for (plane, out) in planes.into_iter().zip(out) {
        let each = taps.first.iter().zip(taps.weights.chunks_exact(taps.count));
        for (out, (first, weights)) in out.iter_mut().zip(each) {
            // Taps with weight 0 may be after the row and its margin.
            let products = plane[*first as usize..].iter().zip(weights).map(|(v, w)| i32::from(*v) * i32::from(*w));
            *out = ((products.sum::<i32>() + (1 << (COLUMN_SHIFT - 1))) >> COLUMN_SHIFT) as i16;
        }
    }
}

/// These kernels have no windows.
pub(super) fn blend_windows_finely(_: [&[u8]; 3], _: &Windows, _: [&mut [i16]; 3]) {
    unreachable!("windows are for vectors");
}

/// Blends with fine weights, and rounds to bytes, as Pillow does.
#[inline(always)]
pub(super) fn blend_taps_finely(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]) {
    let weights = taps.weights.as_chunks::<RUN>().0.chunks_exact(taps.count / RUN);
    let fine = taps.fine.as_chunks::<RUN>().0.chunks_exact(taps.count / RUN);
    let [a, b, c] = out;
    let outs = a.iter_mut().zip(b).zip(c);
    for (((a, b), c), (first, (weights, fine))) in outs.zip(taps.first.iter().zip(weights.zip(fine))) {
        for (plane, out) in planes.into_iter().zip([a, b, c]) {
            let mut sums = [[0; RUN]; 2];
            // Those after the last whole run of the row and its margin have weight 0.
            for (values, (weights, fine)) in
                plane[*first as usize..].as_chunks::<RUN>().0.iter().zip(weights.iter().zip(fine))
            {
                for i in 0..RUN {
                    let value = i32::from(values[i]);
                    sums[0][i] += value * i32::from(weights[i]);
                    sums[1][i] += value * i32::from(fine[i]);
                }
            }
            let [coarse, fine] = sums.map(|sums| sums.into_iter().sum::<i32>());
            *out = i16::from(fine_byte((coarse << FINE_BITS) + fine));
        }
    }
}

/// See [`Kernels::blend_rows_finely`](super::Kernels::blend_rows_finely).
pub(super) fn blend_rows_finely(values: &[i16], starts: &[usize], weights: &[i16], fine: &[i16], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        let products = starts.iter().zip(weights.iter().zip(fine));
        let product =
            |(start, (weight, fine)): (&usize, (&i16, &i16))| product(values[start + i], whole(*weight, *fine));
        *out = fine_byte(products.map(product).fold(0, i32::wrapping_add));
    }
}

#[inline(always)]
pub(super) fn add_row_finely(values: &[i16], weight: i16, fine: i16, sums: &mut [i32]) {
    let weight = whole(weight, fine);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(product(*value, weight)));
}

/// Product of a value that is a grey level. Those after the end of a row may be larger, and have no meaning.
#[inline(always)]
fn product(value: i16, weight: i32) -> i32 {
    i32::from(value).wrapping_mul(weight)
}

#[inline(always)]
fn whole(weight: i16, fine: i16) -> i32 {
    (i32::from(weight) << FINE_BITS) + i32::from(fine)
}

/// Nearest grey level of a sum of products with fine weights.
#[inline(always)]
pub(super) fn fine_byte(sum: i32) -> u8 {
    (sum.wrapping_add(FINE_HALF) >> FINE_SHIFT).clamp(0, 255) as u8
}

/// Each product is rounded to the fraction's 7 bits, as by the instruction PMULHRSW.
pub(super) fn blend_rows(values: &[i16], starts: &[usize], weights: &[i16], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        let mut sum = 0_i16;
        for (start, weight) in starts.iter().zip(weights) {
            let product = i32::from(values[start + i]) * i32::from(*weight) * 2;
            sum = sum.saturating_add(((product + (1 << 14)) >> 15) as i16);
        }
        *out = byte(sum);
    }
}

#[inline(always)]
pub(super) fn add_row(values: &[i16], weight: i16, sums: &mut [i32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += i32::from(*value) * i32::from(weight));
}

/// See [`Kernels::blend_rows`](super::Kernels::blend_rows): a single row of weight one.
#[inline(always)]
pub(super) fn drop_fractions(values: &[i16], out: &mut [u8]) {
    out.iter_mut().zip(values).for_each(|(out, value)| *out = byte(*value));
}

fn byte(value: i16) -> u8 {
    (value.saturating_add(1 << (ROW_SHIFT - 1)) >> ROW_SHIFT) as u8
}
