//! Writing next to further programs, after lost responses, and to the end of a cancelled writer.

use crate::rig::{Rig, content};
use crate::targets::{FOLDER, IN_PARTS, STORES, Store, put, small, stored};
use forebay_loader::ErrorKind;
use forebay_loader::format::writer::{Options as WriterOptions, Sink, Writer};
use forebay_loader::format::{Encoding, Layout, Value};
use forebay_loader::output::RemoteDir;
use forebay_loader::store::{StoreConfig, UploadBuffer};
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use forebay_tests::server::{Fault, Options, Rule};
use std::collections::BTreeMap;

/// Different bytes of the same length.
fn foreign(len: usize) -> Vec<u8> {
    content(len).into_iter().map(|byte| !byte).collect()
}

#[test]
fn a_file_that_a_second_program_replaces_is_noticed_before_the_index() {
    for store in IN_PARTS {
        for len in [10, 350] {
            let (rig, destination) = store.open();
            let sink = RemoteDir::create(destination.clone(), false).expect("empty");
            for name in ["shard.00000.mds", "shard.00001.mds"] {
                sink.put(name, &[content(len).into()]).expect("queued");
            }
            while destination.list_all("").expect("listed").len() < 2 {}
            rig.server.put(&format!("{FOLDER}/shard.00001.mds"), foreign(len)).expect("memory");
            let error = sink.finish(b"{}").expect_err("a different object is there");
            assert_eq!(error.kind(), ErrorKind::Checksum, "{store:?}: {error}");
            assert!(error.to_string().contains("a different program has replaced"), "{store:?}: {error}");
            assert!(error.to_string().contains("shard.00001.mds"), "{store:?}: {error}");
            assert!(!stored(&rig).contains_key("index.json"), "{store:?}");
        }
    }
}

#[test]
fn a_lost_response_does_not_make_the_object_of_a_second_program_ours() {
    for (store, end) in [
        (Store::S3, "POST /bucket/some%20folder/%C3%BC/k?uploadId"),
        (Store::GcsHmac, "POST /bucket/some%20folder/%C3%BC/k?uploadId"),
        (Store::Oci, "POST /n/space/b/bucket/u/"),
    ] {
        let (rig, destination) = store.open();
        // Oracle's address of an upload has no key of an object.
        let place = if store == Store::Oci { "some folder/ü/k" } else { "" };
        rig.server.script(Rule::once(end, Fault::Overwrite(place, foreign(350))));
        let error = put(&destination, "k", content(350)).expect_err("a different object is there");
        assert!(error.to_string().contains("look for another program"), "{store:?}: {error}");
        assert_eq!(stored(&rig)["k"], foreign(350), "{store:?}");
    }
    // The blocks still exist, and are joined again.
    let (rig, destination) = Store::Azure.open();
    rig.server.script(Rule::once("comp=blocklist", Fault::Overwrite("", foreign(350))));
    put(&destination, "k", content(350)).expect("stored");
    assert_eq!(stored(&rig)["k"], content(350));
}

#[test]
fn an_object_with_a_key_that_cannot_be_removed_keeps_the_old_data_set() {
    for store in STORES {
        let (rig, destination) = store.open();
        for name in ["index.json", "shard.00000.mds", "z\\b"] {
            rig.server.put(&format!("{FOLDER}/{name}"), content(5)).expect("memory");
        }
        let error = RemoteDir::create(destination, true).expect_err("a key is no relative path");
        assert!(error.to_string().contains("nothing was removed"), "{store:?}: {error}");
        assert_eq!(stored(&rig).len(), 3, "{store:?}");
    }
}

#[test]
fn a_listing_that_repeats_a_page_ends_with_an_error() {
    let page = "<ListBucketResult><NextContinuationToken>again</NextContinuationToken>\
                <Contents><Key>some folder/ü/k</Key><Size>3</Size></Contents></ListBucketResult>";
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::always("list-type=2", Fault::Text(200, page.into())));
    let listed: Result<Vec<_>, _> = destination.list("", true).expect("started").take(100).collect();
    let error = listed.expect_err("it has no end");
    assert!(error.to_string().contains("repeats the token"), "{error}");
    assert!(error.to_string().contains("s3://bucket"), "{error}");
}

#[test]
fn uploads_to_the_same_file_of_a_folder_do_not_mix() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    // Two processes may have the same seed.
    let rigs = [(); 2].map(|()| Rig::with(Options::default(), StoreConfig { seed: 7, ..small() }));
    let destinations = rigs.each_ref().map(|rig| rig.stores.open_destination(path).expect("valid"));
    let mut uploads = destinations.each_ref().map(|destination| destination.upload("deep/k", None).expect("valid"));
    for (upload, bytes) in uploads.iter_mut().zip([content(350), foreign(350)]) {
        upload.write(bytes.into()).expect("written");
    }
    let temporary = || std::fs::read_dir(folder.path().join("deep")).map_or(0, Iterator::count);
    while temporary() < 2 {}
    assert_eq!(destinations[0].list_all("").expect("listed"), [], "unfinished files are not listed");
    let [first, second] = uploads;
    first.finish().expect("stored");
    assert_eq!(std::fs::read(folder.path().join("deep/k")).expect("there"), content(350));
    second.finish().expect("stored");
    assert_eq!(std::fs::read(folder.path().join("deep/k")).expect("there"), foreign(350));
    let mut dropped = destinations[0].upload("deep/k", None).expect("valid");
    dropped.write(content(350).into()).expect("written");
    drop(dropped);
    assert_eq!(temporary(), 1, "temporary files are removed");
}

/// Memory that shows when it is released.
struct Memory(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
    }
}

#[test]
fn an_object_of_several_parts_takes_no_memory_beyond_those_in_flight() {
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::always("partNumber", Fault::StallAfter(0)));
    let is_released = Arc::new(AtomicBool::new(false));
    let memory = UploadBuffer::from_owner(Memory(content(350), is_released.clone()));
    let upload = destination.put("k", vec![memory]).expect("queued");
    assert!(is_released.load(Ordering::Acquire), "all parts are in flight");
    drop(upload);
}

#[test]
fn a_writer_that_is_dropped_does_not_wait_for_room_in_flight() {
    for store in IN_PARTS {
        let (rig, destination) = store.open();
        rig.server.script(Rule::always("PUT", Fault::StallAfter(0)));
        let layout = Layout::mds([("number".to_owned(), Encoding::Int)]).expect("valid");
        let sink = Box::new(RemoteDir::create(destination, false).expect("empty"));
        let options = WriterOptions { size_limit: Some(1000), threads: 2, ..WriterOptions::default() };
        let mut writer = Writer::new(layout, sink, options).expect("started");
        // Two shards, each larger than the bytes in flight may be.
        (0..200).for_each(|number| writer.write(&[Value::Int(number)]).expect("written"));
        rig.server.stalled(1);
        drop(writer);
        assert_eq!(stored(&rig), BTreeMap::new(), "{store:?}");
        assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}");
        rig.server.release();
    }
}

#[test]
fn a_cancelled_writer_ends_its_calls_and_accepts_no_further_files() {
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::always("PUT", Fault::StallAfter(0)));
    let sink = RemoteDir::create(destination.clone(), false).expect("empty");
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| sink.put("shard.00000.mds", &[content(1000).into()]));
        rig.server.stalled(1);
        sink.cancel();
        let error = blocked.join().expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    });
    let puts = rig.server.seen().iter().filter(|seen| seen.method == "PUT").count();
    assert_eq!(sink.put("shard.00001.mds", &[content(10).into()]).expect_err("cancelled").kind(), ErrorKind::Closed);
    assert_eq!(sink.finish(b"{}").expect_err("cancelled").kind(), ErrorKind::Closed);
    assert_eq!(rig.server.seen().iter().filter(|seen| seen.method == "PUT").count(), puts);
    assert_eq!(rig.server.unfinished_uploads(), 0);
    rig.server.release();
    // The remaining uploads to the same folder are not cancelled.
    let (_rig, other) = Store::S3.open();
    drop(RemoteDir::create(other.clone(), false).expect("empty"));
    put(&other, "k", content(10)).expect("stored");
}

#[test]
fn a_wrong_tag_in_the_response_to_a_part_does_not_end_an_upload() {
    for store in [Store::S3, Store::Gcs, Store::GcsHmac] {
        let (rig, destination) = store.open();
        rig.server.script(Rule::once("partNumber=2", Fault::OtherETag));
        rig.server.script(Rule::once("partNumber=4", Fault::OtherETag));
        put(&destination, "k", content(450)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        assert_eq!(stored(&rig)["k"], content(450), "{store:?}");
        assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}");
    }
    let no_list = Rule::always("part-number-marker", Fault::Text(403, Store::S3.rejection("AccessDenied")));
    // A weak tag is the tag of the part.
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::always("partNumber=", Fault::WeakETag));
    rig.server.script(no_list);
    put(&destination, "k", content(450)).expect("stored");
    // Without the right to list parts the error names it.
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::once("partNumber=2", Fault::OtherETag));
    rig.server.script(Rule::always("part-number-marker", Fault::Text(403, Store::S3.rejection("AccessDenied"))));
    let error = put(&destination, "k", content(450)).expect_err("a different tag");
    assert_eq!(error.kind(), ErrorKind::Checksum, "{error}");
    assert!(error.to_string().contains("s3:ListMultipartUploadParts"), "{error}");
}
