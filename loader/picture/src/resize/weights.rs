//! Weights of one axis: the source samples of each output sample, and their shares.

use std::ops::Range;

use crate::interpolation::Interpolation;
use crate::kept::release;
use crate::pixels::Content;

/// 1.0 as a weight. With 14 bits, the largest blend of 8-bit samples has 7 bits of fraction in 16.
pub(super) const ONE: i32 = 1 << 14;

/// Bits of a fine weight below the bits of a weight. Pillow's weights have 22 bits of fraction.
pub(super) const FINE_BITS: u32 = 8;

/// Added to a small number and subtracted again, it removes the fraction's bits: 1.5 * 2^52.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// From this many weights on, the accumulated rounding error can exceed the largest weight.
const ACCUMULATED_ROUNDING_MIN: usize = 256;

/// Filter and arithmetic of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The nearest sample, with a running sum of the scale.
    Nearest,
    /// The nearest sample, with a product of each output sample's number and the scale.
    NearestByProduct,
    Bilinear,
    /// With Pillow's bits.
    FineBilinear,
    Bicubic,
}

impl Method {
    /// Returns the method of a filter for pixels of `content`.
    pub(super) fn new(filter: Interpolation, content: Content) -> Self {
        match (filter, content) {
            // Pillow moves values of 16 bits with its general transform.
            (Interpolation::Nearest, Content::Deep) => Self::NearestByProduct,
            (Interpolation::Nearest, _) => Self::Nearest,
            // Colours are divided by their opacity afterwards, which makes a difference of a level a large one.
            (Interpolation::Bilinear, Content::Opacity) => Self::FineBilinear,
            (Interpolation::Bilinear, _) => Self::Bilinear,
            (Interpolation::Bicubic, _) => Self::Bicubic,
        }
    }

    /// Returns true if the weights have [`FINE_BITS`] more.
    pub(super) fn is_fine(self) -> bool {
        matches!(self, Self::FineBilinear | Self::Bicubic)
    }
}

/// Part of the source's samples that becomes the output. It may start and end within a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first sample that the part touches, and the number of samples it touches.
    pub first: u32,
    pub count: u32,
    /// Start of the part in the first sample, and its length, in samples.
    start: f64,
    length: f64,
}

impl Span {
    /// Returns the part of `length` from `start` on, both in units of 1/`by` sample.
    pub(super) fn new(start: u32, length: u32, by: u32) -> Self {
        let (first, end) = (start / by, (start + length).div_ceil(by));
        let [start, length] = [start % by, length].map(|v| f64::from(v) / f64::from(by));
        Self { first, count: end - first, start, length }
    }
}

/// Weights for a run of output samples.
#[derive(Debug, Default)]
pub(super) struct Axis {
    /// First source sample per output sample, counted from the crop's edge.
    first: Vec<u32>,
    /// `taps` per output sample; their sum is [`ONE`]. The last ones are 0 if fewer are needed.
    weights: Vec<i16>,
    /// The lower [`FINE_BITS`] of each weight, for a filter that Pillow's results need; empty for most filters.
    fine: Vec<i16>,
    /// Number of weights in use, per output sample.
    used: Vec<u32>,
    taps: usize,
    /// Weights of an output sample before rounding.
    exact: Vec<f64>,
}

impl Axis {
    /// Computes weights for the output samples `shown.0 .. shown.1` of `output` from `input`, the last one first if
    /// `flip`.
    pub(super) fn compute(&mut self, method: Method, input: Span, output: u32, shown: (u32, u32), flip: bool) {
        release(&mut self.weights);
        release(&mut self.fine);
        release(&mut self.exact);
        self.fine.clear();
        match method {
            Method::Nearest => self.nearest(input, output, shown, flip, |o, sum, scale| match o {
                0 => input.start + scale * 0.5,
                _ => sum + scale,
            }),
            Method::NearestByProduct => {
                self.nearest(input, output, shown, flip, |o, _, scale| input.start + (f64::from(o) + 0.5) * scale)
            }
            Method::Bilinear => self.antialiased::<false>(triangle, 1.0, input, output, shown, flip),
            Method::FineBilinear => self.antialiased::<true>(triangle, 1.0, input, output, shown, flip),
            Method::Bicubic => self.antialiased::<true>(cubic, 2.0, input, output, shown, flip),
        }
    }

    /// Computes Pillow's nearest neighbour. `center` returns the centre of an output sample from the previous one and
    /// the scale: if it is on the border of two source samples, its rounding decides.
    fn nearest(
        &mut self,
        input: Span,
        output: u32,
        shown: (u32, u32),
        flip: bool,
        center: impl Fn(u32, f64, f64) -> f64,
    ) {
        let scale = input.length / f64::from(output);
        self.taps = 1;
        self.first.clear();
        let mut position = 0.0;
        for o in 0..shown.1 {
            position = center(o, position, scale);
            if o >= shown.0 {
                self.first.push((position as u32).min(input.count - 1));
            }
        }
        if flip {
            self.first.reverse();
        }
        self.used.clear();
        self.used.resize(self.first.len(), 1);
        self.weights.clear();
        self.weights.resize(self.first.len(), ONE as i16);
    }

    /// Computes the weights of Pillow's antialiased filter for a `kernel` that is 0 from `reach` on, in both
    /// directions.
    fn antialiased<const IS_FINE: bool>(
        &mut self,
        kernel: impl Fn(f64) -> f64,
        reach: f64,
        input: Span,
        output: u32,
        shown: (u32, u32),
        flip: bool,
    ) {
        let filter = Filter::new(kernel, reach, input, output);
        let count = (shown.1 - shown.0) as usize;
        self.taps = (filter.support.ceil() as usize * 2 + 1).min(input.count as usize);
        self.first.clear();
        self.used.clear();
        self.weights.clear();
        self.weights.resize(count * self.taps, 0);
        if IS_FINE {
            self.fine.resize(count * self.taps, 0);
        }
        for i in 0..count {
            let o = if flip { shown.1 - 1 - i as u32 } else { shown.0 + i as u32 };
            let (first, rim) = filter.weights(o, &mut self.exact);
            let exact = &self.exact[rim..];
            let weights = &mut self.weights[i * self.taps..][..exact.len()];
            if IS_FINE {
                round_finely(exact, weights, &mut self.fine[i * self.taps..]);
            } else {
                round(exact, weights);
            }
            self.first.push(first);
            self.used.push(exact.len() as u32);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// Returns the largest number of weights of any output sample.
    pub(super) fn taps_max(&self) -> usize {
        self.used.iter().max().map_or(0, |n| *n as usize)
    }

    /// Returns the first source sample and the weights of output sample `i`.
    pub(super) fn taps(&self, i: usize) -> (u32, &[i16]) {
        (self.first[i], &self.weights[i * self.taps..][..self.used[i] as usize])
    }

    /// Returns the lower bits of the weights of output sample `i`; none if the filter has none.
    pub(super) fn fine(&self, i: usize) -> &[i16] {
        if self.is_fine() { &self.fine[i * self.taps..][..self.used[i] as usize] } else { &[] }
    }

    /// Returns true if weights have [`FINE_BITS`] more.
    pub(super) fn is_fine(&self) -> bool {
        !self.fine.is_empty()
    }

    /// Returns the source samples that any output sample uses: start, and one past the end.
    pub(super) fn span(&self) -> (u32, u32) {
        let ends = self.first.iter().zip(&self.used).map(|(first, used)| first + used);
        (self.first.iter().copied().min().unwrap_or(0), ends.max().unwrap_or(0))
    }
}

/// Antialiased filter of an axis.
struct Filter<K> {
    kernel: K,
    input: Span,
    /// Source samples per output sample.
    scale: f64,
    /// Source samples in each direction that have weights.
    support: f64,
    slope: f64,
}

impl<K: Fn(f64) -> f64> Filter<K> {
    fn new(kernel: K, reach: f64, input: Span, output: u32) -> Self {
        let scale = input.length / f64::from(output);
        // When enlarging, a unit of the kernel is a source sample; when shrinking, an output sample.
        let unit = scale.max(1.0);
        Self { kernel, input, scale, support: reach * unit, slope: 1.0 / unit }
    }

    /// Computes the weights of output sample `o`, not scaled to a sum. Returns the first source sample, and the number
    /// of weights before its own.
    fn weights(&self, o: u32, out: &mut Vec<f64>) -> (u32, usize) {
        let Self { kernel, input, scale, support, slope } = self;
        let center = input.start + (f64::from(o) + 0.5) * scale;
        let first = ((center - support + 0.5).max(0.0) as u32).min(input.count - 1);
        let end = ((center + support + 0.5) as u32).clamp(first + 1, input.count);
        out.clear();
        out.extend((first..end).map(|s| kernel((f64::from(s) - center + 0.5) * slope)));
        // Samples on the kernel's rim have no weight: do not decode them.
        while out.len() > 1 && out.last() == Some(&0.0) {
            out.pop();
        }
        let rim = out.iter().take_while(|w| **w == 0.0).count().min(out.len() - 1);
        (first + rim as u32, rim)
    }
}

/// First source sample and weights of each output sample. The sum of the weights is 1.
pub type ExactWeights = Vec<(usize, Vec<f64>)>;

/// Returns Pillow's weights in double precision for the output samples `shown` of an axis. `filter` blends: it is not
/// the nearest neighbour.
pub fn exact_weights(filter: Interpolation, input: u32, output: u32, shown: Range<u32>) -> ExactWeights {
    let input = Span::new(0, input, 1);
    let (kernel, reach): (fn(f64) -> f64, _) = match filter {
        Interpolation::Bicubic => (cubic, 2.0),
        Interpolation::Bilinear | Interpolation::Nearest => (triangle, 1.0),
    };
    let filter = Filter::new(kernel, reach, input, output);
    let of = |o| {
        let mut weights = Vec::new();
        let (first, rim) = filter.weights(o, &mut weights);
        let sum: f64 = weights.iter().sum();
        (first as usize, weights[rim..].iter().map(|weight| weight / sum).collect())
    };
    shown.map(of).collect()
}

/// Scales to a sum of exactly [`ONE`], so that an even surface keeps its value: the error of rounding is added to the
/// largest weight.
fn round(exact: &[f64], out: &mut [i16]) {
    let sum: f64 = exact.iter().sum();
    let scale = f64::from(ONE) / sum;
    if exact.len() >= ACCUMULATED_ROUNDING_MIN {
        // The errors of many roundings add up to more than a weight, so the sums up to each weight are rounded instead.
        let (mut exact_so_far, mut so_far) = (0.0, 0);
        for (exact, out) in exact.iter().zip(out.iter_mut()) {
            exact_so_far += exact;
            let rounded = (exact_so_far * scale + ROUND - ROUND) as i32;
            *out = (rounded - so_far) as i16;
            so_far = rounded;
        }
        return;
    }
    let mut remainder = ONE;
    for (exact, out) in exact.iter().zip(out.iter_mut()) {
        // To the nearest integer, ties to even; without SSE4.1 the library function for it is a call.
        let weight = (exact * scale + ROUND - ROUND) as i32;
        remainder -= weight;
        *out = weight as i16;
    }
    if remainder != 0 {
        let largest = (0..exact.len()).fold(0, |best, i| if exact[i] > exact[best] { i } else { best });
        out[largest] = (i32::from(out[largest]) + remainder) as i16;
    }
}

/// Rounds as Pillow does: each weight to 22 bits, half of a bit away from 0. The sum may differ from 1 by a few bits.
fn round_finely(exact: &[f64], coarse: &mut [i16], fine: &mut [i16]) {
    let sum: f64 = exact.iter().sum();
    for ((exact, coarse), fine) in exact.iter().zip(coarse).zip(fine) {
        let share = exact / sum * f64::from(ONE << FINE_BITS);
        let weight = (share + if share < 0.0 { -0.5 } else { 0.5 }) as i32;
        *coarse = (weight >> FINE_BITS) as i16;
        *fine = (weight & ((1 << FINE_BITS) - 1)) as i16;
    }
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Cubic convolution with the parameter -0.5, in the order of Pillow's operations.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one_and_stay_inside() {
        let mut axis = Axis::default();
        for (input, output) in [
            (1, 1),
            (1, 9),
            (500, 224),
            (224, 500),
            (3, 2),
            (20_000, 7),
            (65_500, 224),
            (10, 10),
            (4_194_400, 224),
            (9_000_000, 3),
        ] {
            axis.compute(Method::Bilinear, Span::new(0, input, 1), output, (0, output), false);
            for i in 0..axis.len() {
                let (first, weights) = axis.taps(i);
                assert!(first as usize + weights.len() <= input as usize);
                assert_eq!(weights.iter().map(|w| i32::from(*w)).sum::<i32>(), ONE);
                assert!(weights.iter().all(|w| *w >= 0), "{input} to {output}");
            }
        }
    }

    #[test]
    fn cubic_weights_have_pillow_s_bits() {
        let mut axis = Axis::default();
        axis.compute(Method::Bicubic, Span::new(0, 5, 1), 2, (0, 2), false);
        let weights = |i| {
            let (coarse, fine) = (axis.taps(i).1, axis.fine(i));
            coarse.iter().zip(fine).map(|(c, f)| (i32::from(*c) << FINE_BITS) + i32::from(*f)).collect::<Vec<_>>()
        };
        let mirrored: Vec<_> = weights(1).into_iter().rev().collect();
        assert_eq!(weights(0), mirrored);
        assert_eq!(weights(0), CUBIC_5_TO_2);
        for (input, output) in [(1, 9), (500, 224), (224, 500), (20_000, 7), (65_500, 224), (10, 10), (2, 31)] {
            axis.compute(Method::Bicubic, Span::new(0, input, 1), output, (0, output), true);
            for i in 0..axis.len() {
                let (first, weights) = axis.taps(i);
                assert!(first as usize + weights.len() <= input as usize);
                let sum: i32 = weights.iter().zip(axis.fine(i)).map(|(c, f)| i32::from(*c) * 256 + i32::from(*f)).sum();
                assert!((sum - (ONE << FINE_BITS)).abs() <= weights.len() as i32, "{input} to {output}: {sum}");
            }
        }
    }

    /// Weights of an output sample in Pillow, in 2^-22.
    const CUBIC_5_TO_2: [i32; 5] = [1_455_822, 1_743_238, 1_004_169, 122_286, -131_211];

    #[test]
    fn an_axis_of_unchanged_size_has_single_weights() {
        let mut axis = Axis::default();
        axis.compute(Method::Bilinear, Span::new(7, 10, 1), 10, (2, 8), false);
        assert_eq!(axis.taps_max(), 1);
        assert_eq!(axis.span(), (2, 8));
    }
}
