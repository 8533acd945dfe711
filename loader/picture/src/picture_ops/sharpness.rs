//! Sharpness, as `ImageEnhance.Sharpness` has it.

use super::kernel::Kernels;
use super::{Scratch, Shape};

/// Blends with a smoothed copy: 0 is smooth, 1 the picture, more is sharper. The pixels of the border stay as they are.
pub fn sharpness(shape: Shape, pixels: &mut [u8], factor: f64, scratch: &mut Scratch) {
    let row = shape.row_bytes();
    // Pillow copies pictures that are smaller than its 3 x 3 kernel.
    if shape.width < 3 || shape.height < 3 {
        return;
    }
    let kernels = Kernels::default();
    // The rows above and here as they were, and the smoothed row.
    scratch.bytes.resize(scratch.bytes.len().max(3 * row), 0);
    let (above, rest) = scratch.bytes.split_at_mut(row);
    let (here, rest) = rest.split_at_mut(row);
    let (mut above, mut here, smooth) = (above, here, &mut rest[..row]);
    above.copy_from_slice(&pixels[..row]);
    for y in 1..shape.height - 1 {
        let (current, below) = pixels[y * row..].split_at_mut(row);
        here.copy_from_slice(current);
        kernels.smooth([above, here, &below[..row]], shape.channels, smooth);
        let inner = shape.channels..row - shape.channels;
        kernels.blend(&smooth[inner.clone()], &mut current[inner], factor as f32);
        std::mem::swap(&mut above, &mut here);
    }
}
