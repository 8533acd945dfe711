//! Point operations: each value is replaced, by a table for each channel.
//!
//! Tables compose, and so do histograms: an operation that needs the histogram of the picture before it takes the one
//! of the source through the tables so far. So a run of operations reads and writes the pixels once. Contrast alone
//! needs the pixels themselves in between, for the mean of their luma.
//!
//! The arithmetic is as in Pillow's `ImageEnhance` and `ImageOps`.

use super::Shape;
use super::kernel::{Kernels, blended};

/// A point operation with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointOp {
    /// Blend with black: 0 is black, 1 the picture.
    Brightness(f64),
    /// Blend with the mean of the luma: 0 is an even grey, 1 the picture.
    Contrast(f64),
    /// Number of bits that are kept, 0 to 8.
    Posterize(u8),
    /// Inversion of the values from this threshold on.
    Solarize(f64),
    /// Addition to the values below a threshold.
    SolarizeAdd {
        /// Number that is added.
        add: u8,
        /// The lowest value that stays.
        threshold: u8,
    },
    /// Inversion of all values.
    Invert,
    /// Equal use of all values, for each channel.
    Equalize,
    /// Lowest value to 0 and highest to 255, for each channel.
    AutoContrast,
}

/// Applies `ops` in their order.
pub fn points(shape: Shape, pixels: &mut [u8], ops: &[PointOp]) {
    let mut tables = Tables::IDENTITY;
    // Histogram of the pixels in memory, which the tables have not changed yet.
    let mut histogram = None;
    for op in ops {
        if let PointOp::Contrast(_) = op {
            tables.apply(shape, pixels);
            if !tables.is_identity() {
                (tables, histogram) = (Tables::IDENTITY, None);
            }
        }
        let mut current = || histogram.get_or_insert_with(|| Histogram::of(shape, pixels)).through(&tables);
        let next = match *op {
            PointOp::Brightness(factor) => Tables::brightness(factor),
            PointOp::Contrast(factor) => Tables::contrast(factor, mean_luma(shape, pixels)),
            PointOp::Posterize(bits) => Tables::posterize(bits),
            PointOp::Solarize(threshold) => Tables::solarize(threshold),
            PointOp::SolarizeAdd { add, threshold } => Tables::solarize_add(add, threshold),
            PointOp::Invert => Tables::invert(),
            PointOp::Equalize => Tables::equalize(&current()),
            PointOp::AutoContrast => Tables::autocontrast(&current()),
        };
        tables = tables.then(&next);
    }
    tables.apply(shape, pixels);
}

/// A table of 256 values for each channel. Grey pictures use the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables([[u8; 256]; 3]);

impl Tables {
    /// Tables that change nothing.
    pub const IDENTITY: Self = {
        let mut table = [0; 256];
        let mut value = 0;
        while value < 256 {
            table[value] = value as u8;
            value += 1;
        }
        Self([table; 3])
    };

    /// Makes the three tables alike.
    fn of(value: impl Fn(u8) -> u8) -> Self {
        Self([std::array::from_fn(|i| value(i as u8)); 3])
    }

    /// Returns the tables of [`PointOp::Brightness`].
    pub fn brightness(factor: f64) -> Self {
        Self::of(|value| blended(0, value, factor as f32))
    }

    /// Returns the tables of [`PointOp::Contrast`] for a picture with this mean of its luma.
    pub fn contrast(factor: f64, mean: u8) -> Self {
        Self::of(|value| blended(mean, value, factor as f32))
    }

    /// Returns the tables of [`PointOp::Posterize`].
    pub fn posterize(bits: u8) -> Self {
        let mask = !(0xff_u32 >> bits.min(8)) as u8;
        Self::of(|value| value & mask)
    }

    /// Returns the tables of [`PointOp::Solarize`].
    pub fn solarize(threshold: f64) -> Self {
        Self::of(|value| if f64::from(value) < threshold { value } else { 255 - value })
    }

    /// Returns the tables of [`PointOp::SolarizeAdd`].
    pub fn solarize_add(add: u8, threshold: u8) -> Self {
        Self::of(|value| if value < threshold { value.saturating_add(add) } else { value })
    }

    /// Returns the tables of [`PointOp::Invert`].
    pub fn invert() -> Self {
        Self::of(|value| 255 - value)
    }

    /// Returns the tables of [`PointOp::Equalize`] for a picture with this histogram.
    pub fn equalize(histogram: &Histogram) -> Self {
        Self(histogram.0.each_ref().map(|counts| {
            let used = counts.iter().rev().find(|count| **count > 0);
            let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let step = (all - u64::from(used.copied().unwrap_or(0))) / 255;
            if step == 0 {
                return Self::IDENTITY.0[0];
            }
            let mut below = step / 2;
            counts.map(|count| {
                let value = (below / step).min(255) as u8;
                below += u64::from(count);
                value
            })
        }))
    }

    /// Returns the tables of [`PointOp::AutoContrast`] for a picture with this histogram.
    pub fn autocontrast(histogram: &Histogram) -> Self {
        Self(histogram.0.each_ref().map(|counts| {
            let low = counts.iter().position(|count| *count > 0).unwrap_or(255);
            let high = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
            if high <= low {
                return Self::IDENTITY.0[0];
            }
            let scale = 255.0 / (high - low) as f64;
            let offset = -(low as f64) * scale;
            // The conversion truncates and clips.
            std::array::from_fn(|value| (value as f64 * scale + offset) as u8)
        }))
    }

    /// Returns the tables that do the same as these and then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let mut tables = self.clone();
        for (table, next) in tables.0.iter_mut().zip(&next.0) {
            table.iter_mut().for_each(|value| *value = next[usize::from(*value)]);
        }
        tables
    }

    /// Replaces every value of a picture.
    pub fn apply(&self, shape: Shape, pixels: &mut [u8]) {
        if self.is_identity() {
            return;
        }
        let [first, second, third] = &self.0;
        if shape.channels == 1 || (first == second && first == third) {
            Kernels::default().look_up(first, pixels);
        } else {
            Kernels::default().look_up_3(&self.0, pixels);
        }
    }

    fn is_identity(&self) -> bool {
        *self == Self::IDENTITY
    }
}

/// Number of pixels with each value, for each channel. The numbers of a grey picture are in the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram([[u32; 256]; 3]);

impl Histogram {
    /// Counts the values of a picture.
    pub fn of(shape: Shape, pixels: &[u8]) -> Self {
        let mut counts = [[0; 256]; 3];
        if shape.channels == 1 {
            // Neighbours are often equal, and a count that was just written takes time to read again.
            let mut all = [[0; 256]; 4];
            let (groups, rest) = pixels.as_chunks::<4>();
            for group in groups {
                for (counts, value) in all.iter_mut().zip(group) {
                    counts[usize::from(*value)] += 1;
                }
            }
            rest.iter().for_each(|value| all[0][usize::from(*value)] += 1);
            counts[0] = std::array::from_fn(|value| all.iter().map(|counts| counts[value]).sum());
            return Self(counts);
        }
        let mut others = [[0; 256]; 3];
        let (pairs, rest) = pixels.as_chunks::<6>();
        let [r, g, b] = &mut counts;
        let [r2, g2, b2] = &mut others;
        for pair in pairs {
            r[usize::from(pair[0])] += 1;
            g[usize::from(pair[1])] += 1;
            b[usize::from(pair[2])] += 1;
            r2[usize::from(pair[3])] += 1;
            g2[usize::from(pair[4])] += 1;
            b2[usize::from(pair[5])] += 1;
        }
        for (counts, value) in counts.iter_mut().zip(rest) {
            counts[usize::from(*value)] += 1;
        }
        for (counts, others) in counts.iter_mut().zip(&others) {
            counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        }
        Self(counts)
    }

    /// Returns the histogram of the picture after `tables`.
    pub fn through(&self, tables: &Tables) -> Self {
        let mut counts = [[0; 256]; 3];
        for ((counts, table), source) in counts.iter_mut().zip(&tables.0).zip(&self.0) {
            for (value, count) in table.iter().zip(source) {
                counts[usize::from(*value)] += count;
            }
        }
        Self(counts)
    }
}

/// Mean of the luma of a picture, rounded as `ImageEnhance.Contrast` does.
fn mean_luma(shape: Shape, pixels: &[u8]) -> u8 {
    let count = shape.width * shape.height;
    let sum: u64 = if shape.channels == 1 {
        pixels.iter().map(|value| u64::from(*value)).sum()
    } else {
        Kernels::default().luma_sum(pixels)
    };
    (sum as f64 / count.max(1) as f64 + 0.5) as u8
}
