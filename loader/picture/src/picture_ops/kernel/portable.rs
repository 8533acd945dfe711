//! Kernels for any machine, which define the result of every kernel.
//!
//! Floating-point operations are the operations of Pillow's C code, in its order, where the order has an effect. Most
//! are exact fractions, compared with Pillow over all inputs that a picture can have.

pub(super) use super::samples::{bicubic_row, bilinear_row, fixed_row, nearest_row};

/// Pixels of a block, with channels that are split into rows of bytes: so many that a vector is not read while the
/// smaller stores that it is made of are in flight.
const BLOCK: usize = 512;

/// Truncates a value from 0 to 255. Values outside are clipped; not-a-number is 0.
#[inline(always)]
fn byte(value: f32) -> u8 {
    let value = if value > 0.0 { value } else { 0.0 };
    let value = if value < 255.0 { value } else { 255.0 };
    // SAFETY: the value is from 0 to 255.
    let value: i32 = unsafe { value.to_int_unchecked() };
    value as u8
}

/// Pillow's `ImageBlend` of two values: `degenerate` for a factor of 0, `value` for 1, and beyond.
#[inline(always)]
pub(in super::super) fn blended(degenerate: u8, value: u8, factor: f32) -> u8 {
    let degenerate = f32::from(degenerate);
    byte(degenerate + factor * (f32::from(value) - degenerate))
}

#[inline(always)]
pub(super) fn blend(degenerate: &[u8], pixels: &mut [u8], factor: f32) {
    for (value, degenerate) in pixels.iter_mut().zip(degenerate) {
        *value = blended(*degenerate, *value, factor);
    }
}

#[inline(always)]
pub(super) fn look_up(table: &[u8; 256], pixels: &mut [u8]) {
    pixels.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}

#[inline(always)]
pub(super) fn look_up_3([r, g, b]: &[[u8; 256]; 3], pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<3>().0 {
        *pixel = [r[usize::from(pixel[0])], g[usize::from(pixel[1])], b[usize::from(pixel[2])]];
    }
}

/// Pillow's `L`.
#[inline(always)]
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b) + 0x8000) >> 16) as u8
}

/// Rows of a block's bytes, one for each channel.
type Planes = [[u8; BLOCK]; 3];

#[inline(always)]
fn split(pixels: &[u8], [r, g, b]: &mut Planes) {
    for (((r, g), b), pixel) in r.iter_mut().zip(g).zip(b).zip(pixels.as_chunks::<3>().0) {
        [*r, *g, *b] = *pixel;
    }
}

#[inline(always)]
fn join([r, g, b]: &Planes, pixels: &mut [u8]) {
    for (((r, g), b), pixel) in r.iter().zip(g).zip(b).zip(pixels.as_chunks_mut::<3>().0) {
        *pixel = [*r, *g, *b];
    }
}

#[inline(always)]
pub(super) fn luma_sum(pixels: &[u8]) -> u64 {
    // The sum of a block fits 32 bits.
    let blocks = pixels.as_chunks::<3>().0.chunks(1 << 16);
    blocks.map(|block| u64::from(block.iter().map(|pixel| u32::from(luma(*pixel))).sum::<u32>())).sum()
}

/// Replaces every pixel, block by block. A closure would be compiled without the vectors of its caller, unless it is
/// inlined.
macro_rules! each_pixel {
    ($pixels:expr, |$pixel:ident| $value:expr) => {{
        let mut planes = [[0; BLOCK]; 3];
        for block in $pixels.chunks_mut(3 * BLOCK) {
            split(block, &mut planes);
            let [reds, greens, blues] = &mut planes;
            for ((r, g), b) in reds.iter_mut().zip(greens).zip(blues) {
                let $pixel = [*r, *g, *b];
                [*r, *g, *b] = $value;
            }
            join(&planes, block);
        }
    }};
}

#[inline(always)]
pub(super) fn grayscale(pixels: &mut [u8]) {
    each_pixel!(pixels, |pixel| [luma(pixel); 3]);
}

#[inline(always)]
pub(super) fn saturate(pixels: &mut [u8], factor: f32) {
    each_pixel!(pixels, |pixel| {
        let (luma, [r, g, b]) = (luma(pixel), pixel);
        [blended(luma, r, factor), blended(luma, g, factor), blended(luma, b, factor)]
    });
}

#[inline(always)]
pub(super) fn turn_hue(pixels: &mut [u8], shift: u8) {
    each_pixel!(pixels, |pixel| turned(pixel, shift));
}

/// Largest whole number up to a value from 0 to 255, in floating point.
#[inline(always)]
fn floor(value: f32) -> f32 {
    f32::from(byte(value))
}

/// Pillow's `rgb2hsv` and `hsv2rgb`, with a shift of the hue in between. All whole numbers here are below 2^24, so
/// single precision has them exactly.
#[inline(always)]
fn turned([r, g, b]: [u8; 3], shift: u8) -> [u8; 3] {
    let max = r.max(g).max(b);
    let min = r.min(g).min(b);
    let (is_r, is_g) = (r == max, g == max);
    let (chroma, value) = (f32::from(max - min), f32::from(max));
    // The hue is a base plus the first distance to the maximum minus the second, as fractions of the chroma. One of
    // them is the whole chroma.
    let first = if is_r {
        b
    } else if is_g {
        r
    } else {
        g
    };
    let second = if is_r {
        g
    } else if is_g {
        b
    } else {
        r
    };
    let base = if is_r {
        0.0
    } else if is_g {
        2.0
    } else {
        4.0
    };
    let is_first = first == min;
    let distance = max - if is_first { second } else { first };
    let fraction = f32::from(distance) / if max == min { 1.0 } else { chroma };
    let hue = if is_first { base + 1.0 - fraction } else { base - 1.0 + fraction };
    // In Pillow this is in double precision; the results are the same for all colours.
    let circle = hue / 6.0;
    let circle = if circle < 0.0 { 1.0 + circle } else { circle };
    let hue = floor(circle * 255.0);
    let saturation = floor(chroma / if max == 0 { 1.0 } else { value } * 255.0);

    let hue = u32::from((hue as u8).wrapping_add(shift));
    // Six sectors of 255 / 6, and the position in the sector in 85ths.
    let sector = (hue * 2 * 772) >> 16;
    let position = hue * 2 - sector * 85;
    let sector = if sector == 6 { 0 } else { sector };
    let position = if sector % 2 == 1 { position } else { 85 - position };
    let lowest = rounded(value * (255.0 - saturation), 255.0);
    let between = rounded(value * (21_675.0 - saturation * position as f32), 21_675.0);
    let (v, p, w) = (max, lowest, between);
    let r = if sector == 0 || sector == 5 {
        v
    } else if sector == 1 || sector == 4 {
        w
    } else {
        p
    };
    let g = if sector == 1 || sector == 2 {
        v
    } else if sector == 0 || sector == 3 {
        w
    } else {
        p
    };
    let b = if sector == 3 || sector == 4 {
        v
    } else if sector == 2 || sector == 5 {
        w
    } else {
        p
    };
    if saturation == 0.0 { [v; 3] } else { [r, g, b] }
}

/// Nearest whole number of a fraction of whole numbers. The divisor is odd, so there are no ties.
#[inline(always)]
fn rounded(dividend: f32, divisor: f32) -> u8 {
    byte((2.0 * dividend + divisor) / (2.0 * divisor))
}

/// Sums are whole, so this equals Pillow's result in floating point: a 13th has no ties.
#[inline(always)]
pub(super) fn smooth([above, here, below]: [&[u8]; 3], channels: usize, out: &mut [u8]) {
    let len = out.len();
    let [above, here, below] = [&above[..len], &here[..len], &below[..len]];
    // The pixel before, here and after.
    let at = |row: &[u8], position: usize, i: usize| u16::from(row[position * channels + i]);
    for (i, out) in out[channels..len - channels].iter_mut().enumerate() {
        let sum = |row| at(row, 0, i) + at(row, 1, i) + at(row, 2, i);
        let sum = sum(above) + sum(here) + sum(below) + 4 * at(here, 1, i);
        *out = ((u32::from(sum + 6) * 5_042) >> 16) as u8;
    }
}

/// Values with sums that are in registers while the taps or rows of a blur are added.
pub(in super::super) const SUMS: usize = 64;

#[inline(always)]
pub(super) fn convolve_row(source: &[u8], weights: &[f32], channels: usize, out: &mut [f32]) {
    let reach = (weights.len() - 1) * channels;
    let source = &source[..out.len() + 2 * reach];
    for (block, out) in out.as_chunks_mut::<SUMS>().0.iter_mut().enumerate() {
        let at = |position: usize| -> &[u8; SUMS] {
            source[block * SUMS + position..].first_chunk().expect("a margin after the row")
        };
        let mut sums = [0.0; SUMS];
        for (sum, middle) in sums.iter_mut().zip(at(reach)) {
            *sum = f32::from(*middle) * weights[0];
        }
        for (tap, weight) in weights.iter().enumerate().skip(1) {
            let (before, after) = (at(reach - tap * channels), at(reach + tap * channels));
            for ((sum, before), after) in sums.iter_mut().zip(before).zip(after) {
                *sum += f32::from(u16::from(*before) + u16::from(*after)) * weight;
            }
        }
        *out = sums;
    }
}

#[inline(always)]
pub(super) fn convolve_rows(values: &[f32], starts: &[usize], weights: &[f32], out: &mut [u8]) {
    let middle = weights.len() - 1;
    for (block, out) in out.chunks_mut(SUMS).enumerate() {
        let row = |tap: usize| -> &[f32; SUMS] {
            values[starts[tap] + block * SUMS..].first_chunk().expect("a row of whole blocks")
        };
        let mut sums = *row(middle);
        sums.iter_mut().for_each(|sum| *sum *= weights[0]);
        for (tap, weight) in weights.iter().enumerate().skip(1) {
            for ((sum, before), after) in sums.iter_mut().zip(row(middle - tap)).zip(row(middle + tap)) {
                *sum += (before + after) * weight;
            }
        }
        let mut bytes = [0; SUMS];
        bytes.iter_mut().zip(sums).for_each(|(byte, sum)| *byte = nearest(sum));
        out.copy_from_slice(&bytes[..out.len()]);
    }
}

/// Nearest whole number of a value from 0 to 255.5; of two, the even one, as torch rounds.
#[inline(always)]
fn nearest(value: f32) -> u8 {
    // The last bit of a number from 2^23 on is worth one.
    (value + (1 << 23) as f32).to_bits() as u8
}
