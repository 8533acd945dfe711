//! Inner loops over rows of levels. [`portable`] has them all, written so that the compiler finds vectors in them; the
//! remaining levels are the same code, compiled for more instructions.

/// Defines the kernels that are the portable ones, compiled with `$features`.
macro_rules! portable_kernels {
    ($features:literal) => {
        $crate::kernel::portable_with! { $features:
            fn interleave(planes: [&[u8]; 3], pixels: &mut [[u8; 3]]);
            fn float32(levels: &[u8], factors: &Factors, out: &mut [[u8; 4]]);
            fn bfloat16(levels: &[u8], factors: &Factors, out: &mut [[u8; 2]]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

pub use portable::nearest_bfloat16;

use crate::kernel::dispatch;
use crate::vectors::{Level, Vectors};

/// Levels after which the factors repeat: a multiple of one, three and four channels, and of a vector's floats.
const PERIOD: usize = 48;

/// Factors of adjacent levels: value = level * scale + offset.
#[derive(Clone, Debug)]
pub struct Factors {
    scale: [f32; PERIOD],
    offset: [f32; PERIOD],
}

impl Factors {
    /// Makes factors of pixels with a scale and an offset for each channel.
    pub fn new(scale: &[f32], offset: &[f32]) -> Self {
        debug_assert!(PERIOD.is_multiple_of(scale.len()) && scale.len() == offset.len(), "one, three or four channels");
        let [scale, offset] = [scale, offset].map(|values| std::array::from_fn(|i| values[i % values.len()]));
        Self { scale, offset }
    }
}

/// Selection of the kernels for this machine.
#[derive(Clone, Copy, Debug)]
pub struct RowKernels(Vectors);

impl Default for RowKernels {
    /// Returns the kernels that decoders use.
    fn default() -> Self {
        Self(Vectors::in_use())
    }
}

impl RowKernels {
    /// Writes the pixels of a row that is given by channels. The planes have at least as many.
    pub fn interleave(self, planes: [&[u8]; 3], pixels: &mut [[u8; 3]]) {
        dispatch!(self.0.level(), interleave(planes, pixels));
    }

    /// Converts each level to float32.
    pub fn float32(self, levels: &[u8], factors: &Factors, out: &mut [[u8; 4]]) {
        debug_assert_eq!(levels.len(), out.len(), "an element for each level");
        dispatch!(self.0.level(), float32(levels, factors, out));
    }

    /// Converts each level to the nearest bfloat16.
    pub fn bfloat16(self, levels: &[u8], factors: &Factors, out: &mut [[u8; 2]]) {
        debug_assert_eq!(levels.len(), out.len(), "an element for each level");
        dispatch!(self.0.level(), bfloat16(levels, factors, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 11] = [0, 1, 2, 15, 16, 17, 47, 48, 49, 224, 500];

    #[test]
    fn every_kernel_interleaves_rows_alike() {
        let planes: [Vec<u8>; 3] = [3, 5, 7].map(|step| (0..600).map(|x| (x * step) as u8).collect());
        for vectors in Vectors::available() {
            for length in LENGTHS {
                let mut pixels = vec![[9; 3]; length];
                RowKernels(vectors).interleave(planes.each_ref().map(|plane| &plane[..]), &mut pixels);
                for (x, pixel) in pixels.iter().enumerate() {
                    assert_eq!(*pixel, [0, 1, 2].map(|c| planes[c][x]), "{x} of {length}, {vectors:?}");
                }
            }
        }
    }

    #[test]
    fn every_kernel_converts_levels_alike() {
        let levels: Vec<u8> = (0..600).map(|x| (x * 7) as u8).collect();
        let (scale, offset) = ([0.017, 0.003, 0.5, 1.0], [-2.1, 0.0, 1.5, -0.3]);
        for (vectors, channels) in Vectors::available().into_iter().flat_map(|v| [1, 3, 4].map(|c| (v, c))) {
            let factors = Factors::new(&scale[..channels], &offset[..channels]);
            for length in LENGTHS {
                let (mut floats, mut halves) = (vec![[9; 4]; length], vec![[9; 2]; length]);
                RowKernels(vectors).float32(&levels[..length], &factors, &mut floats);
                RowKernels(vectors).bfloat16(&levels[..length], &factors, &mut halves);
                for (x, level) in levels[..length].iter().enumerate() {
                    let want = f32::from(*level) * scale[x % channels] + offset[x % channels];
                    assert_eq!(f32::from_ne_bytes(floats[x]), want, "{x} of {length}, {vectors:?}");
                    assert_eq!(halves[x], half::bf16::from_f32(want).to_ne_bytes(), "{x} of {length}, {vectors:?}");
                }
            }
        }
    }
}
