//! Portable kernels that take the pixels of a row from all positions of a picture.
//!
//! Blocks of pixels go through three loops: the positions, in vectors; the loads of the pixels there, one by one; the
//! sums, in vectors. In between are rows of values in the first-level cache.

#![allow(clippy::needless_range_loop, reason = "a position in a block is an index of several rows")]

use crate::picture_ops::Shape;

/// Pixels of a block.
const BLOCK: usize = 32;

/// Map of the positions of a result to positions of its source.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Map {
    /// See [`affine`](super::super::affine).
    Affine([f64; 6]),
    /// See [`perspective`](super::super::perspective).
    Perspective([f64; 8]),
}

impl Map {
    /// Positions of the pixels from (`x`, `y`) on. The operations have Pillow's order.
    #[inline(always)]
    fn positions(&self, x: usize, y: usize) -> [[f64; BLOCK]; 2] {
        let mut positions = [[0.0; BLOCK]; 2];
        let [xs, ys] = &mut positions;
        let y = y as f64 + 0.5;
        match *self {
            Self::Affine([a0, a1, a2, a3, a4, a5]) => {
                for (i, (x_in, y_in)) in xs.iter_mut().zip(ys).enumerate() {
                    let x = (x + i) as f64 + 0.5;
                    *x_in = a0 * x + a1 * y + a2;
                    *y_in = a3 * x + a4 * y + a5;
                }
            }
            Self::Perspective([a0, a1, a2, a3, a4, a5, a6, a7]) => {
                for (i, (x_in, y_in)) in xs.iter_mut().zip(ys).enumerate() {
                    let x = (x + i) as f64 + 0.5;
                    let divisor = a6 * x + a7 * y + 1.0;
                    *x_in = (a0 * x + a1 * y + a2) / divisor;
                    *y_in = (a3 * x + a4 * y + a5) / divisor;
                }
            }
        }
        positions
    }
}

/// Largest whole number up to a value of at least -2^31 and below 2^31.
#[inline(always)]
fn floor(value: f64) -> i32 {
    // SAFETY: callers pass positions of a picture, or half a pixel before.
    let whole: i32 = unsafe { value.to_int_unchecked() };
    whole - i32::from(value < f64::from(whole))
}

/// Positions of a block for samples of several pixels.
struct Positions {
    is_inside: [bool; BLOCK],
    /// Pixel to the left and above of each position, from -1.
    x: [i32; BLOCK],
    y: [i32; BLOCK],
    /// Distances from it.
    dx: [f64; BLOCK],
    dy: [f64; BLOCK],
}

impl Positions {
    #[inline(always)]
    fn new(shape: Shape, map: &Map, x: usize, y: usize) -> Self {
        let [xs, ys] = map.positions(x, y);
        let (width, height) = (shape.width as f64, shape.height as f64);
        let mut positions =
            Self { is_inside: [false; BLOCK], x: [0; BLOCK], y: [0; BLOCK], dx: [0.0; BLOCK], dy: [0.0; BLOCK] };
        for i in 0..BLOCK {
            let is_inside = (xs[i] >= 0.0) & (xs[i] < width) & (ys[i] >= 0.0) & (ys[i] < height);
            let (x, y) = if is_inside { (xs[i] - 0.5, ys[i] - 0.5) } else { (0.0, 0.0) };
            positions.is_inside[i] = is_inside;
            (positions.x[i], positions.y[i]) = (floor(x), floor(y));
            positions.dx[i] = x - f64::from(positions.x[i]);
            positions.dy[i] = y - f64::from(positions.y[i]);
        }
        positions
    }
}

/// Writes the pixels of a block, given by channels.
#[inline(always)]
fn write<const CHANNELS: usize>(planes: &[[u8; BLOCK]; 3], is_inside: &[bool; BLOCK], fill: [u8; 3], out: &mut [u8]) {
    let mut planes = *planes;
    for (plane, fill) in planes.iter_mut().zip(fill) {
        for (value, is_inside) in plane.iter_mut().zip(is_inside) {
            *value = if *is_inside { *value } else { fill };
        }
    }
    let [r, g, b] = &planes;
    if CHANNELS == 1 {
        out.copy_from_slice(&r[..out.len()]);
    } else {
        for (((pixel, r), g), b) in out.as_chunks_mut::<3>().0.iter_mut().zip(r).zip(g).zip(b) {
            *pixel = [*r, *g, *b];
        }
    }
}

/// Returns the bytes from `at` on; those after the end are 0.
#[inline(always)]
fn bytes<const N: usize>(source: &[u8], at: usize) -> [u8; N] {
    let rest = &source[at..];
    match rest.first_chunk() {
        Some(bytes) => *bytes,
        None => std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0)),
    }
}

#[inline(always)]
pub(super) fn bilinear_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
    match shape.channels {
        1 => bilinear::<1>(source, shape, map, y, fill, out),
        _ => bilinear::<3>(source, shape, map, y, fill, out),
    }
}

#[inline(always)]
fn bilinear<const CHANNELS: usize>(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
    let Shape { width, height, .. } = shape;
    let (right, bottom, row_bytes) = (width as i32 - 1, height as i32 - 1, shape.row_bytes() as u32);
    for (block, out) in out.chunks_mut(BLOCK * CHANNELS).enumerate() {
        let mut positions = Positions::new(shape, map, block * BLOCK, y);
        let mut starts = [[0_u32; BLOCK]; 2];
        for i in 0..BLOCK {
            // At the border, the pixel beyond it has no weight.
            let (x, y) = (positions.x[i].clamp(0, right), positions.y[i].clamp(0, bottom));
            let is_between = (positions.y[i] >= 0) & (positions.y[i] < bottom);
            positions.dx[i] = if (positions.x[i] >= 0) & (positions.x[i] < right) { positions.dx[i] } else { 0.0 };
            positions.dy[i] = if is_between { positions.dy[i] } else { 0.0 };
            let start = y as u32 * row_bytes + x as u32 * CHANNELS as u32;
            starts[0][i] = start;
            starts[1][i] = start + if is_between { row_bytes } else { 0 };
        }
        // The pixel and the next one, of both rows.
        let mut corners = [[0_u32; BLOCK]; 4];
        for i in 0..BLOCK {
            for row in 0..2 {
                let pixels = u64::from_le_bytes(bytes(source, starts[row][i] as usize));
                corners[2 * row][i] = pixels as u32;
                corners[2 * row + 1][i] = (pixels >> (8 * CHANNELS)) as u32;
            }
        }
        let mut planes = [[0; BLOCK]; 3];
        for (channel, plane) in planes.iter_mut().enumerate().take(CHANNELS) {
            for i in 0..BLOCK {
                let [a, b, c, d] = [0, 1, 2, 3].map(|j| ((corners[j][i] >> (8 * channel)) & 255) as i32);
                let above = f64::from(a) + f64::from(b - a) * positions.dx[i];
                let below = f64::from(c) + f64::from(d - c) * positions.dx[i];
                let value = above + (below - above) * positions.dy[i];
                // SAFETY: a mean of bytes.
                let value: i32 = unsafe { value.to_int_unchecked() };
                plane[i] = value as u8;
            }
        }
        write::<CHANNELS>(&planes, &positions.is_inside, fill, out);
    }
}

/// Pillow's cubic of four values at a distance from the second.
#[inline(always)]
fn cubic([a, b, c, d]: [f64; 4], distance: f64) -> f64 {
    let p2 = -a + c;
    let p3 = 2.0 * (a - b) + c - d;
    let p4 = -a + b - c + d;
    b + distance * (p2 + distance * (p3 + distance * p4))
}

#[inline(always)]
pub(super) fn bicubic_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
    match shape.channels {
        1 => bicubic::<1>(source, shape, map, y, fill, out),
        _ => bicubic::<3>(source, shape, map, y, fill, out),
    }
}

#[inline(always)]
fn bicubic<const CHANNELS: usize>(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
    let Shape { width, height, .. } = shape;
    let (right, bottom, row_bytes) = (width as i32 - 1, height as i32 - 1, shape.row_bytes());
    for (block, out) in out.chunks_mut(BLOCK * CHANNELS).enumerate() {
        let positions = Positions::new(shape, map, block * BLOCK, y);
        let mut pixels = [[[0_u32; BLOCK]; 4]; 4];
        for i in 0..BLOCK {
            let (x, y) = (positions.x[i] - 1, positions.y[i] - 1);
            for row in 0..4 {
                let start = (y + row as i32).clamp(0, bottom) as usize * row_bytes;
                if x >= 0 && x + 3 <= right {
                    let taps = u128::from_le_bytes(bytes(source, start + x as usize * CHANNELS));
                    for tap in 0..4 {
                        pixels[row][tap][i] = (taps >> (8 * CHANNELS * tap)) as u32;
                    }
                } else {
                    for tap in 0..4 {
                        let x = (x + tap as i32).clamp(0, right) as usize;
                        pixels[row][tap][i] = u32::from_le_bytes(bytes(source, start + x * CHANNELS));
                    }
                }
            }
        }
        let mut planes = [[0; BLOCK]; 3];
        for (channel, plane) in planes.iter_mut().enumerate().take(CHANNELS) {
            // Along x, then along y.
            let mut sums = [[0.0; BLOCK]; 4];
            for (sums, [a, b, c, d]) in sums.iter_mut().zip(&pixels) {
                for i in 0..BLOCK {
                    let value = |pixels: &[u32; BLOCK]| f64::from(((pixels[i] >> (8 * channel)) & 255) as i32);
                    sums[i] = cubic([value(a), value(b), value(c), value(d)], positions.dx[i]);
                }
            }
            for i in 0..BLOCK {
                let value = cubic([sums[0][i], sums[1][i], sums[2][i], sums[3][i]], positions.dy[i]);
                let value = if value > 0.0 { value } else { 0.0 };
                let value = if value < 255.0 { value } else { 255.0 };
                // SAFETY: the value is from 0 to 255.
                let value: i32 = unsafe { value.to_int_unchecked() };
                plane[i] = value as u8;
            }
        }
        write::<CHANNELS>(&planes, &positions.is_inside, fill, out);
    }
}

#[inline(always)]
pub(super) fn nearest_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]) {
    let Shape { width, height, channels } = shape;
    let (right, bottom) = (width as f64, height as f64);
    for (block, out) in out.chunks_mut(BLOCK * channels).enumerate() {
        let [xs, ys] = map.positions(block * BLOCK, y);
        // The number of the pixel, or the one after the last.
        let mut numbers = [(width * height) as u32; BLOCK];
        for i in 0..BLOCK {
            let is_inside = (xs[i] >= 0.0) & (xs[i] < right) & (ys[i] >= 0.0) & (ys[i] < bottom);
            let (x, y) = if is_inside { (xs[i], ys[i]) } else { (0.0, 0.0) };
            let number = floor(y) as u32 * width as u32 + floor(x) as u32;
            numbers[i] = if is_inside { number } else { numbers[i] };
        }
        for (number, pixel) in numbers.iter().zip(out.chunks_exact_mut(channels)) {
            let from = source.get(*number as usize * channels..).filter(|rest| !rest.is_empty()).unwrap_or(&fill);
            pixel.copy_from_slice(&from[..channels]);
        }
    }
}

#[inline(always)]
pub(super) fn fixed_row(source: &[u8], shape: Shape, start: [i32; 2], step: [i32; 2], fill: [u8; 3], out: &mut [u8]) {
    match shape.channels {
        1 => fixed_pixels::<1>(source, shape, start, step, fill, out),
        _ => fixed_pixels::<3>(source, shape, start, step, fill, out),
    }
}

#[inline(always)]
fn fixed_pixels<const CHANNELS: usize>(
    source: &[u8],
    shape: Shape,
    [mut x, mut y]: [i32; 2],
    step: [i32; 2],
    fill: [u8; 3],
    out: &mut [u8],
) {
    let source = source.as_chunks::<CHANNELS>().0;
    let fill = *fill.first_chunk().expect("a colour");
    for pixel in out.as_chunks_mut::<CHANNELS>().0 {
        // Negative positions are large as unsigned numbers.
        let (column, row) = ((x >> 16) as u32 as usize, (y >> 16) as u32 as usize);
        let is_inside = column < shape.width && row < shape.height;
        *pixel = if is_inside { source[row * shape.width + column] } else { fill };
        (x, y) = (x.wrapping_add(step[0]), y.wrapping_add(step[1]));
    }
}
