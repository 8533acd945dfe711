//! Rate limit shared by all bodies of a server.

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
