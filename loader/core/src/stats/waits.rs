//! Histogram of the waits for batches.

use crate::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// Waits below 2^10 ns, about a microsecond, are counted together.
const FIRST_POWER: u32 = 10;
/// Powers of two from the first one on: the last bucket with a bound ends at 2^37 ns, 137 s.
const POWERS: usize = 27;
/// Buckets of each power of two: a percentile is at most a quarter too large.
const PARTS: usize = 4;
/// The first bucket is for shorter waits, the last one for longer ones.
const BUCKETS: usize = 1 + POWERS * PARTS + 1;

/// Waits of the consumer, each from its call until it has a batch.
#[derive(Debug)]
pub struct Waits {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    /// Time of calls that have ended without a batch. It belongs to the next batch.
    pending_ns: AtomicU64,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
            pending_ns: AtomicU64::new(0),
        }
    }
}

impl Waits {
    /// Adds the time of a call that has ended without a batch.
    #[inline]
    pub fn pending(&self, time: Duration) {
        self.pending_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Adds the time of the call that has the batch.
    #[inline]
    pub fn batch(&self, time: Duration) {
        let wait = self.pending_ns.swap(0, Ordering::Relaxed).saturating_add(time.as_nanos() as u64);
        self.counts[bucket_of(wait)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(wait, Ordering::Relaxed);
    }

    /// Returns the figures so far.
    pub(super) fn snapshot(&self) -> WaitsSnapshot {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        WaitsSnapshot { counts, sum: Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)) }
    }
}

fn bucket_of(wait_ns: u64) -> usize {
    let Some(power) = wait_ns.checked_ilog2().filter(|power| *power >= FIRST_POWER) else { return 0 };
    let part = (wait_ns >> (power - PARTS.ilog2())) as usize % PARTS;
    (1 + (power - FIRST_POWER) as usize * PARTS + part).min(BUCKETS - 1)
}

/// Seconds up to which bucket `number` counts waits; `None` for the last one, which has no bound.
fn bound_of(number: usize) -> Option<f64> {
    let base = f64::from(1_u32 << FIRST_POWER) * 1e-9;
    match number.checked_sub(1) {
        None => Some(base),
        Some(_) if number == BUCKETS - 1 => None,
        Some(index) => {
            let (power, part) = (index / PARTS, index % PARTS);
            Some(base * (1_u64 << power) as f64 * (1.0 + (part + 1) as f64 / PARTS as f64))
        }
    }
}

/// Histogram of waits at one moment.
#[derive(Clone, Debug, Default)]
pub struct WaitsSnapshot {
    counts: Vec<u64>,
    /// Sum of all waits.
    pub sum: Duration,
}

impl WaitsSnapshot {
    /// Waits with these [`counts`](Self::counts), and a sum that is not known.
    pub fn of_counts(counts: Vec<u64>) -> Self {
        Self { counts, sum: Duration::ZERO }
    }

    /// Number of the waits in each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of waits, which is the number of batches.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the seconds that a `share` of the waits, between 0 and 1, did not exceed: at most a quarter too large.
    /// Waits longer than 137 s count as 137 s. `None` before the first batch.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        let number = self.counts.iter().position(|count| {
            passed += count;
            passed >= rank
        })?;
        bound_of(number).or_else(|| bound_of(BUCKETS - 2))
    }

    /// Returns the seconds of each bound, a factor of two apart, and the number of waits up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut passed = 0;
        self.counts.iter().enumerate().filter_map(move |(number, count)| {
            passed += count;
            bound_of(number).filter(|_| number % PARTS == 0).map(|bound| (bound, passed))
        })
    }

    /// Adds the waits of a different loader.
    pub(super) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }

    /// Returns the waits since an `earlier` moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { counts, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// Returns the figures as JSON: `count`, `sum_s`, and `p50_s`, `p95_s` and `p99_s`, which are null before the first
    /// batch.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "count": self.count(),
            "sum_s": self.sum.as_secs_f64(),
            "p50_s": self.percentile(0.5),
            "p95_s": self.percentile(0.95),
            "p99_s": self.percentile(0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_at_most_a_quarter_below_the_bound_of_its_bucket() {
        for wait in (0..37).flat_map(|power| [1_u64 << power, (1 << power) + 1, (1 << power) * 7 / 4]) {
            let bound = bound_of(bucket_of(wait)).expect("a bound") * 1e9;
            assert!(wait as f64 <= bound + 1e-3, "{wait} is above {bound}");
            assert!(wait < 1 << FIRST_POWER || bound <= wait as f64 * 1.2501, "{bound} is far above {wait}");
        }
        assert_eq!(bound_of(bucket_of(u64::MAX)), None);
    }

    #[test]
    fn percentiles_are_of_batches_and_a_wait_without_a_batch_belongs_to_the_next_one() {
        let waits = Waits::default();
        assert_eq!(waits.snapshot().percentile(0.5), None);
        for _ in 0..98 {
            waits.batch(Duration::from_millis(1));
        }
        waits.pending(Duration::from_secs(1));
        waits.batch(Duration::from_secs(1));
        waits.batch(Duration::from_secs(4_000));
        let shot = waits.snapshot();
        assert_eq!((shot.count(), shot.sum), (100, Duration::from_millis(98 + 2_000 + 4_000_000)));
        let near = |share: f64, seconds: f64| {
            let found = shot.percentile(share).expect("waits");
            assert!(seconds <= found && found <= seconds * 1.2501, "{found} for {seconds}");
        };
        near(0.5, 0.001);
        near(0.99, 2.0);
        near(1.0, 137.0);
        let later = waits.snapshot().since(&shot);
        assert_eq!((later.count(), later.percentile(0.5)), (0, None));
        let cumulative: Vec<_> = shot.cumulative().collect();
        assert_eq!(cumulative.last().map(|(_, count)| *count), Some(99));
        assert!(cumulative.windows(2).all(|pair| pair[0].0 * 1.999 < pair[1].0 && pair[0].1 <= pair[1].1));
    }
}
