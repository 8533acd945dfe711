//! Kernels for AVX-512 with byte permutations and dot products (VBMI, VNNI).

use std::arch::x86_64::*;

use super::columns::{GROUP, Taps, Windows, unrolled};
use super::pair;
use super::portable::{self, COLUMN_SHIFT, FINE_HALF, FINE_SHIFT, ROW_SHIFT};
use crate::kernel::{loads, portable_with, stores, table};
use crate::resize::planes::CHUNK;
use crate::resize::weights::FINE_BITS;

/// Pixels that are split at a time.
const PIXELS: usize = 64;

/// Position of pixel i's byte of each channel, in that one of three vectors that contains it.
const POSITIONS: [[u8; PIXELS]; 3] = table!(3, |c| table!(PIXELS, |x| ((3 * x + c) % PIXELS) as u8));

/// Pixels in each of three vectors, by channel.
const PIXELS_OF: [[u64; 3]; 3] = {
    let mut pixels_of = [[0; 3]; 3];
    let mut i = 0;
    while i < 3 * PIXELS {
        pixels_of[i % 3][i / PIXELS] |= 1 << (i / 3);
        i += 1;
    }
    pixels_of
};

loads! { "avx512f,avx512bw":
    load_8([u8; 64]) -> __m512i = _mm512_loadu_epi8;
    load_16([i16; 32]) -> __m512i = _mm512_loadu_epi16;
}

stores! { "avx512f,avx512bw":
    store_8([u8; 64], __m512i) = _mm512_storeu_epi8;
    store_half([u8; 32], __m256i) = _mm256_storeu_si256;
    store_half_16([i16; 16], __m256i) = _mm256_storeu_si256;
}

portable_with! { "avx512f,avx512bw":
    fn blend_taps(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn blend_taps_finely(planes: [&[u8]; 3], taps: &Taps, out: [&mut [i16]; 3]);
    fn add_row(values: &[i16], weight: i16, sums: &mut [i32]);
    fn add_row_finely(values: &[i16], weight: i16, fine: i16, sums: &mut [i32]);
    fn drop_fractions(values: &[i16], out: &mut [u8]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn split(rgb: &[u8], width: usize, planes: [&mut [u8]; 3]) {
    let [r, g, b] = planes;
    let positions = [load_8(&POSITIONS[0]), load_8(&POSITIONS[1]), load_8(&POSITIONS[2])];
    let mut at = 0;
    // Pixels after the last one are written if there is room for a whole vector of them.
    while at < width
        && let Some(pixels) = rgb[3 * at..].first_chunk::<{ 3 * PIXELS }>()
        && let Some(r) = r[at..].first_chunk_mut()
        && let Some(g) = g[at..].first_chunk_mut()
        && let Some(b) = b[at..].first_chunk_mut()
    {
        let [first, second, third] = pixels.as_chunks::<64>().0 else { unreachable!("three vectors") };
        let (first, second, third) = (load_8(first), load_8(second), load_8(third));
        for ((out, positions), pixels_of) in [r, g, b].into_iter().zip(positions).zip(PIXELS_OF) {
            let plane = _mm512_maskz_permutexvar_epi8(pixels_of[0], positions, first);
            let plane = _mm512_mask_permutexvar_epi8(plane, pixels_of[1], positions, second);
            store_8(out, _mm512_mask_permutexvar_epi8(plane, pixels_of[2], positions, third));
        }
        at += PIXELS;
    }
    if at < width {
        portable::split_from(at, rgb, width, [r, g, b]);
    }
}

/// See [`Kernels::blend_columns`](super::Kernels::blend_columns): each group has one window.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn blend_windows(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    unrolled!(groups(planes, windows, out));
}

/// `PAIRS` is `windows.pairs`, or 0 for any number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn groups<const PAIRS: usize, const IS_WIDE: bool>(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    const { assert!(COLUMN_SHIFT == 7) };
    let pairs = if PAIRS == 0 { windows.pairs } else { PAIRS };
    let round = _mm512_set1_epi32(1 << (COLUMN_SHIFT - 1));
    let [a, b, c] = out.map(|out| out.as_chunks_mut::<GROUP>().0.iter_mut());
    let positions = windows.picks.chunks_exact(pairs).zip(windows.weights.chunks_exact(pairs));
    for ((start, (picks, weights)), ((a, b), c)) in windows.starts.iter().zip(positions).zip(a.zip(b).zip(c)) {
        let mut sums = [round; 3];
        let windows = planes.map(|plane| load_window::<IS_WIDE>(plane, *start));
        for (picks, weights) in picks.iter().zip(weights) {
            let (picks, weights) = (load_8(&picks.0), load_16(&weights.0));
            for (sum, window) in sums.iter_mut().zip(windows) {
                *sum = _mm512_dpwssd_epi32(*sum, pick::<IS_WIDE>(window, picks), weights);
            }
        }
        for (out, sum) in [a, b, c].into_iter().zip(sums) {
            let values = _mm512_cvtepi32_epi16(_mm512_srai_epi32::<7>(sum));
            store_half_16(out, values);
        }
    }
}

/// Returns a window's first 64 bytes, and its second ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_window<const IS_WIDE: bool>(plane: &[u8], start: u32) -> [__m512i; 2] {
    let window: &[u8; 128] = plane[start as usize..].first_chunk().expect("a margin after the row");
    let [low, high] = window.as_chunks::<64>().0 else { unreachable!("two vectors") };
    let low = load_8(low);
    [low, if IS_WIDE { load_8(high) } else { low }]
}

/// Returns the bytes at the positions `picks` of a window.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn pick<const IS_WIDE: bool>([low, high]: [__m512i; 2], picks: __m512i) -> __m512i {
    /// Mask of the low byte of every 16 bits.
    const LOW: u64 = 0x5555_5555_5555_5555;
    if IS_WIDE {
        _mm512_maskz_permutex2var_epi8(LOW, low, picks, high)
    } else {
        _mm512_maskz_permutexvar_epi8(LOW, picks, low)
    }
}

/// See [`blend_windows`]; with fine weights.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn blend_windows_finely(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    if windows.is_wide { fine_groups::<true>(planes, windows, out) } else { fine_groups::<false>(planes, windows, out) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn fine_groups<const IS_WIDE: bool>(planes: [&[u8]; 3], windows: &Windows, out: [&mut [i16]; 3]) {
    let Windows { pairs, picks, weights, fine, starts, .. } = windows;
    let [a, b, c] = out.map(|out| out.as_chunks_mut::<GROUP>().0.iter_mut());
    let positions = picks.chunks_exact(*pairs).zip(weights.chunks_exact(*pairs).zip(fine.chunks_exact(*pairs)));
    for ((start, (picks, (weights, fine))), ((a, b), c)) in starts.iter().zip(positions).zip(a.zip(b).zip(c)) {
        let mut sums = [FineSum::new(); 3];
        let windows = planes.map(|plane| load_window::<IS_WIDE>(plane, *start));
        for (picks, (weights, fine)) in picks.iter().zip(weights.iter().zip(fine)) {
            let (picks, weights, fine) = (load_8(&picks.0), load_16(&weights.0), load_16(&fine.0));
            for (sum, window) in sums.iter_mut().zip(windows) {
                sum.add(pick::<IS_WIDE>(window, picks), weights, fine);
            }
        }
        for (out, sum) in [a, b, c].into_iter().zip(sums) {
            let levels =
                _mm512_min_epi32(_mm512_max_epi32(sum.levels(), _mm512_setzero_si512()), _mm512_set1_epi32(255));
            store_half_16(out, _mm512_cvtepi32_epi16(levels));
        }
    }
}

/// Sixteen sums of products with fine weights. Their lower bits are summed up apart.
#[derive(Clone, Copy)]
struct FineSum {
    coarse: __m512i,
    fine: __m512i,
}

impl FineSum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        Self { coarse: _mm512_setzero_si512(), fine: _mm512_set1_epi32(FINE_HALF) }
    }

    /// Adds pairs of products.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn add(&mut self, values: __m512i, weights: __m512i, fine: __m512i) {
        self.coarse = _mm512_dpwssd_epi32(self.coarse, values, weights);
        self.fine = _mm512_dpwssd_epi32(self.fine, values, fine);
    }

    /// Returns grey levels, which may be below 0 or above 255.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn levels(self) -> __m512i {
        let coarse = _mm512_slli_epi32::<FINE_BITS>(self.coarse);
        _mm512_srai_epi32::<{ FINE_SHIFT as u32 }>(_mm512_add_epi32(coarse, self.fine))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn blend_rows_finely(values: &[i16], starts: &[usize], weights: &[i16], fine: &[i16], out: &mut [u8]) {
    let (two, rest) = out.as_chunks_mut::<{ 2 * CHUNK }>();
    let at = two.len() * 2 * CHUNK;
    for (i, out) in two.iter_mut().enumerate() {
        fine_rows::<2>(values, starts, weights, fine, 2 * CHUNK * i, out);
    }
    for (i, out) in rest.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
        fine_rows::<1>(values, starts, weights, fine, at + CHUNK * i, out);
    }
}

/// Writes `COUNT` chunks, from value `at` of every row on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn fine_rows<const COUNT: usize>(
    values: &[i16],
    starts: &[usize],
    weights: &[i16],
    fine: &[i16],
    at: usize,
    out: &mut [u8],
) {
    // For each chunk the lower and the upper halves of its lanes.
    let mut sums = [[FineSum::new(); 2]; COUNT];
    for (starts, (weights, fine)) in starts.chunks(2).zip(weights.chunks(2).zip(fine.chunks(2))) {
        let (weights, fine) = (_mm512_set1_epi32(pair(weights)), _mm512_set1_epi32(pair(fine)));
        let row = |row: usize| values[starts[row] + at..][..COUNT * CHUNK].as_chunks().0;
        let rows = [row(0), row(starts.len() - 1)];
        for (i, sums) in sums.iter_mut().enumerate() {
            let [a, b] = rows.map(|row| load_16(&row[i]));
            sums[0].add(_mm512_unpacklo_epi16(a, b), weights, fine);
            sums[1].add(_mm512_unpackhi_epi16(a, b), weights, fine);
        }
    }
    for (out, [low, high]) in out.as_chunks_mut().0.iter_mut().zip(sums) {
        let levels = _mm512_packs_epi32(low.levels(), high.levels());
        let levels = _mm512_max_epi16(levels, _mm512_setzero_si512());
        store_half(out, _mm512_cvtusepi16_epi8(levels));
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn blend_rows(values: &[i16], starts: &[usize], weights: &[i16], out: &mut [u8]) {
    const { assert!(ROW_SHIFT == 7) };
    let (four, rest) = out.as_chunks_mut::<{ 4 * CHUNK }>();
    let at = four.len() * 4 * CHUNK;
    for (i, out) in four.iter_mut().enumerate() {
        let sums = sums::<4>(values, starts, weights, 4 * CHUNK * i);
        out.as_chunks_mut().0.iter_mut().zip(sums).for_each(|(out, sum)| round_to_bytes(sum, out));
    }
    for (i, out) in rest.as_chunks_mut().0.iter_mut().enumerate() {
        let [sum] = sums::<1>(values, starts, weights, at + CHUNK * i);
        round_to_bytes(sum, out);
    }
}

/// Returns `COUNT` vectors of sums, from value `at` of every row on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sums<const COUNT: usize>(values: &[i16], starts: &[usize], weights: &[i16], at: usize) -> [__m512i; COUNT] {
    let mut sums = [_mm512_setzero_si512(); COUNT];
    for (start, weight) in starts.iter().zip(weights) {
        let weight = _mm512_set1_epi16(weight << 1);
        let values = values[start + at..][..COUNT * CHUNK].as_chunks().0;
        for (sum, values) in sums.iter_mut().zip(values) {
            *sum = _mm512_adds_epi16(*sum, _mm512_mulhrs_epi16(load_16(values), weight));
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round_to_bytes(sum: __m512i, out: &mut [u8; CHUNK]) {
    let sum = _mm512_adds_epi16(sum, _mm512_set1_epi16(1 << (ROW_SHIFT - 1)));
    let bytes = _mm512_cvtepi16_epi8(_mm512_srli_epi16::<7>(sum));
    store_half(out, bytes);
}
