//! Mirrored pictures.

use super::Shape;

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
