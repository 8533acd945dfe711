//! Verification of data sets, and repair from their remotes.

use super::*;
use forebay_loader::ErrorKind;
use forebay_loader::format::HashAlgo;
use forebay_loader::verify::{ShardState, Verification};
use forebay_tests::server::{ObjectServer, Options as ServerOptions, Root};
use std::fs;

const DATA: &str = "shard.00001.mds";
const ZIP: &str = "shard.00001.mds.zstd";

/// Makes a data set of several shards.
fn written(folder: &Path, compression: Option<&str>, hashes: &[HashAlgo]) {
    let compression = compression.map(|name| Compression::parse(name).expect("a compression"));
    let options = Options { size_limit: Some(1 << 10), compression, hashes: hashes.to_vec(), ..Options::default() };
    forebay_tests::data::tokens(folder, 200, LENGTH, 7, options).expect("a data set");
}

fn open(folder: &Path, remote: Option<&Path>) -> Verification {
    Verification::open(text(folder), remote.map(text)).expect("a data set")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// States of all shards.
fn states(verification: &Verification) -> Vec<ShardState> {
    (0..verification.shards()).map(|number| verification.check(number).expect("checked")).collect()
}

/// Checks that shard 1 alone is damaged, and returns its files and reasons.
fn damage(verification: &Verification) -> Vec<(String, String)> {
    let mut states = states(verification);
    let state = states.remove(1);
    assert!(states.iter().all(|state| matches!(state, ShardState::Whole { .. })), "{states:?}");
    let ShardState::Damaged(files) = state else { panic!("{state:?}") };
    files.into_iter().map(|file| (file.name, file.reason)).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("written");
}

/// Folders of a data set and of a cache of it, which a loader has filled.
fn with_cache(compression: Option<&str>) -> (tempfile::TempDir, tempfile::TempDir) {
    let (data, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    written(data.path(), compression, &[HashAlgo::Xxh3_64]);
    let loader = Loader::new(config(stream(Some(cache.path()), Some(text(data.path()))))).expect("a loader");
    epoch(&loader);
    (data, cache)
}

#[test]
fn all_bytes_of_an_intact_data_set_are_compared() {
    for compression in [None, Some("zstd"), Some("gz")] {
        let data = tempfile::tempdir().unwrap();
        written(data.path(), compression, &[HashAlgo::Sha1, HashAlgo::Xxh64]);
        let size = |entry: fs::DirEntry| entry.metadata().expect("a file").len();
        let all: u64 = fs::read_dir(data.path()).unwrap().map(|entry| size(entry.unwrap())).sum();
        let shards = all - fs::metadata(data.path().join("index.json")).unwrap().len();
        let server = ObjectServer::start(Root::folder(data.path()), ServerOptions::default()).expect("a server");
        for verification in [open(data.path(), None), Verification::open(&server.url(), None).expect("a data set")] {
            let compared = states(&verification).into_iter().map(|state| match state {
                ShardState::Whole { bytes } => bytes,
                state => panic!("{state:?}"),
            });
            assert_eq!(compared.sum::<u64>(), shards, "{compression:?}");
        }
    }
}

#[test]
fn every_kind_of_damage_is_named() {
    let damaged = |hashes: &[HashAlgo], compression, break_it: &dyn Fn(&Path)| {
        let data = tempfile::tempdir().unwrap();
        written(data.path(), compression, hashes);
        break_it(data.path());
        damage(&open(data.path(), None))
    };
    let one = |file: &str, files: Vec<(String, String)>| {
        let [(name, reason)] = &files[..] else { panic!("{files:?}") };
        assert_eq!(name, file);
        reason.clone()
    };
    let truncate = |folder: &Path| {
        let file = fs::File::options().write(true).open(folder.join(DATA)).unwrap();
        file.set_len(10).unwrap();
    };
    assert!(one(DATA, damaged(&[], None, &truncate)).starts_with("it has 10 bytes, and the index "));
    let longer = |folder: &Path| fs::write(folder.join(DATA), vec![0; 5000]).unwrap();
    assert!(one(DATA, damaged(&[], None, &longer)).starts_with("it has 5000 bytes, and the index "));
    let folder_in_place = |folder: &Path| {
        fs::remove_file(folder.join(DATA)).unwrap();
        fs::create_dir(folder.join(DATA)).unwrap();
    };
    assert_eq!(one(DATA, damaged(&[], None, &folder_in_place)), "it is not a regular file");
    let last = |folder: &Path| flip(&folder.join(DATA), 900);
    let hashes = [HashAlgo::Sha1, HashAlgo::Xxh64];
    assert!(one(DATA, damaged(&hashes, None, &last)).starts_with("its sha1 is "));
    let second_hash = |folder: &Path| {
        let path = folder.join("index.json");
        let mut index: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        index["shards"][1]["raw_data"]["hashes"]["xxh64"] = "0".repeat(16).into();
        fs::write(path, index.to_string()).unwrap();
    };
    assert!(one(DATA, damaged(&hashes, None, &second_hash)).starts_with("its xxh64 is "));
    // Without a hash, a sample may have any bytes, but the table of offsets is checked.
    let table = |folder: &Path| flip(&folder.join(DATA), 6);
    let reason = one(DATA, damaged(&[], None, &table));
    assert!(reason.starts_with("sample 0 ends"), "{reason}");
    let packed = |folder: &Path| flip(&folder.join(ZIP), 40);
    assert!(one(ZIP, damaged(&[HashAlgo::Md5], Some("zstd"), &packed)).starts_with("its md5 is "));
    assert!(one(ZIP, damaged(&[], Some("zstd"), &packed)).starts_with("unpacked, "));
}

#[test]
fn a_missing_shard_is_absent_and_a_missing_part_of_one_is_damage() {
    let (_, cache) = with_cache(None);
    fs::remove_file(cache.path().join(DATA)).unwrap();
    assert_eq!(states(&open(cache.path(), None))[1], ShardState::Absent);

    // A format with the offsets in a separate file.
    let data = tempfile::tempdir().unwrap();
    let layout = forebay_loader::format::Layout::jsonl([("number", "int")], "\n").unwrap();
    let sink = forebay_loader::format::writer::LocalDir::create(data.path(), false).unwrap();
    let options = Options { size_limit: Some(64), ..Options::default() };
    let mut writer = forebay_loader::format::Writer::new(layout, Box::new(sink), options).unwrap();
    for number in 0..20 {
        writer.write(&[forebay_loader::format::Value::Int(number)]).unwrap();
    }
    let index = writer.finish().unwrap();
    let meta = index.shards[1].raw_meta.as_ref().expect("offsets").basename.clone();
    fs::remove_file(data.path().join(&*meta)).unwrap();
    let files = damage(&open(data.path(), None));
    assert!(
        matches!(&files[..], [(name, reason)] if *name == *meta && reason.starts_with("it is missing")),
        "{files:?}"
    );
}

#[test]
fn a_damaged_shard_is_replaced_and_the_rest_stay() {
    for compression in [None, Some("zstd")] {
        let (data, cache) = with_cache(compression);
        let before = fs::read(cache.path().join(DATA)).unwrap();
        flip(&cache.path().join(DATA), 900);
        let verification = open(cache.path(), Some(data.path()));
        damage(&verification);
        verification.repair(1).expect("repaired");
        assert!(states(&verification).iter().all(|state| matches!(state, ShardState::Whole { .. })));
        assert_eq!(fs::read(cache.path().join(DATA)).unwrap(), before);
        assert!(!cache.path().join(ZIP).exists(), "a folder without compressed files gets none");
        // A shard that is absent is fetched.
        fs::remove_file(cache.path().join(DATA)).unwrap();
        verification.repair(1).expect("fetched");
        assert_eq!(fs::read(cache.path().join(DATA)).unwrap(), before);
    }
}

#[test]
fn a_shard_that_is_damaged_in_the_remote_too_stays_as_it_is() {
    let (data, cache) = with_cache(None);
    let paths = [data.path(), cache.path()].map(|folder| folder.join(DATA));
    paths.iter().for_each(|path| flip(path, 900));
    let verification = open(cache.path(), Some(data.path()));
    let error = verification.repair(1).expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Checksum, "{error}");
    assert!(error.to_string().contains(DATA), "{error}");
    assert_eq!(fs::read(&paths[0]).unwrap(), fs::read(&paths[1]).unwrap());
}

#[test]
fn shards_are_replaced_while_a_job_reads_the_folder_and_intact_ones_are_no_error() {
    let (data, cache) = with_cache(None);
    let config = config(stream(Some(cache.path()), Some(text(data.path()))));
    let loader = Loader::new(config.clone()).expect("a loader");
    loader.start_epoch().unwrap();
    let Next::Batch(first) = loader.next().unwrap() else { panic!("no batch") };
    let verification = open(cache.path(), Some(data.path()));
    // All are intact, so there is nothing to refuse even where the job holds them.
    (0..verification.shards()).for_each(|number| verification.repair(number).expect("intact"));
    let batches: Vec<_> = std::iter::once(first).chain(rest(&loader)).collect();
    let counts = forebay_loader::format::Index::parse(&fs::read(data.path().join("index.json")).unwrap(), "").unwrap();
    let counts: Vec<_> = counts.shards.iter().map(|shard| shard.samples).collect();
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
    loader.close().unwrap();
    (0..verification.shards()).for_each(|number| verification.repair(number).expect("repaired"));
}

#[test]
fn files_that_cannot_be_verified_or_repaired_are_refused_with_a_reason() {
    let (data, cache) = with_cache(None);
    let error = open(cache.path(), None).repair(1).expect_err("no remote");
    assert!(error.to_string().contains("pass the URL"), "{error}");
    let error = Verification::open("http://localhost:1/set", Some(text(data.path()))).expect_err("a URL");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = Verification::open("/no/such/folder", None).expect_err("no folder");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let other = tempfile::tempdir().unwrap();
    forebay_tests::data::tokens(other.path(), 100, LENGTH, 8, Options::default()).unwrap();
    let error = Verification::open(text(cache.path()), Some(text(other.path()))).expect_err("a different data set");
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    let error = open(data.path(), None).check(1000).expect_err("no shard");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}
