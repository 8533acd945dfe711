//! Kernels for AVX2.

use std::arch::x86_64::*;

use super::{CHUNK, COLUMN_SHIFT, Columns, GROUP, ROW_SHIFT};

/// Samples that one step of the row kernel makes.
const LANES: usize = 16;

/// Sixteen bytes as 16-bit lanes.
///
/// # Safety
/// `at` .. `at` + 16 lies within `bytes`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn widen(bytes: &[u8], at: usize) -> __m256i {
    debug_assert!(at + LANES <= bytes.len());
    // SAFETY: `at` lies within `bytes`, the caller says.
    let from = unsafe { bytes.as_ptr().add(at) };
    // SAFETY: the sixteen bytes from there do too, and the load needs no alignment.
    let bytes = unsafe { _mm_loadu_si128(from.cast()) };
    _mm256_cvtepu8_epi16(bytes)
}

/// # Safety
/// `rows` reaches `(weights.len() - 1) * stride + chunks * CHUNK` bytes.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend_rows(rows: &[u8], stride: usize, chunks: usize, weights: &[i16], out: &mut [i16]) {
    let round = _mm256_set1_epi32(1 << (ROW_SHIFT - 1));
    let steps = chunks * (CHUNK / LANES);
    for (step, out) in out.as_chunks_mut::<LANES>().0.iter_mut().take(steps).enumerate() {
        let (mut low, mut high) = (round, round);
        let mut at = step * LANES;
        for pair in weights.chunks(2) {
            // SAFETY: the row of `pair[0]` is one of `weights.len()` rows, so this step of it lies within `rows`.
            let a = unsafe { widen(rows, at) };
            // An odd last row is paired with itself at weight 0.
            let (b, weight) = match *pair {
                [w0, w1] => {
                    // SAFETY: the next row is one of `weights.len()` rows, too.
                    let b = unsafe { widen(rows, at + stride) };
                    (b, i32::from(w0) | (i32::from(w1) << 16))
                }
                _ => (a, i32::from(pair[0])),
            };
            let weight = _mm256_set1_epi32(weight);
            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weight));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weight));
            at += 2 * stride;
        }
        // Unpacking and packing both work within 128-bit lanes, so the order comes out right.
        let packed = _mm256_packs_epi32(_mm256_srai_epi32(low, ROW_SHIFT), _mm256_srai_epi32(high, ROW_SHIFT));
        // SAFETY: `out` is sixteen values, the 32 bytes that are written, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), packed) };
    }
}

/// Eight values from `at` on.
///
/// # Safety
/// `at` .. `at` + 8 lies within `row`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pixels(row: &[i16], at: usize) -> __m128i {
    debug_assert!(at + 8 <= row.len());
    // SAFETY: `at` lies within `row`, the caller says.
    let from = unsafe { row.as_ptr().add(at) };
    // SAFETY: the eight values from there do too, and the load needs no alignment.
    unsafe { _mm_loadu_si128(from.cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(weights: &[i16; 16]) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) }
}

/// # Safety
/// `row` is at least `columns.row_len` long.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend_columns(row: &[i16], columns: &Columns, out: &mut [u32]) {
    // A fixed number of pairs lets the compiler unroll the usual cases.
    match columns.pairs {
        // SAFETY: as the caller says; the number is the one that was matched.
        1 => unsafe { groups::<1>(row, columns, out) },
        // SAFETY: as above.
        2 => unsafe { groups::<2>(row, columns, out) },
        // SAFETY: as above.
        3 => unsafe { groups::<3>(row, columns, out) },
        // SAFETY: as above.
        _ => unsafe { groups::<0>(row, columns, out) },
    }
}

/// # Safety
/// `row` is at least `columns.row_len` long; `PAIRS` is `columns.pairs`, or 0 for any number.
#[target_feature(enable = "avx2")]
unsafe fn groups<const PAIRS: usize>(row: &[i16], columns: &Columns, out: &mut [u32]) {
    let pairs = if PAIRS == 0 { columns.pairs } else { PAIRS };
    // R0 G0 B0 R1 G1 B1 .. becomes R0 R1 G0 G1 B0 B1 0 0.
    let pairing = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
    let round = _mm256_set1_epi32(1 << (COLUMN_SHIFT - 1));
    let groups = columns.offsets.as_chunks::<GROUP>().0.iter().zip(columns.weights.chunks_exact(pairs * 32));
    for ((offsets, weights), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        let at = offsets.map(|o| o as usize);
        let (mut even, mut odd) = (round, round);
        for (k, weights) in weights.as_chunks::<16>().0.as_chunks::<2>().0.iter().take(pairs).enumerate() {
            // SAFETY: every pair of taps of every offset ends within the row (invariant of `Columns`).
            let p0 = unsafe { pixels(row, at[0] + 6 * k) };
            // SAFETY: as above.
            let p1 = unsafe { pixels(row, at[1] + 6 * k) };
            // SAFETY: as above.
            let p2 = unsafe { pixels(row, at[2] + 6 * k) };
            // SAFETY: as above.
            let p3 = unsafe { pixels(row, at[3] + 6 * k) };
            let p02 = _mm256_shuffle_epi8(_mm256_set_m128i(p2, p0), pairing);
            let p13 = _mm256_shuffle_epi8(_mm256_set_m128i(p3, p1), pairing);
            even = _mm256_add_epi32(even, _mm256_madd_epi16(p02, load(&weights[0])));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(p13, load(&weights[1])));
        }
        // The fourth lane holds the rounding term alone, which the shift drops: the pixel's top byte is 0.
        let words = _mm256_packs_epi32(_mm256_srai_epi32(even, COLUMN_SHIFT), _mm256_srai_epi32(odd, COLUMN_SHIFT));
        let bytes = _mm256_packus_epi16(words, words);
        let pixels = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(bytes));
        // SAFETY: `out` is four pixels, the sixteen bytes that are written, and the store needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), pixels) };
    }
}
