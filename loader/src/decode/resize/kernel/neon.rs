//! Kernels for NEON.

use std::arch::aarch64::*;

use super::columns::{GROUP, Taps, Windows, unrolled};
use super::portable::{self, COLUMN_SHIFT, ROW_SHIFT};
use crate::decode::kernel::{loads, portable_with, stores};
use crate::decode::resize::planes::CHUNK;

/// Output pixels of a window.
const QUAD: usize = 4;

loads! { "neon":
    load_8([u8; 16]) -> uint8x16_t = vld1q_u8;
    load_16([i16; 8]) -> int16x8_t = vld1q_s16;
}

stores! { "neon":
    store_8([u8; 16], uint8x16_t) = vst1q_u8;
    store_half([i16; 4], int16x4_t) = vst1_s16;
}

portable_with! { "neon":
    fn split(rgb: &[u8], width: usize, planes: [&mut [u8]; 3]);
    fn blend_taps(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn add_row(values: &[i16], weight: i16, sums: &mut [i32]);
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
    let places = windows.picks.chunks_exact(pairs).zip(windows.weights.chunks_exact(pairs));
    let groups = windows.starts.as_chunks::<{ GROUP / QUAD }>().0.iter().zip(places);
    for ((starts, (picks, weights)), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        for (quad, (start, out)) in starts.iter().zip(out.as_chunks_mut::<QUAD>().0).enumerate() {
            let window =
                |at: usize| load_8(plane[*start as usize + at..].first_chunk().expect("a margin after the row"));
            let low = window(0);
            let both = uint8x16x2_t(low, if IS_WIDE { window(16) } else { low });
            // Sums of two pixels' pairs each, before the two of a pair are added.
            let mut sums = [vdupq_n_s32(0); 2];
            for (picks, weights) in picks.iter().zip(weights) {
                let picks = load_8(&picks.0.as_chunks().0[quad]);
                let weights = load_16(&weights.0.as_chunks().0[quad]);
                // `NO_BYTE` is after both vectors, which gives zero.
                let picked = if IS_WIDE { vqtbl2q_u8(both, picks) } else { vqtbl1q_u8(low, picks) };
                let picked = vreinterpretq_s16_u8(picked);
                sums[0] = vmlal_s16(sums[0], vget_low_s16(picked), vget_low_s16(weights));
                sums[1] = vmlal_high_s16(sums[1], picked, weights);
            }
            let values = vqrshrn_n_s32::<COLUMN_SHIFT>(vpaddq_s32(sums[0], sums[1]));
            store_half(out, values);
        }
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
