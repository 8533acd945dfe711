//! Shards from a server: fetches, and shards that stay on disk.

use super::*;
use forebay_loader::clock::Clock;
use forebay_loader::config::{EngineConfig, FetchConfig};
use forebay_loader::format::{Compression, HashAlgo};
use forebay_loader::store::Simulation;
use forebay_tests::disk::{room, used};
use forebay_tests::server::{Fault, ObjectServer, Options as ServerOptions, Root, Rule};

pub(crate) fn serve(directory: &Path) -> ObjectServer {
    ObjectServer::start(Root::folder(directory), ServerOptions::default()).expect("a server")
}

#[test]
fn shards_are_fetched_once_and_the_second_epoch_makes_no_request() {
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
fn an_index_or_a_shard_that_is_sent_packed_is_an_error_that_names_the_encoding() {
    let data = tempfile::tempdir().unwrap();
    let counts = tokens(data.path(), 1000, None);
    for (file, name) in [("index.json", "index.json"), ("shard.00001", "shard.00001.mds")] {
        let (packed, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for entry in std::fs::read_dir(data.path()).unwrap() {
            let path = entry.unwrap().path();
            let is_packed = path.ends_with(name);
            let mut bytes = std::fs::read(&path).unwrap();
            if is_packed {
                bytes = Compression::parse("gz").unwrap().compress(&bytes).unwrap();
            }
            std::fs::write(packed.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
        let server = serve(packed.path());
        server.script(Rule::always(file, Fault::Encoded("gzip")));
        let config = config(stream(Some(cache.path()), Some(&server.url())));
        let epoch = || {
            let loader = Loader::new(config.clone())?;
            loader.start_epoch()?;
            while let Next::Batch(_) = loader.next()? {}
            Ok::<_, forebay_loader::Error>(())
        };
        let error = epoch().unwrap_err().to_string();
        assert!(error.contains("Content-Encoding") && error.contains("gzip") && error.contains(name), "{error}");
    }
    // A header that is wrong changes nothing: the index has the length of each shard.
    let (server, cache) = (serve(data.path()), tempfile::tempdir().unwrap());
    server.script(Rule::always("shard", Fault::Encoded("gzip")));
    let config = config(stream(Some(cache.path()), Some(&server.url())));
    let loader = Loader::new(config.clone()).unwrap();
    assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)));
}

#[test]
fn an_epoch_under_a_cache_limit_has_every_sample_and_keeps_the_limit() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 1000, None);
    let server = serve(data.path());
    let limit = 64 << 10;
    let config = LoaderConfig { cache_limit: Some(limit), ..config(stream(Some(cache.path()), Some(&server.url()))) };
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    let mut batches = Vec::new();
    while let Next::Batch(batch) = loader.next().unwrap() {
        batches.push(batch);
        let used = used(cache.path());
        assert!(used <= limit, "{used} bytes on disk");
    }
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
}

/// Waits until `done`, which depends on a second thread. A number of requests may be exceeded before it is seen: a
/// shard that finds no room because a later one has it is exchanged for it, and the later one is fetched again.
pub(crate) fn until(action: &str, done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 60, "{action}");
        std::thread::yield_now();
    }
}

#[test]
fn a_loader_that_waits_for_its_consumer_releases_shards_kept_for_later_if_a_second_one_needs_space_now() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 200, None);
    let server = serve(data.path());
    let sizes = ["index.json", "shard.00000.mds", "shard.00001.mds", "shard.00002.mds"];
    let sizes = sizes.map(|name| std::fs::metadata(data.path().join(name)).unwrap().len());
    let config = LoaderConfig {
        shuffle: false,
        batch_size: 4,
        cache_limit: Some(room(cache.path(), sizes)),
        engine: EngineConfig {
            prefetch: Some(1),
            predownload: Some(200),
            stall_timeout: 10.0,
            ..EngineConfig::default()
        },
        ..config(stream(Some(cache.path()), Some(&server.url())))
    };
    let idle = Loader::new(config.clone()).unwrap();
    idle.start_epoch().unwrap();
    let Next::Batch(first) = idle.next().unwrap() else { panic!("ended early") };
    // Three shards are on disk, two of them for later, and the next two in memory.
    until("index and five shards are asked for", || server.counters().requests >= 6);
    let busy = Loader::new(config.clone()).unwrap();
    assert_eq!(rows(&epoch(&busy)), expected(&planned(&counts, &config, 0)));
    let batches: Vec<Batch> = std::iter::once(first).chain(rest(&idle)).collect();
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
}

#[test]
fn the_smallest_accepted_limit_is_enough_and_one_byte_less_is_rejected_at_the_start() {
    for compression in [None, Some("zstd")] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = tokens(data.path(), 120, compression);
        let server = serve(data.path());
        let size = |name: &str| std::fs::metadata(data.path().join(name)).unwrap().len();
        let with = |limit| {
            let stream = stream(Some(cache.path()), Some(&server.url()));
            let engine = EngineConfig { stall_timeout: 30.0, ..EngineConfig::default() };
            LoaderConfig { cache_limit: Some(limit), engine, ..config(stream) }
        };
        let error = Loader::new(with(size("index.json"))).unwrap_err();
        assert_eq!(error.kind(), forebay_loader::ErrorKind::Config);
        let needed = error.message().split_once("at least ").unwrap().1.split(':').next().unwrap().parse().unwrap();
        if compression.is_none() {
            let largest = (0..counts.len()).map(|i| size(&format!("shard.{i:05}.mds"))).max().unwrap();
            assert_eq!(needed, room(cache.path(), [size("index.json"), largest]));
        }
        assert!(Loader::new(with(needed - 1)).is_err());
        let config = with(needed);
        assert_eq!(rows(&epoch(&Loader::new(config.clone()).unwrap())), expected(&planned(&counts, &config, 0)));
    }
}

#[test]
fn a_shard_needed_early_again_gets_a_thread_although_all_wait_for_space_for_later_shards() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 400, None);
    let server = serve(data.path());
    let path = |name: &str| cache.path().join(name);
    let size = |i: usize| std::fs::metadata(data.path().join(format!("shard.{i:05}.mds"))).unwrap().len();
    let index = std::fs::metadata(data.path().join("index.json")).unwrap().len();
    let config = LoaderConfig {
        shuffle: false,
        batch_size: 4,
        cache_limit: Some(room(cache.path(), [index, size(0), size(1)]) + 2048),
        engine: EngineConfig {
            prefetch: Some(1),
            predownload: Some(200),
            stall_timeout: 10.0,
            ..EngineConfig::default()
        },
        ..config(stream(Some(cache.path()), Some(&server.url())))
    };
    assert!(counts[0] > 16, "the first shard is not read to its end when it goes");
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    let Next::Batch(first) = loader.next().unwrap() else { panic!("ended early") };
    // Two shards are on disk and the threads of the shard plane, which are two, have the next ones in memory.
    until("index and four shards are asked for", || server.counters().requests >= 5);
    // A second job takes the room of the first shard.
    let mut grown = std::fs::OpenOptions::new().append(true).open(path("index.json")).unwrap();
    std::io::Write::write_all(&mut grown, &[b' '; 4096]).unwrap();
    std::fs::remove_file(path("shard.00000.mds")).unwrap();
    until("the first shard is released", || !is_deleted_open(&path("shard.00000.mds")));
    let batches: Vec<Batch> = std::iter::once(first).chain(rest(&loader)).collect();
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
}

/// True if this process has a descriptor of a deleted file that was at `path`; a new file there does not count.
fn is_deleted_open(path: &Path) -> bool {
    let deleted = format!("{} (deleted)", path.display());
    open_files().any(|file| file.as_os_str() == deleted.as_str())
}

fn open_files() -> impl Iterator<Item = PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the process's own descriptors");
    descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
}

#[test]
fn a_loader_without_a_limit_releases_shards_that_a_second_job_evicts() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 400, None);
    let server = serve(data.path());
    let config = LoaderConfig {
        shuffle: false,
        batch_size: 4,
        engine: EngineConfig { prefetch: Some(1), ..EngineConfig::default() },
        ..config(stream(Some(cache.path()), Some(&server.url())))
    };
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    let Next::Batch(first) = loader.next().unwrap() else { panic!("ended early") };
    let evicted = cache.path().join("shard.00000.mds");
    assert!(open_files().any(|file| file == evicted));
    std::fs::remove_file(&evicted).unwrap();
    until("the shard is released", || !is_deleted_open(&evicted));
    let batches: Vec<Batch> = std::iter::once(first).chain(rest(&loader)).collect();
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
    assert_eq!(server.counters().requests, 1 + counts.len() as u64 + 1, "one shard is fetched again");
}

#[test]
fn streams_that_would_fetch_into_one_folder_are_rejected_however_it_is_written() {
    let root = tempfile::tempdir().unwrap();
    let x = root.path().join("x");
    std::os::unix::fs::symlink(&x, root.path().join("link")).unwrap();
    let in_root = |local: &str, split: Option<&str>, remote: Option<&str>| StreamConfig {
        local: Some(root.path().join(local)),
        split: split.map(Into::into),
        remote: remote.map(Into::into),
        ..StreamConfig::default()
    };
    // No server is asked.
    let (a, b) = ("http://127.0.0.1:9/a", "http://127.0.0.1:9/b");
    let check = |first: StreamConfig, second: StreamConfig| {
        let error = Loader::new(LoaderConfig { streams: vec![first, second], ..config(stream(None, Some(a))) });
        let error = error.expect_err("rejected");
        assert_eq!(error.kind(), forebay_loader::ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("give each stream its own"), "{error}");
        error.to_string()
    };
    for exists in [false, true] {
        for (local, split) in
            [("x", None), ("x/", None), ("./x", None), ("y/../x", None), ("link", None), (".", Some("x"))]
        {
            if local == "link" && !exists {
                continue;
            }
            let message = check(in_root("x", None, Some(a)), in_root(local, split, Some(b)));
            assert!(message.contains(a) && message.contains(b), "{message}");
        }
        check(in_root("x", None, Some(a)), in_root("x", None, Some(a)));
        check(in_root("x", None, None), in_root("x", None, Some(b)));
        if !exists {
            std::fs::create_dir_all(&x).unwrap();
            std::fs::create_dir(root.path().join("y")).unwrap();
        }
    }
    assert!(std::fs::read_dir(&x).unwrap().next().is_none(), "nothing was fetched");
    // Where nothing is fetched, a data set may be in the mix twice.
    let data = tempfile::tempdir().unwrap();
    let counts = tokens(data.path(), 100, None);
    let twice = vec![stream(Some(data.path()), None), stream(Some(data.path()), None)];
    let loader = Loader::new(LoaderConfig { streams: twice, ..config(stream(None, None)) }).unwrap();
    assert_eq!(loader.samples(), 2 * counts.iter().sum::<u64>());
}

#[test]
fn two_loaders_with_one_folder_and_two_remotes_never_mix_them() {
    let (one, two, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(one.path(), 100, None);
    tokens(two.path(), 101, None);
    let servers = [serve(one.path()), serve(two.path())];
    let loader = |server: &ObjectServer| Loader::new(config(stream(Some(cache.path()), Some(&server.url()))));
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| loader(&servers[0]));
        (loader(&servers[1]), a.join().unwrap())
    });
    let rejected: Vec<_> = [&a, &b].into_iter().filter_map(|made| made.as_ref().err()).collect();
    assert_eq!(rejected.len(), 1, "{a:?} {b:?}");
    assert_eq!(rejected[0].kind(), forebay_loader::ErrorKind::Stale, "{}", rejected[0]);
}

#[test]
fn a_folder_with_an_index_without_hashes_belongs_to_all_remotes_with_the_same_data() {
    let (one, two, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(one.path(), 100, None);
    tokens(two.path(), 100, None);
    let index = |folder: &Path| std::fs::read(folder.join("index.json")).unwrap();
    assert_eq!(index(one.path()), index(two.path()));
    let [a, copy, b] = [one.path(), one.path(), two.path()].map(serve);
    // The second data set has different samples of the same sizes.
    for i in 0..counts.len() {
        let path = two.path().join(format!("shard.{i:05}.mds"));
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let config = |server: &ObjectServer| config(stream(Some(cache.path()), Some(&server.url())));
    let rows_of = |server: &ObjectServer| rows(&epoch(&Loader::new(config(server)).expect("a loader")));
    let all = rows_of(&a);
    let error = Loader::new(config(&b)).expect_err("the shards are of a different remote");
    assert_eq!(error.kind(), forebay_loader::ErrorKind::Stale, "{error}");
    assert!(error.to_string().contains(&a.url()) && error.to_string().contains(&b.url()), "{error}");
    assert_eq!(rows_of(&copy), all, "a second name of the same data");
}

#[test]
fn a_shard_of_the_right_size_that_is_no_shard_is_never_kept() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = tokens(data.path(), 100, None);
    let server = serve(data.path());
    let config = config(stream(Some(cache.path()), Some(&server.url())));
    let path = data.path().join("shard.00001.mds");
    let whole = std::fs::read(&path).unwrap();
    let page: Vec<u8> = b"<html>sign in</html>".iter().copied().cycle().take(whole.len()).collect();
    std::fs::write(&path, page).unwrap();
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    let error = loop {
        match loader.next() {
            Ok(Next::Batch(_)) => {}
            Ok(_) => panic!("the epoch is whole"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("shard.00001.mds"), "{error}");
    drop(loader);
    assert!(!cache.path().join("shard.00001.mds").exists());
    std::fs::write(&path, whole).unwrap();
    assert_eq!(rows(&epoch(&Loader::new(config.clone()).unwrap())), expected(&planned(&counts, &config, 0)));
}

#[test]
fn an_omitted_batch_requests_no_shards() {
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
fn an_idle_loader_occupies_no_space_that_a_second_one_needs() {
    for ended in [true, false] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = tokens(data.path(), 400, None);
        let server = serve(data.path());
        let config = LoaderConfig {
            cache_limit: Some(20 << 10),
            engine: EngineConfig { prefetch: Some(40), stall_timeout: 10.0, ..EngineConfig::default() },
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

#[test]
fn a_loader_without_a_limit_makes_progress_if_a_second_one_leaves_less_space_than_a_batch_needs() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Batches touch every shard, and so do chunks of several samples.
    let counts = tokens(data.path(), 240, None);
    let server = serve(data.path());
    let bytes = |name: &std::ffi::OsStr| std::fs::metadata(data.path().join(name)).unwrap().len();
    assert!(counts.len() > 4);
    let (index, shard) = (bytes("index.json".as_ref()), bytes("shard.00000.mds".as_ref()));
    let limit = room(cache.path(), [index, shard, shard, shard, shard]);
    for seed in 0..2 {
        let local = cache.path().join(seed.to_string());
        let config = |cache_limit, seed| LoaderConfig {
            cache_limit,
            seed,
            threads: Some(1),
            engine: EngineConfig { stall_timeout: 20.0, ..EngineConfig::default() },
            ..config(stream(Some(&local), Some(&server.url())))
        };
        let run = |config: LoaderConfig| {
            let loader = Loader::new(config).unwrap();
            (0..2).map(|_| rows(&epoch(&loader)).len()).sum::<usize>()
        };
        let samples = 2 * counts.iter().sum::<u64>() as usize;
        std::thread::scope(|scope| {
            let free = scope.spawn(|| run(config(None, seed)));
            let limited = scope.spawn(|| run(config(Some(limit), seed + 10)));
            assert_eq!((free.join().unwrap(), limited.join().unwrap()), (samples, samples), "seed {seed}");
        });
    }
}

/// Makes a data set with hashes in the index.
fn hashed(directory: &Path, compression: Option<&str>) -> Vec<u64> {
    let compression = compression.map(|c| Compression::parse(c).expect("a compression"));
    let hashes = vec![HashAlgo::parse("xxh64").expect("an algorithm")];
    let options = Options { size_limit: Some(1 << 10), compression, hashes, ..Options::default() };
    let index = forebay_tests::data::tokens(directory, 200, LENGTH, 7, options).expect("a data set");
    index.shards.iter().map(|s| s.samples).collect()
}

#[test]
fn a_shard_that_does_not_match_its_hash_is_fetched_again() {
    for compression in [None, Some("zstd")] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = hashed(data.path(), compression);
        let server = serve(data.path());
        for shard in ["shard.00000", "shard.00002"] {
            server.script(Rule::once(shard, Fault::FlipByte(50)));
        }
        let fetch = FetchConfig { retry: 2, ..FetchConfig::default() };
        let config = LoaderConfig { fetch, ..config(stream(Some(cache.path()), Some(&server.url()))) };
        let loader = Loader::new(config.clone()).unwrap();
        assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)));
        assert_eq!(server.counters().requests, 1 + counts.len() as u64 + 2);
    }
}

#[test]
fn a_shard_that_never_matches_its_hash_is_an_error_with_both_digests() {
    for retry in [1, 3] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        hashed(data.path(), None);
        let server = serve(data.path());
        server.script(Rule::always("shard.00001", Fault::FlipByte(50)));
        let fetch = FetchConfig { retry, ..FetchConfig::default() };
        let config = LoaderConfig { fetch, ..config(stream(Some(cache.path()), Some(&server.url()))) };
        let loader = Loader::new(config).unwrap();
        loader.start_epoch().unwrap();
        let error = loop {
            match loader.next() {
                Ok(Next::Batch(_)) => {}
                Ok(_) => panic!("the epoch has a damaged shard"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), forebay_loader::ErrorKind::Checksum);
        let value = |name| error.context().iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone());
        let (expected, found) = (value("expected").unwrap(), value("found").unwrap());
        assert!(expected.len() == 16 && found.len() == 16 && expected != found, "{error}");
        assert_eq!(value("attempt").unwrap(), format!("{retry} of {retry}"));
        let gets = server.seen().iter().filter(|seen| seen.path.contains("shard.00001")).count();
        assert_eq!(gets, retry as usize);
    }
}

#[test]
fn a_shard_that_changes_on_the_way_is_fetched_again_if_its_hash_decides() {
    for has_hashes in [true, false] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = if has_hashes { hashed(data.path(), None) } else { tokens(data.path(), 200, None) };
        let server = serve(data.path());
        server.script(Rule::once("shard.00001", Fault::CutAfter(30)));
        server.script(Rule::once("shard.00001", Fault::OtherETag));
        let config = config(stream(Some(cache.path()), Some(&server.url())));
        let simulation = Simulation { clock: Clock::manual(), ..Simulation::default() };
        let loader = Loader::simulated(config.clone(), &simulation).unwrap();
        if has_hashes {
            assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)));
            continue;
        }
        loader.start_epoch().unwrap();
        let error = loop {
            match loader.next() {
                Ok(Next::Batch(_)) => {}
                Ok(_) => panic!("the shard may belong to a different data set"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), forebay_loader::ErrorKind::Stale, "{error}");
    }
}

#[test]
fn a_remote_without_an_index_has_advice_about_the_arguments_of_a_loader() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(data.path());
    let remote = format!("{}/nowhere", server.url());
    let error = Loader::new(config(stream(Some(cache.path()), Some(&remote)))).expect_err("no index");
    assert_eq!(error.kind(), forebay_loader::ErrorKind::NotFound, "{error}");
    assert!(error.to_string().ends_with("; check the path in `remote`, and `split`"), "{error}");
}

#[test]
fn empty_and_half_responses_are_no_files() {
    for (file, text) in [("index", ""), ("index", r#"{"shards": [{"format": "mds"}"#), ("shard.00001", "")] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let counts = tokens(data.path(), 200, None);
        let server = serve(data.path());
        server.script(Rule::once(file, Fault::Text(200, text.into())));
        let config = config(stream(Some(cache.path()), Some(&server.url())));
        let simulation = Simulation { clock: Clock::manual(), ..Simulation::default() };
        let loader = Loader::simulated(config.clone(), &simulation).unwrap();
        assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)));
    }
}

/// A loader of many small shards in order, in its first epoch.
fn begun(data: &Path, cache: &Path, server: &ObjectServer, cache_limit: Option<u64>) -> Loader {
    tokens(data, 1000, None);
    let config = LoaderConfig {
        shuffle: false,
        cache_limit,
        fetch: FetchConfig { retry: 1000, ..FetchConfig::default() },
        engine: EngineConfig {
            prefetch: Some(1),
            predownload: Some(1000),
            fetch_threads: Some(1),
            ..EngineConfig::default()
        },
        ..config(stream(Some(cache), Some(&server.url())))
    };
    let loader = Loader::new(config).expect("a loader");
    loader.start_epoch().expect("an epoch starts");
    loader
}

#[test]
fn shards_in_flight_follow_from_the_fetch_threads_with_and_without_a_cache_limit() {
    for cache_limit in [None, Some(1 << 20)] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = serve(data.path());
        server.script(Rule::always("shard", Fault::StallAfter(0)));
        let loader = begun(data.path(), cache.path(), &server, cache_limit);
        // All first slots of one fetch thread, though the loader has two decode threads.
        until("eight shards are in flight", || server.stalls() == 8);
        drop(loader);
    }
}

#[test]
fn shards_that_wait_for_their_next_attempt_let_the_rest_pass() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(data.path());
    for shard in 0..16 {
        server.script(Rule::always(format!("shard.{shard:05}"), Fault::Status(503, Some(30))));
    }
    let loader = begun(data.path(), cache.path(), &server, None);
    let shards = std::fs::read_dir(data.path()).unwrap().count() - 1;
    assert!(shards > 20);
    until("the remaining shards are on disk", || std::fs::read_dir(cache.path()).unwrap().count() > shards - 16);
    drop(loader);
}
