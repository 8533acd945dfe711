//! Rate limits of a server: of all bodies together, and of requests.

use std::time::{Duration, Instant};

/// Shared rate limit: each piece is due when the time of the pieces before it has passed.
#[derive(Debug)]
pub(super) struct Throttle {
    bytes_per_s: Option<u64>,
    due: Instant,
}

impl Throttle {
    pub(super) fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, due: Instant::now() }
    }

    /// Returns the delay of a piece of `n` bytes.
    pub(super) fn wait(&mut self, n: u64) -> Duration {
        let Some(rate) = self.bytes_per_s else { return Duration::ZERO };
        let now = Instant::now();
        self.due = self.due.max(now) + Duration::from_secs_f64(n as f64 / rate.max(1) as f64);
        self.due - now
    }
}

/// Limit of the rate of requests. Those above it are refused.
#[derive(Debug)]
pub(super) struct Quota {
    requests_per_s: Option<u64>,
    /// Time from which the next request is taken.
    free: Instant,
}

impl Quota {
    pub(super) fn new(requests_per_s: Option<u64>) -> Self {
        Self { requests_per_s, free: Instant::now() }
    }

    /// Returns true for a request at `now` that is taken.
    pub(super) fn takes(&mut self, now: Instant) -> bool {
        let Some(rate) = self.requests_per_s else { return true };
        let is_taken = now >= self.free;
        if is_taken {
            self.free = now + Duration::from_secs(1) / rate.clamp(1, 1_000_000) as u32;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_above_the_rate_are_refused() {
        let (mut quota, mut unlimited) = (Quota::new(Some(10)), Quota::new(None));
        let begun = quota.free;
        let times = [0, 1, 99, 100, 150, 350, 351].map(|ms| begun + Duration::from_millis(ms));
        assert_eq!(times.map(|now| quota.takes(now)), [true, false, false, true, false, true, false]);
        assert!(times.iter().all(|now| unlimited.takes(*now)));
    }
}
