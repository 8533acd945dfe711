//! Kernels for AVX-512: twice AVX2's width, and values picked from a window of the row in one step.

use std::arch::x86_64::*;

use super::{CHUNK, COLUMN_SHIFT, Columns, GROUP, REACH, ROW_SHIFT};

/// Whether this machine has what the kernels here use.
pub(super) fn is_available() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512vnni")
}

/// Thirty-two bytes as 16-bit lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen(bytes: &[u8; CHUNK]) -> __m512i {
    // SAFETY: the reference covers the 32 bytes that are read, and the load needs no alignment.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm512_cvtepu8_epi16(bytes)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(values: &[i16; 32]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read, and the load needs no alignment.
    unsafe { _mm512_loadu_epi16(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_picks(picks: &[u16; 32]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read, and the load needs no alignment.
    unsafe { _mm512_loadu_epi16(picks.as_ptr().cast()) }
}

/// See [`blend_rows`](super::blend_rows).
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn blend_rows(rows: &[u8], stride: usize, chunks: usize, weights: &[i16], out: &mut [i16]) {
    let round = _mm512_set1_epi32(1 << (ROW_SHIFT - 1));
    let chunk_of = |at: usize| rows[at..].first_chunk::<CHUNK>().expect("the source goes on behind its last row");
    for (chunk, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().take(chunks).enumerate() {
        let (mut low, mut high) = (round, round);
        let mut at = chunk * CHUNK;
        for pair in weights.chunks(2) {
            let a = widen(chunk_of(at));
            // An odd last row is paired with itself at weight 0.
            let (b, weight) = match *pair {
                [w0, w1] => (widen(chunk_of(at + stride)), i32::from(w0) | (i32::from(w1) << 16)),
                _ => (a, i32::from(pair[0])),
            };
            let weight = _mm512_set1_epi32(weight);
            low = _mm512_dpwssd_epi32(low, _mm512_unpacklo_epi16(a, b), weight);
            high = _mm512_dpwssd_epi32(high, _mm512_unpackhi_epi16(a, b), weight);
            at += 2 * stride;
        }
        // Unpacking and packing both work within 128-bit lanes, so the order comes out right.
        let packed = _mm512_packs_epi32(_mm512_srai_epi32::<7>(low), _mm512_srai_epi32::<7>(high));
        const { assert!(ROW_SHIFT == 7) };
        // SAFETY: `out` is 32 values, the 64 bytes that are written, and the store needs no alignment.
        unsafe { _mm512_storeu_epi16(out.as_mut_ptr(), packed) };
    }
}

/// See [`blend_columns`](super::blend_columns); `columns` has picks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn blend_columns(row: &[i16], columns: &Columns, out: &mut [u32]) {
    // A fixed number of pairs lets the compiler unroll the usual cases.
    match columns.pairs {
        1 => groups::<1>(row, columns, out),
        2 => groups::<2>(row, columns, out),
        3 => groups::<3>(row, columns, out),
        _ => groups::<0>(row, columns, out),
    }
}

/// `PAIRS` is `columns.pairs`, or 0 for any number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn groups<const PAIRS: usize>(row: &[i16], columns: &Columns, out: &mut [u32]) {
    /// The values of a pixel's three channels; its fourth lane has none.
    const CHANNELS: u32 = 0x3f3f_3f3f;
    let pairs = if PAIRS == 0 { columns.pairs } else { PAIRS };
    let round = _mm512_set1_epi32(1 << (COLUMN_SHIFT - 1));
    let picks = columns.picks.as_chunks::<32>().0.chunks_exact(pairs);
    let weights = columns.weights.as_chunks::<32>().0.chunks_exact(pairs);
    let groups = columns.starts.iter().zip(picks.zip(weights));
    for ((start, (picks, weights)), out) in groups.zip(out.as_chunks_mut::<GROUP>().0) {
        let window = row[*start as usize..].first_chunk::<REACH>().expect("a whole window (invariant of `Columns`)");
        let [low, high] = window.as_chunks::<32>().0 else { unreachable!("a window is two vectors") };
        let (low, high) = (load(low), load(high));
        let mut sums = round;
        for (picks, weights) in picks.iter().zip(weights) {
            let picked = _mm512_maskz_permutex2var_epi16(CHANNELS, low, load_picks(picks), high);
            sums = _mm512_dpwssd_epi32(sums, picked, load(weights));
        }
        // The fourth lane holds the rounding term alone, which the shift drops: the pixel's top byte is 0.
        const { assert!(COLUMN_SHIFT == 21) };
        let pixels = _mm512_cvtepi32_epi8(_mm512_srai_epi32::<21>(sums));
        // Weights stand in the order of pixels 0, 2, 1, 3.
        let pixels = _mm_shuffle_epi32::<0b11_01_10_00>(pixels);
        // SAFETY: `out` is four pixels, the sixteen bytes that are written, and the store needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), pixels) };
    }
}
