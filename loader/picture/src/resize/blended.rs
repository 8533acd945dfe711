//! Source rows that were blended along x, and their blends along y.

use super::kernel::{Kernels, MANY_ROWS};
use super::planes::three_rows;
use super::weights::ONE;
use crate::aligned::AlignedVec;

/// Number of rows from which on none is kept for the next output row with fine weights, because as many would be needed
/// as the picture is high. Up to a reduction of 31 times, all that an output row needs are kept.
const MANY_FINE_ROWS: usize = 128;

/// The last source rows that were blended along x; as many as an output row can need.
#[derive(Default)]
pub(super) struct BlendedRows {
    values: AlignedVec<i16>,
    /// Values of each of a row's three planes.
    plane: usize,
    /// Source row in each position.
    row_by_position: Vec<Option<u32>>,
    /// Starts of the rows that are needed now.
    starts: Vec<usize>,
    /// Sums of an output row that is a blend of many rows.
    sums: Vec<i32>,
}

impl BlendedRows {
    /// Drops all rows, and makes room for as many as an output row of `taps` weights needs, of three planes of `plane`
    /// values each.
    pub(super) fn start(&mut self, taps: usize, is_fine: bool, plane: usize) {
        let count = taps.min(if is_fine { MANY_FINE_ROWS } else { MANY_ROWS });
        self.plane = plane;
        self.row_by_position.clear();
        self.row_by_position.resize(count, None);
        self.values.fit(count * 3 * plane);
    }

    /// Writes the sum of rows from `first` on with these `weights`. Rows that are missing come from `blend`.
    pub(super) fn combine(
        &mut self,
        kernels: Kernels,
        first: u32,
        weights: &[i16],
        mut blend: impl FnMut(u32, [&mut [i16]; 3]),
        out: &mut [u8],
    ) {
        // With a weight of one, the remaining rows have no effect.
        let (first, weights) = match weights.iter().position(|w| i32::from(*w) == ONE) {
            Some(only) => (first + only as u32, &weights[only..=only]),
            None => (first, weights),
        };
        if weights.len() < MANY_ROWS {
            self.ensure(first, weights.len(), blend);
            return kernels.blend_rows(&self.values, &self.starts, weights, out);
        }
        self.start_sums(out.len());
        for (row, weight) in (first..).zip(weights) {
            self.ensure(row, 1, &mut blend);
            kernels.add_row(&self.values[self.starts[0]..][..out.len()], *weight, &mut self.sums);
        }
        kernels.finish_sums(&self.sums, out);
    }

    /// Writes a sum as [`combine`](Self::combine) does, with fine weights.
    pub(super) fn combine_finely(
        &mut self,
        kernels: Kernels,
        first: u32,
        weights: &[i16],
        fine: &[i16],
        mut blend: impl FnMut(u32, [&mut [i16]; 3]),
        out: &mut [u8],
    ) {
        if weights.len() < MANY_FINE_ROWS {
            self.ensure(first, weights.len(), blend);
            return kernels.blend_rows_finely(&self.values, &self.starts, weights, fine, out);
        }
        self.start_sums(out.len());
        for (row, (weight, fine)) in (first..).zip(weights.iter().zip(fine)) {
            self.ensure(row, 1, &mut blend);
            kernels.add_row_finely(&self.values[self.starts[0]..][..out.len()], *weight, *fine, &mut self.sums);
        }
        kernels.finish_sums_finely(&self.sums, out);
    }

    fn start_sums(&mut self, len: usize) {
        self.sums.clear();
        self.sums.resize(len, 0);
    }

    /// Makes `row` one of the last rows, before it is needed; `blend` fills it.
    pub(super) fn put(&mut self, row: u32, blend: impl FnMut(u32, [&mut [i16]; 3])) {
        self.ensure(row, 1, blend);
    }

    /// Puts the positions of `count` rows from `first` on into [`starts`](Self::starts). Rows that are missing come
    /// from `blend`.
    fn ensure(&mut self, first: u32, count: usize, mut blend: impl FnMut(u32, [&mut [i16]; 3])) {
        let len = 3 * self.plane;
        self.starts.clear();
        for row in (first..).take(count) {
            let position = row as usize % self.row_by_position.len();
            let start = position * len;
            self.starts.push(start);
            if self.row_by_position[position] != Some(row) {
                blend(row, three_rows(&mut self.values[start..start + len]));
                self.row_by_position[position] = Some(row);
            }
        }
    }
}
