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

/// The columns' weights as the kernel wants them.
///
/// Invariant: for every output pixel `i` and pair `k < pairs`, `offsets[i] + 6 * k + 8 <= row_len`, and there are
/// `offsets.len() * pairs * 8` weights. `offsets` has whole groups.
#[derive(Default)]
pub(super) struct Columns {
    /// Where an output pixel's taps start in the row, in values; missing pixels of the last group start at 0.
    offsets: Vec<u32>,
    /// Per group of four output pixels and pair of taps, 32 values: (w0, w1) four times over for pixel 0, for pixel
    /// 2, for pixel 1, for pixel 3.
    weights: Vec<i16>,
    /// Pairs of taps, the same for every output pixel; what an output pixel does not need has weight 0.
    pairs: usize,
    /// How long a row must be.
    row_len: usize,
}

impl Columns {
    /// Lays out the weights of `axis`.
    pub(super) fn pack(&mut self, axis: &Axis) {
        let (start, end) = axis.span();
        let count = axis.len().next_multiple_of(GROUP);
        let pairs = axis.taps_max().div_ceil(2);
        self.pairs = pairs;
        self.offsets.clear();
        self.offsets.resize(count, 0);
        self.weights.clear();
        self.weights.resize(count * pairs * 8, 0);
        for i in 0..axis.len() {
            let (first, weights) = axis.taps(i);
            self.offsets[i] = (first - start) * 3;
            let group = &mut self.weights[i / GROUP * pairs * 32..][..pairs * 32];
            for (pair, w) in group.chunks_exact_mut(32).zip(weights.chunks(2)) {
                for slot in pair[PLACES[i % GROUP]..][..8].chunks_exact_mut(2) {
                    slot[..w.len()].copy_from_slice(w);
                }
            }
        }
        let last = self.offsets.iter().copied().max().unwrap_or(0) as usize;
        let values = (end - start) as usize * 3;
        self.row_len = (last + 6 * pairs + 2).max(values.next_multiple_of(CHUNK));
    }

    /// How long the row of blended values is. It goes on behind the last pixel, because the kernel reads whole vectors
    /// there, and for every output pixel as many taps as the longest one has.
    pub(super) fn row_len(&self) -> usize {
        self.row_len
    }
}

/// Where the pixels of a group have their weights.
const PLACES: [usize; GROUP] = [0, 16, 8, 24];

/// `out[i]` = sum over rows of weight * row[i], for the first `values` samples of rows that start at `rows` and lie
/// `stride` bytes apart. `rows` goes on for at least 15 bytes behind the last row's last sample.
pub(super) fn blend_rows(rows: &[u8], stride: usize, values: usize, weights: &[i16], out: &mut [i16]) {
    let chunks = values.div_ceil(CHUNK);
    assert!(!weights.is_empty() && out.len() >= chunks * CHUNK, "the row buffer holds whole chunks");
    assert!(rows.len() >= (weights.len() - 1) * stride + chunks * CHUNK, "the source goes on behind its last row");
    debug_assert_eq!(weights.iter().map(|w| i32::from(*w)).sum::<i32>(), ONE, "weights add up to one");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2, and `rows` is as long as asserted above.
        unsafe { avx2::blend_rows(rows, stride, chunks, weights, out) };
        return;
    }
    portable::blend_rows(rows, stride, chunks, weights, out);
}

/// Output pixel i = sum over its taps of weight * pixel. `row` is [`Columns::row_len`] long and starts at the first
/// pixel that any output pixel needs; `out` has whole groups.
pub(super) fn blend_columns(row: &[i16], columns: &Columns, out: &mut [u32]) {
    assert!(out.len() >= columns.offsets.len(), "the output holds whole groups");
    assert!(row.len() >= columns.row_len, "the row goes on behind its last pixel");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2, and `row` is as long as `columns` asks for.
        unsafe { avx2::blend_columns(row, columns, out) };
        return;
    }
    portable::blend_columns(row, columns, out);
}

mod portable {
    use super::{CHUNK, COLUMN_SHIFT, Columns, GROUP, PLACES, ROW_SHIFT};

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

    pub(super) fn blend_columns(row: &[i16], columns: &Columns, out: &mut [u32]) {
        for (i, (offset, out)) in columns.offsets.iter().zip(out).enumerate() {
            let group = &columns.weights[i / GROUP * columns.pairs * 32..][..columns.pairs * 32];
            let mut sums = [1_i32 << (COLUMN_SHIFT - 1); 3];
            for (pair, pixels) in group.chunks_exact(32).zip(row[*offset as usize..].chunks(6)) {
                let [w0, w1] = [pair[PLACES[i % GROUP]], pair[PLACES[i % GROUP] + 1]].map(i32::from);
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum += i32::from(pixels[c]) * w0 + i32::from(pixels[c + 3]) * w1;
                }
            }
            let [r, g, b] = sums.map(|s| (s >> COLUMN_SHIFT) as u8);
            *out = u32::from_le_bytes([r, g, b, 0]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{CHUNK, COLUMN_SHIFT, Columns, GROUP, ROW_SHIFT};

    /// Sixteen bytes as 16-bit lanes.
    ///
    /// # Safety
    /// `at` .. `at` + 16 lies within `bytes`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn widen(bytes: &[u8], at: usize) -> __m256i {
        debug_assert!(at + CHUNK <= bytes.len());
        // SAFETY: `at` lies within `bytes`, the caller says.
        let from = unsafe { bytes.as_ptr().add(at) };
        // SAFETY: the sixteen bytes from there do too, and the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(from.cast()) };
        _mm256_cvtepu8_epi16(bytes)
    }

    /// # Safety
    /// `rows` reaches `(weights.len() - 1) * stride + chunks * 16` bytes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn blend_rows(rows: &[u8], stride: usize, chunks: usize, weights: &[i16], out: &mut [i16]) {
        let round = _mm256_set1_epi32(1 << (ROW_SHIFT - 1));
        for (chunk, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().take(chunks).enumerate() {
            let (mut low, mut high) = (round, round);
            let mut at = chunk * CHUNK;
            for pair in weights.chunks(2) {
                // SAFETY: the row of `pair[0]` is one of `weights.len()` rows, so this chunk of it lies within `rows`.
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
        for (input, output, rows) in [(500, 224, 5), (100, 224, 2), (7, 3, 1), (1000, 10, 3), (1, 6, 1), (448, 224, 4)]
        {
            let mut axis = Axis::default();
            axis.compute(crate::decode::geometry::Filter::Bilinear, input, output, (0, output), rows == 3);
            let mut columns = Columns::default();
            columns.pack(&axis);
            let values = input as usize * 3;
            let stride = values + 5;
            let source: Vec<u8> = (0..stride * rows + CHUNK).map(|i| if i % 7 == 0 { 255 } else { next() }).collect();
            let mut weights = vec![(ONE / rows as i32) as i16; rows];
            weights[0] += (ONE - ONE / rows as i32 * rows as i32) as i16;
            let mut blended = vec![0; columns.row_len()];
            portable::blend_rows(&source, stride, values.div_ceil(CHUNK), &weights, &mut blended);
            let mut again = vec![0; blended.len()];
            blend_rows(&source, stride, values, &weights, &mut again);
            assert_eq!(blended, again);
            let mut out = vec![0; (output as usize).next_multiple_of(GROUP)];
            portable::blend_columns(&blended, &columns, &mut out);
            let mut again = vec![0; out.len()];
            blend_columns(&blended, &columns, &mut again);
            assert_eq!(out[..output as usize], again[..output as usize]);
        }
    }
}
