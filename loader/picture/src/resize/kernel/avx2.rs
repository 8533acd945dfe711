//! Kernels of the resize for AVX2.

use std::arch::x86_64::*;

use super::columns::{GROUP, Taps, Windows, unrolled};
use super::pair;
use super::portable::{self, COLUMN_SHIFT, FINE_HALF, FINE_SHIFT, ROW_SHIFT};
use crate::kernel::{loads, portable_with, stores, table};
use crate::resize::planes::CHUNK;
use crate::resize::weights::FINE_BITS;

/// Output pixels of a window.
const QUAD: usize = 4;

/// Pixels that are split at a time.
const PIXELS: usize = 16;

/// Positions of each channel's bytes in each third of 48 bytes; the rest is zero.
const POSITIONS: [[[u8; PIXELS]; 3]; 3] = table!(3, |c| table!(3, |third| table!(PIXELS, |x| {
    if (3 * x + c) / PIXELS == third { ((3 * x + c) % PIXELS) as u8 } else { 0x80 }
})));

loads! { "avx2":
    load([u8; 16]) -> __m128i = _mm_loadu_si128;
    load_8([u8; 32]) -> __m256i = _mm256_loadu_si256;
    load_16([i16; 16]) -> __m256i = _mm256_loadu_si256;
}

stores! { "avx2":
    store([u8; 16], __m128i) = _mm_storeu_si128;
    store_8([u8; 32], __m256i) = _mm256_storeu_si256;
    store_16([i16; 16], __m256i) = _mm256_storeu_si256;
}

portable_with! { "avx2":
    fn blend_taps(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn blend_taps_finely(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn add_row(values: &[i16], weight: i16, sums: &mut [i32]);
    fn add_row_finely(values: &[i16], weight: i16, fine: i16, sums: &mut [i32]);
    fn drop_fractions(values: &[i16], out: &mut [u8]);
}

#[target_feature(enable = "avx2")]
pub(super) fn split(rgb: &[u8], width: usize, planes: [&mut [u8]; 3]) {
    let positions = POSITIONS.map(|channel| [load(&channel[0]), load(&channel[1]), load(&channel[2])]);
    let [r, g, b] = planes;
    let whole = width / PIXELS * PIXELS;
    let rows = [&mut r[..whole], &mut g[..whole], &mut b[..whole]].map(|plane| plane.as_chunks_mut::<PIXELS>().0);
    let [rows_r, rows_g, rows_b] = rows;
    let outs = rows_r.iter_mut().zip(rows_g).zip(rows_b);
    for (((r, g), b), pixels) in outs.zip(rgb.as_chunks::<{ 3 * PIXELS }>().0) {
        let [first, second, third] = pixels.as_chunks::<16>().0 else { unreachable!("three vectors") };
        let (first, second, third) = (load(first), load(second), load(third));
        for (out, positions) in [r, g, b].into_iter().zip(positions) {
            let plane = _mm_or_si128(_mm_shuffle_epi8(first, positions[0]), _mm_shuffle_epi8(second, positions[1]));
            let plane = _mm_or_si128(plane, _mm_shuffle_epi8(third, positions[2]));
            store(out, plane);
        }
    }
    portable::split_from(whole, rgb, width, [r, g, b]);
}

/// See [`Kernels::blend_columns`](super::Kernels::blend_columns): each group has four windows.
#[target_feature(enable = "avx2")]
pub(super) fn blend_windows(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    for (plane, out) in planes.into_iter().zip(out) {
        unrolled!(groups(plane, windows, out));
    }
}

/// `PAIRS` is `windows.pairs`, or 0 for any number.
#[inline]
#[target_feature(enable = "avx2")]
fn groups<const PAIRS: usize, const IS_WIDE: bool>(plane: &[u8], windows: &Windows, out: &mut [i16]) {
    const { assert!(COLUMN_SHIFT == 7) };
    let pairs = if PAIRS == 0 { windows.pairs } else { PAIRS };
    let round = _mm256_set1_epi32(1 << (COLUMN_SHIFT - 1));
    let positions = windows.picks.chunks_exact(pairs).zip(windows.weights.chunks_exact(pairs));
    let groups = windows.starts.as_chunks::<{ GROUP / QUAD }>().0.iter().zip(positions);
    for ((starts, (picks, weights)), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        let windows = load_windows::<IS_WIDE>(plane, starts);
        let mut sums = [round; 2];
        for (picks, weights) in picks.iter().zip(weights) {
            let (picks, weights) = (picks.0.as_chunks().0, weights.0.as_chunks().0);
            for (i, sum) in sums.iter_mut().enumerate() {
                let picked = pick::<IS_WIDE>(windows[i], load_8(&picks[i]));
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(picked, load_16(&weights[i])));
            }
        }
        let [low, high] = sums.map(|sum| _mm256_srai_epi32::<7>(sum));
        // Packing works within 128-bit lanes: quads 0, 2, 1, 3.
        let values = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
        store_16(out, values);
    }
}

/// Returns the windows of a group, each two quads in the first 16 bytes of the four windows, and in their second ones.
#[inline]
#[target_feature(enable = "avx2")]
fn load_windows<const IS_WIDE: bool>(plane: &[u8], starts: &[u32; GROUP / QUAD]) -> [[__m256i; 2]; 2] {
    let window = |at: usize| {
        let quads =
            starts.map(|start| load(plane[start as usize + at..].first_chunk().expect("a margin after the row")));
        [_mm256_set_m128i(quads[1], quads[0]), _mm256_set_m128i(quads[3], quads[2])]
    };
    let low = window(0);
    let high = if IS_WIDE { window(16) } else { low };
    [[low[0], high[0]], [low[1], high[1]]]
}

/// Returns the bytes at the positions `picks` of a window.
#[inline]
#[target_feature(enable = "avx2")]
fn pick<const IS_WIDE: bool>([low, high]: [__m256i; 2], picks: __m256i) -> __m256i {
    if !IS_WIDE {
        return _mm256_shuffle_epi8(low, picks);
    }
    // Positions from 16 on get the highest bit for the first half, positions below it for the second.
    let first = _mm256_adds_epu8(picks, _mm256_set1_epi8(0x70));
    let second = _mm256_sub_epi8(picks, _mm256_set1_epi8(0x10));
    _mm256_or_si256(_mm256_shuffle_epi8(low, first), _mm256_shuffle_epi8(high, second))
}

/// See [`blend_windows`]; with fine weights.
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
fn fine_groups<const IS_WIDE: bool>(plane: &[u8], windows: &Windows, out: &mut [i16]) {
    let Windows { pairs, picks, weights, fine, starts, .. } = windows;
    let positions = picks.chunks_exact(*pairs).zip(weights.chunks_exact(*pairs).zip(fine.chunks_exact(*pairs)));
    let groups = starts.as_chunks::<{ GROUP / QUAD }>().0.iter().zip(positions);
    for ((starts, (picks, (weights, fine))), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        let windows = load_windows::<IS_WIDE>(plane, starts);
        let mut sums = [FineSum::new(), FineSum::new()];
        for (picks, (weights, fine)) in picks.iter().zip(weights.iter().zip(fine)) {
            let (picks, weights, fine) = (picks.0.as_chunks().0, weights.0.as_chunks().0, fine.0.as_chunks().0);
            for (i, sum) in sums.iter_mut().enumerate() {
                let picked = pick::<IS_WIDE>(windows[i], load_8(&picks[i]));
                sum.add(picked, load_16(&weights[i]), load_16(&fine[i]));
            }
        }
        // Packing works within 128-bit lanes: quads 0, 2, 1, 3.
        let [low, high] = sums.map(|sum| sum.levels());
        let values = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
        store_16(out, _mm256_min_epi16(_mm256_max_epi16(values, _mm256_setzero_si256()), _mm256_set1_epi16(255)));
    }
}

/// Eight sums of products with fine weights. Their lower bits are summed up apart.
#[derive(Clone, Copy)]
struct FineSum {
    coarse: __m256i,
    fine: __m256i,
}

impl FineSum {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        Self { coarse: _mm256_setzero_si256(), fine: _mm256_set1_epi32(FINE_HALF) }
    }

    /// Adds pairs of products.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, values: __m256i, weights: __m256i, fine: __m256i) {
        self.coarse = _mm256_add_epi32(self.coarse, _mm256_madd_epi16(values, weights));
        self.fine = _mm256_add_epi32(self.fine, _mm256_madd_epi16(values, fine));
    }

    /// Returns grey levels, which may be below 0 or above 255.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn levels(self) -> __m256i {
        let coarse = _mm256_slli_epi32::<{ FINE_BITS as i32 }>(self.coarse);
        _mm256_srai_epi32::<FINE_SHIFT>(_mm256_add_epi32(coarse, self.fine))
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn blend_rows_finely(values: &[i16], starts: &[usize], weights: &[i16], fine: &[i16], out: &mut [u8]) {
    for (i, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
        // For each half of the chunk the lower and the upper halves of its lanes.
        let mut sums = [[FineSum::new(); 2]; 2];
        for (starts, (weights, fine)) in starts.chunks(2).zip(weights.chunks(2).zip(fine.chunks(2))) {
            let (weights, fine) = (_mm256_set1_epi32(pair(weights)), _mm256_set1_epi32(pair(fine)));
            let row = |row: usize| values[starts[row] + CHUNK * i..][..CHUNK].as_chunks().0;
            let rows = [row(0), row(starts.len() - 1)];
            for (half, sums) in sums.iter_mut().enumerate() {
                let [a, b] = rows.map(|row| load_16(&row[half]));
                sums[0].add(_mm256_unpacklo_epi16(a, b), weights, fine);
                sums[1].add(_mm256_unpackhi_epi16(a, b), weights, fine);
            }
        }
        let [low, high] = sums.map(|[low, high]| _mm256_packs_epi32(low.levels(), high.levels()));
        // Packing works within 128-bit lanes: quarters 0, 2, 1, 3.
        store_8(out, _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high)));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn blend_rows(values: &[i16], starts: &[usize], weights: &[i16], out: &mut [u8]) {
    for (i, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
        let mut sums = [_mm256_setzero_si256(); 2];
        for (start, weight) in starts.iter().zip(weights) {
            let weight = _mm256_set1_epi16(weight << 1);
            let values = values[start + CHUNK * i..][..CHUNK].as_chunks().0;
            for (sum, values) in sums.iter_mut().zip(values) {
                *sum = _mm256_adds_epi16(*sum, _mm256_mulhrs_epi16(load_16(values), weight));
            }
        }
        round_to_bytes(sums, out);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn round_to_bytes(sums: [__m256i; 2], out: &mut [u8; CHUNK]) {
    const { assert!(ROW_SHIFT == 7) };
    let round = _mm256_set1_epi16(1 << (ROW_SHIFT - 1));
    let [low, high] = sums.map(|sum| _mm256_srli_epi16::<7>(_mm256_adds_epi16(sum, round)));
    // Packing works within 128-bit lanes: quarters 0, 2, 1, 3.
    let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high));
    store_8(out, bytes);
}
