//! Limits on simulated networks: the rates that they reach, and that they neither grow nor shrink for the wrong reason.

use super::simulation::{Network, Simulation, flights};
use super::*;

const PART_BYTES: f64 = (8 << 20) as f64;
const SMALL_BYTES: f64 = 100e3;

/// Rate of each of S3's connections.
const S3: f64 = 90e6;

/// Returns the rates and the limits of one thread in `spans` spans of 3 seconds.
fn run(simulation: &mut Simulation<'_>, bytes: f64, spans: usize) -> Vec<(f64, usize)> {
    let span = |_| (simulation.saturate(3.0, bytes) / simulation.network.link, simulation.limit(0));
    (0..spans).map(span).collect()
}

#[test]
fn a_link_is_full_at_any_latency_and_variation_and_with_limited_connections() {
    for (latency_s, per_connection) in [(0.001, f64::INFINITY), (0.02, S3), (0.15, f64::INFINITY), (0.15, S3)] {
        for noise in [0.1, 0.5] {
            let flights = flights(1);
            let network = Network { latency_s, per_connection, noise, ..Network::default() };
            let seen = run(&mut Simulation::new(&flights, network), PART_BYTES, 10);
            assert!(seen[2..].iter().all(|(rate, _)| *rate > 0.9), "{latency_s} s, noise {noise}: {seen:?}");
        }
    }
}

#[test]
fn no_round_has_a_higher_rate_than_the_link() {
    for latency_s in [0.02, 0.15] {
        let flights = flights(1);
        let network = Network { latency_s, per_connection: S3, ..Network::default() };
        let mut simulation = Simulation::new(&flights, network);
        for _ in 0..100 {
            simulation.saturate(0.1, PART_BYTES);
            let highest = flights[0].state.borrow().rates.iter().copied().fold(0.0, f64::max);
            assert!(highest <= 1.01 * simulation.network.link, "{highest} at {latency_s} s");
        }
    }
}

#[test]
fn a_server_that_slows_with_more_requests_has_few() {
    let network = Network { lost_per_connection: 0.02, ..Network::default() };
    for (bytes, least) in [(PART_BYTES, 0.95), (SMALL_BYTES, 0.11)] {
        let flights = flights(1);
        let seen = run(&mut Simulation::new(&flights, network.clone()), bytes, 10);
        assert!(seen[3..].iter().all(|(rate, _)| *rate > least), "{bytes}: {seen:?}");
    }
}

#[test]
fn a_link_that_becomes_slow_or_fast_in_the_middle_has_fewer_or_more_requests() {
    let (fast, slow) = (12.5e9, 0.125e9);
    let flights = flights(1);
    let mut simulation = Simulation::new(&flights, Network { link: fast, per_connection: S3, ..Network::default() });
    let widest = 0.97 * 128.0 * S3 / fast;
    for _ in 0..2 {
        simulation.network.link = fast;
        let seen = run(&mut simulation, PART_BYTES, 20);
        assert!(seen[18].0 > 0.75 * widest && seen[18].1 >= 86, "{seen:?}");
        simulation.network.link = slow;
        let seen = run(&mut simulation, PART_BYTES, 60);
        assert!(seen.iter().all(|(rate, _)| *rate > 0.95), "{seen:?}");
        assert!(seen[50..].iter().all(|(_, limit)| *limit <= 12), "{seen:?}");
    }
}

#[test]
fn the_time_without_demand_is_not_part_of_a_rate() {
    // Bursts of two rounds and long pauses; one of the rounds is measured. A latency of 150 ms needs more than 8 parts.
    let flights = flights(1);
    let mut simulation = Simulation::new(&flights, Network { latency_s: 0.15, ..Network::default() });
    for _ in 0..20 {
        simulation.now += 60.0;
        simulation.add(0, 2 * simulation.limit(0) + 1, PART_BYTES);
        simulation.drain();
        let rates = &flights[0].state.borrow().rates;
        assert!(rates.iter().all(|rate| *rate > 0.1 * simulation.network.link), "{rates:?}");
    }
    assert!(simulation.limit(0) >= 27, "{}", simulation.limit(0));
}

#[test]
fn demand_that_stops_within_a_trial_leaves_a_limit_that_recovers() {
    let flights = flights(1);
    let mut simulation = Simulation::new(&flights, Network::default());
    for pause in 0..50 {
        simulation.saturate(0.1 + 0.03 * f64::from(pause), PART_BYTES);
        simulation.waiting[0].clear();
        simulation.drain();
        assert!(simulation.limit(0) <= 18, "{}", simulation.limit(0));
        simulation.now += 5.0;
    }
}

#[test]
fn a_server_that_refuses_requests_above_a_number_has_almost_as_many() {
    // 20 requests are 1.8 GB/s.
    let flights = flights(1);
    let network = Network { requests_max: 20, per_connection: S3, link: 20.0 * S3, ..Network::default() };
    let mut simulation = Simulation::new(&flights, network);
    let seen = run(&mut simulation, PART_BYTES, 20);
    let mean = seen[5..].iter().map(|(rate, _)| rate).sum::<f64>() / 15.0;
    assert!(mean > 0.6, "{mean}: {seen:?}");
    let refused = simulation.refused as f64 * PART_BYTES / simulation.received[0];
    assert!(refused < 0.02, "{refused}");
}

#[test]
fn a_limit_that_was_lowered_for_throttling_returns_without_a_demand_for_more() {
    let flights = flights(1);
    (0..100).for_each(|_| flights[0].throttle());
    let mut simulation = Simulation::new(&flights, Network::default());
    assert_eq!(simulation.limit(0), 1);
    for _ in 0..30 {
        // Shards of 8 parts, with pauses.
        simulation.add(0, 8, PART_BYTES);
        simulation.drain();
        simulation.now += 5.0;
    }
    assert_eq!(simulation.limit(0), 8);
    assert!(!flights[0].is_throttled());
}

#[test]
fn parts_that_fail_do_not_raise_the_limit() {
    let flights = flights(1);
    Simulation::new(&flights, Network::default()).saturate(1.0, PART_BYTES);
    let limit = || flights[0].state.borrow().limit;
    let (before, now) = (limit(), Duration::from_secs(10));
    for number in 0..1000 {
        let (begun, now) = (now, now + Duration::from_millis(number));
        flights[0].end(None, &PartEnd { filled: None, begun, now, is_limiting: true });
    }
    assert_eq!(limit(), before);
}
