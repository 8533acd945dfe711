//! Which pictures the decode threads take of those that the target's decoder would.
//!
//! A picture costs a decode thread a hundred times as much to decode as to leave to the target, so threads that leave all
//! of them wait most of the time where the target is the slower one. A batch that waits for the target when it has placed
//! the one before says that it is: then the threads take more of the next batches, otherwise fewer. So both end together,
//! whatever the pictures, the device and the other work of the CPUs, and threads take nothing where the consumer is the
//! slowest.
//!
//! Who decodes a picture thus depends on time, and pixels may differ by a few grey levels from run to run: the loader does
//! this only when asked to.

use crate::sync::{AtomicU32, Ordering};

/// The share is counted in these.
const STEPS: u32 = 32;

/// The target's decoder always has work: from nothing nothing is learnt.
const STEPS_MAX: u32 = STEPS - 1;

/// The decode threads' share of the pictures that may be left to the target's decoder.
#[derive(Debug, Default)]
pub(crate) struct HostShare {
    steps: AtomicU32,
}

impl HostShare {
    /// Whether the decode threads take the sample at `position` of the epoch. Samples that are taken lie as evenly as
    /// possible, and one that is taken is also taken with a larger share.
    pub(crate) fn takes(&self, position: u64) -> bool {
        // Multiples of the golden ratio, modulo 1, in fractions of 2^64.
        let place = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // Relaxed: a number of its own; who sees the old one decodes a few more pictures by it.
        (place * u64::from(STEPS)) >> 32 < u64::from(self.steps.load(Ordering::Relaxed))
    }

    /// Takes in whether a batch was waiting when the target had placed the one before.
    pub(crate) fn learn(&self, is_behind: bool) {
        // Relaxed, and no exchange: one thread learns.
        let steps = self.steps.load(Ordering::Relaxed);
        let moved = if is_behind { (steps + 1).min(STEPS_MAX) } else { steps.saturating_sub(1) };
        self.steps.store(moved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: u64 = 256;

    fn taken(share: &HostShare, first: u64) -> u64 {
        (first..first + BATCH).filter(|position| share.takes(*position)).count() as u64
    }

    /// Batches under way between threads that decode `host` pictures in the time that the target decodes `target`: how
    /// many of a batch the threads take in the end.
    fn settled(host: f64, target: f64) -> u64 {
        let share = HostShare::default();
        // When the batch that each of them works on will be done.
        let (mut filled_at, mut placed_at) = (0.0_f64, 0.0_f64);
        for number in 0..400 {
            let by_host = taken(&share, number * BATCH);
            filled_at += by_host as f64 / host;
            share.learn(filled_at < placed_at);
            placed_at = placed_at.max(filled_at) + (BATCH - by_host) as f64 / target;
            // Few batches are under way: threads wait for a slot.
            filled_at = filled_at.max(placed_at - 3.0 * (BATCH - by_host) as f64 / target);
        }
        taken(&share, 0)
    }

    #[test]
    fn the_share_moves_to_where_both_end_together() {
        assert!(settled(10.0, 10.0).abs_diff(128) <= 16, "{}", settled(10.0, 10.0));
        assert!(settled(10.0, 70.0).abs_diff(32) <= 16, "{}", settled(10.0, 70.0));
        assert!(settled(30.0, 10.0).abs_diff(192) <= 16, "{}", settled(30.0, 10.0));
    }

    #[test]
    fn the_target_always_has_work() {
        assert!(settled(10_000.0, 1.0).abs_diff(248) <= 4, "{}", settled(10_000.0, 1.0));
    }

    #[test]
    fn threads_take_nothing_from_a_target_that_keeps_up() {
        let share = HostShare::default();
        (0..1000).for_each(|_| share.learn(true));
        (0..1000).for_each(|_| share.learn(false));
        assert_eq!(taken(&share, 0), 0);
    }

    #[test]
    fn samples_that_are_taken_lie_evenly_and_stay_taken() {
        let share = HostShare::default();
        let mut before = Vec::new();
        for steps in 1..=u64::from(STEPS_MAX) {
            share.learn(true);
            for first in [0, 7, 1 << 40] {
                let wanted = BATCH * steps / u64::from(STEPS);
                assert!(taken(&share, first).abs_diff(wanted) <= 4, "{} of {wanted}", taken(&share, first));
            }
            let now: Vec<u64> = (0..BATCH).filter(|position| share.takes(*position)).collect();
            assert!(before.iter().all(|position| now.contains(position)));
            before = now;
        }
    }
}
