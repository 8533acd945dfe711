//! Tests that need private fields of the loader; the remaining tests use its interface.

use super::*;
use crate::batch::Output;
use crate::config::{SelectConfig, StreamConfig};
use crate::format::writer::{LocalDir, Options, Writer};
use crate::format::{Encoding, Layout, Value};
use crate::pipeline::BatchPlan;
use std::path::Path;

fn loader(directory: &Path) -> Loader {
    let numbers: Vec<Value<'_>> = (0..8).map(Value::Int).collect();
    loader_of(directory, Encoding::Int, &numbers, 2)
}

/// A loader of `samples`, which have one column.
fn loader_of(directory: &Path, encoding: Encoding, samples: &[Value<'_>], batch_size: u32) -> Loader {
    let layout = Layout::mds([("column".to_owned(), encoding)]).expect("a layout");
    let folder = LocalDir::create(directory, false).expect("a folder");
    let mut writer = Writer::new(layout, Box::new(folder), Options::default()).expect("a writer");
    samples.iter().for_each(|sample| writer.write(std::slice::from_ref(sample)).expect("written"));
    writer.finish().expect("a data set");
    let stream = StreamConfig { local: Some(directory.into()), ..StreamConfig::default() };
    let config = LoaderConfig { streams: vec![stream], batch_size, threads: Some(1), ..LoaderConfig::default() };
    Loader::new(config).expect("a loader")
}

#[test]
fn in_a_forked_child_every_call_is_an_error_even_if_the_parent_held_locks() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut loader = loader(dir.path());
    let state = loader.state().expect("a state");
    // The loader as in a child: made by a different process, with every lock held by a thread that does not exist
    // there.
    loader.pid ^= 1;
    let loader = Arc::new(loader);
    let (position, pools) = (loader.position.lock(), loader.pools.lock());
    let (answer, answers) = std::sync::mpsc::channel();
    let child = loader.clone();
    std::thread::spawn(move || {
        let errors = [
            child.epoch().err(),
            child.batches().err(),
            child.start_epoch().err(),
            child.next().err(),
            child.state().err(),
            child.load_state(&state, true).err(),
            child.stats().err(),
            child.trace_json().err(),
            child.close().err(),
        ];
        answer.send(errors.map(|error| error.map(|e| e.kind())))
    });
    let kinds = answers.recv_timeout(Duration::from_secs(60)).expect("no call waits for a lock");
    assert_eq!(kinds, [Some(ErrorKind::Closed); 9]);
    drop((position, pools));
}

/// The batches of one epoch.
fn epoch(loader: &Loader) -> Vec<Batch> {
    loader.start_epoch().expect("started");
    std::iter::from_fn(|| match loader.next().expect("a batch") {
        Next::Batch(batch) => Some(batch),
        _ => None,
    })
    .collect()
}

fn bytes(batches: &[Batch]) -> Vec<Vec<u8>> {
    let first = |batch: &Batch| match batch.get("column") {
        Some(Output::Tensor(tensor)) => tensor.host().expect("host memory").to_vec(),
        other => panic!("{other:?}"),
    };
    batches.iter().map(first).collect()
}

fn counter(loader: &Loader, name: &str) -> u64 {
    let stats = loader.stats().expect("statistics");
    stats.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, value)| *value)
}

/// The second node's CPUs do not exist, and on most machines neither does the node: binding and `mbind` fail.
#[test]
fn two_nodes_deliver_the_same_as_one_even_if_placement_fails() {
    let dir = tempfile::tempdir().expect("a folder");
    let one = loader(&dir.path().join("one"));
    let mut two = loader(&dir.path().join("two"));
    two.topology = Topology::synthetic(&["0-3", "1020-1023"]);
    two.config.threads = Some(4);
    for _ in 0..3 {
        // Evict the files from the page cache if possible, so that the read threads have work.
        for file in std::fs::read_dir(dir.path().join("two")).expect("a folder") {
            let file = std::fs::File::open(file.expect("a file").path()).expect("readable");
            let _ = rustix::fs::fsync(&file);
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
        assert_eq!(bytes(&epoch(&two)), bytes(&epoch(&one)));
    }
    assert_eq!(two.pools().expect("pools").numa_workers.len(), 2);
    let notes = two.stats().expect("statistics").notes;
    assert!(notes.iter().any(|note| note.contains("cpus 1020-1023")), "{notes:?}");
}

#[test]
fn batches_that_the_consumer_keeps_are_counted_when_they_outgrow_the_pool() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    drop(epoch(&loader));
    assert_eq!(counter(&loader, "batches_unpooled"), 0);
    let slots = u64::from(loader.prefetch) + 2;
    let kept: Vec<Batch> = (0..slots).flat_map(|_| epoch(&loader)).collect();
    assert_eq!(counter(&loader, "batches_unpooled"), kept.len() as u64 - slots);
}

#[test]
fn samples_larger_than_a_read_slot_are_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let large = vec![7; 16 << 20];
    let mut loader = loader_of(dir.path(), Encoding::Bytes, &[Value::Bytes(large.as_slice().into())], 1);
    loader.config.engine.memory = Some(32 << 20);
    let batches = epoch(&loader);
    let Some(Output::Bytes(rows)) = batches[0].get("column") else { panic!("{batches:?}") };
    assert!(rows[0].host() == Some(&large[..]));
    assert_eq!(counter(&loader, "samples_unpooled"), 1);
}

#[test]
fn an_ended_epoch_does_not_release_shards_that_the_next_one_keeps() {
    let (remote, local) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    drop(loader(remote.path()));
    let stream = StreamConfig {
        remote: Some(remote.path().display().to_string()),
        local: Some(local.path().into()),
        ..StreamConfig::default()
    };
    let config = LoaderConfig { streams: vec![stream], batch_size: 2, threads: Some(1), ..LoaderConfig::default() };
    let loader = Loader::new(config).expect("a loader");
    assert_eq!(epoch(&loader).len(), 4);
    loader.start_epoch().expect("started");
    // As held by a second thread that waits in `next`.
    let ended = loader.position.lock().running.clone().expect("a running epoch");
    loader.close().expect("closed");
    let dir = &loader.catalog.streams()[0].dir;
    let kept = dir.try_claim(0).expect("a look");
    let crate::cache::ClaimOutcome::Resident(guard) = kept else { panic!("it is kept from here on") };
    drop(ended);
    assert!(!dir.evict(0).expect("a look"), "a sample still needs it");
    drop(guard);
    assert!(dir.evict(0).expect("a look"));
}

#[test]
fn an_epoch_is_stopped_at_its_position_and_no_later_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    assert!(loader.started_epoch().expect("not a child").is_none());
    loader.start_epoch().expect("started");
    let first = loader.started_epoch().expect("not a child").expect("an epoch");
    loader.start_epoch().expect("started");
    let second = loader.started_epoch().expect("not a child").expect("an epoch");
    loader.stop_epoch(&first).expect("nothing to stop");
    assert!(matches!(loader.next(), Ok(Next::Batch(_))));
    for _ in 0..2 {
        loader.stop_epoch(&second).expect("stopped");
        assert!(loader.started_epoch().expect("not a child").is_none());
    }
    assert_eq!(loader.next().map_err(|e| e.kind()).err(), Some(ErrorKind::Closed));
    let state = loader.state().expect("a state");
    assert_eq!((state.epoch, state.sample_in_epoch, loader.epoch().ok()), (1, 2, Some(2)));
    assert_eq!(epoch(&loader).len(), 4);
}

#[test]
fn a_state_leaves_out_the_batch_that_the_caller_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    let place = |number, has_failed| {
        let held = if has_failed { Held::Failed } else { Held::InFlight };
        let state = loader.state_before(number, held).map_err(|e| e.kind())?;
        Ok::<_, ErrorKind>((state.epoch, state.sample_in_epoch))
    };
    loader.start_epoch().expect("started");
    assert_eq!(place(0, false), Ok((0, 0)), "it is named before it is asked for");
    loader.next().expect("a batch");
    assert_eq!([place(0, false), place(0, true), place(1, false)], [Ok((0, 0)), Ok((0, 0)), Ok((0, 2))]);
    loader.next().expect("a batch");
    assert_eq!([place(0, false), place(0, true)], [Ok((0, 2)), Err(ErrorKind::State)], "a later one followed");
    while !matches!(loader.next().expect("a batch"), Next::End) {}
    assert_eq!([place(3, false), place(3, true), place(4, true)], [Ok((1, 0)), Err(ErrorKind::State), Ok((1, 0))]);
}

#[test]
fn a_state_leaves_out_all_batches_that_the_caller_has_taken_ahead() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    let places = || {
        let place = |number| {
            let state = loader.state_before(number, Held::All).expect("a state");
            (state.epoch, state.sample_in_epoch)
        };
        [0, 1, 2, 3, 4].map(place)
    };
    loader.start_epoch().expect("started");
    assert_eq!(places(), [(0, 0); 5]);
    for _ in 0..3 {
        loader.next().expect("a batch");
    }
    assert_eq!(places(), [(0, 0), (0, 2), (0, 4), (0, 6), (0, 6)]);
    while !matches!(loader.next().expect("a batch"), Next::End) {}
    assert_eq!(
        places(),
        [(0, 0), (0, 2), (0, 4), (0, 6), (0, 8)],
        "the end of the epoch, which the caller has not seen"
    );
    assert_eq!(loader.state_before(5, Held::All).expect("a state").epoch, 1);
    loader.start_epoch().expect("started");
    assert_eq!(places(), [(1, 0); 5]);
}

#[test]
fn the_rest_of_an_epoch_has_batches_of_this_size_whatever_the_size_before() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    assert_eq!([0, 1, 2, 3, 7, 8].map(|sample| loader.batches_from(sample).expect("batches")), [4, 4, 3, 3, 1, 0]);
}

/// A loader that fetches the data set of [`loader`] from one folder into a second one.
fn fetching(root: &Path, change: impl FnOnce(&mut LoaderConfig)) -> Loader {
    drop(loader(&root.join("remote")));
    let stream = StreamConfig {
        remote: Some(root.join("remote").display().to_string()),
        local: Some(root.join("local")),
        ..StreamConfig::default()
    };
    let mut config = LoaderConfig { streams: vec![stream], batch_size: 2, threads: Some(1), ..LoaderConfig::default() };
    change(&mut config);
    Loader::new(config).expect("a loader")
}

#[test]
fn a_shard_that_a_second_program_removes_as_soon_as_it_is_there_is_fetched_again() {
    let dir = tempfile::tempdir().expect("a folder");
    crate::cache::tests::remove_when_named(&dir.path().join("local/shard.00000.mds"), 3);
    let loader = fetching(dir.path(), |_| ());
    assert_eq!(epoch(&loader).len(), 4);
    assert_eq!(counter(&loader, "cache_published"), 4);
}

#[test]
fn a_filter_reads_a_shard_that_was_removed_again_when_it_is_back() {
    let dir = tempfile::tempdir().expect("a folder");
    crate::cache::tests::remove_when_named(&dir.path().join("local/shard.00000.mds"), 3);
    let loader = fetching(dir.path(), |config| config.streams[0].select.filter = Some("column > 3".to_owned()));
    assert_eq!(epoch(&loader).len(), 2);
}

#[test]
fn a_filter_that_finds_its_shard_removed_each_time_fails_with_the_reason() {
    let dir = tempfile::tempdir().expect("a folder");
    crate::cache::tests::remove_when_named(&dir.path().join("local/shard.00000.mds"), u32::MAX);
    drop(loader(&dir.path().join("remote")));
    let stream = StreamConfig {
        remote: Some(dir.path().join("remote").display().to_string()),
        local: Some(dir.path().join("local")),
        select: SelectConfig { filter: Some("column > 3".to_owned()), ..SelectConfig::default() },
        ..StreamConfig::default()
    };
    let error = Loader::new(LoaderConfig { streams: vec![stream], batch_size: 2, ..LoaderConfig::default() })
        .expect_err("removed");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("find the program that deletes it"), "{error}");
}

#[test]
fn a_plan_is_made_once_for_all_that_ask_for_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    let is_same = |epoch: u64, resume: Option<Resume>, plan: &BatchPlan| {
        let made = loader.planner.plan(epoch, resume.as_ref()).expect("a plan");
        std::ptr::eq(made.cells().shares(), plan.cells().shares())
    };
    let first = loader.planner.plan(0, None).expect("a plan");
    assert!(is_same(0, None, &first));
    // The checkpoint of its own start, and one of an earlier epoch, have the same plan.
    assert!(is_same(0, Some(first.cells().state(0)), &first));
    let second = loader.planner.plan(1, Some(&first.cells().state(0))).expect("a plan");
    assert!(is_same(1, Some(first.cells().state(4)), &second));
    assert_eq!((second.cells().epoch(), second.cells().sample_in_epoch()), (1, 0));
    for other in [
        Resume { shuffle_seed: 77, ..second.cells().state(0) },
        Resume { num_canonical_nodes: 2, ..second.cells().state(0) },
        second.cells().state(2),
        first.cells().state(2),
    ] {
        let epoch = other.epoch;
        let plan = loader.planner.plan(epoch, Some(&other)).expect("a plan");
        assert!(!std::ptr::eq(plan.cells().shares(), second.cells().shares()), "{other:?}");
        assert_eq!(plan.cells().state(plan.cells().sample_in_epoch()), other);
    }
    // The plan of a checkpoint differs from the plan of a new run.
    let resumed = loader.planner.plan(0, Some(&first.cells().state(0))).expect("a plan");
    assert!(!is_same(0, None, &resumed));
}

#[test]
fn the_samples_of_steps_have_their_numbers_in_the_stream() {
    let dir = tempfile::tempdir().expect("a folder");
    let loader = loader(dir.path());
    let samples: Vec<u64> =
        (0..4).flat_map(|batch| loader.samples_of(0, batch, 0).expect("samples")).map(|sample| sample.number).collect();
    assert_eq!(samples, (0..8).collect::<Vec<_>>());
    assert_eq!(loader.sample(0, 0, 5).expect("a sample").number, 5);
}
