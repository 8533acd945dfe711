//! Folders as remotes.

use crate::rig::{Rig, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::FetchRequest;

#[test]
fn a_folder_is_a_remote_by_path_and_by_address() {
    let rig = Rig::new();
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::create_dir(folder.path().join("train")).expect("made");
    std::fs::write(folder.path().join("train/shard"), content(1050)).expect("written");
    let path = folder.path().to_str().expect("UTF-8");
    for name in [path.to_owned(), format!("file://{path}")] {
        let remote = rig.stores.open(&name).expect("valid");
        let fetched = remote.fetch(FetchRequest::new("train/shard", 1050)).expect("queued").wait().expect("fetched");
        assert_eq!(*fetched, *content(1050));
        assert_eq!(remote.get_small("train/shard", 2000).expect("small").0, content(1050));
        let missing = remote.get_small("train/none", 10).expect_err("missing");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("train/none"), "{missing}");
        let larger = remote.fetch(FetchRequest::new("train/shard", 2000)).expect("queued").wait().expect_err("size");
        assert_eq!(larger.kind(), ErrorKind::Checksum, "{larger}");
        let directory = remote.get_small("train", 10).expect_err("no file");
        assert_eq!(directory.kind(), ErrorKind::NotFound);
    }
    assert_eq!(rig.count("store_retries"), 0);
}

#[test]
fn a_folder_can_be_listed_and_written() {
    let rig = Rig::new();
    let folder = tempfile::tempdir().expect("temporary folder");
    let remote = rig.stores.open(folder.path().to_str().expect("UTF-8")).expect("valid");
    for key in ["b/2", "b/10", "a", "c/d/e"] {
        remote.put(key, content(key.len())).expect("written");
    }
    let keys = |prefix| remote.list(prefix).expect("listed").into_iter().map(|o| o.key).collect::<Vec<_>>();
    assert_eq!(keys(""), ["a", "b/10", "b/2", "c/d/e"]);
    assert_eq!(keys("b/1"), ["b/10"]);
    assert_eq!(keys("c/"), ["c/d/e"]);
    remote.put("a", content(9)).expect("replaced");
    assert_eq!(remote.get_small("a", 9).expect("read").0, content(9));
}

#[test]
fn a_folder_without_permission_is_an_error_of_its_kind() {
    let rig = Rig::new();
    let error = rig.stores.open("/proc/1").expect("valid").put("x", content(1)).expect_err("denied");
    assert!(matches!(error.kind(), ErrorKind::Permission | ErrorKind::NotFound | ErrorKind::Io), "{error:?}");
}
