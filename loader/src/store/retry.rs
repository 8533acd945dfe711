//! Waits between attempts.

use super::config::StoreConfig;
use std::time::Duration;

/// Seedable random generator (SplitMix64), good enough to spread clients.
#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number that is uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the wait after `failed` attempts (at least 1). It is drawn from the upper half of a bound that doubles with
/// every attempt, so that ranks that failed together do not retry together, and is at least the `requested` one.
pub(crate) fn wait(config: &StoreConfig, failed: u32, requested: Option<Duration>, draws: &mut Draws) -> Duration {
    let doublings = failed.saturating_sub(1).min(20);
    let bound = config.backoff_first.saturating_mul(1 << doublings).min(config.backoff_max);
    let drawn = bound.mul_f64(0.5 + 0.5 * draws.unit());
    drawn.max(requested.unwrap_or_default()).min(config.backoff_max)
}

/// Parses `Retry-After` in seconds. The form with a date needs synchronised clocks and reads as `None`.
pub(crate) fn retry_after(value: Option<&http::HeaderValue>) -> Option<Duration> {
    value?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_bound_and_repeat_for_a_seed() {
        let config = StoreConfig::default();
        let waits = |seed| {
            let mut draws = Draws::new(seed);
            (1..10).map(|n| wait(&config, n, None, &mut draws)).collect::<Vec<_>>()
        };
        let bounds: Vec<_> = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Duration::from_secs).into();
        for (wait, bound) in waits(7).iter().zip(&bounds) {
            assert!(wait <= bound && *wait >= *bound / 2, "{wait:?} of {bound:?}");
        }
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
    }

    #[test]
    fn a_requested_pause_is_kept_up_to_the_bound() {
        let config = StoreConfig::default();
        let mut draws = Draws::new(1);
        assert_eq!(wait(&config, 1, Some(Duration::from_secs(12)), &mut draws), Duration::from_secs(12));
        assert_eq!(wait(&config, 1, Some(Duration::from_secs(9999)), &mut draws), config.backoff_max);
        let value = http::HeaderValue::from_static(" 12 ");
        assert_eq!(retry_after(Some(&value)), Some(Duration::from_secs(12)));
        assert_eq!(retry_after(Some(&http::HeaderValue::from_static("soon"))), None);
    }
}
