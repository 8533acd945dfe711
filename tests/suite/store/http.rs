//! Plain HTTP: good, bad and missing responses.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, StoreConfig};
use forebay_tests::server::{Fault, ObjectServer, Options, Rule};
use std::time::Duration;

#[test]
fn an_object_is_fetched_in_ranges_that_cover_it_once() {
    let rig = Rig::new();
    rig.put_and_fetch(1050).expect("fetched");
    let counters = rig.server.counters();
    assert_eq!((counters.gets, counters.bytes), (11, 1050), "each byte once");
    assert_eq!(rig.count("store_requests"), 11);
    assert_eq!(rig.count("store_bytes"), 1050);
    assert!(counters.connections <= 8, "at most one connection per worker, {} were opened", counters.connections);
}

#[test]
fn an_object_of_one_part_is_one_plain_request() {
    let rig = Rig::new();
    rig.put_and_fetch(100).expect("fetched");
    let seen = rig.server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].range.as_deref(), seen[0].status), (None, 200));
}

#[test]
fn an_empty_object_needs_no_request() {
    let rig = Rig::new();
    rig.put_and_fetch(0).expect("fetched");
    assert_eq!(rig.server.counters().requests, 0);
}

#[test]
fn connections_are_kept_between_requests() {
    let config = StoreConfig { fetch_threads: 1, parts_in_flight: 1, ..config() };
    let rig = Rig::with(Options::default(), config);
    rig.put_and_fetch(1000).expect("fetched");
    rig.put_and_fetch(1000).expect("fetched");
    assert_eq!((rig.server.counters().connections, rig.server.counters().requests), (1, 20));
}

#[test]
fn a_body_that_ends_early_is_resumed_at_the_missing_byte() {
    let rig = Rig::new();
    rig.server.script(Rule::once("shard", Fault::CutAfter(30)));
    rig.put_and_fetch(100).expect("fetched");
    let seen = rig.server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].range.as_deref(), Some("bytes=30-99"));
    assert!(seen[1].if_match.is_some(), "only the same version is resumed");
    assert_eq!(rig.server.counters().bytes, 100, "no byte was sent twice");
    assert_eq!(rig.count("store_retries"), 1);
}

#[test]
fn attempts_are_counted_in_total_and_the_error_names_everything() {
    let rig = Rig::new();
    rig.server.script(Rule::always("shard", Fault::CutAfter(10)));
    let error = rig.put_and_fetch(100).expect_err("never whole");
    assert_eq!(error.kind(), ErrorKind::Network);
    let text = error.to_string();
    for fact in ["range 30..100", "attempt 3 of 3", "key shard", &rig.server.url()] {
        assert!(text.contains(fact), "{fact} in {text}");
    }
    assert_eq!(rig.server.counters().gets, 3);
}

#[test]
fn requests_to_busy_servers_are_retried_after_the_requested_pause() {
    for status in [429, 500, 502, 503] {
        let rig = Rig::new();
        rig.server.script(Rule::once("shard", Fault::Status(status, Some(7))));
        rig.put_and_fetch(100).expect("second attempt");
        assert!(rig.clock.now() >= Duration::from_secs(7), "{status}: waited {:?}", rig.clock.now());
    }
}

#[test]
fn a_fetch_that_waits_for_its_next_attempt_lets_the_rest_pass() {
    let config = StoreConfig { fetch_threads: 1, parts_in_flight: 1, ..config() };
    let rig = Rig::with(Options::default(), config);
    for key in ["a", "b"] {
        rig.server.put(key, content(100)).expect("memory");
    }
    rig.server.script(Rule::once("a", Fault::StallAfter(40)));
    let remote = rig.remote();
    let fetch = |key: &str| remote.fetch(FetchRequest::new(key, 100)).expect("queued");
    let first = fetch("a");
    rig.server.stalled(1);
    // Both wait for the only slot when the first attempt ends.
    let second = fetch("b");
    while rig.count("store_retries") == 0 {
        rig.clock.advance(Duration::from_secs(61));
        std::thread::yield_now();
    }
    assert_eq!(*first.wait().expect("resumed"), *content(100));
    assert_eq!(*second.wait().expect("fetched"), *content(100));
    let paths: Vec<_> = rig.server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/a", "/b", "/a"]);
}

#[test]
fn an_idle_thread_keeps_no_slot_from_a_fetch_that_is_tried_again() {
    let config = StoreConfig { fetch_threads: 1, parts_in_flight: 1, ..config() };
    let rig = Rig::with(Options::default(), config);
    rig.server.script(Rule::once("shard", Fault::Status(500, None)));
    rig.put_and_fetch(100).expect("second attempt");
}

#[test]
fn rejections_are_final_and_of_their_kind() {
    for (status, kind) in [
        (400, ErrorKind::Config),
        (401, ErrorKind::Permission),
        (403, ErrorKind::Permission),
        (404, ErrorKind::NotFound),
        (412, ErrorKind::Stale),
        (416, ErrorKind::Checksum),
    ] {
        let rig = Rig::new();
        rig.server.script(Rule::always("shard", Fault::Status(status, None)));
        let error = rig.put_and_fetch(100).expect_err("rejected");
        assert_eq!(error.kind(), kind, "{status}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(rig.server.counters().requests, 1, "{status} is not tried again");
    }
}

#[test]
fn an_object_of_the_wrong_size_is_an_error_before_any_byte_is_used() {
    let rig = Rig::new();
    rig.server.put("shard", content(250)).expect("memory");
    for len in [100, 249, 251, 500] {
        let error = rig.remote().fetch(FetchRequest::new("shard", len)).expect("queued").wait().expect_err("size");
        assert_eq!(error.kind(), ErrorKind::Checksum, "{len}: {error}");
    }
    assert_eq!(rig.count("store_bytes"), 0);
}

#[test]
fn an_object_that_changes_between_two_ranges_is_stale() {
    let rig = Rig::with(Options::default(), StoreConfig { fetch_threads: 1, parts_in_flight: 1, ..config() });
    rig.server.script(Rule::once("shard", Fault::OtherETag).after(1));
    let error = rig.put_and_fetch(300).expect_err("changed");
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    assert_eq!(rig.server.seen()[1].status, 412, "the same version was requested");
}

#[test]
fn contradictory_responses_are_rejected() {
    for fault in [Fault::ShiftContentRange(5), Fault::NoContentRange, Fault::ExcessLength(7), Fault::NoVersion] {
        let rig = Rig::with(Options::default(), StoreConfig { fetch_threads: 1, parts_in_flight: 1, ..config() });
        rig.server.script(Rule::once("shard", fault.clone()).after(1));
        rig.put_and_fetch(300).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        assert_eq!(rig.count("store_retries"), 1, "{fault:?}");
    }
}

#[test]
fn a_range_may_arrive_in_several_responses() {
    let rig = Rig::new();
    rig.server.script(Rule::always("shard", Fault::Shorten(33)));
    rig.put_and_fetch(200).expect("fetched");
    assert_eq!((rig.server.counters().gets, rig.count("store_retries")), (8, 0));
}

#[test]
fn whole_objects_are_requested_from_a_server_without_ranges() {
    let rig = Rig::new();
    rig.server.script(Rule::always("", Fault::IgnoreRange));
    let remote = rig.remote();
    rig.server.put("a", content(450)).expect("memory");
    let fetch = || remote.fetch(FetchRequest::new("a", 450)).expect("queued").wait().expect("fetched");
    assert_eq!(*fetch(), *content(450));
    let before = rig.server.counters().gets;
    assert_eq!(*fetch(), *content(450));
    assert_eq!(rig.server.counters().gets, before + 1);
}

#[test]
fn a_body_in_chunks_is_read_to_its_end() {
    let rig = Rig::new();
    rig.server.script(Rule::always("shard", Fault::Chunked));
    rig.put_and_fetch(100).expect("fetched");
    rig.put_and_fetch(350).expect("fetched");
}

#[test]
fn a_body_without_a_length_has_to_end_after_the_expected_bytes() {
    let rig = Rig::new();
    rig.server.script(Rule::always("shard", Fault::Chunked));
    for len in [100, 250] {
        rig.server.put("shard", content(len + 1)).expect("memory");
        let requests = rig.server.counters().requests;
        let error = rig.remote().fetch(FetchRequest::new("shard", len)).expect("queued").wait().expect_err("longer");
        // Parts have a range, which includes the object's length.
        let expected = if len == 100 { "more than the 100 bytes that were expected" } else { "251 bytes" };
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(rig.server.counters().requests >= requests + 3, "a gateway may have sent a different page");
    }
}

#[test]
fn a_stalled_body_times_out_and_is_resumed() {
    let rig = Rig::new();
    rig.server.put("shard", content(100)).expect("memory");
    rig.server.script(Rule::once("shard", Fault::StallAfter(40)));
    let ticket = rig.remote().fetch(FetchRequest::new("shard", 100)).expect("queued");
    rig.server.stalled(1);
    // The client may not wait yet, so one step of the clock may be too early.
    while rig.count("store_retries") == 0 {
        rig.clock.advance(Duration::from_secs(61));
        std::thread::yield_now();
    }
    assert_eq!(*ticket.wait().expect("resumed"), *content(100));
    assert_eq!(rig.server.seen()[1].range.as_deref(), Some("bytes=40-99"));
}

/// Rig with a fetch thread that reads from a server that sends one byte in each second of the clock.
fn dripping(download_retry: u32, fault: Fault) -> Rig {
    let config = StoreConfig { fetch_threads: 1, part_bytes: 1 << 20, download_retry, ..config() };
    let rig = Rig::with(Options::default(), config);
    rig.server.put("slow", content(100_000)).expect("memory");
    rig.server.put("second", content(1)).expect("memory");
    rig.server.script(Rule::once("slow", fault));
    rig
}

/// Lets the server send bytes for up to 1,000 seconds of the clock, and waits for `done`. The thread that fetches may
/// end long after the fetch did, so the time that has passed then shows nothing.
fn drip(rig: &Rig, done: impl Fn() -> bool) {
    while !done() {
        if rig.server.stalls() > 0 && rig.clock.now() < Duration::from_secs(1000) {
            rig.clock.advance(Duration::from_secs(1));
            rig.server.release();
        }
        // The fetch thread has its turn.
        rig.remote().get_small("second", 1).expect("a different object");
    }
}

#[test]
fn a_drip_is_no_progress_of_a_shard() {
    let rig = dripping(2, Fault::DripAfter(20_000));
    let ticket = rig.remote().fetch(FetchRequest::new("slow", 100_000)).expect("queued");
    drip(&rig, || rig.count("store_retries") > 0);
    assert_eq!(*ticket.wait().expect("resumed"), *content(100_000));
    assert_eq!(rig.count("store_retries"), 1);
}

#[test]
fn a_drip_is_an_error_that_names_the_least_rate() {
    let rig = dripping(1, Fault::DripAfter(10));
    let remote = rig.remote();
    let fetch = std::thread::spawn(move || remote.get_small("slow", 1 << 20).expect_err("too slow"));
    drip(&rig, || fetch.is_finished());
    let error = fetch.join().expect("ends");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = error.to_string();
    assert!(text.contains("bytes arrived in 60 s, and 16384 are the least (attempt 1 of 1"), "{text}");
}

#[test]
fn a_drip_in_an_errors_text_ends_with_the_error() {
    let rig = dripping(1, Fault::DripStatus(404));
    let remote = rig.remote();
    let fetch = std::thread::spawn(move || remote.get_small("slow", 1 << 20).expect_err("missing"));
    drip(&rig, || fetch.is_finished());
    let error = fetch.join().expect("ends");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn progress_is_visible_and_a_fetch_can_be_cancelled() {
    let rig = Rig::new();
    rig.server.put("shard", content(100)).expect("memory");
    rig.server.script(Rule::once("shard", Fault::StallAfter(40)));
    let ticket = rig.remote().fetch(FetchRequest::new("shard", 100)).expect("queued");
    rig.server.stalled(1);
    while ticket.progress().bytes < 40 {
        std::thread::yield_now();
    }
    let progress = ticket.progress();
    assert_eq!((progress.bytes, progress.len, progress.attempt), (40, 100, 1));
    let ticket = ticket.wait_timeout(Duration::ZERO).expect_err("not there yet");
    ticket.cancel();
    assert_eq!(ticket.wait().expect_err("cancelled").kind(), ErrorKind::Closed);
}

#[test]
fn closing_the_stores_fails_fetches_in_flight_and_later_ones() {
    let rig = Rig::new();
    rig.server.put("shard", content(100)).expect("memory");
    rig.server.script(Rule::always("shard", Fault::StallAfter(0)));
    let remote = rig.remote();
    let ticket = remote.fetch(FetchRequest::new("shard", 100)).expect("queued");
    rig.server.stalled(1);
    rig.stores.close();
    assert_eq!(ticket.wait().expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(remote.fetch(FetchRequest::new("shard", 100)).expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(remote.get_small("shard", 100).expect_err("closed").kind(), ErrorKind::Closed);
}

#[test]
fn redirects_are_followed_and_loops_end() {
    let rig = Rig::new();
    for status in [301, 302, 307, 308] {
        rig.server.script(Rule::once("shard", Fault::Redirect(status, "/second".into())));
    }
    rig.server.put("second", content(300)).expect("memory");
    let fetched = rig.remote().fetch(FetchRequest::new("shard", 300)).expect("queued").wait();
    assert_eq!(*fetched.expect("followed"), *content(300));
    let rig = Rig::new();
    rig.server.script(Rule::always("shard", Fault::Redirect(302, "/shard".into())));
    let error = rig.put_and_fetch(100).expect_err("loop");
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[test]
fn a_kept_connection_that_the_server_closed_costs_no_attempt() {
    let config = StoreConfig { fetch_threads: 1, parts_in_flight: 1, download_retry: 1, ..config() };
    let mut rig = Rig::with(Options::default(), config);
    rig.put_and_fetch(100).expect("fetched");
    let (port, remote) = (rig.server.address().port(), rig.remote());
    // A second server takes the port; the kept connection is dead.
    rig.server = ObjectServer::in_memory(Options::default()).expect("loopback");
    rig.server = ObjectServer::in_memory(Options { port, ..Options::default() }).expect("the port is free again");
    rig.server.put("shard", content(100)).expect("memory");
    remote.fetch(FetchRequest::new("shard", 100)).expect("queued").wait().expect("at the first attempt");
}

#[test]
fn a_port_without_a_server_is_an_error_that_names_the_host() {
    let rig = Rig::new();
    let url = rig.server.url();
    drop(rig.server);
    let error = rig.stores.open(&url).expect("valid").get_small("index.json", 10).expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.to_string().contains("host 127.0.0.1:"), "{error}");
}

#[test]
fn a_small_object_has_its_version_and_a_limit() {
    let rig = Rig::new();
    rig.server.put("a b/ü.json", content(1000)).expect("memory");
    let remote = rig.remote();
    let (bytes, version) = remote.get_small("a b/ü.json", 1000).expect("small");
    assert_eq!(bytes, content(1000));
    assert!(version.is_some());
    assert_eq!(remote.get_small("a b/ü.json", 999).expect_err("limit").kind(), ErrorKind::Format);
    rig.server.script(Rule::always("json", Fault::Chunked));
    assert_eq!(remote.get_small("a b/ü.json", 999).expect_err("limit").kind(), ErrorKind::Format);
    assert_eq!(remote.get_small("index.json", 10).expect_err("none").kind(), ErrorKind::NotFound);
    assert_eq!(remote.get_small("../x", 10).expect_err("key").kind(), ErrorKind::Config);
}

#[test]
fn many_objects_in_parallel_all_arrive() {
    // A range may fail up to 50 times.
    let rig = Rig::with(Options::default(), StoreConfig { download_retry: 51, ..config() });
    let remote = rig.remote();
    let objects: Vec<(String, Vec<u8>)> = (0..200).map(|i| (format!("o{i}"), content(i * 7))).collect();
    for (key, bytes) in &objects {
        rig.server.put(key, bytes.clone()).expect("memory");
    }
    rig.server.script(Rule::always("", Fault::CutAfter(20)).times(50).after(30));
    let tickets: Vec<_> =
        objects.iter().map(|(key, b)| remote.fetch(FetchRequest::new(key, b.len())).expect("queued")).collect();
    for (ticket, (key, bytes)) in tickets.into_iter().zip(&objects) {
        assert_eq!(*ticket.wait().unwrap_or_else(|e| panic!("{e}")), **bytes, "{key}");
    }
}

#[test]
fn tls_needs_a_trusted_certificate() {
    let options = || Options { tls: true, ..Options::default() };
    let rig = Rig::with(options(), config());
    let error = rig.put_and_fetch(100).expect_err("unknown authority");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    let folder = tempfile::tempdir().expect("temporary folder");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, forebay_tests::server::TEST_CA).expect("written");
    let rig = Rig::with(options(), StoreConfig { ca_file: Some(ca_file), ..config() });
    rig.put_and_fetch(1000).expect("trusted");
}
