//! Draws in proportion to weights, with replacement.
//!
//! The number of draws of each shard comes first: the draws of the stream are counted by shard. Then each shard's draws
//! are counted by sample, in units of at most as many draws as the shard has samples. So all draws are independent, as
//! the draws of torch's `WeightedRandomSampler`, and a shard is used about as often as its weight makes necessary. Only
//! the basic operations of IEEE doubles are used: all machines draw the same.

use super::rng::Generator;

/// Items with weights, to draw from in about constant time.
#[derive(Debug)]
pub(super) struct WeightTable {
    /// Sum of the weights up to each item, inclusive.
    ends: Vec<f64>,
    /// For each of as many equal parts of the total as there are items, the item that contains its start.
    firsts: Vec<u32>,
    /// The last item with a weight.
    last: usize,
}

impl WeightTable {
    /// A table of at most 2^32 - 1 items with weights that are finite and not negative. `None` if all of them are 0.
    pub(super) fn new(weights: impl Iterator<Item = f64>) -> Option<Self> {
        let mut table = Self { ends: Vec::new(), firsts: Vec::new(), last: 0 };
        table.refill(weights).then_some(table)
    }

    /// An empty table, to be refilled.
    pub(super) fn empty() -> Self {
        Self { ends: Vec::new(), firsts: Vec::new(), last: 0 }
    }

    /// Replaces the items; false if there is no weight.
    pub(super) fn refill(&mut self, weights: impl Iterator<Item = f64>) -> bool {
        self.ends.clear();
        self.firsts.clear();
        self.last = 0;
        let mut total = 0.0;
        for (item, weight) in weights.enumerate() {
            total += weight;
            self.ends.push(total);
            if weight > 0.0 {
                self.last = item;
            }
        }
        if total <= 0.0 {
            return false;
        }
        let parts = self.ends.len();
        let mut item = 0;
        self.firsts.extend((0..parts).map(|part| {
            let start = total * part as f64 / parts as f64;
            while item < self.last && self.ends[item] <= start {
                item += 1;
            }
            item as u32
        }));
        true
    }

    /// Draws an item.
    #[inline]
    pub(super) fn draw(&self, generator: &mut Generator) -> usize {
        let parts = self.ends.len();
        let share = generator.uniform(0.0, 1.0);
        let number = share * self.ends[parts - 1];
        // The product may be rounded up to the next part.
        let part = ((share * parts as f64) as usize).min(parts - 1);
        let mut item = self.firsts[part] as usize;
        // The start of the part may be rounded beyond the end of an item.
        while item > 0 && self.ends[item - 1] > number {
            item -= 1;
        }
        while item < self.last && self.ends[item] <= number {
            item += 1;
        }
        item
    }
}

/// Draws of one unit, counted by item.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<u32>);

impl Counts {
    /// Draws `count` of the `items` items of `table`, and appends them to `picks`, ascending.
    pub(super) fn append_draws(
        &mut self,
        table: &WeightTable,
        count: u64,
        generator: &mut Generator,
        picks: &mut Vec<u32>,
    ) {
        self.0.clear();
        self.0.resize(table.ends.len(), 0);
        for _ in 0..count {
            self.0[table.draw(generator)] += 1;
        }
        for (item, &count) in self.0.iter().enumerate() {
            for _ in 0..count {
                picks.push(item as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items that are drawn in `draws` draws, by item.
    fn counted(weights: &[f64], draws: u64) -> Vec<u64> {
        let table = WeightTable::new(weights.iter().copied()).expect("weights");
        let mut generator = Generator::new(7);
        let mut counts = vec![0; weights.len()];
        (0..draws).for_each(|_| counts[table.draw(&mut generator)] += 1);
        counts
    }

    /// Chi-square of counts with these weights, and its degrees of freedom.
    fn chi_square(counts: &[u64], weights: &[f64]) -> (f64, f64) {
        let (total, draws) = (weights.iter().sum::<f64>(), counts.iter().sum::<u64>() as f64);
        let expected = weights.iter().map(|weight| weight / total * draws);
        let pairs = counts.iter().zip(expected).filter(|(_, expected)| *expected > 0.0);
        let squares: Vec<f64> = pairs.map(|(count, expected)| (*count as f64 - expected).powi(2) / expected).collect();
        (squares.iter().sum(), squares.len() as f64 - 1.0)
    }

    #[test]
    fn items_are_drawn_in_proportion_to_their_weights_and_those_without_are_not() {
        let ramp: Vec<f64> = (0..100).map(|item| f64::from(item % 10)).collect();
        let steep: Vec<f64> = (0..30).map(|item| 0.7_f64.powi(item)).collect();
        let mut one_large = vec![1e-3; 500];
        one_large[499] = 1.0;
        for weights in [vec![1.0], vec![0.0, 3.0, 0.0], vec![1.0; 64], ramp, steep, one_large] {
            let counts = counted(&weights, 200_000);
            let (square, freedom) = chi_square(&counts, &weights);
            // 4.5 standard deviations: the seed is fixed, so that the result is always the same.
            assert!(square < freedom + 4.5 * (2.0 * freedom).sqrt() + 1e-9, "{square} of {freedom}: {weights:?}");
            assert!(counts.iter().zip(&weights).all(|(count, weight)| *weight > 0.0 || *count == 0), "{counts:?}");
        }
    }

    #[test]
    fn a_table_needs_a_weight() {
        assert!(WeightTable::new([0.0; 3].into_iter()).is_none());
        assert!(WeightTable::new(std::iter::empty()).is_none());
    }

    #[test]
    fn a_refilled_table_equals_a_new_one() {
        let weights = [0.5, 0.0, 2.0, 1.0];
        let mut table = WeightTable::empty();
        assert!(table.refill([1.0; 90].into_iter()) && table.refill(weights.into_iter()));
        let new = WeightTable::new(weights.into_iter()).expect("weights");
        assert_eq!((table.ends, table.firsts, table.last), (new.ends, new.firsts, new.last));
    }
}
