//! The two inner loops of the resize, for two widths of vectors and for any machine; all give the same bits.
//!
//! `blend_rows` weighs bytes of several source rows into one row of 16-bit values with 7 bits of fraction;
//! `blend_columns` weighs pixels of that row into 8-bit pixels. Weights are 14 bits and add up to one, so no sum
//! leaves 32 bits and no result leaves its type.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::weights::{Axis, ONE};

/// Output pixels that the column kernel makes at a time.
pub(super) const GROUP: usize = 4;

/// Bits that the row blend drops: 8 + 14 bits become 15.
const ROW_SHIFT: i32 = 7;

/// Bits that the column blend drops: 15 + 14 bits become 8.
const COLUMN_SHIFT: i32 = 21;

/// Samples that the row kernel makes at a time.
const CHUNK: usize = 32;

/// Values that the column kernel can pick from at a time.
const REACH: usize = 64;

/// The columns' weights as the kernel wants them.
///
/// Invariant: for every output pixel `i` and pair `k < pairs`, `offsets[i] + 6 * k + 8 <= row_len`, and there are
/// `offsets.len() * pairs * 8` weights. `offsets` has whole groups. Where `picks` has anything, there are
/// `starts.len() * pairs * 32` of them, and `starts[i] + REACH <= row_len`.
#[derive(Default)]
pub(super) struct Columns {
    /// Where an output pixel's taps start in the row, in values; missing pixels of the last group start with its last.
    offsets: Vec<u32>,
    /// Per group of four output pixels and pair of taps, 32 values: (w0, w1) four times over for pixel 0, for pixel
    /// 2, for pixel 1, for pixel 3.
    weights: Vec<i16>,
    /// Per group: where the values start that it needs.
    starts: Vec<u32>,
    /// Per group and pair, which of the values from there on stand where its weights do. Empty where some group needs
    /// values from further apart than [`REACH`].
    picks: Vec<u16>,
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
        let last = self.offsets[..axis.len()].last().copied().unwrap_or(0);
        self.offsets[axis.len()..].fill(last);
        let values = (end - start) as usize * 3;
        let furthest = self.offsets.iter().copied().max().unwrap_or(0) as usize;
        self.row_len = (furthest + 6 * pairs + 2).max(values.next_multiple_of(CHUNK));
        self.pick();
    }

    /// Works out what the kernel that picks values needs, if it can be used at all.
    fn pick(&mut self) {
        self.starts.clear();
        self.picks.clear();
        if !picks_values() {
            return;
        }
        for offsets in self.offsets.as_chunks::<GROUP>().0 {
            let start = offsets.iter().copied().min().unwrap_or(0);
            let end = offsets.iter().copied().max().unwrap_or(0) as usize + 6 * self.pairs;
            if end - start as usize > REACH {
                self.picks.clear();
                return;
            }
            self.starts.push(start);
            self.row_len = self.row_len.max(start as usize + REACH);
            for pair in 0..self.pairs as u32 {
                let at = self.picks.len();
                self.picks.resize(at + 32, 0);
                for (offset, place) in offsets.iter().zip(PLACES) {
                    let first = (offset - start + 6 * pair) as u16;
                    self.picks[at + place..][..6].copy_from_slice(&[0, 3, 1, 4, 2, 5].map(|i| first + i));
                }
            }
        }
    }

    /// How long the row of blended values is. It goes on behind the last pixel, because the kernel reads whole vectors
    /// there, and for every output pixel as many taps as the longest one has.
    pub(super) fn row_len(&self) -> usize {
        self.row_len
    }
}

/// Whether this machine's column kernel picks values from a window of the row.
fn picks_values() -> bool {
    #[cfg(target_arch = "x86_64")]
    return avx512::is_available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Where the pixels of a group have their weights.
const PLACES: [usize; GROUP] = [0, 16, 8, 24];

/// `out[i]` = sum over rows of weight * row[i], for the first `values` samples of rows that start at `rows` and lie
/// `stride` bytes apart. `rows` goes on for at least 31 bytes behind the last row's last sample.
pub(super) fn blend_rows(rows: &[u8], stride: usize, values: usize, weights: &[i16], out: &mut [i16]) {
    let chunks = values.div_ceil(CHUNK);
    assert!(!weights.is_empty() && out.len() >= chunks * CHUNK, "the row buffer holds whole chunks");
    assert!(rows.len() >= (weights.len() - 1) * stride + chunks * CHUNK, "the source goes on behind its last row");
    debug_assert_eq!(weights.iter().map(|w| i32::from(*w)).sum::<i32>(), ONE, "weights add up to one");
    #[cfg(target_arch = "x86_64")]
    if avx512::is_available() {
        // SAFETY: the machine has the AVX-512 parts that the kernel uses.
        unsafe { avx512::blend_rows(rows, stride, chunks, weights, out) };
        return;
    }
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
    if !columns.picks.is_empty() && avx512::is_available() {
        // SAFETY: the machine has the AVX-512 parts that the kernel uses.
        unsafe { avx512::blend_columns(row, columns, out) };
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2, and `row` is as long as `columns` asks for.
        unsafe { avx2::blend_columns(row, columns, out) };
        return;
    }
    portable::blend_columns(row, columns, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::geometry::Filter;

    struct Lcg(u32);

    impl Lcg {
        fn byte(&mut self) -> u8 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 24) as u8
        }
    }

    /// Rows of bytes with many at the limit.
    fn source(len: usize) -> Vec<u8> {
        let mut random = Lcg(1);
        (0..len).map(|i| if i % 7 == 0 { 255 } else { random.byte() }).collect()
    }

    #[test]
    fn every_row_kernel_gives_the_same_bits() {
        for rows in 1..12 {
            for values in [1_usize, 3, 31, 32, 33, 96, 1503] {
                let (stride, chunks) = (values + 5, values.div_ceil(CHUNK));
                let source = source(stride * rows + CHUNK);
                let mut weights = vec![(ONE / rows as i32) as i16; rows];
                weights[0] += (ONE - ONE / rows as i32 * rows as i32) as i16;
                let mut want = vec![0; chunks * CHUNK];
                portable::blend_rows(&source, stride, chunks, &weights, &mut want);
                let mut got = vec![7; want.len()];
                blend_rows(&source, stride, values, &weights, &mut got);
                assert_eq!(want, got, "{rows} rows of {values}");
                #[cfg(target_arch = "x86_64")]
                if std::arch::is_x86_feature_detected!("avx2") {
                    got.fill(7);
                    // SAFETY: the machine has AVX2, and `source` goes on behind its last row.
                    unsafe { avx2::blend_rows(&source, stride, chunks, &weights, &mut got) };
                    assert_eq!(want, got, "{rows} rows of {values}, AVX2");
                }
            }
        }
    }

    #[test]
    fn every_column_kernel_gives_the_same_bits() {
        let mut picked = 0;
        for (input, output) in [
            (500, 224),
            (100, 224),
            (7, 3),
            (1000, 10),
            (1, 6),
            (448, 224),
            (224, 225),
            (850, 224),
            (900, 224),
            (3, 900),
        ] {
            for flip in [false, true] {
                for shown in [(0, output), (output / 3, output / 2 + 1)] {
                    let mut axis = Axis::default();
                    axis.compute(Filter::Bilinear, input, output, shown, flip);
                    let mut columns = Columns::default();
                    columns.pack(&axis);
                    picked += u32::from(!columns.picks.is_empty());
                    let mut row = vec![0; columns.row_len()];
                    let bytes = source(row.len());
                    row.iter_mut().zip(&bytes).for_each(|(value, byte)| *value = i16::from(*byte) << 7);
                    let mut want = vec![0; columns.offsets.len()];
                    portable::blend_columns(&row, &columns, &mut want);
                    let mut got = vec![7; want.len()];
                    blend_columns(&row, &columns, &mut got);
                    let what = format!("{input} to {output}, {shown:?}, {flip}");
                    assert_eq!(want[..axis.len()], got[..axis.len()], "{what}");
                    #[cfg(target_arch = "x86_64")]
                    if std::arch::is_x86_feature_detected!("avx2") {
                        got.fill(7);
                        // SAFETY: the machine has AVX2, and `row` is as long as `columns` asks for.
                        unsafe { avx2::blend_columns(&row, &columns, &mut got) };
                        assert_eq!(want[..axis.len()], got[..axis.len()], "{what}, AVX2");
                    }
                }
            }
        }
        // Those that shrink far reach further than a window.
        assert!(!picks_values() || (20..40).contains(&picked), "{picked}");
    }
}
