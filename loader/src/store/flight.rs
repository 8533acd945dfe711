//! Number of parts in flight of one fetch thread, which follows from the latency and bandwidth that it finds.
//!
//! A few requests fill a network of low latency. Others need more: 8 objects of 100 KB at a latency of 50 ms are 16 MB/s,
//! and 8 parts of 8 MiB at 150 ms are at most 450 MB/s. The right number of requests depends on the server and the
//! network, so it is doubled as long as the rate of bytes grows with it, and halved again where the rate does not. At times
//! half of it is tried as well, and kept where the rate holds: a rate that has grown by chance does not count forever.
//!
//! At most half of the parts in flight wait for the head of a response. Otherwise all requests of a fast network wait
//! together and then share it, and it is idle for one latency in each round: 64 parts of 8 MiB at a latency of 150 ms
//! were 1.8 GiB/s where twice that was possible.
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
const GROWTH_MIN: f64 = 1.05;

/// Rounds of parts of one measurement, since the first attempt has failed: parts end in clumps.
const ROUNDS: usize = 4;

/// Measurements after a failed attempt until the next one.
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

/// Place of one part that waits for the head of a response; free again when dropped.
pub(crate) struct HeadPlace<'a>(&'a FlightLimit);

/// Limit of the parts in flight.
pub(crate) struct FlightLimit {
    places: Arc<Semaphore>,
    /// Notified when a part that has begun waits for a place.
    wanted: Notify,
    /// Notified when a part no longer waits for its head.
    head_arrived: Notify,
    state: Rc<RefCell<State>>,
}

struct State {
    limit: usize,
    limit_min: usize,
    limit_max: usize,
    /// Places to take away as soon as they are free.
    excess: usize,
    sample: Sample,
    /// Attempt with another limit, until it is measured.
    trial: Option<Trial>,
    /// The next attempt is a smaller limit.
    is_smaller_next: bool,
    /// Measurements until the next attempt.
    pause: u32,
    /// Rounds of parts of the next measurement.
    rounds: usize,
    /// Parts that wait for the head of a response.
    heads: usize,
    /// Responses to requests that were sent before the limit was last halved for throttling.
    outdated: usize,
}

/// Attempt with twice or half the limit.
#[derive(Clone, Copy)]
struct Trial {
    /// Bytes per second with the limit before it.
    rate_before: f64,
    is_smaller: bool,
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
            excess: 0,
            sample: Sample::default(),
            trial: None,
            is_smaller_next: false,
            pause: 0,
            rounds: 1,
            heads: 0,
            outdated: 0,
        };
        Self {
            places: Arc::new(Semaphore::new(limit)),
            wanted: Notify::new(),
            head_arrived: Notify::new(),
            state: Rc::new(RefCell::new(state)),
        }
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

    /// Waits until fewer than half of the parts in flight wait for the head of a response.
    pub(crate) async fn head_place(&self) -> HeadPlace<'_> {
        loop {
            let arrived = self.head_arrived.notified();
            if let Some(place) = self.head_place_now() {
                return place;
            }
            arrived.await;
        }
    }

    fn head_place_now(&self) -> Option<HeadPlace<'_>> {
        let mut state = self.state.borrow_mut();
        let is_free = state.heads < state.limit.div_ceil(2);
        state.heads += usize::from(is_free);
        is_free.then(|| HeadPlace(self))
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

    /// True while the limit is lower than without throttling, and while requests from before the last throttling remain.
    pub(crate) fn is_throttled(&self) -> bool {
        let state = self.state.borrow();
        state.limit < state.limit_min || state.outdated > 0
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
                self.head_arrived.notify_waiters();
            }
            None => {
                let less = before - state.limit;
                // Free places go at once, the others when their parts end.
                state.excess += less - self.places.forget_permits(less);
            }
        }
    }
}

impl Drop for HeadPlace<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().heads -= 1;
        self.0.head_arrived.notify_one();
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
        let rounds = if self.limit < self.limit_min { 1 } else { self.rounds };
        if sample.parts < self.limit * rounds || now <= sample.since {
            return;
        }
        let rate = sample.bytes as f64 / (now - sample.since).as_secs_f64();
        *sample = Sample { since: now, ..Sample::default() };
        self.adapt(rate);
    }

    /// Changes the limit after a measurement of `rate` bytes per second.
    fn adapt(&mut self, rate: f64) {
        if self.limit < self.limit_min {
            return self.set(self.limit + 1);
        }
        self.pause = self.pause.saturating_sub(1);
        match self.trial.take() {
            Some(trial) => self.judge(trial, rate),
            None if self.pause == 0 => self.attempt(rate),
            None => {}
        }
    }

    /// Keeps the limit of an attempt, or returns to the one before.
    fn judge(&mut self, trial: Trial, rate: f64) {
        let (fewer, more) = if trial.is_smaller { (rate, trial.rate_before) } else { (trial.rate_before, rate) };
        let is_kept = (more < fewer * GROWTH_MIN) == trial.is_smaller;
        if is_kept {
            return self.attempt(rate);
        }
        (self.pause, self.rounds) = (PAUSE, ROUNDS);
        self.is_smaller_next = !trial.is_smaller;
        self.set(if trial.is_smaller { self.limit * 2 } else { (self.limit / 2).max(self.limit_min) });
    }

    /// Tries another limit after a measurement of `rate` with this one: in the direction of the last success, or in the
    /// other one after a failure.
    fn attempt(&mut self, rate: f64) {
        let is_possible = |smaller: bool| {
            if smaller { self.limit / 2 >= self.limit_min } else { self.limit * 2 <= self.limit_max }
        };
        let is_smaller = if is_possible(self.is_smaller_next) { self.is_smaller_next } else { !self.is_smaller_next };
        if !is_possible(is_smaller) {
            return;
        }
        self.trial = Some(Trial { rate_before: rate, is_smaller });
        self.set(if is_smaller { self.limit / 2 } else { self.limit * 2 });
    }

    /// Halves the limit, once for all requests that were in flight together.
    fn throttle(&mut self) {
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        self.outdated = self.limit - 1;
        (self.trial, self.pause, self.is_smaller_next) = (None, PAUSE, false);
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
    use std::future::Future as _;
    use std::task::{Context, Waker};

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
    fn a_limit_that_grew_where_nothing_is_gained_shrinks_again() {
        let flight = flight();
        assert_eq!(limits(&flight, 100 << 10, LATENCY, f64::INFINITY, 20).last(), Some(&64));
        // 16 parts fill the network from now on.
        let later = limits(&flight, 100 << 10, LATENCY, 16.0 * (100 << 10) as f64 / 0.05, 600);
        assert_eq!(later.iter().min(), Some(&8), "tried");
        let few = later[300..].iter().filter(|limit| **limit == 16).count();
        assert!(few > 200, "{later:?}");
        let (free, limit) = (flight.places.available_permits(), flight.state.borrow().limit);
        assert_eq!(free, limit, "no place is lost");
    }

    #[test]
    fn large_parts_are_requested_in_larger_numbers_where_the_latency_is_high() {
        // 10 Gbit/s: 7.5 parts fill it at a latency of 50 ms, 22 at 150 ms.
        let most = |latency| limits(&flight(), 8 << 20, latency, 1.25e9, 20).last().copied();
        assert_eq!((most(LATENCY), most(LATENCY * 3)), (Some(8), Some(32)));
    }

    #[test]
    fn parts_that_nothing_waits_behind_change_nothing() {
        let idle = flight();
        for number in 1..100 {
            idle.end(None, 100, LATENCY * number, false);
        }
        assert_eq!(idle.state.borrow().limit, 8);
    }

    #[test]
    fn half_of_the_parts_in_flight_may_wait_for_their_heads() {
        let flight = flight();
        let mut waiting: Vec<_> = std::iter::from_fn(|| flight.head_place_now()).collect();
        assert_eq!(waiting.len(), 4);
        let mut next = std::pin::pin!(flight.head_place());
        let mut poll = || next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!poll());
        drop(waiting.pop());
        assert!(poll(), "a head has arrived");
        (0..7).for_each(|_| flight.throttle());
        drop(waiting);
        assert!(flight.head_place_now().is_some(), "one part may wait where one is in flight");
    }

    #[test]
    fn a_part_that_waits_to_send_its_request_continues_when_the_limit_grows() {
        let flight = flight();
        let _waiting: Vec<_> = std::iter::from_fn(|| flight.head_place_now()).collect();
        let mut next = std::pin::pin!(flight.head_place());
        let mut poll = || next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!poll());
        limits(&flight, 100, LATENCY, f64::INFINITY, 1);
        assert!(poll());
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
        let limits = limits(&flight, 8 << 20, LATENCY, f64::INFINITY, 20);
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
