//! The Gaussian blur of Pillow's `ImageFilter.GaussianBlur`: three box blurs along the rows, then three along the
//! columns, each with a fraction of a pixel at both ends (`BoxBlur.c`).

use super::{Scratch, Shape};

/// Box blurs in each direction.
const PASSES: usize = 3;

/// Box of a pass: pixels on each side of the middle, and the weights of the pixels in it and of those at its ends, in
/// 2^-24.
#[derive(Clone, Copy)]
struct Box {
    radius: usize,
    inner: u32,
    end: u32,
}

/// Blurs with a Gaussian of this radius. A radius of 0 changes nothing.
pub fn radius_blur(shape: Shape, pixels: &mut [u8], radius: f64, scratch: &mut Scratch) {
    let radius = radius as f32;
    if radius.is_nan() || radius <= 0.0 {
        return;
    }
    let filter = Box::new(radius);
    let Shape { width, height, channels } = shape;
    let line = &mut scratch.bytes;
    line.clear();
    line.resize(2 * width.max(height), 0);
    for row in pixels.chunks_exact_mut(shape.row_bytes()) {
        for channel in 0..channels {
            filter.blur_line(row, channel, channels, width, line);
        }
    }
    for column in 0..shape.row_bytes() {
        filter.blur_line(pixels, column, shape.row_bytes(), height, line);
    }
}

impl Box {
    /// Returns the box that has the deviation `radius` after [`PASSES`] passes, in Pillow's single precision.
    fn new(radius: f32) -> Self {
        let variance = radius * radius / PASSES as f32;
        let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
        let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
        let mut fraction = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
        fraction /= 6.0 * (variance - (whole + 1.0) * (whole + 1.0));
        let reach = whole + fraction;
        let radius = reach as usize;
        let inner = ((1_u32 << 24) as f32 / (reach * 2.0 + 1.0)) as u32;
        let end = (1_u32 << 24).wrapping_sub((radius as u32 * 2 + 1).wrapping_mul(inner)) / 2;
        Self { radius, inner, end }
    }

    /// Blurs every `step`-th value from `start` on, `count` in all. `line` has room for twice as many.
    fn blur_line(self, values: &mut [u8], start: usize, step: usize, count: usize, line: &mut [u8]) {
        let (mut from, mut to) = line[..2 * count].split_at_mut(count);
        from.iter_mut().zip(values[start..].iter().step_by(step)).for_each(|(to, value)| *to = *value);
        for _ in 0..PASSES {
            self.pass(from, to);
            std::mem::swap(&mut from, &mut to);
        }
        values[start..].iter_mut().step_by(step).zip(from).for_each(|(value, from)| *value = *from);
    }

    fn pass(self, from: &[u8], to: &mut [u8]) {
        let (radius, last) = (self.radius as i64, from.len() as i64 - 1);
        let at = |position: i64| u32::from(from[position.clamp(0, last) as usize]);
        // The box around the position in front of the first one.
        let mut sum: u32 = (-radius - 1..radius).map(at).fold(0, u32::wrapping_add);
        for (x, out) in (0..).zip(to.iter_mut()) {
            sum = sum.wrapping_add(at(x + radius)).wrapping_sub(at(x - radius - 1));
            let ends = (at(x - radius - 1) + at(x + radius + 1)).wrapping_mul(self.end);
            let bulk = sum.wrapping_mul(self.inner).wrapping_add(ends);
            *out = (bulk.wrapping_add(1 << 23) >> 24) as u8;
        }
    }
}
