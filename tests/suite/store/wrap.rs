//! Remotes around remotes.

use crate::rig::{Rig, config, content};
use forebay_loader::store::{Faults, FetchRequest, StoreConfig};
use forebay_tests::server::Options;
use std::time::Duration;

/// A folder with one object of `len` bytes, and a rig.
fn folder(len: usize, config: StoreConfig) -> (Rig, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("shard"), content(len)).expect("written");
    (Rig::with(Options::default(), config), folder)
}

#[test]
fn a_counted_remote_knows_what_it_was_asked() {
    let (rig, folder) = folder(1050, config());
    let (remote, counts) = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid").counted();
    remote.fetch(FetchRequest::new("shard", 1050)).expect("queued").wait().expect("fetched");
    assert_eq!((counts.gets(), counts.bytes(), counts.failed()), (11, 1050, 0));
    remote.get_small("none", 1).expect_err("missing");
    remote.list("").expect("listed");
    remote.put("b", content(3)).expect("written");
    assert_eq!((counts.gets(), counts.failed(), counts.lists(), counts.puts()), (12, 1, 1, 1));
}

#[test]
fn a_faulty_remote_is_mended_and_no_byte_is_fetched_twice() {
    let config = StoreConfig { download_retry: 50, ..config() };
    let (rig, folder) = folder(20_000, config);
    let (remote, counts) = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid").counted();
    let faulty = remote.faulty(Faults { seed: 7, refuse_per_mille: 200, cut_per_mille: 300, ..Faults::default() });
    let fetched = faulty.fetch(FetchRequest::new("shard", 20_000)).expect("queued").wait().expect("mended");
    assert_eq!(*fetched, *content(20_000));
    assert!(rig.count("store_retries") > 50, "{} retries", rig.count("store_retries"));
    assert_eq!(counts.bytes(), 20_000);
}

#[test]
fn a_flipped_bit_goes_through_because_hashes_are_the_callers() {
    let (rig, folder) = folder(100, config());
    let remote = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid");
    let flipping = remote.faulty(Faults { flip_per_mille: 1000, ..Faults::default() });
    let fetched = flipping.fetch(FetchRequest::new("shard", 100)).expect("queued").wait().expect("fetched");
    let wrong = fetched.iter().zip(content(100)).filter(|(a, b)| **a != *b).count();
    assert_eq!(wrong, 1);
}

#[test]
fn a_throttled_remote_takes_its_time_over_all_bodies_together() {
    let (rig, folder) = folder(10_000, config());
    let remote = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid").throttled(1000);
    remote.fetch(FetchRequest::new("shard", 10_000)).expect("queued").wait().expect("fetched");
    assert!(rig.clock.now() >= Duration::from_secs(10), "{:?}", rig.clock.now());
}
