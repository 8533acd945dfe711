//! Changes of hue, saturation and value, in OpenCV's HSV of 8 bits, where a hue has two degrees.
//!
//! The conversions are OpenCV's `cvtColor`: integers and tables on the way there (`RGB2HSV_b` of `color_hsv.simd.hpp`),
//! single precision without the last fraction on the way back, with one rounding of `1 - s * h`, as its code for
//! vectors has it. The last columns of a picture, which do not fill a vector, have a different rounding there.

use super::Shape;

/// Number of hues.
const HUES: i32 = 180;

/// Bits of the fractions in the tables.
const SHIFT: u32 = 12;

/// Change of a level from 0 to 255: level * factor + addend, without its fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Factor.
    pub factor: f64,
    /// Number that is added.
    pub addend: f64,
}

impl LevelChange {
    fn table(self) -> [u8; 256] {
        std::array::from_fn(|level| (level as f64 * self.factor + self.addend).clamp(0.0, 255.0) as u8)
    }
}

/// Adds `hue` to the hues, in units of two degrees, and changes saturation and value. Grey pictures stay as they are.
pub fn hsv(shape: Shape, pixels: &mut [u8], hue: f64, saturation: LevelChange, value: LevelChange) {
    if shape.channels != 3 {
        return;
    }
    let hue = if hue.is_finite() { hue } else { 0.0 };
    let hues: [u8; 256] = std::array::from_fn(|level| (level as f64 + hue).rem_euclid(f64::from(HUES)) as u8);
    let (saturations, values) = (saturation.table(), value.table());
    let divisors = Divisors::new();
    for pixel in pixels.as_chunks_mut::<3>().0 {
        let [h, s, v] = divisors.to_hsv(*pixel);
        *pixel = to_rgb([hues[usize::from(h)], saturations[usize::from(s)], values[usize::from(v)]]);
    }
}

/// Factors instead of divisions by a value, and by a difference.
struct Divisors {
    of_value: [i32; 256],
    of_difference: [i32; 256],
}

impl Divisors {
    fn new() -> Self {
        let table = |whole: i32, parts: f64| {
            std::array::from_fn(|level| match level {
                0 => 0,
                level => (f64::from(whole << SHIFT) / (parts * level as f64)).round_ties_even() as i32,
            })
        };
        Self { of_value: table(255, 1.0), of_difference: table(HUES, 6.0) }
    }

    fn to_hsv(&self, [r, g, b]: [u8; 3]) -> [u8; 3] {
        let (v, least) = (r.max(g).max(b), r.min(g).min(b));
        let difference = v - least;
        let rounded = |product: i32| (product + (1 << (SHIFT - 1))) >> SHIFT;
        let s = rounded(i32::from(difference) * self.of_value[usize::from(v)]);
        let [r, g, b, d] = [r, g, b, difference].map(i32::from);
        let sixth = if i32::from(v) == r {
            g - b
        } else if i32::from(v) == g {
            b - r + 2 * d
        } else {
            r - g + 4 * d
        };
        let h = rounded(sixth * self.of_difference[usize::from(difference)]);
        // All are from 0 to 255.
        [(if h < 0 { h + HUES } else { h }) as u8, s as u8, v]
    }
}

fn to_rgb([h, s, v]: [u8; 3]) -> [u8; 3] {
    const LEVEL: f32 = 1.0 / 255.0;
    let turned = f32::from(h) * (6.0_f32 / HUES as f32);
    let turned = if turned >= 6.0 { turned - 6.0 } else { turned };
    let sector = turned.floor();
    let (h, s, v) = (turned - sector, f32::from(s) * LEVEL, f32::from(v) * LEVEL);
    let less = |share: f32| (1.0 - f64::from(s) * f64::from(share)) as f32;
    let level = |value: f32| (value * 255.0) as u8;
    let (most, least) = (level(v), level(v * less(1.0)));
    let (falling, rising) = (level(v * less(h)), level(v * less(1.0 - h)));
    match sector as u8 {
        0 => [most, rising, least],
        1 => [falling, most, least],
        2 => [least, most, rising],
        3 => [least, falling, most],
        4 => [rising, least, most],
        _ => [most, least, falling],
    }
}
