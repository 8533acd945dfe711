//! Counters: numbers that only grow.

use crate::sync::{AtomicU64, Ordering};

/// A single number that only grows, such as requests sent or samples skipped.
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    value: AtomicU64,
}

impl Counter {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, value: AtomicU64::new(0) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.value.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}
