//! What every kernel computes, for any machine.

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
