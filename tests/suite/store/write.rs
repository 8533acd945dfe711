//! Uploads, listings and removals on every store: signatures and digests that a server checks, faults at each step.

use crate::rig::{Rig, content};
use crate::targets::{FOLDER, IN_PARTS, STORES, Store, put, small, stored};
use forebay_loader::ErrorKind;
use forebay_loader::format::writer::{LocalDir, Options as WriterOptions, Writer};
use forebay_loader::format::{Encoding, HashAlgo, Layout, Value};
use forebay_loader::output::RemoteDir;
use forebay_loader::store::{AzureSettings, HfSettings, S3Settings, StoreConfig};
use forebay_tests::server::{AzureAccount, Fault, Hub, Issuer, ObjectServer, Options, Rule};
use std::collections::BTreeMap;
use std::time::Duration;

/// Names that encodings of addresses and documents could change.
const ODD: [&str; 6] = ["a b", "a+b", "a%41&<c>", "ü/é", "x=y;z'\"", "deep/er/shard~.mds"];

#[test]
fn objects_of_every_size_and_name_arrive_on_every_store() {
    for store in STORES {
        let (rig, destination) = store.open();
        let mut expected = BTreeMap::new();
        for (len, name) in [0, 1, 100, 101, 350, 1000].into_iter().zip(ODD) {
            put(&destination, name, content(len)).unwrap_or_else(|e| panic!("{store:?}, {name}: {e}"));
            assert_eq!(
                destination.find(name).expect("no error").map(|entry| entry.size),
                Some(len as u64),
                "{store:?}, {name}"
            );
            expected.insert(name.to_owned(), content(len));
        }
        assert_eq!(stored(&rig), expected, "{store:?}");
        assert_eq!(destination.find("absent").expect("no error"), None, "{store:?}");
        assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}");
        assert_eq!(rig.count("store_retries"), 0, "{store:?}");
    }
}

#[test]
fn listings_have_all_objects_page_by_page_and_removed_ones_no_more() {
    for store in STORES {
        let (rig, destination) = store.open();
        let mut names: Vec<String> = ODD.map(str::to_owned).into();
        names.extend((0..10).map(|i| format!("shard.{i:05}.mds")));
        for name in &names {
            put(&destination, name, content(7)).unwrap_or_else(|e| panic!("{store:?}, {name}: {e}"));
        }
        names.sort();
        let mut listed = destination.list_all("").unwrap_or_else(|e| panic!("{store:?}: {e}"));
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(
            listed.iter().map(|entry| &entry.key).collect::<Vec<_>>(),
            names.iter().collect::<Vec<_>>(),
            "{store:?}"
        );
        assert!(listed.iter().all(|entry| entry.size == 7 && entry.modified.is_some()), "{store:?}: {listed:?}");
        assert!(store == Store::Dbfs || listed.iter().all(|entry| entry.etag.is_some()), "{store:?}");
        let level = destination.list("", false).expect("valid").collect::<Result<Vec<_>, _>>().expect("listed");
        let folders: Vec<_> = level.iter().filter(|entry| entry.is_folder()).map(|entry| &*entry.key).collect();
        assert_eq!(folders, ["deep/", "ü/"], "{store:?}");
        assert_eq!(level.len(), names.len(), "{store:?}: each folder has one object");
        let some = destination.list_all("deep/er/sh").expect("listed");
        assert_eq!(some.len(), 1, "{store:?}");
        assert_eq!(destination.list_all("nothing/").expect("listed"), [], "{store:?}");

        destination.delete(names.iter().map(|name| &**name)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        destination.delete(["absent"]).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        assert_eq!(destination.list_all("").expect("listed"), [], "{store:?}");
        assert_eq!(stored(&rig), BTreeMap::new());
    }
}

#[test]
fn many_keys_are_listed_in_pages_of_a_thousand() {
    let (rig, destination) = Store::S3.open_with(|options| Options { list_page: 1000, ..options }, |config| config);
    let keys: Vec<String> = (0..2500).map(|i| format!("{} {i:04}+ü%.mds", i % 7)).collect();
    for key in &keys {
        rig.server.put(&format!("{FOLDER}/{key}"), content(3)).expect("memory");
    }
    let mut listed: Vec<_> = destination.list_all("").expect("listed").into_iter().map(|entry| entry.key).collect();
    listed.sort_by_key(|key| key.split_once(' ').map(|(_, rest)| rest.to_owned()));
    assert_eq!(listed, keys);
    assert_eq!(rig.server.counters().lists, 3);
}

#[test]
fn an_exchange_that_fails_or_loses_its_answer_at_any_step_is_repeated() {
    let steps = |store: Store| match store {
        Store::S3 | Store::Gcs | Store::GcsHmac => {
            vec!["?uploads", "partNumber=2", "POST /bucket/some%20folder/%C3%BC/k?uploadId"]
        }
        Store::Azure => vec!["comp=block&", "comp=blocklist"],
        Store::Oci => vec!["POST /n/space/b/bucket/u ", "uploadPartNum=2", "POST /n/space/b/bucket/u/"],
        Store::Dbfs => vec!["PUT /api/2.0/fs/files", "PUT /api/2.0/fs/directories", "HEAD"],
    };
    for store in STORES {
        for step in steps(store) {
            let step = step.trim_end();
            for fault in [Fault::Status(503, Some(1)), Fault::Status(500, None), Fault::Reset, Fault::LoseAnswer] {
                let (rig, destination) = store.open();
                rig.server.script(Rule::once(step, fault.clone()));
                let done = put(&destination, "k", content(350));
                done.unwrap_or_else(|e| panic!("{store:?}, {step}, {fault:?}: {e}"));
                assert_eq!(stored(&rig).get("k"), Some(&content(350)), "{store:?}, {step}, {fault:?}");
                assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}, {step}, {fault:?}");
                // A kept connection that breaks is replaced without an attempt, where the request may be sent twice.
                assert!(rig.count("store_retries") <= 1, "{store:?}, {step}, {fault:?}");
            }
        }
    }
}

#[test]
fn an_upload_that_fails_for_good_leaves_nothing_and_names_key_and_step() {
    let steps = |store: Store| match store {
        Store::S3 | Store::Gcs | Store::GcsHmac => vec![
            ("uploads", "begin"),
            ("partNumber=3", "part"),
            ("POST /bucket/some%20folder/%C3%BC/k?uploadId", "complete"),
        ],
        Store::Azure => vec![("comp=block&", "part"), ("comp=blocklist", "complete")],
        _ => vec![("uploadPartNum=3", "part"), ("POST /n/space/b/bucket/u/", "complete")],
    };
    for store in IN_PARTS {
        for (at, step) in steps(store) {
            let (rig, destination) = store.open();
            rig.server.script(Rule::always(at, Fault::Status(503, None)));
            let error = put(&destination, "k", content(350)).expect_err("three attempts fail");
            let text = error.to_string();
            assert!(text.contains("key k") && text.contains(&format!("step {step}")), "{store:?}: {text}");
            assert!(text.contains("attempt 3 of 3") && text.contains(&store.address()), "{store:?}: {text}");
            assert_eq!(stored(&rig), BTreeMap::new(), "{store:?}, {step}");
            assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}, {step}");
        }
    }
}

#[test]
fn a_store_that_gives_no_answer_is_asked_again() {
    // One exchange at a time, so that the clock's steps are for the one without an answer.
    let change = |config| StoreConfig { uploads_in_flight: 1, download_retry: 5, ..config };
    for step in ["uploads", "partNumber=2", "k?uploadId"] {
        let (rig, destination) = Store::S3.open_with(|options| options, change);
        rig.server.script(Rule::once(step, Fault::StallAfter(0)));
        let upload = destination.put("k", vec![content(350).into()]).expect("started");
        rig.server.stalled(1);
        // The client may not wait yet, so one step of the clock may be too early.
        while rig.count("store_retries") == 0 {
            rig.clock.advance(Duration::from_secs(61));
            std::thread::yield_now();
        }
        upload.wait().unwrap_or_else(|e| panic!("{step}: {e}"));
        rig.server.release();
        assert_eq!(stored(&rig)["k"], content(350), "{step}");
        assert_eq!(rig.server.unfinished_uploads(), 0, "{step}");
    }
}

#[test]
fn parts_that_are_not_joined_are_joined_again() {
    // S3 sends the status before it joins them.
    let (rig, destination) = Store::S3.open();
    let text = "<Error><Code>InternalError</Code></Error>".to_owned();
    rig.server.script(Rule::once("k?uploadId", Fault::Text(200, text)));
    put(&destination, "k", content(350)).expect("joined");
    assert_eq!(stored(&rig)["k"], content(350));
    assert_eq!(rig.count("store_retries"), 1);
}

#[test]
fn a_whole_bucket_is_not_emptied() {
    for (store, root) in [
        (Store::S3, "s3://bucket"),
        (Store::Gcs, "gs://bucket/"),
        (Store::Azure, "azure://store.blob.core.windows.net/box"),
        (Store::Oci, "oci://bucket@space"),
        (Store::Dbfs, "dbfs:/Volumes/main/default/volume"),
    ] {
        let (rig, _) = store.open();
        rig.server.put("folder/foreign", content(3)).expect("memory");
        let destination = rig.stores.open_destination(root).expect("valid");
        let error = RemoteDir::create(destination, true).expect_err("it is not emptied");
        assert!(error.to_string().contains("name a folder in it"), "{store:?}: {error}");
        assert_eq!(rig.server.objects().len(), 1, "{store:?}");
    }
}

#[test]
fn an_access_list_is_sent_with_each_object() {
    let (rig, _) = Store::S3.open();
    let server = rig.server;
    let config = Store::S3.configure(&server, small());
    let s3 = S3Settings { canned_acl: Some("bucket-owner-full-control".into()), ..config.s3.clone().expect("set") };
    let mut rig = Rig::with(Options::default(), StoreConfig { s3: Some(s3), ..config });
    rig.server = server;
    let destination = rig.stores.open_destination(&Store::S3.address()).expect("valid");
    for (key, len) in [("a", 10), ("b", 350)] {
        put(&destination, key, content(len)).expect("stored");
    }
    let lists = rig.server.seen().into_iter().filter(|seen| seen.acl.as_deref() == Some("bucket-owner-full-control"));
    let sent: Vec<_> = lists.map(|seen| (seen.method, seen.path.contains("partNumber"))).collect();
    assert_eq!(sent, [("PUT".to_owned(), false), ("POST".to_owned(), false)]);
}

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    for store in IN_PARTS {
        let (rig, destination) = store.open();
        let mut upload = destination.upload("k", None).expect("valid");
        upload.write(content(350).into()).expect("written");
        drop(upload);
        assert_eq!(stored(&rig), BTreeMap::new(), "{store:?}");
        assert_eq!(rig.server.unfinished_uploads(), 0, "{store:?}");
    }
}

#[test]
fn pieces_of_any_size_make_parts_of_equal_size() {
    let (rig, destination) = Store::S3.open();
    let mut upload = destination.upload("k", None).expect("valid");
    for piece in content(1050).chunks(33) {
        upload.write(piece.to_vec().into()).expect("written");
    }
    upload.finish().expect("stored");
    assert_eq!(stored(&rig)["k"], content(1050));
    let parts = rig.server.seen().into_iter().filter(|seen| seen.path.contains("partNumber"));
    assert_eq!(parts.count(), 11);
}

#[test]
fn an_object_of_more_parts_than_a_store_has_gets_larger_ones() {
    let (rig, destination) = Store::S3.open_with(|o| o, |config| StoreConfig { upload_part_bytes: 1, ..config });
    put(&destination, "k", content(10_001)).expect("stored");
    assert_eq!(stored(&rig)["k"], content(10_001));
    assert_eq!(rig.server.seen().into_iter().filter(|seen| seen.path.contains("partNumber")).count(), 5001);
}

/// Writes a data set of 60 samples in some 20 shards.
fn write(sink: Box<dyn forebay_loader::format::writer::Sink>) -> forebay_loader::Result<()> {
    let layout = Layout::mds([("number".to_owned(), Encoding::Int), ("text".to_owned(), Encoding::Str)])?;
    let options =
        WriterOptions { size_limit: Some(500), hashes: vec![HashAlgo::Xxh64], threads: 2, ..WriterOptions::default() };
    let mut writer = Writer::new(layout, sink, options)?;
    for number in 0..60 {
        writer.write(&[Value::Int(number), Value::Str("some text of a sample ".repeat(4).into())])?;
    }
    writer.finish().map(drop)
}

fn files(folder: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries.map(|e| (e.file_name().into_string().expect("UTF-8"), std::fs::read(e.path()).expect("a file"))).collect()
}

#[test]
fn a_data_set_on_a_store_equals_a_folder_s() {
    let folder = tempfile::tempdir().expect("a folder");
    write(Box::new(LocalDir::create(folder.path(), false).expect("empty"))).expect("written");
    for store in STORES {
        let (rig, destination) = store.open();
        let sink = RemoteDir::create(destination.clone(), false).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        write(Box::new(sink)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        assert_eq!(stored(&rig), files(folder.path()), "{store:?}");
        let last = rig.server.seen().into_iter().rfind(|seen| seen.method == "PUT").expect("written");
        assert!(last.path.contains("index.json") || store == Store::Azure, "{store:?}: {last:?}");
        let largest = files(folder.path()).values().map(|bytes| bytes.len() as u64).max().expect("files");
        // A file that is one request may be larger than the bound.
        let bound = if IN_PARTS.contains(&store) { 400 } else { largest };
        assert!(destination.bytes_in_flight_peak() <= bound, "{store:?}: {}", destination.bytes_in_flight_peak());

        // It is refused as a destination, and replaced where that is allowed.
        let error = RemoteDir::create(destination.clone(), false).expect_err("not empty");
        assert!(error.message().starts_with("Directory is not empty"), "{error}");
        put(&destination, "old/file", content(3)).expect("stored");
        let sink = RemoteDir::create(destination, true).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        assert_eq!(stored(&rig), BTreeMap::new(), "{store:?}");
        let removed: Vec<_> = rig.server.seen().into_iter().filter(|seen| seen.method == "DELETE").collect();
        assert!(removed[0].path.contains("index.json"), "{store:?}: {:?}", removed[0]);
        write(Box::new(sink)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        assert_eq!(stored(&rig), files(folder.path()), "{store:?}");
    }
}

#[test]
fn a_failure_of_any_file_leaves_no_index() {
    for store in STORES {
        for file in ["shard.00000", "shard.00007", "index.json"] {
            let (rig, destination) = store.open();
            rig.server.script(Rule::always(file, Fault::Status(403, None)));
            let sink = RemoteDir::create(destination, false).expect("empty");
            let error = write(Box::new(sink)).expect_err("refused");
            assert!(error.to_string().contains(file), "{store:?}, {file}: {error}");
            assert_eq!(error.kind(), ErrorKind::Permission, "{store:?}, {file}: {error}");
            assert!(!stored(&rig).contains_key("index.json"), "{store:?}, {file}");
            // Oracle's address of an upload has the file's name, so its removal is refused as well.
            assert!(rig.server.unfinished_uploads() == 0 || store == Store::Oci, "{store:?}, {file}");
        }
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_no_index_and_no_parts() {
    for store in IN_PARTS {
        let (Rig { server, stores, .. }, destination) = store.open();
        // The writer is the last owner of the fetch threads, as it is in a program.
        drop(stores);
        let layout = Layout::mds([("number".to_owned(), Encoding::Int)]).expect("valid");
        let sink = Box::new(RemoteDir::create(destination, false).expect("empty"));
        let options = WriterOptions { size_limit: Some(500), threads: 2, ..WriterOptions::default() };
        let mut writer = Writer::new(layout, sink, options).expect("started");
        (0..500).for_each(|number| writer.write(&[Value::Int(number)]).expect("written"));
        drop(writer);
        assert!(!server.objects().iter().any(|(key, _)| key.ends_with("index.json")), "{store:?}");
        assert_eq!(server.unfinished_uploads(), 0, "{store:?}");
    }
}

#[test]
fn a_shard_that_a_second_program_removes_is_noticed_before_the_index() {
    let (rig, destination) = Store::S3.open();
    let sink = RemoteDir::create(destination.clone(), false).expect("empty");
    let sink: Box<dyn forebay_loader::format::writer::Sink> = Box::new(sink);
    sink.put("shard.00000.mds", &[content(10).into()]).expect("queued");
    sink.put("shard.00001.mds", &[content(10).into()]).expect("queued");
    while destination.list_all("").expect("listed").len() < 2 {}
    destination.delete(["shard.00001.mds"]).expect("removed");
    let error = sink.finish(b"{}").expect_err("a shard is gone");
    assert!(error.to_string().contains("shard.00001.mds"), "{error}");
    assert_eq!(stored(&rig).keys().collect::<Vec<_>>(), ["shard.00000.mds"]);
}

#[test]
fn bytes_that_change_on_the_way_are_refused_by_the_store_and_sent_again() {
    for store in IN_PARTS {
        for (len, times) in [(50, 1), (350, 2)] {
            let (rig, destination) = store.open();
            rig.server.script(Rule::once("PUT", Fault::FlipByte(3)).times(times));
            put(&destination, "k", content(len)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
            assert_eq!(stored(&rig)["k"], content(len), "{store:?}");
            assert_eq!(rig.count("store_retries"), times, "{store:?}");
        }
    }
}

#[test]
fn wrong_keys_missing_buckets_and_missing_rights_are_explained() {
    let cases = [
        (Store::S3, "AccessDenied", 403, "s3:PutObject"),
        (Store::S3, "NoSuchBucket", 404, "there is no bucket bucket"),
        (Store::S3, "SignatureDoesNotMatch", 403, "check AWS_SECRET_ACCESS_KEY"),
        (Store::Gcs, "AccessDenied", 403, "storage.objects.create"),
        (Store::Gcs, "NoSuchBucket", 404, "there is no bucket bucket"),
        (Store::Azure, "AuthorizationPermissionMismatch", 403, "Storage Blob Data Contributor"),
        (Store::Azure, "ContainerNotFound", 404, "has no container box"),
        (Store::Azure, "AuthenticationFailed", 403, "check the account's name and key"),
        (Store::Oci, "BucketNotFound", 404, "there is no bucket bucket"),
        (Store::Oci, "NotAuthenticated", 401, "check tenancy"),
        (Store::Dbfs, "PERMISSION_DENIED", 403, "WRITE VOLUME"),
    ];
    for (store, code, status, hint) in cases {
        let (rig, destination) = store.open();
        rig.server.script(Rule::always("PUT", Fault::Text(status, store.rejection(code))));
        let error = put(&destination, "k", content(50)).expect_err("refused");
        assert!(error.to_string().contains(hint), "{store:?}, {code}: {error}");
        assert!(error.to_string().contains("key k"), "{store:?}, {code}: {error}");
        assert_eq!(rig.count("store_retries"), 0, "{store:?}, {code}");
    }
}

#[test]
fn a_shared_access_signature_is_part_of_every_exchange() {
    let sas_token = Some("sv=2023-11-03&sp=racwdl&sig=a%2Bb%2Fc%3D%3D".to_owned());
    let account = AzureAccount { name: "store".into(), key: "a2V5".into(), sas_token: sas_token.clone() };
    let server = ObjectServer::in_memory(Options { azure: Some(account), ..Store::Azure.options() }).expect("loopback");
    let endpoint = Some(format!("{}/store", server.url()));
    let azure = AzureSettings { endpoint, sas_token, no_metadata: true, ..AzureSettings::default() };
    let mut rig = Rig::with(Options::default(), StoreConfig { azure: Some(azure), ..small() });
    rig.server = server;
    let destination = rig.stores.open_destination(&Store::Azure.address()).expect("valid");
    for (len, name) in [0, 1, 100, 101, 350, 1000].into_iter().zip(ODD) {
        put(&destination, name, content(len)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(stored(&rig)[name], content(len), "{name}");
    }
    assert_eq!(destination.list_all("").unwrap_or_else(|e| panic!("{e}")).len(), ODD.len());
    destination.delete(ODD).expect("removed");
    assert_eq!(stored(&rig), BTreeMap::new());
}

#[test]
fn a_folder_is_a_destination_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = Rig::with(Options::default(), small());
    let destination = rig.stores.open_destination(folder.path().to_str().expect("UTF-8")).expect("valid");
    for (len, name) in [0, 1, 100, 101, 350, 1000].into_iter().zip(ODD) {
        put(&destination, name, content(len)).expect("stored");
        assert_eq!(std::fs::read(folder.path().join(name)).expect("there"), content(len));
    }
    let mut names = ODD.to_vec();
    names.sort_unstable();
    let listed = destination.list_all("").expect("listed");
    assert_eq!(listed.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), names);
    let mut upload = destination.upload("gone", None).expect("valid");
    upload.write(content(350).into()).expect("written");
    drop(upload);
    destination.delete(names).expect("removed");
    assert_eq!(destination.list_all("").expect("listed"), []);
}

#[test]
fn a_data_set_on_the_hub_is_listed_and_not_written_to() {
    let hub = Hub {
        repository: "me/set".into(),
        revision: "main".into(),
        files: "http://127.0.0.1:1".into(),
        commit: String::new(),
    };
    let issuer = Issuer { tokens: vec!["hf_x".into()], ..Issuer::default() };
    let options = Options { hub: Some(hub), issuer: Some(issuer), list_page: 3, ..Options::default() };
    let server = ObjectServer::in_memory(options).expect("loopback");
    let hf = HfSettings { endpoint: Some(server.url()), token: Some("hf_x".into()), ..HfSettings::default() };
    let mut rig = Rig::with(Options::default(), StoreConfig { hf: Some(hf), ..small() });
    rig.server = server;
    let destination = rig.stores.open_destination(&format!("hf://datasets/me/set/{FOLDER}")).expect("valid");
    let mut names = ODD.to_vec();
    for name in &names {
        rig.server.put(&format!("{FOLDER}/{name}"), content(5)).expect("memory");
    }
    names.sort_unstable();
    let listed = destination.list_all("").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(listed.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), names);
    assert_eq!(destination.find(names[0]).expect("no error").map(|entry| entry.size), Some(5));
    let error = put(&destination, "k", content(5)).expect_err("read only");
    assert!(error.to_string().contains("hf upload-large-folder"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = rig.stores.open_destination("http://127.0.0.1/x").expect_err("no interface");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
