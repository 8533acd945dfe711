//! Inner loops, each for any machine and for vectors of 16, 32 and 64 bytes; all give the same bytes.
//!
//! [`Kernels`] selects the kernels of this machine once; its methods document the kernels of the same names.
//! [`portable`] defines the result of every kernel.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod colour;
mod constants;
mod islow;
mod layout;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod reduced;

use super::band::BandRun;
use super::fallback::Fallback;
use super::mcu_blocks::{McuBlocks, Position};
use super::order::BLOCK;
use crate::kernel::dispatch;
use crate::vectors::{Level, Vectors};
use std::sync::LazyLock;

pub(super) use layout::{BlockRow, GROUP, MARGIN};

/// Result of [`Kernels::idct`] for coefficients that libjpeg-turbo would transform differently.
pub(super) const OUT_OF_RANGE: Fallback = Fallback("coefficients that no encoder writes");

/// Selection of the kernels for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels {
    vectors: Vectors,
    /// True if the instruction PDEP is slower than the loop that replaces it.
    is_pdep_slow: bool,
}

impl Default for Kernels {
    /// Returns the kernels that decoders use.
    fn default() -> Self {
        static IN_USE: LazyLock<Kernels> = LazyLock::new(|| Kernels::with_vectors(Vectors::in_use()));
        *IN_USE
    }
}

impl Kernels {
    pub(super) fn with_vectors(vectors: Vectors) -> Self {
        Self { vectors, is_pdep_slow: is_pdep_slow() }
    }

    pub(super) fn use_vectors(self) -> bool {
        self.vectors.level() != Level::Portable
    }

    /// Copies entropy-coded bytes up to a marker, without the zeros after FF. Returns the numbers of bytes read and
    /// written; the marker, or an FF at the end, is not read. `out` has at least [`MARGIN`] bytes more than `from`.
    pub(super) fn unstuff(self, from: &[u8], out: &mut [u8]) -> (usize, usize) {
        assert!(out.len() >= from.len() + MARGIN, "room for whole vectors");
        dispatch!(self.vectors.level(), unstuff(from, out))
    }

    /// Decodes `count` MCUs into `coefficients`, see [`McuBlocks::decode`].
    pub(super) fn decode(
        self,
        blocks: &McuBlocks<'_>,
        at: &mut Position<'_>,
        count: usize,
        coefficients: &mut [i16],
    ) -> Result<(), Fallback> {
        dispatch!(self.vectors.level(), decode(blocks, at, count, coefficients))
    }

    pub(super) fn skip(self, blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback> {
        dispatch!(self.vectors.level(), skip(blocks, at, count))
    }

    /// Reads a run of blocks of a progressive picture's AC scan.
    pub(super) fn band(self, run: BandRun<'_, '_>) -> Result<(), Fallback> {
        if self.is_pdep_slow { portable::band(run) } else { dispatch!(self.vectors.level(), band(run)) }
    }

    /// Reorders blocks that are stored from the last coefficient to the first, into the order that [`idct`](Self::idct)
    /// expects.
    pub(super) fn order(self, backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
        dispatch!(self.vectors.level(), order(backwards, out));
    }

    /// Dequantises and transforms a row of blocks. The `i`-th block becomes the `side` columns from `side * i` on, in
    /// as many rows of `out`: 8, or 4, 2 or 1 at a smaller scale.
    ///
    /// Returns an error for coefficients that no encoder writes and that libjpeg-turbo transforms differently on this
    /// kind of machine.
    pub(super) fn idct(self, side: u32, row: BlockRow<'_>, out: &mut [u8], stride: usize) -> Result<(), Fallback> {
        assert!(row.offsets.len().is_multiple_of(GROUP), "whole groups");
        let all_fit = if side == 8 {
            dispatch!(self.vectors.level(), idct(row, out, stride))
        } else {
            dispatch!(self.vectors.level(), idct_reduced(side, row, out, stride))
        };
        if all_fit { Ok(()) } else { Err(OUT_OF_RANGE) }
    }

    /// Doubles the columns: two values between each sample's neighbours. `samples` starts with the one before the first
    /// and has [`MARGIN`] bytes after the one that follows the last.
    pub(super) fn smooth_across(self, samples: &[u8], out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_across(samples, out));
    }

    /// Computes a row between two: three parts of `near`, one of `far`. The bias is 1 if `far` is above, 2 if it is
    /// below.
    pub(super) fn smooth_down(self, near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_down(near, far, bias, out));
    }

    /// Doubles columns and rows; both rows are as in [`smooth_across`](Self::smooth_across).
    pub(super) fn smooth_both(self, near: &[u8], far: &[u8], out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_both(near, far, out));
    }

    /// Converts luma and colour differences to RGB pixels. The rows have [`MARGIN`] more bytes.
    pub(super) fn ycbcr(self, planes: [&[u8]; 3], out: &mut [u8]) {
        dispatch!(self.vectors.level(), ycbcr(planes, out));
    }

    /// Converts the first `width` samples of rows as [`ycbcr`](Self::ycbcr) does, to three rows. All rows have
    /// [`MARGIN`] more bytes, those of `out` are overwritten.
    pub(super) fn ycbcr_planes(self, planes: [&[u8]; 3], width: usize, out: [&mut [u8]; 3]) {
        let len = width.next_multiple_of(MARGIN);
        let (planes, out) = (planes.map(|row| &row[..len]), out.map(|row| &mut row[..len]));
        dispatch!(self.vectors.level(), ycbcr_planes(planes, out));
    }

    /// Converts three rows of samples to pixels of three bytes. The rows have [`MARGIN`] more bytes.
    pub(super) fn interleave(self, planes: [&[u8]; 3], out: &mut [u8]) {
        dispatch!(self.vectors.level(), interleave(planes, out));
    }
}

/// Returns true on AMD's Zen and Zen 2, and Hygon's CPUs derived from them, which execute PDEP bit by bit in microcode.
#[cfg(target_arch = "x86_64")]
fn is_pdep_slow() -> bool {
    use std::arch::x86_64::__cpuid;
    let vendor = __cpuid(0);
    let family = __cpuid(1).eax;
    let family = (family >> 8 & 0xf) + (family >> 20 & 0xff);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    matches!((name.as_flattened(), family), (b"AuthenticAMD", 0x17) | (b"HygonGenuine", 0x18))
}

/// No kernel of further architectures has such an instruction.
#[cfg(not(target_arch = "x86_64"))]
fn is_pdep_slow() -> bool {
    false
}
