//! Objects that are replaced by objects of the same length while a job reads them, on every store.

use crate::rig::{Rig, config, content};
use crate::targets::{STORES, Store, put};
use forebay_loader::store::{FetchRequest, HfSettings, Remote, StoreConfig};
use forebay_loader::sync::Arc;
use forebay_loader::versions::Versions;
use forebay_loader::{Error, ErrorKind, Result};
use forebay_tests::server::{Fault, Hub, ObjectServer, Options, Rule};

const LEN: usize = 350;

/// Different content of the same length.
fn other() -> Vec<u8> {
    content(LEN).into_iter().rev().collect()
}

fn fetch(remote: &Remote, start: u64, len: usize) -> Result<Vec<u8>> {
    let request = FetchRequest { start, object_len: Some(LEN as u64), ..FetchRequest::new("a.tar", len) };
    Ok(Vec::from(remote.fetch(request)?.wait()?))
}

fn check(error: &Error, rig: &Rig) {
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    let text = error.to_string();
    assert!(text.contains("changed while the job was running") && text.contains("key a.tar"), "{text}");
    assert_eq!(rig.count("store_retries"), 0, "no further attempt: {text}");
}

/// Remote of a store with an object that `put` has written, and its table with the versions of a listing.
fn opened(store: Store) -> (Rig, Remote, Arc<Versions>) {
    let (rig, destination) = store.open_with(|options| options, |config| config);
    put(&destination, "a.tar", content(LEN)).expect("written");
    let versions = Arc::new(Versions::default());
    for entry in destination.list("", true).expect("started") {
        let entry = entry.expect("listed");
        versions.expect(&entry.key, entry.etag.as_deref().unwrap_or_default());
    }
    let remote = rig.stores.open(&store.address()).expect("valid").comparing(versions.clone());
    (rig, remote, versions)
}

#[test]
fn an_object_that_was_replaced_after_the_listing_or_after_its_first_range_is_an_error_on_every_store() {
    for store in STORES {
        let (rig, remote, _) = opened(store);
        assert_eq!(fetch(&remote, 0, LEN).unwrap_or_else(|e| panic!("{store:?}: {e}")), content(LEN), "{store:?}");
        let destination = rig.stores.open_destination(&store.address()).expect("valid");
        put(&destination, "a.tar", other()).expect("written");
        for (start, len) in [(0, LEN), (0, 50), (300, 50)] {
            check(&fetch(&remote, start, len).expect_err("replaced"), &rig);
        }
        assert_eq!(fetch(&remote.without_versions(), 0, LEN).expect("not compared"), other());
        // A range is the first response, where no listing had a version.
        let remote = rig.stores.open(&store.address()).expect("valid").comparing(Arc::default());
        assert_eq!(fetch(&remote, 50, 100).expect("first"), other()[50..150]);
        put(&destination, "a.tar", content(LEN)).expect("written");
        check(&fetch(&remote, 150, 100).expect_err("replaced"), &rig);
        // The listing has the version of the object, in stores with entity tags in it.
        if store != Store::Dbfs {
            let (rig, remote, _) = opened(store);
            let destination = rig.stores.open_destination(&store.address()).expect("valid");
            put(&destination, "a.tar", other()).expect("written");
            check(&fetch(&remote, 0, LEN).expect_err("replaced after the listing"), &rig);
        }
    }
}

#[test]
fn an_object_that_was_replaced_on_a_web_server_is_an_error() {
    let rig = Rig::new();
    rig.server.put("a.tar", content(LEN)).expect("memory");
    let remote = rig.remote().comparing(Arc::default());
    assert_eq!(fetch(&remote, 0, LEN).expect("first"), content(LEN));
    rig.server.put("a.tar", other()).expect("memory");
    check(&fetch(&remote, 0, 50).expect_err("replaced"), &rig);
}

#[test]
fn a_file_that_was_replaced_in_a_folder_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rig, path) = (Rig::new(), folder.path().join("a.tar"));
    std::fs::write(&path, content(LEN)).expect("written");
    let remote = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid").comparing(Arc::default());
    assert_eq!(fetch(&remote, 0, LEN).expect("first"), content(LEN));
    std::fs::write(folder.path().join("new"), other()).expect("written");
    std::fs::rename(folder.path().join("new"), &path).expect("renamed");
    check(&fetch(&remote, 0, LEN).expect_err("replaced"), &rig);
}

#[test]
fn the_hub_names_a_file_in_its_own_storage_by_a_different_digest_than_its_listing() {
    let files = ObjectServer::in_memory(Options::default()).expect("loopback");
    let (repository, revision) = ("me/set".into(), "main".into());
    let hub = Hub { repository, revision, files: files.url(), commit: String::new() };
    let rig = Rig::of_store(Options { hub: Some(hub), ..Options::default() }, |url| {
        let hf = HfSettings { endpoint: Some(url.to_owned()), ..HfSettings::default() };
        StoreConfig { hf: Some(hf), ..config() }
    });
    [&rig.server, &files].iter().for_each(|server| server.put("a.tar", content(LEN)).expect("memory"));
    let versions = Arc::new(Versions::default());
    versions.expect("a.tar", &"a1".repeat(20));
    let remote = rig.stores.open("hf://datasets/me/set").expect("valid").comparing(versions);
    assert_eq!(fetch(&remote, 0, LEN).expect("not comparable"), content(LEN));
    // The address of the file has ended, so the hub is asked again.
    [&rig.server, &files].iter().for_each(|server| server.put("a.tar", other()).expect("memory"));
    files.script(Rule::once("/a.tar", Fault::Status(403, None)));
    check(&fetch(&remote, 0, 50).expect_err("replaced"), &rig);
}
