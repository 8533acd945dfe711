//! Elastic transforms, as torchvision's `ElasticTransform` and `elastic`: each pixel of the result is taken from a
//! position near it, by a smooth field of displacements.

use super::Shape;
use crate::border::reflected;
use crate::interpolation::Interpolation;

/// Displacements of the pixels of a picture: columns and rows, divided by half the width and half the height.
#[derive(Clone, Debug, PartialEq)]
pub struct Displacement {
    width: usize,
    height: usize,
    across: Vec<f32>,
    down: Vec<f32>,
}

impl Displacement {
    /// Draws the displacements of a picture of `width` by `height` pixels: numbers of `noise`, uniform from 0 to 1, for
    /// all columns and then for all rows, smoothed by Gaussian kernels of deviations `sigma`, with the strengths
    /// `alpha`.
    pub fn new([width, height]: [usize; 2], alpha: [f64; 2], sigma: [f64; 2], mut noise: impl FnMut() -> f32) -> Self {
        let mut plane = |alpha: f64, size: f64, side: usize| {
            let mut plane: Vec<f32> = (0..width * height).map(|_| noise() * 2.0 - 1.0).collect();
            if size > 0.0 {
                // An even number of taps has one more.
                let reach = ((8.0 * size + 1.0) as usize | 1) / 2;
                smooth(&mut plane, width, &kernel(reach, sigma[0]), &kernel(reach, sigma[1]));
            }
            let (alpha, side) = (alpha as f32, side as f32);
            plane.iter_mut().for_each(|value| *value = *value * alpha / side);
            plane
        };
        let across = plane(alpha[0], sigma[0], width);
        let down = plane(alpha[1], sigma[1], height);
        Self { width, height, across, down }
    }

    /// Returns about where a position of the picture is in the result, as torchvision's `elastic_bounding_boxes`: by
    /// the displacement of the pixel right and below of it.
    pub fn forward(&self, point: [f64; 2]) -> [f64; 2] {
        let at = |offset: f64, side: usize| (offset.ceil().max(0.0) as usize).min(side.saturating_sub(1));
        let pixel = at(point[1], self.height) * self.width + at(point[0], self.width);
        let moved = |offset: f64, by: f32, side: usize| offset.ceil() - f64::from(by) * side as f64 * 0.5;
        [moved(point[0], self.across[pixel], self.width), moved(point[1], self.down[pixel], self.height)]
    }
}

/// Fills `to`, of the same shape, from the displaced positions of `from`. A bicubic filter is a bilinear one.
pub fn elastic(
    from: &[u8],
    shape: Shape,
    displacement: &Displacement,
    sampling: Interpolation,
    fill: [u8; 3],
    to: &mut [u8],
) {
    let Shape { width, height, channels } = shape;
    let (xs, ys) = (identity(width), identity(height));
    for (number, out) in to.chunks_exact_mut(channels).enumerate() {
        let (column, row) = (number % width, number / width);
        let x = position(xs[column] + displacement.across[number], width);
        let y = position(ys[row] + displacement.down[number], height);
        if sampling == Interpolation::Nearest {
            match pixel(from, shape, x.round_ties_even(), y.round_ties_even()) {
                Some(found) => out.copy_from_slice(found),
                None => out.copy_from_slice(&fill[..channels]),
            }
        } else {
            blend(from, shape, [x, y], fill, out);
        }
    }
}

/// Returns the pixel at a whole position; `None` outside of the picture.
fn pixel(from: &[u8], Shape { width, height, channels }: Shape, x: f32, y: f32) -> Option<&[u8]> {
    let is_inside = x >= 0.0 && x < width as f32 && y >= 0.0 && y < height as f32;
    is_inside.then(|| &from[(y as usize * width + x as usize) * channels..][..channels])
}

/// Blends the four pixels around a position, in the order in which torch adds them up.
fn blend(from: &[u8], shape: Shape, [x, y]: [f32; 2], fill: [u8; 3], out: &mut [u8]) {
    let (left, top) = (x.floor(), y.floor());
    let (right, bottom) = (left + 1.0, top + 1.0);
    let parts = [
        (left, top, (right - x) * (bottom - y)),
        (right, top, (x - left) * (bottom - y)),
        (left, bottom, (right - x) * (y - top)),
        (right, bottom, (x - left) * (y - top)),
    ];
    let (mut sum, mut inside) = ([0.0_f32; 3], 0.0_f32);
    for (x, y, weight) in parts {
        if let Some(found) = pixel(from, shape, x, y) {
            inside += weight;
            sum.iter_mut().zip(found).for_each(|(sum, level)| *sum += f32::from(*level) * weight);
        }
    }
    for ((out, sum), fill) in out.iter_mut().zip(sum).zip(fill) {
        let fill = f32::from(fill);
        *out = ((sum - fill) * inside + fill).round_ties_even().clamp(0.0, 255.0) as u8;
    }
}

/// Positions of the pixels of a side, from -1 to 1, as torch's `linspace` makes them.
fn identity(side: usize) -> Vec<f32> {
    let end = (side as f32 - 1.0) / side as f32;
    let step = if side > 1 { (end + end) / (side - 1) as f32 } else { 0.0 };
    let offset = |i: usize| if i < side / 2 { step * i as f32 - end } else { end - step * (side - 1 - i) as f32 };
    // A single position is the start.
    (0..side).map(|i| if side == 1 { -end } else { offset(i) }).collect()
}

/// Returns the position in pixels.
fn position(offset: f32, side: usize) -> f32 {
    ((offset + 1.0) * side as f32 - 1.0) * 0.5
}

/// Weights of a Gaussian kernel, which reaches `reach` values to each side.
fn kernel(reach: usize, sigma: f64) -> Vec<f32> {
    // torchvision's numbers have a distance of 1 / sqrt(2), instead of the 2 below the square.
    let weight = |tap: usize| (-0.5 * ((tap as f64 - reach as f64) / sigma).powi(2)).exp();
    let sum: f64 = (0..=2 * reach).map(weight).sum();
    (0..=2 * reach).map(|tap| (weight(tap) / sum) as f32).collect()
}

/// Smooths a plane along its rows, and then along its columns, reflected at its borders.
fn smooth(plane: &mut [f32], width: usize, across: &[f32], down: &[f32]) {
    let height = plane.len() / width;
    let reach = across.len() / 2;
    let mut padded = vec![0.0; width + 2 * reach];
    for row in plane.chunks_exact_mut(width) {
        for (column, value) in padded.iter_mut().enumerate() {
            *value = row[reflected(column as i64 - reach as i64, width as i64) as usize];
        }
        row.fill(0.0);
        for (tap, weight) in across.iter().enumerate() {
            row.iter_mut().zip(&padded[tap..]).for_each(|(sum, value)| *sum += weight * value);
        }
    }
    let (source, reach) = (plane.to_vec(), down.len() / 2);
    for (y, row) in plane.chunks_exact_mut(width).enumerate() {
        row.fill(0.0);
        for (tap, weight) in down.iter().enumerate() {
            let from = reflected(y as i64 + tap as i64 - reach as i64, height as i64) as usize;
            row.iter_mut().zip(&source[from * width..]).for_each(|(sum, value)| *sum += weight * value);
        }
    }
}
