//! Kernels for any machine, which define what every kernel computes.

use super::columns::{Taps, Windows};

/// Bits that the column blend drops: 8 + 14 bits become 15, 7 of them a fraction.
pub(super) const COLUMN_SHIFT: i32 = 7;

/// Bits of fraction that the row blend drops at the end.
pub(super) const ROW_SHIFT: i32 = 7;

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
