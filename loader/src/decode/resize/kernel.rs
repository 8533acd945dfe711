//! The two inner loops of the resize, for AVX2 and for any machine; both give the same bits.
//!
//! `blend_rows` weighs bytes of several source rows into one row of 16-bit values with 7 bits of fraction;
//! `blend_columns` weighs pixels of that row into 8-bit pixels. Weights are 14 bits and add up to one, so no sum
//! leaves 32 bits and no result leaves its type.

use super::weights::{Axis, ONE};

/// Output pixels that the column kernel makes at a time.
pub(super) const GROUP: usize = 4;

/// Bits that the row blend drops: 8 + 14 bits become 15.
const ROW_SHIFT: i32 = 7;

/// Bits that the column blend drops: 15 + 14 bits become 8.
const COLUMN_SHIFT: i32 = 21;

/// Samples that the row kernel makes at a time.
const CHUNK: usize = 16;

/// How long the row of blended values is for `values` of them: the column kernel reads whole vectors from the last
/// pixel on, and as many taps everywhere as the longest output pixel has.
pub(super) fn blended_len(values: usize, columns: &Axis) -> usize {
    values.next_multiple_of(CHUNK) + 3 * (columns.taps_max() + 1) + 8
}

/// Lays out column weights as the kernel loads them: per group of four output pixels and pair of taps, 32 values:
/// (w0, w1) four times over for pixel 0, for pixel 2, for pixel 1, for pixel 3.
pub(super) fn pack(columns: &Axis, out: &mut Vec<i16>) {
    let pairs = columns.taps_max().div_ceil(2);
    let groups = columns.len().div_ceil(GROUP);
    out.clear();
    out.resize(groups * pairs * 32, 0);
    for i in 0..columns.len() {
        let (_, weights) = columns.taps(i);
        let place = place_in_group(i % GROUP);
        for (pair, w) in weights.chunks(2).enumerate() {
            let at = ((i / GROUP) * pairs + pair) * 32 + place;
            for slot in out[at..at + 8].chunks_exact_mut(2) {
                slot[..w.len()].copy_from_slice(w);
            }
        }
    }
}

fn place_in_group(pixel: usize) -> usize {
    [0, 16, 8, 24][pixel]
}

/// `out[i]` = sum over rows of weight * row[i], for the first `values` samples of rows that start at `rows` and lie
/// `stride` bytes apart. `rows` goes on for at least 15 bytes behind the last row's last sample.
pub(super) fn blend_rows(rows: &[u8], stride: usize, values: usize, weights: &[i16], out: &mut [i16]) {
    let chunks = values.div_ceil(CHUNK);
    assert!(!weights.is_empty() && out.len() >= chunks * CHUNK, "the row buffer holds whole chunks");
    assert!(rows.len() >= (weights.len() - 1) * stride + chunks * CHUNK, "the source goes on behind its last row");
    debug_assert_eq!(weights.iter().map(|w| i32::from(*w)).sum::<i32>(), ONE, "weights add up to one");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2; sizes are asserted above.
        unsafe { avx2::blend_rows(rows, stride, chunks, weights, out) };
        return;
    }
    portable::blend_rows(rows, stride, chunks, weights, out);
}

/// Output pixel i = sum over its taps of weight * pixel, for all of `columns`, whose source pixels count from the crop's
/// edge while `row` starts at pixel `start`. `packed` comes from [`pack`], `row` is [`blended_len`] long, and `out` is
/// as long as whole groups.
pub(super) fn blend_columns(row: &[i16], columns: &Axis, start: u32, packed: &[i16], out: &mut [u32]) {
    let groups = columns.len().div_ceil(GROUP);
    let pairs = columns.taps_max().div_ceil(2);
    assert!(out.len() >= groups * GROUP && packed.len() >= groups * pairs * 32, "buffers hold whole groups");
    let (from, to) = columns.span();
    assert!(
        from >= start && row.len() >= 3 * ((to - start) as usize + 2 * pairs) + 2,
        "the row goes on behind its end"
    );
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2; sizes are asserted above.
        unsafe { avx2::blend_columns(row, columns, start, pairs, packed, out) };
        return;
    }
    portable::blend_columns(row, columns, start, pairs, packed, out);
}

/// Where the taps of output pixel `i` start in the row; the last group's missing pixels start at 0 with weights 0.
fn offset(columns: &Axis, start: u32, i: usize) -> usize {
    if i < columns.len() { (columns.taps(i).0 - start) as usize * 3 } else { 0 }
}

mod portable {
    use super::{Axis, CHUNK, COLUMN_SHIFT, GROUP, ROW_SHIFT, offset, place_in_group};

    pub(super) fn blend_rows(rows: &[u8], stride: usize, chunks: usize, weights: &[i16], out: &mut [i16]) {
        for (chunk, out) in out.chunks_exact_mut(CHUNK).take(chunks).enumerate() {
            let mut sums = [1_i32 << (ROW_SHIFT - 1); CHUNK];
            for (k, weight) in weights.iter().enumerate() {
                let bytes = &rows[k * stride + chunk * CHUNK..][..CHUNK];
                for (sum, byte) in sums.iter_mut().zip(bytes) {
                    *sum += i32::from(*byte) * i32::from(*weight);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = (sum >> ROW_SHIFT) as i16;
            }
        }
    }

    pub(super) fn blend_columns(
        row: &[i16],
        columns: &Axis,
        start: u32,
        pairs: usize,
        packed: &[i16],
        out: &mut [u32],
    ) {
        for i in 0..columns.len() {
            let at = offset(columns, start, i);
            let mut sums = [1_i32 << (COLUMN_SHIFT - 1); 3];
            for pair in 0..pairs {
                let weights = &packed[((i / GROUP) * pairs + pair) * 32 + place_in_group(i % GROUP)..];
                let pixels = &row[at + pair * 6..][..6];
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum += i32::from(pixels[c]) * i32::from(weights[0]);
                    *sum += i32::from(pixels[c + 3]) * i32::from(weights[1]);
                }
            }
            let [r, g, b] = sums.map(|s| (s >> COLUMN_SHIFT) as u8);
            out[i] = u32::from_le_bytes([r, g, b, 0]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Axis, CHUNK, COLUMN_SHIFT, GROUP, ROW_SHIFT, offset};

    /// Sixteen bytes at `at` as 16-bit lanes.
    #[target_feature(enable = "avx2")]
    fn widen(bytes: &[u8], at: usize) -> __m256i {
        let bytes: &[u8; CHUNK] = bytes[at..at + CHUNK].try_into().expect("sixteen bytes");
        // SAFETY: the reference covers the sixteen bytes that are read, and the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        _mm256_cvtepu8_epi16(bytes)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn blend_rows(rows: &[u8], stride: usize, chunks: usize, weights: &[i16], out: &mut [i16]) {
        let round = _mm256_set1_epi32(1 << (ROW_SHIFT - 1));
        for (chunk, out) in out.chunks_exact_mut(CHUNK).take(chunks).enumerate() {
            let (mut low, mut high) = (round, round);
            let mut at = chunk * CHUNK;
            for pair in weights.chunks(2) {
                let a = widen(rows, at);
                // An odd last row is paired with itself at weight 0.
                let (b, weight) = match *pair {
                    [w0, w1] => (widen(rows, at + stride), i32::from(w0) | (i32::from(w1) << 16)),
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

    /// Pixels at `a` (low lane) and `b` (high lane): two pixels each, channels side by side in pairs.
    #[target_feature(enable = "avx2")]
    fn pixel_pairs(row: &[i16], a: usize, b: usize, pairing: __m256i) -> __m256i {
        let low: &[i16; 8] = row[a..a + 8].try_into().expect("eight values");
        let high: &[i16; 8] = row[b..b + 8].try_into().expect("eight values");
        // SAFETY: the reference covers the sixteen bytes that are read, and the load needs no alignment.
        let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
        _mm256_shuffle_epi8(_mm256_set_m128i(high, low), pairing)
    }

    #[target_feature(enable = "avx2")]
    fn load(weights: &[i16]) -> __m256i {
        let weights: &[i16; 16] = weights.try_into().expect("sixteen weights");
        // SAFETY: the reference covers the 32 bytes that are read, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn blend_columns(
        row: &[i16],
        columns: &Axis,
        start: u32,
        pairs: usize,
        packed: &[i16],
        out: &mut [u32],
    ) {
        // R0 G0 B0 R1 G1 B1 .. becomes R0 R1 G0 G1 B0 B1 0 0.
        let pairing = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
        let round = _mm256_set1_epi32(1 << (COLUMN_SHIFT - 1));
        let groups = columns.len().div_ceil(GROUP);
        for (group, out) in out.chunks_exact_mut(GROUP).take(groups).enumerate() {
            let mut at = [0, 1, 2, 3].map(|i| offset(columns, start, group * GROUP + i));
            let (mut even, mut odd) = (round, round);
            for weights in packed[group * pairs * 32..][..pairs * 32].chunks_exact(32) {
                even = _mm256_add_epi32(
                    even,
                    _mm256_madd_epi16(pixel_pairs(row, at[0], at[2], pairing), load(&weights[..16])),
                );
                odd = _mm256_add_epi32(
                    odd,
                    _mm256_madd_epi16(pixel_pairs(row, at[1], at[3], pairing), load(&weights[16..])),
                );
                at = at.map(|a| a + 6);
            }
            // The fourth lane holds the rounding term alone, which the shift drops: the pixel's top byte is 0.
            let words = _mm256_packs_epi32(_mm256_srai_epi32(even, COLUMN_SHIFT), _mm256_srai_epi32(odd, COLUMN_SHIFT));
            let bytes = _mm256_packus_epi16(words, words);
            let pixels = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(bytes));
            // SAFETY: `out` is four pixels, the sixteen bytes that are written, and the store needs no alignment.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), pixels) };
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn both_kernels_give_the_same_bits() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            println!("skipped: this machine has no AVX2");
            return;
        }
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for (input, output, rows) in [(500, 224, 5), (100, 224, 2), (7, 3, 1), (1000, 10, 3), (1, 6, 1)] {
            let mut columns = Axis::default();
            columns.compute(input, output, (0, output), rows == 3);
            let mut packed = Vec::new();
            pack(&columns, &mut packed);
            let values = input as usize * 3;
            let stride = values + 5;
            let source: Vec<u8> = (0..stride * rows + CHUNK).map(|i| if i % 7 == 0 { 255 } else { next() }).collect();
            let mut weights = vec![(ONE / rows as i32) as i16; rows];
            weights[0] += (ONE - ONE / rows as i32 * rows as i32) as i16;
            let chunks = values.div_ceil(CHUNK);
            let mut blended = vec![0; blended_len(values, &columns)];
            portable::blend_rows(&source, stride, chunks, &weights, &mut blended);
            let mut again = vec![0; blended.len()];
            blend_rows(&source, stride, values, &weights, &mut again);
            assert_eq!(blended, again);
            let pairs = columns.taps_max().div_ceil(2);
            let mut out = vec![0; (output as usize).next_multiple_of(GROUP)];
            portable::blend_columns(&blended, &columns, 0, pairs, &packed, &mut out);
            let mut again = vec![0; out.len()];
            blend_columns(&blended, &columns, 0, &packed, &mut again);
            assert_eq!(out[..output as usize], again[..output as usize]);
        }
    }
}
