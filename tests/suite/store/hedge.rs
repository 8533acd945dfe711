//! Second requests for late parts, on a manual clock.

use crate::rig::{Rig, config, content};
use forebay_loader::store::{FetchRequest, FetchTicket, Remote, StoreConfig};
use forebay_tests::server::{Fault, Options, Rule, Seen};
use std::time::Duration;

/// Time after which a part is late, if its peers took none.
const LATE: Duration = Duration::from_millis(500);

/// Rig with a fetch thread that has received `parts` parts of 100 bytes, which took no time.
fn warm(parts: usize) -> Rig {
    let rig = Rig::with(Options::default(), StoreConfig { fetch_threads: 1, ..config() });
    rig.put_and_fetch(parts * 100).expect("fetched");
    rig.server.put("late", content(100)).expect("memory");
    rig
}

/// Requests an object of one part, waits until the server has sent 40 bytes and stalls, and makes the part late.
fn late(rig: &Rig) -> FetchTicket {
    late_from(rig, &rig.remote())
}

fn late_from(rig: &Rig, remote: &Remote) -> FetchTicket {
    let ticket = remote.fetch(FetchRequest::new("late", 100)).expect("queued");
    rig.server.stalled(1);
    while ticket.progress().bytes < 40 {
        std::thread::yield_now();
    }
    rig.clock.advance(LATE);
    ticket
}

/// Requests for the late part.
fn seen(rig: &Rig) -> Vec<Seen> {
    rig.server.seen().into_iter().filter(|seen| seen.path == "/late").collect()
}

#[test]
fn the_missing_bytes_of_a_stalled_part_are_requested_again_and_the_second_response_wins() {
    let rig = warm(40);
    rig.server.script(Rule::once("late", Fault::StallAfter(40)));
    let before = rig.count("store_bytes");
    assert_eq!(*late(&rig).wait().expect("fetched"), *content(100));
    assert_eq!((rig.count("store_hedges"), rig.count("store_hedge_bytes")), (1, 60));
    assert_eq!((rig.count("store_retries"), rig.count("store_bytes") - before), (0, 100));
    let seen = seen(&rig);
    assert_eq!(seen[1].range.as_deref(), Some("bytes=40-99"));
    assert!(seen[1].if_match.is_some(), "only of the same version");
    assert_eq!(rig.clock.now(), LATE);
    // The connection that stalls is not used again, and the rest are.
    let connections = rig.server.counters().connections;
    rig.put_and_fetch(100).expect("fetched");
    assert_eq!(rig.server.counters().connections, connections);
}

#[test]
fn a_part_is_not_requested_again_before_it_is_late() {
    let rig = warm(40);
    rig.server.script(Rule::once("late", Fault::StallAfter(40)));
    let ticket = rig.remote().fetch(FetchRequest::new("late", 100)).expect("queued");
    rig.server.stalled(1);
    rig.clock.advance(LATE - Duration::from_nanos(1));
    rig.server.release();
    ticket.wait().expect("fetched");
    assert_eq!(rig.count("store_hedges"), 0);
}

#[test]
fn no_bytes_are_requested_twice_beyond_the_budget_or_from_a_server_without_ranges() {
    for has_ranges in [true, false] {
        let rig = warm(if has_ranges { 11 } else { 40 });
        let remote = rig.remote();
        if !has_ranges {
            // Responses to its parts show that.
            rig.server.script(Rule::always("shard", Fault::IgnoreRange).times(3));
            remote.fetch(FetchRequest::new("shard", 4000)).expect("queued").wait().expect("fetched");
        }
        rig.server.script(Rule::once("late", Fault::StallAfter(40)));
        let ticket = late_from(&rig, &remote);
        while rig.count("store_retries") == 0 {
            rig.clock.advance(Duration::from_secs(61));
            std::thread::yield_now();
        }
        assert_eq!(*ticket.wait().expect("resumed"), *content(100));
        assert_eq!(rig.count("store_hedges"), 0, "ranges: {has_ranges}");
    }
}

#[test]
fn the_first_response_wins_if_the_second_is_a_different_version() {
    let rig = warm(40);
    rig.server.script(Rule::once("late", Fault::StallAfter(40)));
    rig.server.script(Rule::once("late", Fault::OtherETag));
    let ticket = late(&rig);
    while seen(&rig).last().is_none_or(|seen| seen.status != 412) {
        std::thread::yield_now();
    }
    rig.server.release();
    assert_eq!(*ticket.wait().expect("fetched"), *content(100));
    assert_eq!((rig.count("store_hedges"), rig.count("store_hedge_bytes"), rig.count("store_retries")), (1, 0, 0));
}

#[test]
fn the_second_response_wins_if_the_first_fails_meanwhile() {
    let rig = warm(40);
    rig.server.script(Rule::once("late", Fault::StallAfter(40)));
    rig.server.script(Rule::once("late", Fault::StallAfter(30)));
    let ticket = late(&rig);
    rig.server.stalled(2);
    while rig.count("store_hedge_bytes") < 30 {
        std::thread::yield_now();
    }
    // The minute of the first response is over, and the minute of the second is not.
    rig.clock.advance(Duration::from_secs(60) - LATE);
    rig.server.release();
    assert_eq!(*ticket.wait().expect("fetched"), *content(100));
    assert_eq!(rig.count("store_retries"), 0);
}
