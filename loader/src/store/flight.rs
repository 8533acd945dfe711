//! Number of parts in flight of one fetch thread, which follows from the latency and bandwidth that it finds.
//!
//! A few requests fill a network of low latency. Others need more: 8 objects of 100 KB at a latency of 50 ms are 16 MB/s,
//! and 8 parts of 8 MiB at 150 ms are at most 450 MB/s. A network is full when the bytes in flight are its rate times its
//! latency. So the limit is twice the number of parts that this product has: of the highest rate of the last rounds of
//! parts, and the shortest time to the head of a response. As long as the network is not full, the rate grows with the
//! limit, and the limit grows by half in each round. Afterwards the rate stays, and the limit with it. A rate or a latency that was
//! extreme by chance is forgotten after some rounds. [`Trials`] find out whether more parts than that are a gain.
//!
//! At most three quarters of the parts in flight wait for the head of a response. Otherwise all requests of a fast network
//! wait together and then share it, and it is idle for one latency in each round: 64 parts of 8 MiB at a latency of 150 ms
//! were 1.8 GiB/s where twice that was possible. As long as the network is not full, the rate is that of the parts that
//! wait, so each round multiplies the limit by this share and by [`SURPLUS`]: the product has to be above one.
//!
//! A server that has too many requests (429, 503) halves the limit, down to one. From there it may rise by one part in
//! each round.

use super::config::StoreConfig;
use super::trials::{Round, Trials};
use crate::sync::Arc;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Parts in flight, in multiples of those that fill the network.
const SURPLUS: f64 = 2.0;

/// Returns the number of parts that may wait for their heads, of `limit` parts in flight.
fn heads_max(limit: usize) -> usize {
    (3 * limit).div_ceil(4)
}

/// Rounds of parts whose highest rate counts.
const RATES: usize = 8;

/// Heads whose shortest time counts: these and as many before them.
const HEADS: usize = 256;

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
    /// Bytes per second of the last rounds, the oldest first.
    rates: VecDeque<f64>,
    latency: Latency,
    trials: Trials,
    /// Highest limit since the last throttling.
    ceiling: usize,
    /// Parts that wait for the head of a response.
    heads: usize,
    /// Responses to requests that were sent before the limit was last halved for throttling.
    outdated: usize,
}

/// Shortest time to the head of a response, among the last [`HEADS`] to 2 x [`HEADS`].
#[derive(Default)]
struct Latency {
    now: Option<Duration>,
    before: Option<Duration>,
    heads: usize,
}

impl Latency {
    fn record(&mut self, time: Duration) {
        if self.heads == HEADS {
            *self = Self { now: None, before: self.now, heads: 0 };
        }
        self.heads += 1;
        self.now = Some(self.now.map_or(time, |shortest| shortest.min(time)));
    }

    fn shortest(&self) -> Duration {
        self.now.into_iter().chain(self.before).min().unwrap_or_default()
    }
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
            limit_max: config.parts_in_flight_max.max(limit),
            excess: 0,
            sample: Sample::default(),
            rates: VecDeque::new(),
            latency: Latency::default(),
            trials: Trials::new(limit),
            ceiling: usize::MAX,
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

    /// Waits until fewer parts in flight than [`heads_max`] wait for the head of a response.
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
        let is_free = state.heads < heads_max(state.limit);
        state.heads += usize::from(is_free);
        is_free.then(|| HeadPlace(self))
    }

    /// Records the time from a request to the head of its response.
    pub(crate) fn head(&self, time: Duration) {
        self.state.borrow_mut().latency.record(time);
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
        if sample.parts < self.limit || now <= sample.since {
            return;
        }
        let rate = sample.bytes as f64 / (now - sample.since).as_secs_f64();
        let part_bytes = sample.bytes as f64 / sample.parts as f64;
        *sample = Sample { since: now, ..Sample::default() };
        self.adapt(rate, part_bytes);
    }

    /// Changes the limit after a round of `rate` bytes per second.
    fn adapt(&mut self, rate: f64, part_bytes: f64) {
        if self.rates.len() == RATES {
            self.rates.pop_front();
        }
        let highest_before = self.rates.iter().copied().fold(0.0, f64::max);
        let highest = highest_before.max(rate);
        self.rates.push_back(rate);
        self.ceiling = self.ceiling.saturating_add(1);
        let filling = highest * self.latency.shortest().as_secs_f64() / part_bytes.max(1.0);
        let floor = ((SURPLUS * filling).round() as usize).clamp(self.limit_min, self.limit_max);
        let most = self.limit_max.min(self.ceiling);
        let tried = self.trials.record(&Round { rate, highest_before, limit: self.limit, floor, most });
        let target = floor.max(tried).min(most);
        // A change costs a round that is not measured.
        if target > self.limit || target < self.limit - self.limit / 4 {
            self.set(target);
        }
    }

    /// Halves the limit, once for all requests that were in flight together.
    fn throttle(&mut self) {
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        self.outdated = self.limit - 1;
        self.sample = Sample { since: self.sample.since, ..Sample::default() };
        self.set((self.limit / 2).max(1));
        self.ceiling = self.limit;
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
            // All places are used again and again: one round of parts takes the latency of those that may wait together, as
            // often as it takes until all have waited, or the time on the wire.
            let waits = latency.mul_f64(limit as f64 / heads_max(limit) as f64);
            now += waits.max(Duration::from_secs_f64((limit * bytes) as f64 / bytes_per_s));
            for _ in 0..limit {
                flight.head(latency);
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
        assert_eq!((limits[0], limits.last()), (12, Some(&64)));
        assert_eq!(flight.places.available_permits(), 64);
    }

    #[test]
    fn a_network_that_is_full_has_twice_the_requests_that_fill_it() {
        // 16 parts fill it. Trials of 48 are no gain, and become rare.
        let flight = flight();
        let limits = limits(&flight, 100 << 10, LATENCY, 16.0 * (100 << 10) as f64 / 0.05, 400);
        assert!(limits[8..].iter().all(|limit| [32, 48].contains(limit)), "{limits:?}");
        assert!(limits[300..].iter().filter(|limit| **limit == 48).count() <= 4, "{limits:?}");
        let (free, limit) = (flight.places.available_permits(), flight.state.borrow().limit);
        assert_eq!(free, limit, "no place is lost");
    }

    #[test]
    fn a_limit_that_grew_where_nothing_is_gained_shrinks_again() {
        let flight = flight();
        assert_eq!(limits(&flight, 100 << 10, LATENCY, f64::INFINITY, 20).last(), Some(&64));
        // 10 parts fill the network from now on. Trials of 30 are no gain.
        let later = limits(&flight, 100 << 10, LATENCY, 10.0 * (100 << 10) as f64 / 0.05, 400);
        assert!(later[40..].iter().all(|limit| [20, 30].contains(limit)), "{later:?}");
        let (free, limit) = (flight.places.available_permits(), flight.state.borrow().limit);
        assert_eq!(free, limit, "no place is lost");
    }

    #[test]
    fn a_latency_that_was_short_by_chance_is_forgotten() {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(1));
        (0..2 * HEADS).for_each(|_| latency.record(LATENCY));
        assert_eq!(latency.shortest(), LATENCY);
    }

    /// Ends parts of 8 MiB on a network that carries at most `bytes_per_s`, and at most 90 MB/s over each connection.
    /// Returns the rate, as a share of the network's, in each of `rounds` measured rounds. The rates are up to
    /// `noise` lower than they could be.
    fn shares_of_rate(flight: &FlightLimit, bytes_per_s: f64, noise: f64, rounds: u64) -> Vec<f64> {
        let (mut now, mut shares) = (flight.state.borrow().sample.since, Vec::new());
        let latency = Duration::from_millis(20);
        for round in 0..rounds {
            let limit = flight.state.borrow().limit;
            let part = latency.as_secs_f64() + f64::from(8 << 20) / 90e6;
            let possible = (limit as f64 * f64::from(8 << 20) / part).min(bytes_per_s);
            // A number from 0 to 1 that follows no pattern.
            let lost = noise * (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
            let rate = possible * (1.0 - lost);
            now += Duration::from_secs_f64(limit as f64 * f64::from(8 << 20) / rate);
            for _ in 0..limit {
                flight.head(latency);
                flight.end(try_place(flight), 8 << 20, now, true);
            }
            shares.push(possible / bytes_per_s);
        }
        shares
    }

    #[test]
    fn a_server_that_limits_each_connection_has_as_many_as_fill_the_network() {
        for noise in [0.0, 0.3] {
            for (gigabits, fewest) in [(2.0, 8), (10.0, 16), (25.0, 40)] {
                let flight = flight();
                let shares = shares_of_rate(&flight, gigabits * 1e9 / 8.0, noise, 400);
                let late = &shares[200..];
                let mean = late.iter().sum::<f64>() / late.len() as f64;
                assert!(mean >= 0.93, "{mean} of {gigabits} Gbit/s, with noise of {noise}");
                let limit = flight.state.borrow().limit;
                assert!(
                    (fewest - 4..=3 * fewest).contains(&limit),
                    "{limit} parts for {gigabits} Gbit/s, noise {noise}"
                );
            }
        }
    }

    #[test]
    fn large_parts_are_requested_in_larger_numbers_where_the_latency_is_high() {
        // 10 Gbit/s: 7.5 parts fill it at a latency of 50 ms, 22 at 150 ms. The fewest are those between two trials.
        let most = |latency| limits(&flight(), 8 << 20, latency, 1.25e9, 200)[100..].iter().min().copied();
        let short = Duration::from_micros(200);
        assert_eq!((most(short), most(LATENCY), most(LATENCY * 3)), (Some(8), Some(15), Some(45)));
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
    fn three_quarters_of_the_parts_in_flight_may_wait_for_their_heads() {
        let flight = flight();
        let mut waiting: Vec<_> = std::iter::from_fn(|| flight.head_place_now()).collect();
        assert_eq!(waiting.len(), 6);
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
        let rises = |pair: &[usize]| (pair[0]..=pair[0] + 1).contains(&pair[1]);
        assert!(limits.windows(2).all(rises) && limits.last() > Some(&8), "{limits:?}");
        assert!(!flight.is_throttled());
        assert_eq!(flight.places.available_permits(), limit(), "no place is lost");
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
