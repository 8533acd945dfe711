//! Limits on simple networks.

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
        // All slots are used again and again: one round of parts takes the latency of the parts that may wait together,
        // as often as it takes until all have waited, or the time on the wire.
        let waits = latency.mul_f64(limit as f64 / heads_max(limit) as f64);
        now += waits.max(Duration::from_secs_f64((limit * bytes) as f64 / bytes_per_s));
        for _ in 0..limit {
            flight.head(latency);
            end(flight, bytes, now);
        }
        limits.push(flight.state.borrow().limit);
    }
    limits
}

pub(super) fn try_slot(flight: &FlightLimit) -> Option<PartSlot> {
    let permit = flight.slots.clone().try_acquire_owned().ok()?;
    Some(PartSlot { permit: Some(permit), state: flight.state.clone() })
}

fn end(flight: &FlightLimit, bytes: usize, now: Duration) {
    flight.arrived(bytes);
    flight.end(try_slot(flight), &PartEnd { filled: Some(bytes), begun: Duration::ZERO, now, is_limiting: true });
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
    assert_eq!(flight.slots.available_permits(), 64);
}

#[test]
fn a_network_that_is_full_has_twice_the_requests_that_fill_it() {
    // 16 parts fill it. Trials of 48 are no gain, and become rare.
    let flight = flight();
    let limits = limits(&flight, 100 << 10, LATENCY, 16.0 * (100 << 10) as f64 / 0.05, 400);
    assert!(limits[8..].iter().all(|limit| [32, 48].contains(limit)), "{limits:?}");
    assert!(limits[300..].iter().filter(|limit| **limit == 48).count() <= 4, "{limits:?}");
    let (free, limit) = (flight.slots.available_permits(), flight.state.borrow().limit);
    assert_eq!(free, limit, "no slot is lost");
}

#[test]
fn a_limit_that_grew_where_nothing_is_gained_shrinks_again() {
    let flight = flight();
    assert_eq!(limits(&flight, 100 << 10, LATENCY, f64::INFINITY, 20).last(), Some(&64));
    // 10 parts fill the network from now on. Trials of 30 are no gain.
    let later = limits(&flight, 100 << 10, LATENCY, 10.0 * (100 << 10) as f64 / 0.05, 400);
    assert!(later[40..].iter().all(|limit| [20, 30].contains(limit)), "{later:?}");
    let (free, limit) = (flight.slots.available_permits(), flight.state.borrow().limit);
    assert_eq!(free, limit, "no slot is lost");
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
            end(flight, 8 << 20, now);
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
            assert!((fewest - 4..=3 * fewest).contains(&limit), "{limit} parts for {gigabits} Gbit/s, noise {noise}");
        }
    }
}

#[test]
fn large_parts_are_requested_in_larger_numbers_where_the_latency_is_high() {
    // 10 Gbit/s: 7.5 parts fill it at a latency of 50 ms, 22 at 150 ms. The fewest are those between two trials.
    let most = |latency| limits(&flight(), 8 << 20, latency, 1.25e9, 200)[100..].iter().min().copied();
    let short = Duration::from_micros(200);
    assert_eq!((most(short), most(LATENCY), most(LATENCY * 3)), (Some(8), Some(15), Some(41)));
}

#[test]
fn parts_that_nothing_waits_behind_change_nothing() {
    let idle = flight();
    for number in 1..100 {
        idle.end(
            None,
            &PartEnd { filled: Some(100), begun: Duration::ZERO, now: LATENCY * number, is_limiting: false },
        );
    }
    assert_eq!(idle.state.borrow().limit, 8);
}

#[test]
fn three_quarters_of_the_parts_in_flight_may_wait_for_their_heads() {
    let flight = flight();
    let mut waiting: Vec<_> = std::iter::from_fn(|| flight.head_slot_now()).collect();
    assert_eq!(waiting.len(), 6);
    let mut next = std::pin::pin!(flight.head_slot());
    let mut poll = || next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!poll());
    drop(waiting.pop());
    assert!(poll(), "a head has arrived");
    (0..7).for_each(|_| flight.throttle());
    drop(waiting);
    assert!(flight.head_slot_now().is_some(), "one part may wait where one is in flight");
}

#[test]
fn a_part_that_waits_to_send_its_request_continues_when_the_limit_grows() {
    let flight = flight();
    let _waiting: Vec<_> = std::iter::from_fn(|| flight.head_slot_now()).collect();
    let mut next = std::pin::pin!(flight.head_slot());
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
    assert_eq!((limit(), flight.slots.available_permits()), (4, 4));
    (0..4 + 2 + 1).for_each(|_| flight.throttle());
    assert_eq!((limit(), flight.slots.available_permits()), (1, 1));
    assert!(flight.is_throttled());
    flight.throttle();
    assert_eq!(limit(), 1, "at least one");
    let limits = limits(&flight, 8 << 20, LATENCY, f64::INFINITY, 20);
    let rises = |pair: &[usize]| (pair[0]..=pair[0] + 1).contains(&pair[1]);
    assert!(limits.windows(2).all(rises) && limits.last() > Some(&8), "{limits:?}");
    assert!(!flight.is_throttled());
    assert_eq!(flight.slots.available_permits(), limit(), "no slot is lost");
}

#[test]
fn slots_in_use_are_taken_away_when_they_are_free() {
    let flight = flight();
    let slots: Vec<_> = (0..8).map(|_| try_slot(&flight).expect("free")).collect();
    flight.throttle();
    for (ended, slot) in (1usize..).zip(slots) {
        flight.end(Some(slot), &PartEnd { filled: Some(100), begun: Duration::ZERO, now: LATENCY, is_limiting: false });
        assert_eq!(flight.slots.available_permits(), ended.saturating_sub(4));
    }
}

#[test]
fn parts_that_give_up_their_slot_until_the_next_attempt_keep_to_the_lower_limit() {
    let flight = flight();
    let slots: Vec<_> = (0..8).map(|_| try_slot(&flight).expect("free")).collect();
    flight.throttle();
    // All of them pause, and want their slots again.
    drop(slots);
    let slots: Vec<_> = std::iter::from_fn(|| try_slot(&flight)).collect();
    assert_eq!(slots.len(), 4);
    for slot in slots {
        flight.end(Some(slot), &PartEnd { filled: Some(100), begun: Duration::ZERO, now: LATENCY, is_limiting: false });
    }
    assert_eq!(flight.slots.available_permits(), 4, "each slot is taken away once");
}
