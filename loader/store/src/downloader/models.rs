//! Models of the queue under all schedules.

use super::request::closed_error;
use super::*;
use forebay_core::sync::{model, spawn};

/// Requests and fetches files; with `closes`, the queue is closed at any moment.
fn all_have_responses(closes: bool) {
    let queue = FetchQueue::default();
    let fetcher = queue.fetchers(&[0]).swap_remove(0).expect("a stream");
    let server = queue.clone();
    let server = spawn("server", move || {
        while let Some(next) = server.next() {
            match next {
                FetchCommand::Fetch(task) if task.key() == "0" => drop(task),
                FetchCommand::Fetch(task) => task.respond(Err(closed_error())),
                FetchCommand::Cancel(number) => panic!("{number} was not abandoned"),
            }
        }
    });
    let request = |key: String| {
        let fetcher = fetcher.clone();
        spawn("requests", move || fetcher.fetch(&key, &|_| Ok(())).expect_err("it fails")).expect("a thread")
    };
    let requested: Vec<_> = (0..2).map(|n| request(n.to_string())).collect();
    if closes {
        queue.close();
    }
    requested.into_iter().for_each(|one| drop(one.join().expect("it ends")));
    drop(fetcher);
    server.expect("a thread").join().expect("it ends");
    let state = queue.0.state.lock();
    assert_eq!((state.awaited, state.abandoned), (0, 0));
}

#[test]
fn every_request_gets_a_response_and_the_queue_ends_with_its_fetchers() {
    model(|| all_have_responses(false));
}

#[test]
fn a_queue_that_closes_leaves_no_thread_waiting() {
    model(|| all_have_responses(true));
}
