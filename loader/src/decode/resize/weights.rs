//! The weights of one axis: which source samples make an output sample, and how much each counts.

use crate::decode::geometry::Filter;
use crate::decode::pixels::release;

/// 1.0 as a weight. With 14 bits the largest blend of 8-bit samples leaves 7 bits of fraction in 16.
pub(super) const ONE: i32 = 1 << 14;

/// Added to a small number and subtracted again, it leaves no bits of a fraction: 1.5 * 2^52.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// From so many weights on, what rounding leaves over may be more than the largest of them.
const MANY: usize = 256;

/// What becomes the output: a part of the source's samples, which may start and end within one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first sample that the part touches, and how many it touches.
    pub first: u32,
    pub count: u32,
    /// Where in the first one the part starts, and how long it is, in samples.
    start: f64,
    length: f64,
}

impl Span {
    /// `length` from `start` on, both in units of which a sample has `by`.
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
    /// `taps` per output sample; they add up to [`ONE`]. The last are 0 where fewer are needed.
    weights: Vec<i16>,
    /// How many of them count, per output sample.
    used: Vec<u32>,
    taps: usize,
    /// One output sample's, before they are rounded.
    exact: Vec<f64>,
}

impl Axis {
    /// Computes weights for the output samples `shown.0 .. shown.1` of `output` out of `input`, last first if `flip`.
    pub(super) fn compute(&mut self, filter: Filter, input: Span, output: u32, shown: (u32, u32), flip: bool) {
        release(&mut self.weights);
        release(&mut self.exact);
        match filter {
            Filter::Bilinear => self.bilinear(input, output, shown, flip),
            Filter::Nearest => self.nearest(input, output, shown, flip),
        }
    }

    /// Pillow's nearest neighbour, its running sum included: where an output sample's centre falls on the border of
    /// two source samples, the sum's rounding decides. Stages mirror last, so a picture that is mirrored before it is
    /// resized gets the other neighbour there than it would in Pillow.
    fn nearest(&mut self, input: Span, output: u32, shown: (u32, u32), flip: bool) {
        let scale = input.length / f64::from(output);
        self.taps = 1;
        self.first.clear();
        let mut center = input.start + scale * 0.5;
        for o in 0..shown.1 {
            if o >= shown.0 {
                self.first.push((center as u32).min(input.count - 1));
            }
            center += scale;
        }
        if flip {
            self.first.reverse();
        }
        self.used.clear();
        self.used.resize(self.first.len(), 1);
        self.weights.clear();
        self.weights.resize(self.first.len(), ONE as i16);
    }

    /// Pillow's antialiased bilinear filter.
    fn bilinear(&mut self, input: Span, output: u32, shown: (u32, u32), flip: bool) {
        let scale = input.length / f64::from(output);
        // The triangle is as wide as a source sample when enlarging, as an output sample when shrinking.
        let support = scale.max(1.0);
        let slope = 1.0 / support;
        let count = (shown.1 - shown.0) as usize;
        self.taps = (support.ceil() as usize * 2 + 1).min(input.count as usize);
        self.first.clear();
        self.used.clear();
        self.weights.clear();
        self.weights.resize(count * self.taps, 0);
        for i in 0..count {
            let o = if flip { shown.1 - 1 - i as u32 } else { shown.0 + i as u32 };
            let center = input.start + (f64::from(o) + 0.5) * scale;
            let mut first = ((center - support + 0.5).max(0.0) as u32).min(input.count - 1);
            let end = ((center + support + 0.5) as u32).clamp(first + 1, input.count);
            self.exact.clear();
            self.exact.extend((first..end).map(|s| (1.0 - ((f64::from(s) + 0.5 - center) * slope).abs()).max(0.0)));
            // Samples on the triangle's rim weigh nothing: do not decode them.
            while self.exact.len() > 1 && self.exact.last() == Some(&0.0) {
                self.exact.pop();
            }
            let rim = self.exact.iter().take_while(|w| **w == 0.0).count().min(self.exact.len() - 1);
            first += rim as u32;
            let exact = &self.exact[rim..];
            let weights = &mut self.weights[i * self.taps..][..exact.len()];
            round(exact, weights);
            self.first.push(first);
            self.used.push(exact.len() as u32);
        }
    }

    /// Output samples.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// The most weights that any output sample has.
    pub(super) fn taps_max(&self) -> usize {
        self.used.iter().max().map_or(0, |n| *n as usize)
    }

    /// The first source sample and the weights of output sample `i`.
    pub(super) fn taps(&self, i: usize) -> (u32, &[i16]) {
        (self.first[i], &self.weights[i * self.taps..][..self.used[i] as usize])
    }

    /// The first source sample of output sample `i`.
    pub(super) fn first(&self, i: usize) -> u32 {
        self.first[i]
    }

    /// The source samples that any output sample uses: start, and one past the end.
    pub(super) fn span(&self) -> (u32, u32) {
        let ends = self.first.iter().zip(&self.used).map(|(first, used)| first + used);
        (self.first.iter().copied().min().unwrap_or(0), ends.max().unwrap_or(0))
    }
}

/// Scales to a sum of [`ONE`] exactly, so that an even surface keeps its value: what rounding leaves over goes to the
/// largest weight.
fn round(exact: &[f64], out: &mut [i16]) {
    let sum: f64 = exact.iter().sum();
    let scale = f64::from(ONE) / sum;
    if exact.len() >= MANY {
        // So many roundings leave over more than a weight: the sums so far are rounded instead.
        let (mut exact_so_far, mut so_far) = (0.0, 0);
        for (exact, out) in exact.iter().zip(out.iter_mut()) {
            exact_so_far += exact;
            let rounded = (exact_so_far * scale + ROUND - ROUND) as i32;
            *out = (rounded - so_far) as i16;
            so_far = rounded;
        }
        return;
    }
    let mut left = ONE;
    for (exact, out) in exact.iter().zip(out.iter_mut()) {
        // To the nearest integer, ties to even; the function for it is a call where SSE4.1 is not taken for granted.
        let weight = (exact * scale + ROUND - ROUND) as i32;
        left -= weight;
        *out = weight as i16;
    }
    if left != 0 {
        let largest = (0..exact.len()).fold(0, |best, i| if exact[i] > exact[best] { i } else { best });
        out[largest] = (i32::from(out[largest]) + left) as i16;
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
            axis.compute(Filter::Bilinear, Span::new(0, input, 1), output, (0, output), false);
            for i in 0..axis.len() {
                let (first, weights) = axis.taps(i);
                assert!(first as usize + weights.len() <= input as usize);
                assert_eq!(weights.iter().map(|w| i32::from(*w)).sum::<i32>(), ONE);
                assert!(weights.iter().all(|w| *w >= 0), "{input} to {output}");
            }
        }
    }

    #[test]
    fn nothing_is_blended_when_nothing_changes() {
        let mut axis = Axis::default();
        axis.compute(Filter::Bilinear, Span::new(7, 10, 1), 10, (2, 8), false);
        assert_eq!(axis.taps_max(), 1);
        assert_eq!(axis.span(), (2, 8));
    }
}
