//! Shards behind a server: what is fetched, how often, and what stays on disk.

use super::*;
use forebay_tests::server::{ObjectServer, Options as ServerOptions, Root};

fn serve(directory: &Path) -> ObjectServer {
    ObjectServer::start(Root::folder(directory), ServerOptions::default()).expect("a server")
}

#[test]
fn shards_are_fetched_once_and_the_second_epoch_asks_for_nothing() {
    for compression in [None, Some("zstd")] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = tokens(data.path(), 1000, compression);
        let server = serve(data.path());
        let config = config(stream(Some(cache.path()), Some(&server.url())));
        let loader = Loader::new(config.clone()).unwrap();
        assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)));
        let cold = server.counters().requests;
        assert_eq!(cold, 1 + counts.len() as u64, "the index and each shard");
        assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 1)));
        assert_eq!(server.counters().requests, cold);
        let mut names: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        let shards = (0..counts.len()).map(|i| format!("shard.{i:05}.mds").into());
        let all: Vec<std::ffi::OsString> = std::iter::once("index.json".into()).chain(shards).collect();
        assert_eq!(names, all, "nothing but shards and the index");
    }
}
#[test]
fn a_cache_limit_holds_and_the_epoch_is_whole() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 1000, None);
    let server = serve(data.path());
    let limit = 24 << 10;
    let config = LoaderConfig { cache_limit: Some(limit), ..config(stream(Some(cache.path()), Some(&server.url()))) };
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    let mut batches = Vec::new();
    while let Next::Batch(batch) = loader.next().unwrap() {
        batches.push(batch);
        let used: u64 =
            std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().metadata().map_or(0, |m| m.len())).sum();
        assert!(used <= limit, "{used} bytes on disk");
    }
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
}

#[test]
fn a_batch_that_is_left_out_asks_for_no_shards() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 1000, None);
    let last = counts[counts.len() - 1];
    let server = serve(data.path());
    let config = LoaderConfig {
        shuffle: false,
        batch_size: (1000 - last) as u32,
        drop_last: true,
        ..config(stream(Some(cache.path()), Some(&server.url())))
    };
    assert!(last < 1000 - last, "the last shard is the batch that is left out");
    let loader = Loader::new(config).unwrap();
    assert_eq!(epoch(&loader).len(), 1);
    assert_eq!(server.counters().requests, counts.len() as u64, "the index and all shards but the last");
}

#[test]
fn a_loader_that_rests_keeps_no_room_from_another() {
    for ended in [true, false] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = tokens(data.path(), 400, None);
        let server = serve(data.path());
        let config = LoaderConfig {
            cache_limit: Some(6 << 10),
            prefetch: 40,
            stall_timeout: 10.0,
            ..config(stream(Some(cache.path()), Some(&server.url())))
        };
        let idle = Loader::new(config.clone()).unwrap();
        idle.start_epoch().unwrap();
        if ended {
            rest(&idle);
        } else {
            idle.next().unwrap();
        }
        let busy = Loader::new(config.clone()).unwrap();
        assert_eq!(rows(&epoch(&busy)), expected(&planned(&counts, &config, 0)), "ended: {ended}");
    }
}
