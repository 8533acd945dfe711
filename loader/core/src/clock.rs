//! Time as a value that tests can move.

use crate::sync::{Arc, AtomicU64, Ordering, sleep};
use std::time::{Duration, Instant};

/// A monotonic clock: the system's, or one that a test moves by hand.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Time since this instant.
    System(Instant),
    /// Nanoseconds since the clock was made.
    Manual(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System(Instant::now()))
    }

    /// A clock that moves only when [`advance`](Self::advance) is called.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// Time since the clock was made.
    #[inline]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System(start) => start.elapsed(),
            Source::Manual(ns) => Duration::from_nanos(ns.load(Ordering::Acquire)),
        }
    }

    /// True if a test moves the clock by hand.
    pub fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Waits for `time` on the system's clock; moves a manual clock by `time` and returns at once.
    pub fn sleep(&self, time: Duration) {
        match &self.0 {
            Source::System(_) => sleep(time),
            Source::Manual(_) => self.advance(time),
        }
    }

    /// Moves a manual clock; has no effect on the system's clock.
    pub fn advance(&self, time: Duration) {
        if let Source::Manual(ns) = &self.0 {
            ns.fetch_add(time.as_nanos() as u64, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Duration::ZERO);
        clock.sleep(Duration::from_secs(3));
        assert_eq!(clock.now(), Duration::from_secs(3));
    }
}
