//! The Gaussian blur of torchvision.

use super::kernel::{Kernels, SUMS};
use super::{Scratch, Shape};
use crate::border::reflected;

/// Weights below this change no sum by more than a hundred-thousandth of a grey level.
const WEIGHT_MIN: f64 = 1e-8;

/// Blurs as torchvision's `gaussian_blur`: with a kernel of `size` (columns and rows, odd) and deviations `sigma`, the
/// picture reflected at its borders.
///
/// torchvision adds up the products of a two-dimensional kernel in single precision. Here the rows are blurred first
/// and then the columns, so a value in the middle between two grey levels may become the second one.
pub fn gaussian_blur(shape: Shape, pixels: &mut [u8], size: [usize; 2], sigma: [f64; 2], scratch: &mut Scratch) {
    let kernels = Kernels::default();
    let Shape { height, channels, .. } = shape;
    let Scratch { bytes, floats, weights, starts, .. } = scratch;
    let [across, down] = weights;
    half_gaussian(size[0], sigma[0], across);
    half_gaussian(size[1], sigma[1], down);
    let (reach_x, reach_y) = (across.len() - 1, down.len() - 1);
    let row = shape.row_bytes();
    // Blocks are whole: those at the end have values without meaning.
    let stride = row.next_multiple_of(SUMS);
    let padded_len = stride + 2 * reach_x * channels;
    bytes.resize(bytes.len().max(padded_len), 0);
    let padded = &mut bytes[..padded_len];
    // A row of the result needs this many rows, or all if they are fewer. They are read before they are replaced.
    let kept = (2 * reach_y + 1).min(height);
    floats.resize(floats.len().max(kept * stride), 0.0);
    let mut next = 0;
    for y in 0..height {
        while next < height.min(y + reach_y + 1) {
            let source = &pixels[next * row..][..row];
            pad_row(source, shape, reach_x, padded);
            kernels.convolve_row(padded, across, channels, &mut floats[next % kept * stride..][..stride]);
            next += 1;
        }
        starts.clear();
        starts.extend(
            (0..=2 * reach_y)
                .map(|tap| reflected(y as i64 + tap as i64 - reach_y as i64, height as i64) as usize % kept * stride),
        );
        kernels.convolve_rows(floats, starts, down, &mut pixels[y * row..][..row]);
    }
}

/// Sets `weights` to the middle of a Gaussian kernel and those after it, without the ones that have no effect. A
/// deviation that is not above 0 gives only the middle.
fn half_gaussian(size: usize, sigma: f64, weights: &mut Vec<f32>) {
    let reach = if sigma > 0.0 { size / 2 } else { 0 };
    let weight = |i: usize| (-0.5 * (i as f64 / sigma).powi(2)).exp();
    let sum = 1.0 + 2.0 * (1..=reach).map(weight).sum::<f64>();
    weights.clear();
    weights.push((1.0 / sum) as f32);
    let others = (1..=reach).map(|i| weight(i) / sum);
    weights.extend(others.take_while(|weight| *weight >= WEIGHT_MIN).map(|weight| weight as f32));
}

/// Copies a row to `padded`, with `margin` pixels on each side, in which it is reflected.
fn pad_row(row: &[u8], shape: Shape, margin: usize, padded: &mut [u8]) {
    let Shape { width, channels, .. } = shape;
    padded[margin * channels..][..row.len()].copy_from_slice(row);
    let mut copy = |x: i64| {
        let from = reflected(x, width as i64) as usize;
        let to = (x + margin as i64) as usize;
        padded[to * channels..][..channels].copy_from_slice(&row[from * channels..][..channels]);
    };
    for i in 1..=margin {
        copy(-(i as i64));
        copy((width - 1 + i) as i64);
    }
}
