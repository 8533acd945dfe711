//! Affine and perspective transforms, as Pillow's `Image.transform` does them: each pixel of the result is taken from
//! the position of the source that a matrix gives for its centre. Positions outside of the source get the fill colour.
//!
//! Bilinear and bicubic samples are computed in double precision, as in Pillow, and are equal to its own. Nearest
//! samples of an affine transform have three ways there, with different roundings: a table of columns if there is
//! neither rotation nor shear, 16 bits of fraction, and floating point for positions far outside.

use super::kernel::{Kernels, Map};
use super::matrices::{Rotation, Turn};
use super::{Scratch, Shape};
use crate::interpolation::Interpolation;

/// Fills `to`, a picture of `to_shape`, from positions of `from` that the `matrix` gives: x = m0 x' + m1 y' + m2,
/// y = m3 x' + m4 y' + m5.
#[allow(clippy::too_many_arguments)]
pub fn affine(
    from: &[u8],
    shape: Shape,
    matrix: &[f64; 6],
    sampling: Interpolation,
    fill: [u8; 3],
    to: &mut [u8],
    to_shape: Shape,
    scratch: &mut Scratch,
) {
    if sampling != Interpolation::Nearest {
        return warp(from, shape, &Map::Affine(*matrix), sampling, fill, to, to_shape);
    }
    let [a0, a1, a2, a3, a4, a5] = *matrix;
    if a1 == 0.0 && a3 == 0.0 {
        return scale(from, shape, matrix, fill, to, to_shape, scratch);
    }
    let (right, bottom) = (to_shape.width as f64, to_shape.height as f64);
    let is_small = |x: f64, y: f64| (x * a0 + y * a1 + a2).abs() < 32_768.0 && (x * a3 + y * a4 + a5).abs() < 32_768.0;
    if is_small(0.0, 0.0) && is_small(right, bottom) && is_small(0.0, bottom) && is_small(right, 0.0) {
        fixed(from, shape, matrix, fill, to, to_shape);
    } else {
        floating(from, shape, matrix, fill, to, to_shape);
    }
}

/// Fills `to`, a picture of `to_shape`, from positions of `from` that the coefficients give:
/// x = (c0 x' + c1 y' + c2) / (c6 x' + c7 y' + 1), y = (c3 x' + c4 y' + c5) / (c6 x' + c7 y' + 1).
pub fn perspective(
    from: &[u8],
    shape: Shape,
    coefficients: &[f64; 8],
    sampling: Interpolation,
    fill: [u8; 3],
    to: &mut [u8],
    to_shape: Shape,
) {
    warp(from, shape, &Map::Perspective(*coefficients), sampling, fill, to, to_shape);
}

/// Rotates as Pillow's `Image.rotate`. `to` has the bytes of [`Rotation::output`].
pub fn rotate(
    from: &[u8],
    shape: Shape,
    rotation: &Rotation,
    sampling: Interpolation,
    fill: [u8; 3],
    to: &mut [u8],
    scratch: &mut Scratch,
) {
    let to_shape = rotation.output(shape);
    let Shape { width, height, channels } = shape;
    let mut turn = |position: &dyn Fn(usize, usize) -> usize| {
        for (y, row) in to.chunks_exact_mut(to_shape.row_bytes()).enumerate() {
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                pixel.copy_from_slice(&from[position(x, y) * channels..][..channels]);
            }
        }
    };
    match rotation.turn() {
        Turn::None => to.copy_from_slice(from),
        Turn::Quarter => turn(&|x, y| x * width + width - 1 - y),
        Turn::Half => turn(&|x, y| (height - 1 - y) * width + width - 1 - x),
        Turn::ThreeQuarters => turn(&|x, y| (height - 1 - x) * width + y),
        Turn::Affine(matrix) => affine(from, shape, &matrix, sampling, fill, to, to_shape, scratch),
    }
}

fn warp(from: &[u8], shape: Shape, map: &Map, sampling: Interpolation, fill: [u8; 3], to: &mut [u8], to_shape: Shape) {
    let kernels = Kernels::default();
    for (y, row) in to.chunks_exact_mut(to_shape.row_bytes()).enumerate() {
        match sampling {
            Interpolation::Nearest => kernels.nearest_row(from, shape, map, y, fill, row),
            Interpolation::Bilinear => kernels.bilinear_row(from, shape, map, y, fill, row),
            Interpolation::Bicubic => kernels.bicubic_row(from, shape, map, y, fill, row),
        }
    }
}

/// Whole part of a position, if a side of `len` pixels has it.
fn position(value: f64, len: usize) -> Option<usize> {
    (value >= 0.0 && value < len as f64).then_some(value as usize)
}

/// Sets all pixels to `fill`.
fn fill_pixels(pixels: &mut [u8], channels: usize, fill: [u8; 3]) {
    if fill[..channels].iter().all(|value| *value == fill[0]) {
        pixels.fill(fill[0]);
    } else {
        pixels.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(&fill[..channels]));
    }
}

/// Nearest samples without rotation or shear.
fn scale(
    from: &[u8],
    shape: Shape,
    matrix: &[f64; 6],
    fill: [u8; 3],
    to: &mut [u8],
    to_shape: Shape,
    scratch: &mut Scratch,
) {
    let (channels, row_bytes) = (shape.channels, shape.row_bytes());
    let columns = &mut scratch.starts;
    columns.clear();
    let mut first = 0;
    let mut x = matrix[2] + matrix[0] * 0.5;
    // The columns that show the source are adjacent.
    for column in 0..to_shape.width {
        if let Some(position) = position(x, shape.width) {
            first = if columns.is_empty() { column } else { first };
            columns.push(position * channels);
        }
        x += matrix[0];
    }
    let is_run = columns.windows(2).all(|pair| pair[1] == pair[0] + channels);
    let mut y = matrix[5] + matrix[4] * 0.5;
    for row in to.chunks_exact_mut(to_shape.row_bytes()) {
        let shown = first * channels..(first + columns.len()) * channels;
        let source = position(y, shape.height).map(|y| &from[y * row_bytes..][..row_bytes]);
        y += matrix[4];
        let Some(source) = source else {
            fill_pixels(row, channels, fill);
            continue;
        };
        fill_pixels(&mut row[..shown.start], channels, fill);
        fill_pixels(&mut row[shown.end..], channels, fill);
        let row = &mut row[shown];
        match columns[..] {
            [start, ..] if is_run => row.copy_from_slice(&source[start..][..row.len()]),
            _ => {
                for (pixel, start) in row.chunks_exact_mut(channels).zip(columns.iter()) {
                    pixel.copy_from_slice(&source[*start..][..channels]);
                }
            }
        }
    }
}

/// Nearest samples with 16 bits of fraction.
fn fixed(from: &[u8], shape: Shape, matrix: &[f64; 6], fill: [u8; 3], to: &mut [u8], to_shape: Shape) {
    let [a0, a1, a2, a3, a4, a5] = *matrix;
    let fix = |value: f64| (value * 65_536.0 + 0.5).floor() as i32;
    let step = [fix(a0), fix(a3)];
    let next_row = [fix(a1), fix(a4)];
    let mut start = [fix(a2 + a0 * 0.5 + a1 * 0.5), fix(a5 + a3 * 0.5 + a4 * 0.5)];
    let kernels = Kernels::default();
    for row in to.chunks_exact_mut(to_shape.row_bytes()) {
        kernels.fixed_row(from, shape, start, step, fill, row);
        start = [start[0].wrapping_add(next_row[0]), start[1].wrapping_add(next_row[1])];
    }
}

/// Nearest samples in floating point.
fn floating(from: &[u8], shape: Shape, matrix: &[f64; 6], fill: [u8; 3], to: &mut [u8], to_shape: Shape) {
    let Shape { width, height, channels } = shape;
    let [a0, a1, a2, a3, a4, a5] = *matrix;
    let mut start = [a2 + a1 * 0.5 + a0 * 0.5, a5 + a4 * 0.5 + a3 * 0.5];
    for row in to.chunks_exact_mut(to_shape.row_bytes()) {
        let [mut x, mut y] = start;
        for pixel in row.chunks_exact_mut(channels) {
            match (position(x, width), position(y, height)) {
                (Some(x), Some(y)) => pixel.copy_from_slice(&from[(y * width + x) * channels..][..channels]),
                _ => pixel.copy_from_slice(&fill[..channels]),
            }
            (x, y) = (x + a0, y + a3);
        }
        start = [start[0] + a1, start[1] + a4];
    }
}
