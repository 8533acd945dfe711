//! Kernels of conversions of pixels, which each instruction set compiles.

use super::{Factors, PERIOD};

#[inline]
pub(super) fn interleave([r, g, b]: [&[u8]; 3], pixels: &mut [[u8; 3]]) {
    // Of one known length, so that no plane is checked within the loop.
    let [r, g, b] = [r, g, b].map(|plane| &plane[..pixels.len()]);
    for (((pixel, r), g), b) in pixels.iter_mut().zip(r).zip(g).zip(b) {
        *pixel = [*r, *g, *b];
    }
}

#[inline]
pub(super) fn float32(levels: &[u8], factors: &Factors, out: &mut [[u8; 4]]) {
    convert(levels, factors, out, f32::to_ne_bytes);
}

#[inline]
pub(super) fn bfloat16(levels: &[u8], factors: &Factors, out: &mut [[u8; 2]]) {
    convert(levels, factors, out, |value| nearest_bfloat16(value).to_ne_bytes());
}

#[inline(always)]
fn convert<T>(levels: &[u8], Factors { scale, offset }: &Factors, out: &mut [T], element: impl Fn(f32) -> T) {
    // From i32 the conversion to float is one instruction on every CPU.
    let value = |level: u8, i: usize| element(i32::from(level) as f32 * scale[i] + offset[i]);
    let ((blocks, rest), (out_blocks, out_rest)) = (levels.as_chunks::<PERIOD>(), out.as_chunks_mut::<PERIOD>());
    for (levels, out) in blocks.iter().zip(out_blocks) {
        for i in 0..PERIOD {
            out[i] = value(levels[i], i);
        }
    }
    for (i, (level, out)) in rest.iter().zip(out_rest).enumerate() {
        *out = value(*level, i);
    }
}

/// Nearest bfloat16, ties to even. Values here are finite, so NaN needs no care and the loop vectorises.
#[inline]
pub fn nearest_bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_rounds_as_the_half_crate_does() {
        for i in 0..100_000_u32 {
            let value = f32::from_bits(0x3c00_0000 + i * 997);
            assert_eq!(nearest_bfloat16(value), half::bf16::from_f32(value).to_bits());
            assert_eq!(nearest_bfloat16(-value), half::bf16::from_f32(-value).to_bits());
        }
    }
}
