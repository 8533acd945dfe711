//! Kernels of the resize for NEON.

use std::arch::aarch64::*;

use super::columns::{GROUP, Taps, Windows, unrolled};
use super::portable::{self, COLUMN_SHIFT, FINE_SHIFT, ROW_SHIFT};
use crate::kernel::{loads, portable_with, stores};
use crate::resize::planes::CHUNK;
use crate::resize::weights::FINE_BITS;

/// Output pixels of a window.
const QUAD: usize = 4;

loads! { "neon":
    load_8([u8; 16]) -> uint8x16_t = vld1q_u8;
    load_16([i16; 8]) -> int16x8_t = vld1q_s16;
}

stores! { "neon":
    store_8([u8; 16], uint8x16_t) = vst1q_u8;
    store_half([i16; 4], int16x4_t) = vst1_s16;
    store_half_8([u8; 8], uint8x8_t) = vst1_u8;
}

portable_with! { "neon":
    fn split(rgb: &[u8], width: usize, planes: [&mut [u8]; 3]);
    fn blend_taps(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn blend_taps_finely(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn add_row(values: &[i16], weight: i16, sums: &mut [i32]);
    fn add_row_finely(values: &[i16], weight: i16, fine: i16, sums: &mut [i32]);
    fn drop_fractions(values: &[i16], out: &mut [u8]);
}

/// See [`Kernels::blend_columns`](super::Kernels::blend_columns): each group has four windows.
#[target_feature(enable = "neon")]
pub(super) fn blend_windows(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    for (plane, out) in planes.into_iter().zip(out) {
        unrolled!(groups(plane, windows, out));
    }
}

/// `PAIRS` is `windows.pairs`, or 0 for any number.
#[inline]
#[target_feature(enable = "neon")]
fn groups<const PAIRS: usize, const IS_WIDE: bool>(plane: &[u8], windows: &Windows, out: &mut [i16]) {
    let pairs = if PAIRS == 0 { windows.pairs } else { PAIRS };
    let positions = windows.picks.chunks_exact(pairs).zip(windows.weights.chunks_exact(pairs));
    let groups = windows.starts.as_chunks::<{ GROUP / QUAD }>().0.iter().zip(positions);
    for ((starts, (picks, weights)), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        for (quad, (start, out)) in starts.iter().zip(out.as_chunks_mut::<QUAD>().0).enumerate() {
            let window = load_window::<IS_WIDE>(plane, *start);
            // Sums of two pixels' pairs each, before the two of a pair are added.
            let mut sums = [vdupq_n_s32(0); 2];
            for (picks, weights) in picks.iter().zip(weights) {
                let picked = pick::<IS_WIDE>(window, load_8(&picks.0.as_chunks().0[quad]));
                add_products(&mut sums, picked, load_16(&weights.0.as_chunks().0[quad]));
            }
            let values = vqrshrn_n_s32::<COLUMN_SHIFT>(vpaddq_s32(sums[0], sums[1]));
            store_half(out, values);
        }
    }
}

/// Returns a window's first 16 bytes, and its second ones.
#[inline]
#[target_feature(enable = "neon")]
fn load_window<const IS_WIDE: bool>(plane: &[u8], start: u32) -> uint8x16x2_t {
    let window = |at: usize| load_8(plane[start as usize + at..].first_chunk().expect("a margin after the row"));
    let low = window(0);
    uint8x16x2_t(low, if IS_WIDE { window(16) } else { low })
}

/// Returns the bytes at the positions `picks` of a window.
#[inline]
#[target_feature(enable = "neon")]
fn pick<const IS_WIDE: bool>(window: uint8x16x2_t, picks: uint8x16_t) -> int16x8_t {
    // `NO_BYTE` is after both vectors, which gives zero.
    vreinterpretq_s16_u8(if IS_WIDE { vqtbl2q_u8(window, picks) } else { vqtbl1q_u8(window.0, picks) })
}

/// Adds products of the lower and of the upper halves.
#[inline]
#[target_feature(enable = "neon")]
fn add_products(sums: &mut [int32x4_t; 2], values: int16x8_t, weights: int16x8_t) {
    sums[0] = vmlal_s16(sums[0], vget_low_s16(values), vget_low_s16(weights));
    sums[1] = vmlal_high_s16(sums[1], values, weights);
}

/// See [`blend_windows`]; with fine weights.
#[target_feature(enable = "neon")]
pub(super) fn blend_windows_finely(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    for (plane, out) in planes.into_iter().zip(out) {
        if windows.is_wide {
            fine_groups::<true>(plane, windows, out)
        } else {
            fine_groups::<false>(plane, windows, out)
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn fine_groups<const IS_WIDE: bool>(plane: &[u8], windows: &Windows, out: &mut [i16]) {
    let Windows { pairs, picks, weights, fine, starts, .. } = windows;
    let positions = picks.chunks_exact(*pairs).zip(weights.chunks_exact(*pairs).zip(fine.chunks_exact(*pairs)));
    let groups = starts.as_chunks::<{ GROUP / QUAD }>().0.iter().zip(positions);
    for ((starts, (picks, (weights, fine))), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        for (quad, (start, out)) in starts.iter().zip(out.as_chunks_mut::<QUAD>().0).enumerate() {
            let window = load_window::<IS_WIDE>(plane, *start);
            let (mut sums, mut fine_sums) = ([vdupq_n_s32(0); 2], [vdupq_n_s32(0); 2]);
            for (picks, (weights, fine)) in picks.iter().zip(weights.iter().zip(fine)) {
                let picked = pick::<IS_WIDE>(window, load_8(&picks.0.as_chunks().0[quad]));
                add_products(&mut sums, picked, load_16(&weights.0.as_chunks().0[quad]));
                add_products(&mut fine_sums, picked, load_16(&fine.0.as_chunks().0[quad]));
            }
            let levels = fine_levels(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(fine_sums[0], fine_sums[1]));
            store_half(out, vreinterpret_s16_u16(vmin_u16(levels, vdup_n_u16(255))));
        }
    }
}

/// Returns the grey levels of sums of products with fine weights, which may be above 255.
#[inline]
#[target_feature(enable = "neon")]
fn fine_levels(coarse: int32x4_t, fine: int32x4_t) -> uint16x4_t {
    let sums = vaddq_s32(vshlq_n_s32::<{ FINE_BITS as i32 }>(coarse), fine);
    vqmovun_s32(vrshrq_n_s32::<FINE_SHIFT>(sums))
}

#[target_feature(enable = "neon")]
pub(super) fn blend_rows_finely(values: &[i16], starts: &[usize], weights: &[i16], fine: &[i16], out: &mut [u8]) {
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (mut sums, mut fine_sums) = ([vdupq_n_s32(0); 2], [vdupq_n_s32(0); 2]);
        for (start, (weight, fine)) in starts.iter().zip(weights.iter().zip(fine)) {
            let values = load_16(values[start + 8 * i..].first_chunk().expect("a whole row"));
            add_products(&mut sums, values, vdupq_n_s16(*weight));
            add_products(&mut fine_sums, values, vdupq_n_s16(*fine));
        }
        let low = fine_levels(sums[0], fine_sums[0]);
        let high = fine_levels(sums[1], fine_sums[1]);
        store_half_8(out, vqmovn_u16(vcombine_u16(low, high)));
    }
}

#[target_feature(enable = "neon")]
pub(super) fn blend_rows(values: &[i16], starts: &[usize], weights: &[i16], out: &mut [u8]) {
    for (i, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
        let mut sums = [vdupq_n_s16(0); 4];
        for (start, weight) in starts.iter().zip(weights) {
            let weight = vdupq_n_s16(weight << 1);
            let values = values[start + CHUNK * i..][..CHUNK].as_chunks().0;
            for (sum, values) in sums.iter_mut().zip(values) {
                *sum = vqaddq_s16(*sum, vqrdmulhq_s16(load_16(values), weight));
            }
        }
        round_to_bytes(sums, out);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn round_to_bytes(sums: [int16x8_t; 4], out: &mut [u8; CHUNK]) {
    for (sums, out) in sums.as_chunks::<2>().0.iter().zip(out.as_chunks_mut().0) {
        let (low, high) = (vqrshrun_n_s16::<ROW_SHIFT>(sums[0]), vqrshrun_n_s16::<ROW_SHIFT>(sums[1]));
        store_8(out, vcombine_u8(low, high));
    }
}
