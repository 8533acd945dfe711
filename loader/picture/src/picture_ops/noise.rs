//! Noise, as torchvision's `gaussian_noise` adds it to levels of 8 bits.

/// Adds noise to levels. `noise` returns normally distributed numbers, of mean 0 and deviation 1; `mean` and `sigma`
/// are for levels from 0 to 1. Levels out of range become the nearest one if `clip`, otherwise they wrap around.
pub fn gaussian_noise(levels: &mut [u8], mean: f64, sigma: f64, clip: bool, mut noise: impl FnMut() -> f32) {
    let (mean, sigma) = ((mean * 255.0) as f32, (sigma * 255.0) as f32);
    for level in levels {
        // Without its fraction, which torchvision drops as well, and within 16 bits.
        let moved = i32::from(*level) + i32::from((mean + noise() * sigma) as i16);
        *level = if clip { moved.clamp(0, 255) as u8 } else { moved as u8 };
    }
}
