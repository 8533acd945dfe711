//! Operations that mix the channels of a pixel. Grey pictures have none to mix, and stay as they are.

use super::Shape;
use super::kernel::Kernels;

/// Blends with the luma, as `ImageEnhance.Color`: 0 is grey, 1 the picture.
pub fn saturation(shape: Shape, pixels: &mut [u8], factor: f64) {
    if shape.channels == 3 {
        Kernels::default().saturate(pixels, factor as f32);
    }
}

/// Sets all channels to the luma, as `convert("L")` has it.
pub fn grayscale(shape: Shape, pixels: &mut [u8]) {
    if shape.channels == 3 {
        Kernels::default().grayscale(pixels);
    }
}

/// Turns the hue by `factor` of a circle, -0.5 to 0.5, as torchvision's `adjust_hue` does: in Pillow's HSV, which has 8
/// bits for each.
pub fn hue(shape: Shape, pixels: &mut [u8], factor: f64) {
    if shape.channels == 3 {
        // The conversion truncates. A negative shift wraps around.
        Kernels::default().turn_hue(pixels, (factor * 255.0) as i32 as u8);
    }
}

/// Exchanges the channels: channel i of the result is channel `permutation[i]` of the picture. Grey pictures stay.
pub fn permute_channels(shape: Shape, pixels: &mut [u8], permutation: [u8; 3]) {
    if shape.channels == 3 {
        for pixel in pixels.as_chunks_mut::<3>().0 {
            *pixel = permutation.map(|channel| pixel[usize::from(channel)]);
        }
    }
}
