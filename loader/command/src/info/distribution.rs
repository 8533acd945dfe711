//! Distribution of numbers: quantiles and a histogram.

use serde_json::{Value, json};

/// Most bins of a histogram.
const BINS_MAX: usize = 12;

/// Heights of a bar in text.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Distribution of whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distribution {
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) p95: u64,
    pub(super) max: u64,
    pub(super) mean: f64,
    bins: Vec<Bin>,
}

/// Numbers from `from` to `to`, both included.
#[derive(Clone, Debug, PartialEq)]
struct Bin {
    from: u64,
    to: u64,
    count: u64,
}

impl Distribution {
    /// Distribution of `numbers`; `None` without one.
    pub(super) fn of(mut numbers: Vec<u64>) -> Option<Self> {
        numbers.sort_unstable();
        let (&min, &max) = (numbers.first()?, numbers.last()?);
        let at = |share: usize| numbers[(numbers.len() - 1) * share / 100];
        let mean = numbers.iter().map(|number| *number as f64).sum::<f64>() / numbers.len() as f64;
        let mut bins: Vec<Bin> =
            bounds(min, max).windows(2).map(|ends| Bin { from: ends[0], to: ends[1] - 1, count: 0 }).collect();
        for number in &numbers {
            // The last bin has the largest number of 64 bits, too.
            let bin = bins.partition_point(|bin| bin.to < *number).min(bins.len() - 1);
            bins[bin].count += 1;
        }
        Some(Self { count: numbers.len() as u64, min, median: at(50), p95: at(95), max, mean, bins })
    }

    pub(super) fn json(&self) -> Value {
        let bins: Vec<Value> =
            self.bins.iter().map(|bin| json!({"from": bin.from, "to": bin.to, "count": bin.count})).collect();
        json!({
            "count": self.count, "min": self.min, "median": self.median, "p95": self.p95, "max": self.max,
            "mean": self.mean, "bins": bins,
        })
    }

    /// Histogram as a line of bars; empty if all numbers are equal.
    pub(super) fn bars(&self) -> String {
        let highest = self.bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        if self.bins.len() < 2 {
            return String::new();
        }
        let bar = |bin: &Bin| match bin.count {
            0 => ' ',
            count => BARS[(count * (BARS.len() as u64 - 1)).div_ceil(highest) as usize],
        };
        self.bins.iter().map(bar).collect()
    }
}

/// Returns the ends of bins of numbers from `min` to `max`: of equal widths, or of powers of two if the numbers differ
/// much. Each end is the start of the next bin, and the last one is above `max`.
fn bounds(min: u64, max: u64) -> Vec<u64> {
    let max = max.min(u64::MAX - 1);
    if max / min.max(1) < 64 {
        let width = ((max - min + 1).div_ceil(BINS_MAX as u64)).max(1);
        let mut ends: Vec<u64> = (min..=max).step_by(usize::try_from(width).unwrap_or(usize::MAX)).collect();
        ends.push(max + 1);
        return ends;
    }
    let (low, high) = (min.max(1).ilog2(), max.ilog2());
    let step = (high - low + 1).div_ceil(BINS_MAX as u32).max(1);
    let mut ends = vec![min];
    ends.extend((low + step..=high).step_by(step as usize).map(|power| 1 << power));
    ends.push(max + 1);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_one_bin() {
        for (min, max) in [(0, 0), (7, 7), (0, 1), (3, 40), (0, 1 << 40), (1, 63), (1, 64), (100, u64::MAX)] {
            let ends = bounds(min, max);
            assert!(ends.len() - 1 <= BINS_MAX + 1 && ends.is_sorted_by(|a, b| a < b), "{min} {max} {ends:?}");
            assert_eq!(ends[0], min, "{max}");
        }
        let found = Distribution::of((0..1000).collect()).expect("numbers");
        assert_eq!((found.count, found.min, found.median, found.p95, found.max), (1000, 0, 499, 949, 999));
        assert_eq!(found.bins.iter().map(|bin| bin.count).sum::<u64>(), 1000);
        assert_eq!(Distribution::of(vec![]), None);
        assert!(Distribution::of(vec![u64::MAX, 0]).is_some());
    }

    #[test]
    fn bars_have_the_heights_of_their_counts() {
        let found = Distribution::of(vec![0, 0, 0, 0, 0, 0, 0, 1, 3]).expect("numbers");
        assert_eq!(found.bars(), "█▂ ▂");
        assert_eq!(Distribution::of(vec![5, 5]).expect("numbers").bars(), "");
    }
}
