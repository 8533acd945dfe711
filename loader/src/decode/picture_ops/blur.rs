//! Gaussian blurs: the convolution of torchvision, and the box blurs of Pillow.

use super::kernel::{BoxFilter, Kernels, SUMS};
use super::{Scratch, Shape};

/// Weights below this change no sum by more than a hundred-thousandth of a grey level.
const WEIGHT_MIN: f64 = 1e-8;

/// Blurs as torchvision's `gaussian_blur`: with a kernel of `size` (columns and rows, odd) and deviations `sigma`, the
/// picture reflected at its borders.
///
/// torchvision adds up the products of a two-dimensional kernel in single precision. Here the rows are blurred first and
/// then the columns, so a value in the middle between two grey levels may become the other one.
pub fn gaussian_blur(shape: Shape, pixels: &mut [u8], size: [usize; 2], sigma: [f64; 2], scratch: &mut Scratch) {
    let kernels = Kernels::default();
    let Shape { width, height, channels } = shape;
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
            pad_row(source, shape, reach_x, padded, |x| reflected(x, width));
            kernels.convolve_row(padded, across, channels, &mut floats[next % kept * stride..][..stride]);
            next += 1;
        }
        starts.clear();
        starts.extend(
            (0..=2 * reach_y)
                .map(|tap| reflected(y as isize + tap as isize - reach_y as isize, height) % kept * stride),
        );
        kernels.convolve_rows(floats, starts, down, &mut pixels[y * row..][..row]);
    }
}

/// Sets `weights` to the middle of a Gaussian kernel and those after it, without the ones that have no effect. A deviation
/// that is not above 0 gives the middle alone.
fn half_gaussian(size: usize, sigma: f64, weights: &mut Vec<f32>) {
    let reach = if sigma > 0.0 { size / 2 } else { 0 };
    let weight = |i: usize| (-0.5 * (i as f64 / sigma).powi(2)).exp();
    let sum = 1.0 + 2.0 * (1..=reach).map(weight).sum::<f64>();
    weights.clear();
    weights.push((1.0 / sum) as f32);
    let others = (1..=reach).map(|i| weight(i) / sum);
    weights.extend(others.take_while(|weight| *weight >= WEIGHT_MIN).map(|weight| weight as f32));
}

/// Place of the pixel `x` of a side of `len` pixels that is reflected at its ends, which are not repeated.
pub(super) fn reflected(x: isize, len: usize) -> usize {
    let period = (2 * (len - 1)).max(1);
    let x = x.rem_euclid(period as isize) as usize;
    x.min(period - x).min(len - 1)
}

/// Copies a row to `padded`, with `margin` pixels on each side from the places that `place` has for them.
fn pad_row(row: &[u8], shape: Shape, margin: usize, padded: &mut [u8], place: impl Fn(isize) -> usize) {
    let Shape { width, channels, .. } = shape;
    padded[margin * channels..][..row.len()].copy_from_slice(row);
    for i in 1..=margin {
        let mut copy = |from: usize, to: usize| {
            padded[to * channels..][..channels].copy_from_slice(&row[from * channels..][..channels]);
        };
        copy(place(-(i as isize)), margin - i);
        copy(place((width - 1 + i) as isize), margin + width - 1 + i);
    }
}

/// Passes of Pillow's blur in each direction.
const PASSES: usize = 3;

/// Largest radius whose boxes are summed up pixel by pixel, in vectors. Larger ones add a pixel and subtract another.
const DIRECT_MAX: usize = 8;

/// Blurs as Pillow's `ImageFilter.GaussianBlur` with the deviations `radius` (columns and rows, from 0): by three boxes
/// in each direction, which together are nearly a Gaussian kernel.
pub fn box_gaussian_blur(shape: Shape, pixels: &mut [u8], radius: [f64; 2], scratch: &mut Scratch) {
    let kernels = Kernels::default();
    let row_bytes = shape.row_bytes();
    let [across, down] = radius.map(|radius| box_of(radius as f32));
    let Scratch { bytes, sums, .. } = scratch;
    if let Some(across) = across {
        let margin = if across.radius <= DIRECT_MAX { across.radius + 1 } else { 0 };
        let len = row_bytes.next_multiple_of(SUMS) + 2 * margin * shape.channels;
        bytes.resize(bytes.len().max(len), 0);
        let padded = &mut bytes[..len];
        for row in pixels.chunks_exact_mut(row_bytes) {
            for _ in 0..PASSES {
                pad_row(row, shape, margin, padded, |x| x.clamp(0, shape.width as isize - 1) as usize);
                if margin > 0 {
                    kernels.box_row(padded, &across, shape.channels, row);
                } else {
                    wide_box_row(&padded[..row_bytes], &across, shape.channels, row);
                }
            }
        }
    }
    if let Some(down) = down {
        bytes.resize(bytes.len().max(shape.bytes()), 0);
        sums.resize(sums.len().max(row_bytes), 0);
        let (other, sums) = (&mut bytes[..shape.bytes()], &mut sums[..row_bytes]);
        other.copy_from_slice(pixels);
        box_columns(kernels, &down, other, pixels, sums);
        box_columns(kernels, &down, pixels, other, sums);
        box_columns(kernels, &down, other, pixels, sums);
    }
}

/// Returns Pillow's box for a deviation; `None` changes nothing. The steps are in single or double precision as there.
fn box_of(deviation: f32) -> Option<BoxFilter> {
    let variance = deviation * deviation / PASSES as f32;
    let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
    let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
    let part = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    let radius = whole + part / (6.0 * (variance - (whole + 1.0) * (whole + 1.0)));
    if radius.is_nan() || radius <= 0.0 {
        return None;
    }
    // Above this, a pixel's weight is less than one.
    let radius = radius.min((1 << 22) as f32);
    let inner = ((1 << 24) as f32 / (radius * 2.0 + 1.0)) as u32;
    let outer = ((1 << 24) - (radius as u32 * 2 + 1) * inner) / 2;
    Some(BoxFilter { radius: radius as usize, inner, outer })
}

/// Blurs a row with a large box.
fn wide_box_row(source: &[u8], filter: &BoxFilter, channels: usize, out: &mut [u8]) {
    let (width, reach) = (source.len() / channels, filter.radius);
    for channel in 0..channels {
        let at = |x: usize| u32::from(source[x.min(width - 1) * channels + channel]);
        let inside = reach.min(width);
        let mut sum = at(0) * (reach as u32 + 1) + (0..inside).map(at).sum::<u32>();
        sum += at(width - 1) * (reach - inside) as u32;
        for x in 0..width {
            let before = at(x.saturating_sub(reach + 1));
            sum = sum + at(x + reach) - before;
            out[x * channels + channel] = filter.apply(sum, before + at(x + reach + 1));
        }
    }
}

/// Blurs the columns of a picture.
fn box_columns(kernels: Kernels, filter: &BoxFilter, from: &[u8], to: &mut [u8], sums: &mut [u32]) {
    let (len, reach) = (sums.len(), filter.radius);
    let height = from.len() / len;
    let row = |y: usize| &from[y.min(height - 1) * len..][..len];
    let add = |sums: &mut [u32], y: usize, times: usize| {
        sums.iter_mut().zip(row(y)).for_each(|(sum, value)| *sum += u32::from(*value) * times as u32);
    };
    sums.fill(0);
    add(sums, 0, reach + 1);
    let inside = reach.min(height);
    (0..inside).for_each(|y| add(sums, y, 1));
    add(sums, height - 1, reach - inside);
    for (y, out) in to.chunks_exact_mut(len).enumerate() {
        let rows = [row(y.saturating_sub(reach + 1)), row(y + reach), row(y + reach + 1)];
        kernels.box_rows(rows, filter, sums, out);
    }
}
