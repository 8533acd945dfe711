//! The inner loops, each for any machine and for vectors of 16, 32 and 64 bytes; all give the same bytes.
//!
//! [`Kernels`] is what this machine can do, found out once. [`portable`] says what every kernel computes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod colour;
mod constants;
#[cfg(target_arch = "x86_64")]
mod entropy;
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
use crate::decode::kernel::dispatch;
use crate::decode::vectors::{Level, Vectors};
use std::sync::LazyLock;

pub(super) use layout::{GROUP, MARGIN};

/// See [`Kernels::idct`].
pub(super) const OUT_OF_RANGE: Fallback = Fallback("coefficients that no encoder writes");

/// Which kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels {
    vectors: Vectors,
    /// Whether the instruction PDEP takes longer than what does without it.
    deposits_slowly: bool,
}

impl Kernels {
    /// Those that decoders use.
    pub(super) fn new() -> Self {
        static IN_USE: LazyLock<Kernels> = LazyLock::new(|| Kernels::of(Vectors::in_use()));
        *IN_USE
    }

    /// All that this machine has, the best last.
    #[cfg(test)]
    pub(super) fn available() -> Vec<Self> {
        Vectors::available().into_iter().map(Self::of).collect()
    }

    fn of(vectors: Vectors) -> Self {
        Self { vectors, deposits_slowly: deposits_slowly() }
    }

    /// Whether they are faster than what any machine can do.
    pub(super) fn use_vectors(self) -> bool {
        self.vectors.level() != Level::Portable
    }

    /// Copies entropy-coded bytes up to a marker, leaving out the zeros behind FF. Says how many bytes were read (the
    /// marker, or an FF that nothing follows, is not) and written. `out` has at least [`MARGIN`] bytes more than `from`.
    pub(super) fn unstuff(self, from: &[u8], out: &mut [u8]) -> (usize, usize) {
        assert!(out.len() >= from.len() + MARGIN, "room for whole vectors");
        dispatch!(self.vectors.level(), unstuff(from, out))
    }

    /// Decodes `count` MCUs one behind the other into `coefficients`, see [`McuBlocks::decode`].
    pub(super) fn decode(
        self,
        blocks: &McuBlocks<'_>,
        at: &mut Position<'_>,
        count: usize,
        coefficients: &mut [i16],
    ) -> Result<(), Fallback> {
        dispatch!(self.vectors.level(), decode(blocks, at, count, coefficients))
    }

    /// Reads over `count` MCUs.
    pub(super) fn skip(self, blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback> {
        dispatch!(self.vectors.level(), skip(blocks, at, count))
    }

    /// Reads a run of blocks of a progressive picture's AC scan.
    pub(super) fn band(self, run: BandRun<'_, '_>) -> Result<(), Fallback> {
        if self.deposits_slowly { portable::band(run) } else { dispatch!(self.vectors.level(), band(run)) }
    }

    /// Puts blocks that are stored from the last coefficient to the first into the order that [`idct`](Self::idct) takes.
    pub(super) fn order(self, backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
        dispatch!(self.vectors.level(), order(backwards, out));
    }

    /// Dequantises and transforms a row of blocks: that at `offsets[i]` in `coefficients` becomes the `block` columns
    /// from `block * i` of as many rows of `out`: 8, or 4, 2 or 1 for a smaller picture. There are whole groups of offsets.
    /// `quantisation` is by pairs.
    ///
    /// Coefficients that no encoder writes are declined where libjpeg-turbo makes something else of them on this kind of
    /// machine.
    pub(super) fn idct(
        self,
        block: u32,
        coefficients: &[i16],
        offsets: &[u32],
        quantisation: &[i16; BLOCK],
        out: &mut [u8],
        stride: usize,
    ) -> Result<(), Fallback> {
        assert!(offsets.len().is_multiple_of(GROUP), "whole groups");
        let all_fit = if block == 8 {
            dispatch!(self.vectors.level(), idct(coefficients, offsets, quantisation, out, stride))
        } else {
            dispatch!(self.vectors.level(), idct_reduced(block, coefficients, offsets, quantisation, out, stride))
        };
        if all_fit { Ok(()) } else { Err(OUT_OF_RANGE) }
    }

    /// Doubles the columns: two values between each sample's neighbours. `samples` starts with the one before the
    /// first and goes on for [`MARGIN`] bytes behind the one after the last.
    pub(super) fn smooth_across(self, samples: &[u8], out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_across(samples, out));
    }

    /// A row between two: three parts of `near`, one of `far`. The bias is 1 where `far` is above, 2 where it is below.
    pub(super) fn smooth_down(self, near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_down(near, far, bias, out));
    }

    /// Doubles columns and rows; both rows are as in [`smooth_across`](Self::smooth_across).
    pub(super) fn smooth_both(self, near: &[u8], far: &[u8], out: &mut [u8]) {
        dispatch!(self.vectors.level(), smooth_both(near, far, out));
    }

    /// Luma and colour differences to RGB pixels. The rows go on for [`MARGIN`] bytes.
    pub(super) fn ycbcr(self, planes: [&[u8]; 3], out: &mut [u8]) {
        dispatch!(self.vectors.level(), ycbcr(planes, out));
    }

    /// Three rows of samples to pixels of three bytes. The rows go on for [`MARGIN`] bytes.
    pub(super) fn interleave(self, planes: [&[u8]; 3], out: &mut [u8]) {
        dispatch!(self.vectors.level(), interleave(planes, out));
    }
}

/// Whether this is Zen or Zen 2 of AMD's, or Hygon's like them, which deposit bit by bit, in microcode.
#[cfg(target_arch = "x86_64")]
fn deposits_slowly() -> bool {
    use std::arch::x86_64::__cpuid;
    let vendor = __cpuid(0);
    let family = __cpuid(1).eax;
    let family = (family >> 8 & 0xf) + (family >> 20 & 0xff);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    matches!((name.as_flattened(), family), (b"AuthenticAMD", 0x17) | (b"HygonGenuine", 0x18))
}

/// Elsewhere no kernel has an instruction for it.
#[cfg(not(target_arch = "x86_64"))]
fn deposits_slowly() -> bool {
    false
}
