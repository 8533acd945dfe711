//! Tests of the queue.

use super::queue::AWAITED_MAX;
use super::request::QueueState;
use super::*;
use crate::fetcher::{FetchStatus, Fetcher};
use crate::{Error, ErrorKind, Result};
use forebay_core::sync::Arc;
use forebay_core::sync::{AtomicBool, Ordering, spawn};
use std::fs::File;
use std::sync::mpsc;

fn empty() -> Result<File> {
    Ok(tempfile::tempfile().expect("a file"))
}

fn task(next: Option<FetchCommand>) -> FetchTask {
    match next {
        Some(FetchCommand::Fetch(task)) => task,
        other => panic!("{other:?}"),
    }
}

/// Requests `key` on a new thread, which stops waiting when `watch` fails. Returns its result.
fn request(
    fetcher: &Arc<dyn Fetcher>,
    key: &str,
    watch: impl Fn(FetchStatus) -> Result<()> + Send + 'static,
) -> mpsc::Receiver<Result<File>> {
    let (sender, receiver) = mpsc::channel();
    let (fetcher, key) = (fetcher.clone(), key.to_owned());
    spawn("requests", move || sender.send(fetcher.fetch(&key, &watch)).expect("a receiver")).expect("a thread");
    receiver
}

fn fetcher(queue: &FetchQueue) -> Arc<dyn Fetcher> {
    queue.fetchers(&[0]).swap_remove(0).expect("a stream")
}

#[test]
fn several_files_are_fetched_in_parallel_up_to_the_limit() {
    let queue = FetchQueue::default();
    let fetcher = fetcher(&queue);
    let requested: Vec<_> = (0..=AWAITED_MAX).map(|n| request(&fetcher, &n.to_string(), |_| Ok(()))).collect();
    let mut in_flight: Vec<FetchTask> = (0..AWAITED_MAX).map(|_| task(queue.next())).collect();
    assert_eq!(queue.0.state.lock().awaited, AWAITED_MAX);
    // An ended fetch makes room for the next one.
    in_flight.pop().expect("one").respond(empty());
    in_flight.push(task(queue.next()));
    let mut keys: Vec<String> = in_flight.iter().map(|task| task.key().to_owned()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), AWAITED_MAX, "each was handed out once");
    in_flight.iter().for_each(|task| task.respond(empty()));
    for one in requested {
        one.recv().expect("a response").expect("a file");
    }
    assert_eq!(queue.0.state.lock().awaited, 0);
}

#[test]
fn an_abandoned_fetch_makes_room_and_is_cancelled_unless_the_epoch_is_over() {
    let queue = FetchQueue::default();
    let fetcher = fetcher(&queue);
    for (kind, is_cancelled) in [(ErrorKind::Timeout, true), (ErrorKind::Closed, false)] {
        let begun = Arc::new(AtomicBool::new(false));
        let enough = begun.clone();
        let requested = request(&fetcher, "slow", move |_| {
            if enough.load(Ordering::Relaxed) { Err(Error::new(kind, "enough")) } else { Ok(()) }
        });
        let slow = task(queue.next());
        begun.store(true, Ordering::Relaxed);
        assert_eq!(requested.recv().expect("a response").expect_err("abandoned").kind(), kind);
        let counts = |state: &QueueState| (state.awaited, state.abandoned);
        assert_eq!(counts(&queue.0.state.lock()), (0, 1));
        if is_cancelled {
            assert!(matches!(queue.next(), Some(FetchCommand::Cancel(number)) if number == slow.number()));
        }
        let requested = request(&fetcher, "next", |_| Ok(()));
        task(queue.next()).respond(empty());
        requested.recv().expect("a response").expect("a file");
        slow.respond(empty());
        assert_eq!(counts(&queue.0.state.lock()), (0, 0));
    }
}

#[test]
fn a_request_is_queued_only_while_earlier_ones_make_progress() {
    let queue = FetchQueue::default();
    let fetcher = fetcher(&queue);
    let (sender, receiver) = mpsc::channel();
    let requested = request(&fetcher, "unserved", move |status| {
        sender.send(status).expect("a receiver");
        Err(Error::new(ErrorKind::Timeout, "enough"))
    });
    assert_eq!(
        receiver.recv().expect("a check"),
        FetchStatus::Running { bytes: 0 },
        "no downloader takes it: its time runs"
    );
    requested.recv().expect("a response").expect_err("abandoned");
    assert!(queue.0.state.lock().queued.is_empty(), "an abandoned request is not fetched");

    let first = request(&fetcher, "first", |_| Ok(()));
    let in_flight = task(queue.next());
    let (sender, receiver) = mpsc::channel();
    let second = request(&fetcher, "second", move |status| {
        let _ = sender.send(status);
        Ok(())
    });
    assert_eq!(receiver.recv().expect("a check"), FetchStatus::Queued);
    in_flight.respond(empty());
    first.recv().expect("a response").expect("a file");
    task(queue.next()).respond(empty());
    second.recv().expect("a response").expect("a file");
}

#[test]
fn bytes_are_counted_while_a_file_is_assembled_anywhere_in_the_folder() {
    let queue = FetchQueue::default();
    let fetcher = fetcher(&queue);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("part"), b"1234").expect("written");
    std::fs::create_dir(folder.path().join("parts")).expect("made");
    std::fs::write(folder.path().join("parts/2"), b"123").expect("written");
    let (sender, receiver) = mpsc::channel();
    let requested = request(&fetcher, "file", move |status| {
        let _ = sender.send(status);
        Ok(())
    });
    let in_flight = task(queue.next());
    in_flight.set_folder(folder.path().to_owned());
    let status = receiver.iter().find(|status| *status != FetchStatus::Running { bytes: 0 });
    assert_eq!(status, Some(FetchStatus::Running { bytes: 7 }));
    drop(in_flight);
    let error = requested.recv().expect("a response").expect_err("dropped");
    assert!(error.to_string().contains("without a response"), "{error}");
}

#[test]
fn a_queue_closes_with_its_last_fetcher_and_fails_queued_requests() {
    let queue = FetchQueue::default();
    let fetchers = queue.fetchers(&[0, 2]);
    assert!(fetchers[1].is_none());
    let fetcher = fetchers[2].clone().expect("a stream");
    let requested = request(&fetcher, "file", |_| Ok(()));
    let in_flight = task(queue.next());
    assert_eq!((in_flight.stream(), in_flight.key()), (2, "file"));
    in_flight.respond(empty());
    requested.recv().expect("a response").expect("a file");
    queue.close();
    assert!(queue.next().is_none());
    assert_eq!(fetcher.fetch("file", &|_| Ok(())).expect_err("closed").kind(), ErrorKind::Closed);

    let queue = FetchQueue::default();
    drop(queue.fetchers(&[0]));
    assert!(queue.next().is_none());
}
