//! Split of the pictures between the decode threads and the device's decoder.
//!
//! Decoding a picture costs a decode thread a hundred times as much as leaving it for the device, so threads that leave
//! all pictures are idle most of the time if the device is the slower one. It is if a batch already waits when the
//! device has taken the one before: then the threads decode more pictures of the next batches, otherwise fewer. So both
//! finish together, whatever the pictures, the device and the remaining load of the CPUs, and threads decode none where
//! the consumer is the slowest.
//!
//! The split depends on timing, and pixels may differ by a few grey levels between the two decoders, so that runs
//! differ: the loader splits pictures only on request.

use crate::sync::{AtomicU32, Ordering};

/// Resolution of the share.
const STEPS: u32 = 32;

/// Largest share: the device always gets some pictures, or it could not be observed.
const STEPS_MAX: u32 = STEPS - 1;

/// Decode threads' share of the pictures that the device could decode.
#[derive(Debug, Default)]
pub(crate) struct HostShare {
    steps: AtomicU32,
}

impl HostShare {
    /// True if the decode threads decode the sample at `position` of the epoch. Such samples are spread as evenly as
    /// possible, and a sample of one share is also in every larger one.
    pub(crate) fn contains(&self, position: u64) -> bool {
        // Multiples of the golden ratio, modulo 1, in fractions of 2^64.
        let place = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // Relaxed: the number guards no further data; a thread with the old one applies it to a few more pictures.
        (place * u64::from(STEPS)) >> 32 < u64::from(self.steps.load(Ordering::Relaxed))
    }

    /// Adjusts the share. `is_behind`: a batch was already waiting when the device had taken the one before.
    pub(crate) fn adjust(&self, is_behind: bool) {
        // Relaxed, and no exchange: only one thread adjusts.
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
        (first..first + BATCH).filter(|position| share.contains(*position)).count() as u64
    }

    /// Simulates batches between threads that decode `host` pictures while the device decodes `device`. Returns the
    /// number of pictures of a batch that the threads decode in the end.
    fn settled(host: f64, device: f64) -> u64 {
        let share = HostShare::default();
        // Times at which the current batch of each will be done.
        let (mut filled_at, mut placed_at) = (0.0_f64, 0.0_f64);
        for number in 0..400 {
            let by_host = taken(&share, number * BATCH);
            filled_at += by_host as f64 / host;
            share.adjust(filled_at < placed_at);
            placed_at = placed_at.max(filled_at) + (BATCH - by_host) as f64 / device;
            // The number of batches in flight is limited: threads wait for a slot.
            filled_at = filled_at.max(placed_at - 3.0 * (BATCH - by_host) as f64 / device);
        }
        taken(&share, 0)
    }

    #[test]
    fn the_share_settles_so_that_both_finish_together() {
        assert!(settled(10.0, 10.0).abs_diff(128) <= 16, "{}", settled(10.0, 10.0));
        assert!(settled(10.0, 70.0).abs_diff(32) <= 16, "{}", settled(10.0, 70.0));
        assert!(settled(30.0, 10.0).abs_diff(192) <= 16, "{}", settled(30.0, 10.0));
    }

    #[test]
    fn the_device_always_has_work() {
        assert!(settled(10_000.0, 1.0).abs_diff(248) <= 4, "{}", settled(10_000.0, 1.0));
    }

    #[test]
    fn threads_decode_nothing_if_the_device_keeps_up() {
        let share = HostShare::default();
        (0..1000).for_each(|_| share.adjust(true));
        (0..1000).for_each(|_| share.adjust(false));
        assert_eq!(taken(&share, 0), 0);
    }

    #[test]
    fn samples_of_the_share_are_spread_evenly_and_stay_in_it() {
        let share = HostShare::default();
        let mut before = Vec::new();
        for steps in 1..=u64::from(STEPS_MAX) {
            share.adjust(true);
            for first in [0, 7, 1 << 40] {
                let expected = BATCH * steps / u64::from(STEPS);
                assert!(taken(&share, first).abs_diff(expected) <= 4, "{} of {expected}", taken(&share, first));
            }
            let now: Vec<u64> = (0..BATCH).filter(|position| share.contains(*position)).collect();
            assert!(before.iter().all(|position| now.contains(position)));
            before = now;
        }
    }
}
