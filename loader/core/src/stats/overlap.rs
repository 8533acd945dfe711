//! Time in which at least one of several threads does the same work.

use super::counter::Counter;
use crate::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Counter of the microseconds in which at least one thread works: the sum over threads is longer if several do.
#[derive(Debug)]
pub struct Overlap {
    counter: Arc<Counter>,
    at_work: Mutex<AtWork>,
}

#[derive(Debug)]
struct AtWork {
    threads: u32,
    /// Time up to which the work is counted.
    counted: Instant,
    /// Time that is less than a microsecond.
    rest: Duration,
}

impl Overlap {
    pub(super) fn new(counter: Arc<Counter>) -> Self {
        let at_work = AtWork { threads: 0, counted: Instant::now(), rest: Duration::ZERO };
        Self { counter, at_work: Mutex::new(at_work) }
    }

    /// Runs `body`. Its time counts at the next begin or end of the work of any thread.
    pub fn timed<T>(&self, body: impl FnOnce() -> T) -> T {
        self.step(Instant::now(), 1);
        let result = body();
        self.step(Instant::now(), -1);
        result
    }

    /// Counts up to `now`, when the number of threads at work changes by `change`.
    fn step(&self, now: Instant, change: i32) {
        let mut at_work = self.at_work.lock();
        if at_work.threads > 0 {
            let time = at_work.rest + now.saturating_duration_since(at_work.counted);
            let micros = time.as_micros() as u64;
            at_work.rest = time - Duration::from_micros(micros);
            self.counter.add(micros);
        }
        // A thread that was later at the lock may have looked at the clock earlier.
        at_work.counted = at_work.counted.max(now);
        at_work.threads = at_work.threads.saturating_add_signed(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_several_threads_work_counts_once() {
        let overlap = Overlap::new(Arc::new(Counter::new("fetching_us")));
        let start = Instant::now();
        // Work from 1 to 4 ms, with a second thread from 2 to 3 ms, and from 6 to 7.5 ms.
        for (at_us, change) in [(1000, 1), (2000, 1), (3000, -1), (4000, -1), (6000, 1), (7500, -1)] {
            overlap.step(start + Duration::from_micros(at_us), change);
        }
        assert_eq!(overlap.counter.get(), 4500);
        overlap.timed(|| ());
        assert_eq!(overlap.at_work.lock().threads, 0);
    }
}
