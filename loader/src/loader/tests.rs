//! What needs a look inside the loader; the rest is tested from outside, with data sets of its own.

use super::*;
use crate::config::StreamConfig;
use crate::format::writer::{LocalDir, Options, Writer};
use crate::format::{Encoding, Layout, Value};
use std::path::Path;

fn loader(directory: &Path) -> Loader {
    let layout = Layout::mds([("number".to_owned(), Encoding::Int)]).expect("a layout");
    let folder = LocalDir::create(directory, false).expect("a folder");
    let mut writer = Writer::new(layout, Box::new(folder), Options::default()).expect("a writer");
    (0..8).for_each(|number| writer.write(&[Value::Int(number)]).expect("written"));
    writer.finish().expect("a data set");
    let stream = StreamConfig { local: Some(directory.into()), ..StreamConfig::default() };
    let config = LoaderConfig { streams: vec![stream], batch_size: 2, threads: Some(1), ..LoaderConfig::default() };
    Loader::new(config).expect("a loader")
}

#[test]
fn in_a_forked_child_every_call_is_an_error_whoever_held_a_lock_in_the_parent() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut loader = loader(dir.path());
    let state = loader.state().expect("a state");
    // As a child sees it: made by another process, with every lock held by a thread that did not come along.
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
