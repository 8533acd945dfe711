//! Number of parts in flight of one fetch thread, which follows from the latency and bandwidth that it finds.
//!
//! A few requests fill a network of low latency. Most networks need more: 8 objects of 100 KB at a latency of 50 ms are
//! 16 MB/s, and 8 parts of 8 MiB at 150 ms are at most 450 MB/s. A network is full when the bytes in flight are its
//! rate times its latency. So the limit is twice the number of parts that this product has: of the highest rate of the
//! last rounds of parts, and the shortest time to the head of a response. As long as the network is not full, the rate
//! grows with the limit, and the limit grows by half in each round. Afterwards the rate stays, and the limit with it. A
//! rate or a latency that was extreme by chance is forgotten after some rounds. [`Trials`] find out whether still more
//! parts raise the rate, and whether fewer would lower it: a server that queues requests has a latency that grows with
//! the limit.
//!
//! The rate of a round counts the bytes that arrive in it, the bytes of unfinished parts included: parts often end
//! together, and the bytes of parts that end in a round may have arrived before. Rounds in which no part waited for a
//! slot are not measured, and a round begins with its first part: otherwise the rate would be the rate of the demand.
//!
//! At most three quarters of the parts in flight wait for the head of a response. Otherwise all requests of a fast
//! network wait together and then share it, and it is idle for one latency in each round: 64 parts of 8 MiB at a
//! latency of 150 ms were 1.8 GiB/s where twice that was possible. As long as the network is not full, the rate is the
//! rate of the parts that wait, so each round multiplies the limit by this share and by [`SURPLUS`]: the product has to
//! be above one.
//!
//! A server that has too many requests (429, 503) halves the limit, down to one. From there it may rise by one part in
//! each round, and it returns to its least where the demand is too low for measurements.

use super::config::StoreConfig;
use super::trials::{Round, Trials};
use forebay_core::sync::Arc;
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

/// Rounds of parts. Their highest rate counts.
const RATES: usize = 8;

/// Heads. Their shortest time counts: these and as many before them.
const HEADS: usize = 256;

/// Slot of one part in flight; free again when dropped, unless the limit has become lower.
pub(crate) struct PartSlot {
    /// `None` only while it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    state: Rc<RefCell<FlightState>>,
}

impl Drop for PartSlot {
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

/// Slot of one part that waits for the head of a response; free again when dropped.
pub(crate) struct HeadSlot<'a>(&'a FlightLimit);

/// End of a part.
pub(crate) struct PartEnd {
    /// Bytes of the part; `None` if it failed or was cancelled.
    pub(crate) filled: Option<usize>,
    pub(crate) begun: Duration,
    pub(crate) now: Duration,
    /// A further part waits for a slot: otherwise the rate is not the network's.
    pub(crate) is_limiting: bool,
}

/// Limit of the parts in flight.
pub(crate) struct FlightLimit {
    slots: Arc<Semaphore>,
    /// Notified when a part that has begun waits for a slot.
    wanted: Notify,
    /// Notified when a part no longer waits for its head.
    head_arrived: Notify,
    state: Rc<RefCell<FlightState>>,
}

struct FlightState {
    limit: usize,
    limit_min: usize,
    limit_max: usize,
    /// Slots to take away as soon as they are free.
    excess: usize,
    sample: Sample,
    /// Bytes of all parts, those in flight included.
    arrived: u64,
    /// Bytes per second of the last rounds, the oldest first.
    rates: VecDeque<f64>,
    latency: Latency,
    trials: Trials,
    /// Highest limit since the last throttling.
    ceiling: usize,
    /// Parts under this limit that were filled since the ceiling last rose.
    filled: usize,
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

/// Parts that ended while further parts waited.
#[derive(Default)]
struct Sample {
    /// Parts that began under the previous limit and still have to end.
    skipped: usize,
    since: Duration,
    /// Bytes that had arrived by then.
    arrived: u64,
    /// Time when the first of the parts began.
    begun: Option<Duration>,
    parts: usize,
    bytes: usize,
}

impl FlightLimit {
    /// Starts with the smallest number of parts that `config` has.
    pub(crate) fn new(config: &StoreConfig) -> Self {
        let limit = config.parts_in_flight;
        let state = FlightState {
            limit,
            limit_min: limit,
            limit_max: config.parts_in_flight_max.max(limit),
            excess: 0,
            sample: Sample::default(),
            arrived: 0,
            rates: VecDeque::new(),
            latency: Latency::default(),
            trials: Trials::new(limit),
            ceiling: usize::MAX,
            filled: 0,
            heads: 0,
            outdated: 0,
        };
        Self {
            slots: Arc::new(Semaphore::new(limit)),
            wanted: Notify::new(),
            head_arrived: Notify::new(),
            state: Rc::new(RefCell::new(state)),
        }
    }

    /// Waits for a free slot.
    pub(crate) async fn slot(&self) -> Option<PartSlot> {
        let permit = self.slots.clone().acquire_owned().await.ok()?;
        Some(PartSlot { permit: Some(permit), state: self.state.clone() })
    }

    /// Waits for a free slot like [`slot`](Self::slot), for the next attempt of a part.
    pub(crate) async fn slot_again(&self) -> Option<PartSlot> {
        let slot = self.slot();
        tokio::pin!(slot);
        tokio::select! {
            biased;
            slot = &mut slot => return slot,
            () = std::future::ready(()) => {}
        }
        // In the queue for slots by now, so that a slot that is returned on this notice goes to it.
        self.wanted.notify_one();
        slot.await
    }

    /// Waits until a part that has begun waits for a slot, which a waiter for a new part has to return.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until fewer parts in flight than [`heads_max`] wait for the head of a response.
    pub(crate) async fn head_slot(&self) -> HeadSlot<'_> {
        loop {
            let arrived = self.head_arrived.notified();
            if let Some(slot) = self.head_slot_now() {
                return slot;
            }
            arrived.await;
        }
    }

    fn head_slot_now(&self) -> Option<HeadSlot<'_>> {
        let mut state = self.state.borrow_mut();
        let is_free = state.heads < heads_max(state.limit);
        state.heads += usize::from(is_free);
        is_free.then(|| HeadSlot(self))
    }

    /// Records the time from a request to the head of its response.
    pub(crate) fn head(&self, time: Duration) {
        self.state.borrow_mut().latency.record(time);
    }

    /// Records that `bytes` bytes of a part have arrived.
    pub(crate) fn arrived(&self, bytes: usize) {
        self.state.borrow_mut().arrived += bytes as u64;
    }

    /// Records the end of a part, and adapts the limit.
    pub(crate) fn end(&self, slot: Option<PartSlot>, end: &PartEnd) {
        self.change(|state| state.record(end));
        drop(slot);
    }

    /// Lowers the limit after a response of a server that has too many requests.
    pub(crate) fn throttle(&self) {
        self.change(FlightState::throttle);
    }

    /// True while the limit is lower than without throttling, and while requests from before the last throttling
    /// remain.
    pub(crate) fn is_throttled(&self) -> bool {
        let state = self.state.borrow();
        state.limit < state.limit_min || state.outdated > 0
    }

    /// Changes the limit with `change`, and the number of slots with it.
    fn change(&self, change: impl FnOnce(&mut FlightState)) {
        let mut state = self.state.borrow_mut();
        let before = state.limit;
        change(&mut state);
        match state.limit.checked_sub(before) {
            Some(more) => {
                let kept = more.min(state.excess);
                state.excess -= kept;
                self.slots.add_permits(more - kept);
                self.head_arrived.notify_waiters();
            }
            None => {
                let less = before - state.limit;
                // Free slots go at once, used slots when their parts end.
                state.excess += less - self.slots.forget_permits(less);
            }
        }
    }
}

impl Drop for HeadSlot<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().heads -= 1;
        self.0.head_arrived.notify_one();
    }
}

impl FlightState {
    fn record(&mut self, end: &PartEnd) {
        self.outdated = self.outdated.saturating_sub(1);
        let sample = &mut self.sample;
        if end.filled.is_some() && sample.skipped == 0 {
            self.filled += 1;
            if self.filled >= self.limit {
                (self.filled, self.ceiling) = (0, self.ceiling.saturating_add(1));
            }
        }
        if !end.is_limiting {
            let skipped = sample.skipped.saturating_sub(1);
            *sample = Sample { skipped, since: end.now, arrived: self.arrived, ..Sample::default() };
            if self.limit < self.limit_min.min(self.ceiling) {
                self.set(self.limit + 1);
            }
            return;
        }
        if sample.skipped > 0 {
            sample.skipped -= 1;
            (sample.since, sample.arrived) = (end.now, self.arrived);
            return;
        }
        let Some(bytes) = end.filled else { return };
        sample.begun = Some(sample.begun.map_or(end.begun, |begun| begun.min(end.begun)));
        sample.parts += 1;
        sample.bytes += bytes;
        // Before the first part began, there was no demand.
        let since = sample.since.max(sample.begun.unwrap_or_default());
        if sample.parts < self.limit || end.now <= since {
            return;
        }
        let rate = (self.arrived - sample.arrived) as f64 / (end.now - since).as_secs_f64();
        let part_bytes = sample.bytes as f64 / sample.parts as f64;
        *sample = Sample { since: end.now, arrived: self.arrived, ..Sample::default() };
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
        let filling = highest * self.latency.shortest().as_secs_f64() / part_bytes.max(1.0);
        let round = Round {
            rate,
            highest_before,
            limit: self.limit,
            filling: (SURPLUS * filling).round() as usize,
            least: self.limit_min,
            most: self.limit_max.min(self.ceiling),
        };
        let target = self.trials.record(&round).min(round.most);
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
        self.set((self.limit / 2).max(1));
        self.ceiling = self.limit;
    }

    fn set(&mut self, limit: usize) {
        let Sample { since, arrived, .. } = self.sample;
        self.sample = Sample { skipped: self.limit, since, arrived, ..Sample::default() };
        (self.limit, self.filled) = (limit, 0);
    }
}

#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
