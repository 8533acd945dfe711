//! Networks and servers in simulated time, for tests of the limit of the parts in flight.
//!
//! Every part that is in flight waits for its slot among the heads, for the head of its response, and for its share of
//! the link. All limits of a simulation share one network.

use super::super::config::StoreConfig;
use super::super::retry::Draws;
use super::{FlightLimit, HeadSlot, PartEnd, PartSlot, tests};
use std::collections::VecDeque;
use std::time::Duration;

/// Network with a server.
#[derive(Clone)]
pub(super) struct Network {
    /// Time to the head of a response, in seconds.
    pub(super) latency_s: f64,
    /// Bytes per second of all connections together.
    pub(super) link: f64,
    /// Most bytes per second of one connection.
    pub(super) per_connection: f64,
    /// Share of the link's rate that each connection above 8 costs all of them.
    pub(super) lost_per_connection: f64,
    /// Requests in flight above which the server refuses more (503).
    pub(super) requests_max: usize,
    /// Times and rates vary by up to this share.
    pub(super) noise: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            latency_s: 0.02,
            link: 1.25e9,
            per_connection: f64::INFINITY,
            lost_per_connection: 0.0,
            requests_max: usize::MAX,
            noise: 0.1,
        }
    }
}

struct Flying<'a> {
    client: usize,
    slot: Option<PartSlot>,
    head: Option<HeadSlot<'a>>,
    bytes: f64,
    begun: f64,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    WaitsToSend,
    /// Time of the request and of the head of its response.
    WaitsForHead(f64, f64),
    /// Bytes that are missing.
    Receives(f64),
}

/// Simulation of clients, each with its limit, on one network.
pub(super) struct Simulation<'a> {
    pub(super) network: Network,
    flights: &'a [FlightLimit],
    pub(super) waiting: Vec<VecDeque<f64>>,
    flying: Vec<Flying<'a>>,
    draws: Draws,
    pub(super) now: f64,
    /// Bytes that each client has received.
    pub(super) received: Vec<f64>,
    pub(super) refused: usize,
}

/// Returns the limits of `count` fetch threads.
pub(super) fn flights(count: usize) -> Vec<FlightLimit> {
    (0..count).map(|_| FlightLimit::new(&StoreConfig::default())).collect()
}

impl<'a> Simulation<'a> {
    pub(super) fn new(flights: &'a [FlightLimit], network: Network) -> Self {
        let n = flights.len();
        Self {
            network,
            flights,
            waiting: vec![VecDeque::new(); n],
            flying: Vec::new(),
            draws: Draws::new(7),
            now: 0.0,
            received: vec![0.0; n],
            refused: 0,
        }
    }

    fn noise(&mut self) -> f64 {
        1.0 - self.network.noise * (self.draws.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn limit(&self, client: usize) -> usize {
        self.flights[client].state.borrow().limit
    }

    /// Adds parts for `client`.
    pub(super) fn add(&mut self, client: usize, parts: usize, bytes: f64) {
        self.waiting[client].extend(std::iter::repeat_n(bytes, parts));
    }

    /// Keeps each client's queue full for `seconds`, and returns the rate of all of them together.
    pub(super) fn saturate(&mut self, seconds: f64, bytes: f64) -> f64 {
        let (end, begun, before) = (self.now + seconds, self.now, self.received.iter().sum::<f64>());
        while self.now < end {
            for client in 0..self.flights.len() {
                if self.waiting[client].len() < 300 {
                    self.add(client, 300, bytes);
                }
            }
            self.step(end);
        }
        (self.received.iter().sum::<f64>() - before) / (self.now - begun)
    }

    /// Runs until nothing is in flight or waits.
    pub(super) fn drain(&mut self) {
        while !self.flying.is_empty() || self.waiting.iter().any(|w| !w.is_empty()) {
            self.step(f64::INFINITY);
        }
    }

    fn begin(&mut self) {
        for client in 0..self.flights.len() {
            while !self.waiting[client].is_empty() {
                let Some(slot) = tests::try_slot(&self.flights[client]) else { break };
                let bytes = self.waiting[client].pop_front().expect("checked");
                self.flying.push(Flying {
                    client,
                    slot: Some(slot),
                    head: None,
                    bytes,
                    begun: self.now,
                    stage: Stage::WaitsToSend,
                });
            }
        }
        for index in 0..self.flying.len() {
            if let Stage::WaitsToSend = self.flying[index].stage
                && let Some(head) = self.flights[self.flying[index].client].head_slot_now()
            {
                let latency = self.network.latency_s * (1.0 + self.network.noise - self.network.noise * self.noise());
                self.flying[index].head = Some(head);
                self.flying[index].stage = Stage::WaitsForHead(self.now, self.now + latency);
            }
        }
    }

    /// Runs until the next event, at most until `end`.
    pub(super) fn step(&mut self, end: f64) {
        self.begin();
        let receiving = self.flying.iter().filter(|f| matches!(f.stage, Stage::Receives(_))).count();
        let n = self.flying.len() as f64;
        let share = (1.0 - self.network.lost_per_connection * (n - 8.0).max(0.0)).max(0.05);
        let rate = (self.network.link * share / receiving.max(1) as f64).min(self.network.per_connection);
        let mut next = end;
        for f in &self.flying {
            next = next.min(match f.stage {
                Stage::WaitsToSend => f64::INFINITY,
                Stage::WaitsForHead(_, arrives) => arrives,
                Stage::Receives(missing) => self.now + missing / rate,
            });
        }
        if next == f64::INFINITY {
            return;
        }
        let passed = next - self.now;
        self.now = next;
        let now = Duration::from_secs_f64(self.now);
        for f in &mut self.flying {
            if let Stage::Receives(missing) = &mut f.stage {
                let got = (rate * passed).min(*missing);
                *missing -= got;
                self.received[f.client] += got;
                self.flights[f.client].arrived(got.round() as usize);
            }
        }
        let mut index = 0;
        while index < self.flying.len() {
            let noise = self.noise();
            let count = self.flying.len();
            let f = &mut self.flying[index];
            match f.stage {
                Stage::WaitsForHead(_, arrives) if arrives <= self.now + 1e-9 && count > self.network.requests_max => {
                    self.refused += 1;
                    let f = self.flying.swap_remove(index);
                    self.flights[f.client].throttle();
                    self.waiting[f.client].push_front(f.bytes);
                    continue;
                }
                Stage::WaitsForHead(sent, arrives) if arrives <= self.now + 1e-9 => {
                    f.head = None;
                    self.flights[f.client].head(Duration::from_secs_f64(self.now - sent));
                    f.stage = Stage::Receives(f.bytes / noise);
                }
                Stage::Receives(missing) if missing <= 1e-3 => {
                    let f = self.flying.swap_remove(index);
                    let is_waiting = !self.waiting[f.client].is_empty();
                    let begun = Duration::from_secs_f64(f.begun);
                    let end = PartEnd { filled: Some(f.bytes as usize), begun, now, is_limiting: is_waiting };
                    self.flights[f.client].end(f.slot, &end);
                    continue;
                }
                _ => {}
            }
            index += 1;
        }
    }
}
