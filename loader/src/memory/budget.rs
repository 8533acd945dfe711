//! How many bytes: the defaults, the shares, and a budget for bytes that are not slots.

use super::fair_queue::{Closed, FairPool};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;

/// The default of `sample_bytes_max`: 1 GiB.
pub const SAMPLE_BYTES_MAX: usize = 1 << 30;

/// The default of `memory` never exceeds this: 2 GiB hold 3 batches of 256 images as float32 and 1 GiB of encoded ones.
const DEFAULT_BYTES_MAX: u64 = 2 << 30;

/// Batches that must fit: one being filled, one ready, one in the consumer's hands.
const BATCHES_MIN: u64 = 3;

/// The least that read slots get: 64 images of 500 kB.
const READ_BYTES_MIN: u64 = 32 << 20;

/// The default of `memory` for one rank: an eighth of its share of `limit_bytes` (the machine's or container's), at most
/// 2 GiB, raised to three batches where that is less than a quarter of the share.
///
/// # Errors
///
/// [`ErrorKind::Config`] when three batches are a quarter of the share or more, with the figures.
pub fn default_bytes(limit_bytes: u64, local_world_size: usize, batch_bytes: u64) -> Result<u64> {
    let share = limit_bytes / (local_world_size.max(1) as u64);
    let default = (share / 8).min(DEFAULT_BYTES_MAX);
    let batches = batch_bytes.saturating_mul(BATCHES_MIN);
    if batches <= default {
        return Ok(default);
    }
    if batches < share / 4 {
        return Ok(batches);
    }
    Err(Error::config(
        "three batches need a quarter of this rank's memory or more: set `memory`, or lower `batch_size`",
    )
    .with("three_batches_bytes", batches)
    .with("rank_bytes", share))
}

/// The shares of `memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// For read slots.
    pub read_bytes: u64,
    /// For batch slots.
    pub batch_bytes: u64,
}

/// Shares `memory_bytes` between read slots and batch slots: `batches` of `batch_bytes` each as long as a quarter is
/// left for reading, and never fewer than three unless they alone exceed `memory_bytes`.
///
/// # Errors
///
/// [`ErrorKind::Config`] when not even three batches fit, with the figure that would do.
pub fn split(memory_bytes: u64, batch_bytes: u64, batches: u64) -> Result<Split> {
    let slot = batch_bytes.max(1).checked_next_multiple_of(super::BLOCK_BYTES as u64).unwrap_or(u64::MAX);
    let least = slot.saturating_mul(BATCHES_MIN);
    if least > memory_bytes {
        return Err(Error::config("`memory` does not hold three batches, the least: raise it, or lower `batch_size`")
            .with("memory_bytes", memory_bytes)
            .with("needed_bytes", least));
    }
    let wanted = slot.saturating_mul(batches.max(BATCHES_MIN));
    let most = (memory_bytes / 4 * 3 / slot * slot).max(least);
    let batch_bytes = wanted.min(most);
    // Three batches may leave next to nothing: reading still needs room to get on, and takes it beside them.
    let read_bytes = (memory_bytes - batch_bytes).max(READ_BYTES_MIN);
    Ok(Split { read_bytes, batch_bytes })
}

/// A bound on bytes that several threads take and give back, granted in the order of asking. Cloning gives another
/// handle to the same budget.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Bytes that are out.
    taken_bytes: FairPool<u64>,
    limit_bytes: u64,
}

impl Budget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self { shared: Arc::new(Shared { taken_bytes: FairPool::new(0), limit_bytes }) }
    }

    /// Waits until `bytes` are free, behind those who asked before. What exceeds the whole budget is granted alone, when
    /// nothing else is out, so that one large shard cannot stop everything.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] after [`close`](Self::close).
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        let granted = self.shared.taken_bytes.take(|taken| self.shared.take(taken, bytes));
        granted.map_err(|Closed| {
            Error::new(ErrorKind::Closed, "the loader was closed while a download waited for memory")
        })?;
        Ok(Reservation { shared: self.shared.clone(), bytes })
    }

    /// `bytes` if they are free and nobody waits.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.shared.taken_bytes.try_take(|taken| self.shared.take(taken, bytes)).ok()??;
        Some(Reservation { shared: self.shared.clone(), bytes })
    }

    /// Wakes everyone who waits and refuses whoever comes after.
    pub fn close(&self) {
        self.shared.taken_bytes.close(|_| {});
    }

    /// Bytes that are out.
    pub fn taken_bytes(&self) -> u64 {
        self.shared.taken_bytes.inspect(|taken, _| *taken)
    }

    /// The whole budget in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes
    }
}

impl Shared {
    fn take(&self, taken: &mut u64, bytes: u64) -> Option<()> {
        let sum = taken.checked_add(bytes).filter(|sum| *taken == 0 || *sum <= self.limit_bytes)?;
        *taken = sum;
        Some(())
    }
}

/// Bytes of a [`Budget`]; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Reservation {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a part back early, down to `bytes`; no effect if that is not less.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.shared.taken_bytes.release(|taken, _| *taken -= less);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.taken_bytes.release(|taken, _| *taken -= self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    #[test]
    fn the_default_is_an_eighth_of_the_share_and_at_most_2_gib() {
        assert_eq!(default_bytes(64 * GIB, 1, MIB).unwrap(), 2 * GIB);
        assert_eq!(default_bytes(8 * GIB, 1, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(64 * GIB, 8, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(8 * GIB, 1, 500 * MIB).unwrap(), 1500 * MIB, "raised to three batches");
    }

    #[test]
    fn batches_that_would_eat_the_machine_are_an_error_with_the_figure() {
        let e = default_bytes(8 * GIB, 1, GIB).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains(&format!("three_batches_bytes {}", 3 * GIB)), "{e}");
        assert!(default_bytes(u64::MAX, 1, u64::MAX).is_err());
        assert!(default_bytes(0, 0, 1).is_err());
    }

    #[test]
    fn batches_get_what_they_want_while_a_quarter_is_left_for_reading() {
        assert_eq!(split(GIB, 50 * MIB, 5).unwrap(), Split { read_bytes: GIB - 250 * MIB, batch_bytes: 250 * MIB });
        assert_eq!(split(GIB, 100 * MIB, 50).unwrap(), Split { read_bytes: GIB - 700 * MIB, batch_bytes: 700 * MIB });
        assert_eq!(split(GIB, 340 * MIB, 5).unwrap(), Split { read_bytes: 32 * MIB, batch_bytes: 1020 * MIB });
        assert!(split(GIB, 400 * MIB, 3).unwrap_err().to_string().contains("needed_bytes"));
        assert!(split(GIB, u64::MAX, 3).is_err());
    }

    #[test]
    fn what_exceeds_the_budget_goes_alone() {
        let budget = Budget::new(100);
        let mut large = budget.reserve(1000).unwrap();
        assert!(budget.try_reserve(0).is_none());
        large.shrink_to(60);
        assert_eq!((large.bytes(), budget.taken_bytes()), (60, 60));
        let small = budget.try_reserve(40).unwrap();
        assert!(budget.try_reserve(u64::MAX).is_none());
        drop((large, small));
        assert!(budget.try_reserve(u64::MAX).is_some());
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{model, spawn, yield_now};

    /// Has another thread ask for `bytes`, and returns once it waits.
    fn waiter(budget: &Budget, bytes: u64) -> crate::sync::JoinHandle<Result<u64>> {
        let waiting = budget.clone();
        let thread = spawn("waiter", move || waiting.reserve(bytes).map(|r| r.bytes())).unwrap();
        while !budget.shared.taken_bytes.has_waiters() {
            yield_now();
        }
        thread
    }

    #[test]
    fn a_budget_grants_in_the_order_of_asking() {
        model(|| {
            let budget = Budget::new(100);
            let first = budget.reserve(80).unwrap();
            let large = waiter(&budget, 90);
            assert!(budget.try_reserve(1).is_none(), "a small request does not overtake");
            let behind = budget.clone();
            let small = spawn("small", move || behind.reserve(20).map(|r| r.bytes())).unwrap();
            drop(first);
            assert_eq!(large.join().unwrap().unwrap(), 90);
            assert_eq!(small.join().unwrap().unwrap(), 20);
            assert_eq!(budget.taken_bytes(), 0);
        });
    }

    #[test]
    fn everybody_is_served_and_never_more_than_the_budget_is_out() {
        model(|| {
            let budget = Budget::new(10);
            let threads = [3, 10, 7, 4].map(|bytes| {
                let budget = budget.clone();
                let body = move || {
                    for _ in 0..3 {
                        let _held = budget.reserve(bytes).unwrap();
                        assert!(budget.taken_bytes() <= 10);
                    }
                };
                spawn("asker", body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(budget.taken_bytes(), 0);
        });
    }

    #[test]
    fn closing_a_budget_wakes_who_waits() {
        model(|| {
            let budget = Budget::new(10);
            let _held = budget.reserve(10).unwrap();
            let waiter = waiter(&budget, 1);
            budget.close();
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
            assert!(budget.try_reserve(0).is_none());
        });
    }
}
