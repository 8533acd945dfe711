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
