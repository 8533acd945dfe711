//! Tests of the queue and of folders with a library that is a thread of the test.

use super::queue::AWAITED_MAX;
use super::shared::RUNNING_MAX;
use super::*;
use crate::{Error, ErrorKind};
use crate::{FetchRequest, StoreConfig, Stores};
use forebay_core::clock::Clock;
use forebay_core::stats::Stats;
use forebay_core::sync::{Arc, JoinHandle, Mutex, spawn};
use std::collections::BTreeMap;
use std::time::Duration;

const REMOTE: &str = "tape://me:secret@host/set";

/// Library with files in memory. Its function is called first, with the number of the exchange; true means that it has
/// replied.
fn library(queue: &LibraryQueue, intrude: impl Fn(usize, &Exchange) -> bool + Send + 'static) -> JoinHandle<()> {
    let (queue, files) = (queue.clone(), Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
    let serve = move || {
        let mut number = 0;
        while let Some(exchange) = queue.next() {
            number += 1;
            if !intrude(number, &exchange) {
                // An abandoned exchange is no error of the library.
                let _ = answer(&exchange, &mut files.lock());
            }
        }
    };
    spawn("library", serve).expect("a thread")
}

fn answer(exchange: &Exchange, files: &mut BTreeMap<String, Vec<u8>>) -> crate::Result<()> {
    match exchange.operation() {
        "get" => match files.get(exchange.key()) {
            Some(file) => {
                exchange.head(file.len() as u64, Some("1".into()))?;
                for piece in file[exchange.start() as usize..].chunks(3) {
                    exchange.bytes(piece.to_vec().into())?;
                }
            }
            None => {
                exchange.failed(Error::new(ErrorKind::NotFound, "no such file"), false);
                return Ok(());
            }
        },
        "put" => {
            let mut whole = Vec::new();
            loop {
                let piece = exchange.take(4)?;
                if piece.is_empty() {
                    break;
                }
                whole.extend_from_slice(&piece);
            }
            files.insert(exchange.key().to_owned(), whole);
        }
        "list" => exchange.entries(files.iter().map(|(key, file)| (key.clone(), file.len() as u64)).collect())?,
        "size" => files.get(exchange.key()).map_or(Ok(()), |file| exchange.head(file.len() as u64, None))?,
        "delete" => drop(files.remove(exchange.key())),
        other => panic!("{other}"),
    }
    exchange.done();
    Ok(())
}

/// Stores with the library `intrude`, which ends when they are dropped.
fn stores(intrude: impl Fn(usize, &Exchange) -> bool + Send + 'static) -> (Stores, JoinHandle<()>) {
    let queue = LibraryQueue::default();
    let thread = library(&queue, intrude);
    let config = StoreConfig { library: Some(queue.stores()), backoff_first: Duration::ZERO, ..StoreConfig::default() };
    (Stores::new(config, &Arc::new(Stats::default()), Clock::system()).expect("threads"), thread)
}

fn put(stores: &Stores, key: &str, bytes: &[u8]) {
    let destination = stores.open_destination(REMOTE).expect("a destination");
    let pieces = bytes.chunks(5).map(|piece| piece.to_vec().into()).collect();
    destination.put(key, pieces).expect("begun").wait().expect("stored");
}

#[test]
fn files_are_stored_listed_measured_fetched_and_removed() {
    let (stores, library) = stores(|_, _| false);
    for (key, bytes) in [("a/b", &b"some bytes"[..]), ("a/c/d", b""), ("e", b"more")] {
        put(&stores, key, bytes);
    }
    let destination = stores.open_destination(REMOTE).expect("a destination");
    let keys = |prefix: &str, is_recursive| {
        let listed = destination.list(prefix, is_recursive).expect("a listing");
        listed
            .map(|entry| entry.map(|entry| (entry.key, entry.size)))
            .collect::<crate::Result<Vec<_>>>()
            .expect("listed")
    };
    let entry = |key: &str, size| (key.to_owned(), size);
    assert_eq!(keys("", true), [entry("a/b", 10), entry("a/c/d", 0), entry("e", 4)]);
    assert_eq!(keys("a/", false), [entry("a/b", 10), entry("a/c/", 0)]);
    assert_eq!(destination.find("a/b").expect("an entry").map(|entry| entry.size), Some(10));
    assert_eq!(destination.find("x").expect("no failure"), None);
    let remote = stores.open(REMOTE).expect("a remote");
    assert_eq!(&*remote.fetch(FetchRequest::new("a/b", 10)).expect("begun").wait().expect("fetched"), b"some bytes");
    assert_eq!(remote.get_small("e", 10).expect("fetched").0, b"more");
    destination.delete(["a/b", "x"]).expect("removed");
    let error = remote.fetch(FetchRequest::new("a/b", 10)).expect("begun").wait().expect_err("removed");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!destination.is_root());
    assert!(stores.open_destination("tape://host/").expect("a destination").is_root());
    drop((destination, remote, stores));
    library.join().expect("the queue closes with its stores");
}

#[test]
fn an_attempt_that_fails_is_continued_at_the_first_missing_byte() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let (stores, _library) = stores(move |_, exchange| {
        if exchange.operation() != "get" {
            return false;
        }
        let mut starts = seen.lock();
        starts.push(exchange.start());
        if starts.len() > 1 {
            return false;
        }
        exchange.head(10, Some("1".into())).expect("awaited");
        exchange.bytes(b"some".to_vec().into()).expect("awaited");
        exchange.failed(Error::new(ErrorKind::Network, "it broke"), true);
        true
    });
    put(&stores, "a", b"some bytes");
    let remote = stores.open(REMOTE).expect("a remote");
    assert_eq!(&*remote.fetch(FetchRequest::new("a", 10)).expect("begun").wait().expect("fetched"), b"some bytes");
    assert_eq!(*starts.lock(), [0, 4]);
}

#[test]
fn errors_have_the_attempt_and_no_secrets() {
    let (stores, _library) = stores(|number, exchange| {
        assert_eq!(exchange.remote(), REMOTE, "the library needs the secrets");
        assert!(!format!("{exchange:?}").contains("secret"), "{exchange:?}");
        match number {
            1 | 2 => exchange.failed(Error::new(ErrorKind::Network, "it broke"), true),
            3 => exchange.failed(Error::new(ErrorKind::Permission, "no access"), false),
            // Nothing is sent.
            _ => {}
        }
        true
    });
    let remote = stores.open(REMOTE).expect("a remote");
    let fetch = || remote.fetch(FetchRequest::new("a", 10)).expect("begun").wait().expect_err("a failure").to_string();
    let suffix = "key a, remote tape://...@host/set)";
    assert_eq!(fetch(), format!("it broke (range 0..10, attempt 2 of 2, {suffix}"));
    assert_eq!(fetch(), format!("no access (range 0..10, attempt 1 of 2, {suffix}"));
    assert_eq!(fetch(), format!("the exchange ended without a response (range 0..10, attempt 2 of 2, {suffix}"));
}

#[test]
fn an_object_of_a_different_size_or_version_is_an_error() {
    let (stores, _library) = stores(|number, exchange| {
        let (bytes, version) = match number {
            1 | 2 => (11, "1"),
            3 => (10, "1"),
            _ => (10, "2"),
        };
        exchange.head(bytes, Some(version.into())).expect("awaited");
        if number == 3 {
            exchange.bytes(b"some".to_vec().into()).expect("awaited");
        }
        exchange.failed(Error::new(ErrorKind::Network, "it broke"), true);
        true
    });
    let remote = stores.open(REMOTE).expect("a remote");
    let fetch = || remote.fetch(FetchRequest::new("a", 10)).expect("begun").wait().expect_err("a failure").kind();
    assert_eq!(fetch(), ErrorKind::Checksum);
    assert_eq!(fetch(), ErrorKind::Stale);
}

#[test]
fn a_silent_library_is_given_up_and_learns_of_it() {
    let queue = LibraryQueue::default();
    let clock = Clock::manual();
    let config = StoreConfig { library: Some(queue.stores()), download_retry: 1, ..StoreConfig::default() };
    let stores = Stores::new(config, &Arc::new(Stats::default()), clock.clone()).expect("threads");
    // So large that the limit of the whole attempt is far away.
    let mut ticket = stores.open(REMOTE).expect("a remote").fetch(FetchRequest::new("a", 10 << 20)).expect("begun");
    let exchange = queue.next().expect("an exchange");
    assert_eq!(exchange.timeout(), Duration::from_secs(60));
    // The wait for the answer may begin after the exchange was taken, at any time of the clock.
    let error = loop {
        clock.advance(Duration::from_secs(1));
        match ticket.wait_timeout(Duration::from_millis(1)) {
            Ok(outcome) => break outcome.expect_err("nothing came"),
            Err(waiting) => ticket = waiting,
        }
    };
    assert_eq!((error.kind(), error.message()), (ErrorKind::Timeout, "no answer for 60 s"));
    assert_eq!(exchange.head(10, None).expect_err("abandoned").kind(), ErrorKind::Closed);
}

#[test]
fn exchanges_in_flight_have_a_bound_and_so_have_exchanges_that_do_not_end() {
    let queue = LibraryQueue::default();
    let config = StoreConfig {
        library: Some(queue.stores()),
        parts_in_flight: 2 * AWAITED_MAX,
        parts_in_flight_max: 2 * AWAITED_MAX,
        ..StoreConfig::default()
    };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system()).expect("threads");
    let remote = stores.open(REMOTE).expect("a remote");
    let fetch = |number: usize| remote.fetch(FetchRequest::new(format!("{number}"), 1)).expect("begun");
    let mut abandoned = Vec::new();
    while abandoned.len() < RUNNING_MAX {
        let tickets: Vec<_> = (0..AWAITED_MAX).map(fetch).collect();
        abandoned.extend((0..AWAITED_MAX).map(|_| queue.next().expect("an exchange")));
        drop(tickets);
    }
    let ticket = fetch(0);
    let next = {
        let queue = queue.clone();
        spawn("next", move || {
            let exchange = queue.next().expect("an exchange");
            exchange.head(1, None).expect("awaited");
            exchange.bytes(b"x".to_vec().into()).expect("awaited");
            exchange.done();
        })
        .expect("a thread")
    };
    let ticket = ticket.wait_timeout(Duration::ZERO).expect_err("all threads of the library are busy");
    abandoned.pop();
    next.join().expect("one has ended");
    assert_eq!(&*ticket.wait().expect("fetched"), b"x");
}

#[test]
fn a_closed_queue_fails_its_exchanges_and_without_one_the_error_names_the_schemes() {
    let queue = LibraryQueue::default();
    let config = StoreConfig { library: Some(queue.stores()), ..StoreConfig::default() };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system()).expect("threads");
    let ticket = stores.open(REMOTE).expect("a remote").fetch(FetchRequest::new("a", 10)).expect("begun");
    queue.close();
    assert!(queue.next().is_none());
    assert_eq!(ticket.wait().expect_err("closed").kind(), ErrorKind::Closed);

    let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).expect("threads");
    let error = |remote: &str| stores.open(remote).expect_err("no transport");
    assert_eq!(error("sftp://host/set").kind(), ErrorKind::Unsupported);
    assert!(error("sftp://host/set").to_string().contains("only the Python package"));
    assert_eq!(error(REMOTE).kind(), ErrorKind::Config);
    assert!(error(REMOTE).to_string().contains("unknown scheme: use s3://"), "{}", error(REMOTE));
}
