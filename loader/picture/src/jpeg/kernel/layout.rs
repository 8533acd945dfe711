//! Layout of rows and of groups of blocks.

use super::super::order::BLOCK;

/// Samples that may be read and written after a row's last one.
pub(in super::super) const MARGIN: usize = 64;

/// Blocks that are transformed at a time; a row of blocks is filled up to whole groups.
pub(in super::super) const GROUP: usize = 4;

/// Row of blocks to transform.
#[derive(Clone, Copy)]
pub(in super::super) struct BlockRow<'a> {
    pub coefficients: &'a [i16],
    /// Offset of each block in `coefficients`; whole groups.
    pub offsets: &'a [u32],
    /// By pairs.
    pub quantisation: &'a [i16; BLOCK],
}

impl<'a> BlockRow<'a> {
    #[inline(always)]
    pub(super) fn at(self, offset: u32) -> &'a [i16; BLOCK] {
        self.coefficients[offset as usize..].first_chunk().expect("offsets count whole blocks")
    }
}

/// Applies `function` to each value. Unlike [`array::map`], it is always inlined into the loop around it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) fn map_inline<A: Copy, B: Copy, const N: usize>(values: [A; N], function: impl Fn(A) -> B) -> [B; N] {
    let mut out = [function(values[0]); N];
    for (out, value) in out.iter_mut().zip(values) {
        *out = function(value);
    }
    out
}

/// Splits `out` into eight rows of groups of blocks, each group `WIDTH` columns wide.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
pub(super) fn groups<const WIDTH: usize>(out: &mut [u8], stride: usize) -> [&mut [[u8; WIDTH]]; 8] {
    let mut rows = out.chunks_mut(stride);
    std::array::from_fn(|_| rows.next().expect("eight rows").as_chunks_mut().0)
}

/// Writes `out` in chunks: calls `write` with the number and the memory of each. A last part goes through a buffer.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) fn write_chunks<const BYTES: usize>(out: &mut [u8], write: impl Fn(usize, &mut [u8; BYTES])) {
    let mut last = [0; BYTES];
    for (i, out) in out.chunks_mut(BYTES).enumerate() {
        let length = out.len();
        // Only one call, so that it is inlined into the loop.
        write(i, out.first_chunk_mut().unwrap_or(&mut last));
        if length < BYTES {
            out.copy_from_slice(&last[..length]);
        }
    }
}
