//! A component's samples: all rows that the region needs, or a few that move down the picture with its MCU
//! rows.

use std::ops::Range;

use super::fallback::Fallback;
use super::frame::Component;
use super::kernel::{BlockRow, GROUP, Kernels, MARGIN};
use crate::aligned::AlignedVec;

/// Samples of whole blocks, with a margin on both sides. The samples next to the picture's first and last columns
/// repeat these, so that smoothing needs no special case at the edges.
#[derive(Default)]
pub(super) struct Plane {
    /// With parts that are not in use.
    pub bytes: AlignedVec<u8>,
    stride: usize,
    /// Column of the component at the start of a row, the first of a block.
    left: u32,
    /// Row of the component at the start of the buffer.
    top: i64,
    rows: usize,
}

impl Plane {
    /// Makes room for the component's blocks of `columns`, and for `rows` rows of samples from `top` on.
    pub(super) fn start(&mut self, component: &Component, columns: &Range<u32>, top: i64, rows: usize) {
        let groups = columns.len().next_multiple_of(GROUP);
        *self = Self {
            bytes: std::mem::take(&mut self.bytes),
            stride: MARGIN + groups * component.block as usize + MARGIN,
            left: columns.start * component.block,
            top,
            rows,
        };
        self.bytes.fit(self.stride * rows);
    }

    /// Moves down so that the buffer's last row becomes its first.
    pub(super) fn roll(&mut self) {
        let last = (self.rows - 1) * self.stride;
        self.bytes.copy_within(last..last + self.stride, 0);
        self.top += self.rows as i64 - 1;
    }

    /// Transforms `blocks`, row `number` of the component's blocks. Fails as [`Kernels::idct`] does.
    pub(super) fn fill(
        &mut self,
        kernels: Kernels,
        number: u32,
        blocks: BlockRow<'_>,
        component: &Component,
    ) -> Result<(), Fallback> {
        let start = self.index(i64::from(number * component.block)) * self.stride;
        let rows = &mut self.bytes[start..][..component.block as usize * self.stride];
        kernels.idct(component.block, blocks, &mut rows[MARGIN..], self.stride)?;
        if !component.upsampling.is_smooth_across() {
            return Ok(());
        }
        // If the picture's last column is not in the buffer, this index is in the margin or beyond the buffer.
        let beside = MARGIN + (component.size.w - self.left) as usize;
        for row in rows.chunks_exact_mut(self.stride) {
            if self.left == 0 {
                row[MARGIN - 1] = row[MARGIN];
            }
            if beside < self.stride {
                row[beside] = row[beside - 1];
            }
        }
        Ok(())
    }

    /// Returns the samples of row `y` from column `x` on, followed by at least a margin.
    pub(super) fn row(&self, x: u32, y: u32) -> &[u8] {
        self.row_before(x + 1, y)
    }

    /// Returns the samples of row `y` from the one before column `x` on, followed by at least a margin.
    pub(super) fn row_before(&self, x: u32, y: u32) -> &[u8] {
        let row = &self.bytes[self.index(i64::from(y)) * self.stride..][..self.stride];
        &row[MARGIN - 1 + (x - self.left) as usize..]
    }

    fn index(&self, y: i64) -> usize {
        let index = y - self.top;
        debug_assert!((0..self.rows as i64).contains(&index), "row {y} is not in the buffer");
        index as usize
    }
}
