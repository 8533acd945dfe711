//! Operations that move whole pixels: flips, borders, cuts and erased boxes.

use super::Shape;
use super::blur::reflected;

/// Pixels that are added on each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// Columns on the left.
    pub left: usize,
    /// Rows above.
    pub top: usize,
    /// Columns on the right.
    pub right: usize,
    /// Rows below.
    pub bottom: usize,
}

/// Colours of added pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// This colour.
    Constant([u8; 3]),
    /// The nearest pixel of the picture.
    Edge,
    /// The picture mirrored at its outermost pixels, which are not repeated.
    Reflect,
    /// The picture mirrored at its border.
    Symmetric,
}

/// Mirrors the picture, left to right.
pub fn flip_horizontal(shape: Shape, pixels: &mut [u8]) {
    for row in pixels.chunks_exact_mut(shape.row_bytes()) {
        if shape.channels == 1 {
            row.reverse();
        } else {
            row.as_chunks_mut::<3>().0.reverse();
        }
    }
}

/// Mirrors the picture, top to bottom.
pub fn flip_vertical(shape: Shape, pixels: &mut [u8]) {
    let row = shape.row_bytes();
    let (above, below) = pixels.split_at_mut(shape.height / 2 * row);
    for (above, below) in above.chunks_exact_mut(row).zip(below.chunks_exact_mut(row).rev()) {
        above.swap_with_slice(below);
    }
}

/// Copies the picture to `to`, which is larger by `sides`. Sides may be larger than the picture.
pub fn pad(from: &[u8], shape: Shape, sides: Sides, padding: Padding, to: &mut [u8]) {
    let Shape { width, height, channels } = shape;
    let Sides { left, top, right, .. } = sides;
    let row_bytes = shape.row_bytes();
    let place = |x: usize, before: usize, len: usize| {
        let x = x as isize - before as isize;
        match padding {
            Padding::Constant(_) => usize::try_from(x).ok().filter(|x| *x < len),
            Padding::Edge => Some(x.clamp(0, len as isize - 1) as usize),
            Padding::Reflect => Some(reflected(x, len)),
            Padding::Symmetric => {
                let x = x.rem_euclid(2 * len as isize) as usize;
                Some(x.min(2 * len - 1 - x))
            }
        }
    };
    let fill = if let Padding::Constant(fill) = padding { fill } else { [0; 3] };
    for (y, row) in to.chunks_exact_mut((left + width + right) * channels).enumerate() {
        let source = place(y, top, height).map(|y| &from[y * row_bytes..][..row_bytes]);
        let mut copy = |x: usize| {
            let pixel = match (source, place(x, left, width)) {
                (Some(source), Some(x)) => &source[x * channels..][..channels],
                _ => &fill[..channels],
            };
            row[x * channels..][..channels].copy_from_slice(pixel);
        };
        (0..left).chain(left + width..left + width + right).for_each(&mut copy);
        match source {
            Some(source) => row[left * channels..][..row_bytes].copy_from_slice(source),
            None => (left..left + width).for_each(copy),
        }
    }
}

/// Copies the box of `to_shape` with its corner at (`x`, `y`), which the picture contains, to `to`.
pub fn crop(from: &[u8], shape: Shape, x: usize, y: usize, to: &mut [u8], to_shape: Shape) {
    let rows = from.chunks_exact(shape.row_bytes()).skip(y);
    for (row, to) in rows.zip(to.chunks_exact_mut(to_shape.row_bytes())) {
        to.copy_from_slice(&row[x * shape.channels..][..to.len()]);
    }
}

/// Sets the box at column `x` and row `y`, `w` by `h` pixels as far as the picture has them, to a colour.
pub fn erase(shape: Shape, pixels: &mut [u8], [x, y, w, h]: [usize; 4], colour: [u8; 3]) {
    let (x, end) = (x.min(shape.width), x.saturating_add(w).min(shape.width));
    for row in pixels.chunks_exact_mut(shape.row_bytes()).skip(y).take(h) {
        for pixel in row[x * shape.channels..end * shape.channels].chunks_exact_mut(shape.channels) {
            pixel.copy_from_slice(&colour[..shape.channels]);
        }
    }
}
