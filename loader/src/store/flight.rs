//! Number of parts in flight of one fetch thread, which follows from the latency and bandwidth that it finds.
//!
//! Large parts fill any network with a few requests. Small ones do not: 8 objects of 100 KB at a latency of 50 ms are 16
//! MB/s. The right number of requests depends on the server and the network, so it is doubled as long as the rate of
//! bytes grows with it, and halved again where the rate does not.
//!
//! A server that has too many requests (429, 503) halves it as well, down to one. From there it rises again by one part
//! for each round of parts.

use super::config::StoreConfig;
use crate::sync::Arc;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Growth of the rate that justifies twice as many parts, as a ratio.
const GROWTH_MIN: f64 = 1.2;

/// Measurements after a failed attempt to grow until the next attempt.
const PAUSE: u32 = 32;

/// Place of one part in flight; free again when dropped, unless the limit has become lower.
pub(crate) struct PartPlace {
    /// `None` only while it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    state: Rc<RefCell<State>>,
}

impl Drop for PartPlace {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        if state.excess > 0
            && let Some(permit) = self.permit.take()
        {
            state.excess -= 1;
            permit.forget();
        }
    }
}

/// Limit of the parts in flight.
pub(crate) struct FlightLimit {
    places: Arc<Semaphore>,
    /// Notified when a part that has begun waits for a place.
    wanted: Notify,
    state: Rc<RefCell<State>>,
}

struct State {
    limit: usize,
    limit_min: usize,
    limit_max: usize,
    /// Bytes in flight above which the limit does not grow.
    bytes_max: usize,
    /// Places to take away as soon as they are free.
    excess: usize,
    sample: Sample,
    /// Bytes per second at half of the limit, if the limit has grown since it was last measured.
    rate_before: Option<f64>,
    /// Measurements until the next attempt to grow.
    pause: u32,
    /// Responses to requests that were sent before the limit was last halved for throttling.
    outdated: usize,
}

/// Parts that ended while others waited.
#[derive(Default)]
struct Sample {
    /// Parts that began under the previous limit and still have to end.
    skipped: usize,
    since: Duration,
    parts: usize,
    bytes: usize,
}

impl FlightLimit {
    /// Starts with the smallest number of parts that `config` has.
    pub(crate) fn new(config: &StoreConfig) -> Self {
        let limit = config.parts_in_flight;
        let state = State {
            limit,
            limit_min: limit,
            limit_max: config.parts_in_flight_max,
            bytes_max: limit.saturating_mul(config.part_bytes),
            excess: 0,
            sample: Sample::default(),
            rate_before: None,
            pause: 0,
            outdated: 0,
        };
        Self { places: Arc::new(Semaphore::new(limit)), wanted: Notify::new(), state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for a free place.
    pub(crate) async fn place(&self) -> Option<PartPlace> {
        let permit = self.places.clone().acquire_owned().await.ok()?;
        Some(PartPlace { permit: Some(permit), state: self.state.clone() })
    }

    /// Waits for a free place like [`place`](Self::place), for the next attempt of a part.
    pub(crate) async fn place_again(&self) -> Option<PartPlace> {
        let place = self.place();
        tokio::pin!(place);
        tokio::select! {
            biased;
            place = &mut place => return place,
            () = std::future::ready(()) => {}
        }
        // In the queue for places by now, so that a place which is returned on this notice goes to it.
        self.wanted.notify_one();
        place.await
    }

    /// Waits until a part that has begun waits for a place, which one that waits for a new part has to return.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Records the end of a part of `bytes` bytes at `now`, and adapts the limit. `is_limiting` is true if another
    /// part waits for a place: otherwise the rate is not the network's.
    pub(crate) fn end(&self, place: Option<PartPlace>, bytes: usize, now: Duration, is_limiting: bool) {
        self.change(|state| state.record(bytes, now, is_limiting));
        drop(place);
    }

    /// Lowers the limit after a response of a server that has too many requests.
    pub(crate) fn throttle(&self) {
        self.change(State::throttle);
    }

    /// True if the limit is lower than without throttling.
    pub(crate) fn is_throttled(&self) -> bool {
        let state = self.state.borrow();
        state.limit < state.limit_min
    }

    /// Changes the limit with `change`, and the number of places with it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.borrow_mut();
        let before = state.limit;
        change(&mut state);
        match state.limit.checked_sub(before) {
            Some(more) => {
                let kept = more.min(state.excess);
                state.excess -= kept;
                self.places.add_permits(more - kept);
            }
            None => {
                let less = before - state.limit;
                // Free places go at once, the others when their parts end.
                state.excess += less - self.places.forget_permits(less);
            }
        }
    }
}

impl State {
    fn record(&mut self, bytes: usize, now: Duration, is_limiting: bool) {
        self.outdated = self.outdated.saturating_sub(1);
        let sample = &mut self.sample;
        if !is_limiting {
            *sample = Sample { skipped: sample.skipped.saturating_sub(1), since: now, ..Sample::default() };
            return;
        }
        if sample.skipped > 0 {
            sample.skipped -= 1;
            sample.since = now;
            return;
        }
        sample.parts += 1;
        sample.bytes += bytes;
        if sample.parts < self.limit || now <= sample.since {
            return;
        }
        let rate = sample.bytes as f64 / (now - sample.since).as_secs_f64();
        let in_flight = self.limit * (sample.bytes / sample.parts);
        *sample = Sample { since: now, ..Sample::default() };
        self.adapt(rate, in_flight);
    }

    /// Changes the limit after a measurement of `rate` bytes per second with `in_flight` bytes in flight.
    fn adapt(&mut self, rate: f64, in_flight: usize) {
        if self.limit < self.limit_min {
            return self.set(self.limit + 1);
        }
        self.pause = self.pause.saturating_sub(1);
        let is_useless = self.rate_before.take().is_some_and(|before| rate < before * GROWTH_MIN);
        if is_useless || in_flight > self.bytes_max {
            self.pause = PAUSE;
            self.set((self.limit / 2).max(self.limit_min));
        } else if self.pause == 0 && self.limit * 2 <= self.limit_max && in_flight * 2 <= self.bytes_max {
            self.rate_before = Some(rate);
            self.set(self.limit * 2);
        }
    }

    /// Halves the limit, once for all requests that were in flight together.
    fn throttle(&mut self) {
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        self.outdated = self.limit - 1;
        (self.rate_before, self.pause) = (None, PAUSE);
        self.sample = Sample { since: self.sample.since, ..Sample::default() };
        self.set((self.limit / 2).max(1));
    }

    fn set(&mut self, limit: usize) {
        self.sample.skipped = self.limit;
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends parts of `bytes` bytes on a network with `latency` that carries at most `bytes_per_s`, and returns the limit
    /// after each measurement.
    fn limits(flight: &FlightLimit, bytes: usize, latency: Duration, bytes_per_s: f64, rounds: usize) -> Vec<usize> {
        let mut now = flight.state.borrow().sample.since;
        let mut limits = Vec::new();
        for _ in 0..rounds {
            let limit = flight.state.borrow().limit;
            // All places are used again and again: one round of parts takes the latency, or the time on the wire.
            now += latency.max(Duration::from_secs_f64((limit * bytes) as f64 / bytes_per_s));
            for _ in 0..limit {
                flight.end(try_place(flight), bytes, now, true);
            }
            limits.push(flight.state.borrow().limit);
        }
        limits
    }

    fn try_place(flight: &FlightLimit) -> Option<PartPlace> {
        let permit = flight.places.clone().try_acquire_owned().ok()?;
        Some(PartPlace { permit: Some(permit), state: flight.state.clone() })
    }

    fn flight() -> FlightLimit {
        let config = StoreConfig { parts_in_flight: 8, parts_in_flight_max: 64, ..StoreConfig::default() };
        FlightLimit::new(&config)
    }

    const LATENCY: Duration = Duration::from_millis(50);

    #[test]
    fn small_parts_at_a_high_latency_are_requested_in_larger_numbers_up_to_the_limit() {
        let flight = flight();
        let limits = limits(&flight, 100 << 10, LATENCY, f64::INFINITY, 20);
        assert_eq!((limits[0], limits.last()), (16, Some(&64)));
        assert_eq!(flight.places.available_permits(), 64);
    }

    #[test]
    fn a_network_that_is_full_has_no_more_requests_than_it_needs() {
        // 16 parts fill it.
        let flight = flight();
        let limits = limits(&flight, 100 << 10, LATENCY, 16.0 * (100 << 10) as f64 / 0.05, 200);
        assert_eq!(limits.iter().max(), Some(&32), "tried");
        let few = limits.iter().filter(|limit| **limit == 16).count();
        assert!(few > 150, "{limits:?}");
        let (free, limit) = (flight.places.available_permits(), flight.state.borrow().limit);
        assert_eq!(free, limit, "no place is lost");
    }

    #[test]
    fn large_parts_and_parts_that_nothing_waits_behind_change_nothing() {
        let large = flight();
        assert!(limits(&large, 8 << 20, LATENCY, f64::INFINITY, 20).iter().all(|limit| *limit == 8));
        let idle = flight();
        for number in 1..100 {
            idle.end(None, 100, LATENCY * number, false);
        }
        assert_eq!(idle.state.borrow().limit, 8);
    }

    #[test]
    fn a_limit_that_grew_for_small_parts_shrinks_for_large_ones() {
        let flight = flight();
        assert_eq!(limits(&flight, 100, LATENCY, f64::INFINITY, 20).last(), Some(&64));
        assert_eq!(limits(&flight, 8 << 20, LATENCY, f64::INFINITY, 20).last(), Some(&8));
        assert_eq!(flight.places.available_permits(), 8);
    }

    #[test]
    fn a_throttling_server_has_half_of_the_requests_and_later_more_again() {
        let flight = flight();
        let limit = || flight.state.borrow().limit;
        // All that were in flight are refused: one event.
        (0..8).for_each(|_| flight.throttle());
        assert_eq!((limit(), flight.places.available_permits()), (4, 4));
        (0..4 + 2 + 1).for_each(|_| flight.throttle());
        assert_eq!((limit(), flight.places.available_permits()), (1, 1));
        assert!(flight.is_throttled());
        flight.throttle();
        assert_eq!(limit(), 1, "at least one");
        let limits = limits(&flight, 8 << 20, LATENCY, f64::INFINITY, 40);
        assert!(limits.is_sorted() && limits.last() == Some(&8), "{limits:?}");
        assert!(!flight.is_throttled());
        assert_eq!(flight.places.available_permits(), 8, "no place is lost");
    }

    #[test]
    fn places_in_use_are_taken_away_when_they_are_free() {
        let flight = flight();
        let places: Vec<_> = (0..8).map(|_| try_place(&flight).expect("free")).collect();
        flight.throttle();
        for (ended, place) in (1usize..).zip(places) {
            flight.end(Some(place), 100, LATENCY, false);
            assert_eq!(flight.places.available_permits(), ended.saturating_sub(4));
        }
    }

    #[test]
    fn parts_that_give_up_their_place_until_the_next_attempt_keep_to_the_lower_limit() {
        let flight = flight();
        let places: Vec<_> = (0..8).map(|_| try_place(&flight).expect("free")).collect();
        flight.throttle();
        // All of them pause, and want their places again.
        drop(places);
        let places: Vec<_> = std::iter::from_fn(|| try_place(&flight)).collect();
        assert_eq!(places.len(), 4);
        for place in places {
            flight.end(Some(place), 100, LATENCY, false);
        }
        assert_eq!(flight.places.available_permits(), 4, "each place is taken away once");
    }
}
