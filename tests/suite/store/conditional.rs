//! Writes that depend on the state of the object.

use crate::rig::Rig;
use crate::targets::{STORES, Store, put, stored};
use forebay_loader::store::{Destination, Expected, StoreConfig, Stores};
use forebay_tests::server::{Fault, Options, Rule};

fn put_if(destination: &Destination, text: &'static str, expected: Expected) -> bool {
    destination.put_if("k", text.as_bytes().into(), expected).expect("no error")
}

fn version(destination: &Destination) -> Expected {
    Expected::Version(destination.version("k").expect("no error").expect("an object"))
}

/// Checks the writes of an empty destination; `text` returns its object.
fn check(destination: &Destination, text: impl Fn() -> String) {
    assert_eq!(destination.version("k").expect("no error"), None);
    assert!(put_if(destination, "first", Expected::Absent));
    assert!(!put_if(destination, "second", Expected::Absent));
    let first = version(destination);
    assert_eq!(text(), "first");
    assert!(put_if(destination, "second", first.clone()));
    assert!(!put_if(destination, "third", first));
    assert_eq!(text(), "second");
    let second = version(destination);
    destination.delete(["k"]).expect("no error");
    assert!(!put_if(destination, "third", second));
    assert!(put_if(destination, "third", Expected::Absent));
    assert_eq!(text(), "third");
}

fn text_of(rig: &Rig) -> String {
    String::from_utf8(stored(rig)["k"].clone()).expect("text")
}

#[test]
fn an_object_is_replaced_only_if_it_is_as_expected() {
    for store in [Store::S3, Store::Gcs, Store::Azure, Store::Oci] {
        let (rig, destination) = store.open();
        check(&destination, || text_of(&rig));
        assert_eq!(rig.count("store_retries"), 0, "{store:?}");
    }
}

#[test]
fn a_file_is_replaced_only_if_it_is_as_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = Rig::with(Options::default(), StoreConfig::default());
    let destination = rig.stores.open_destination(&folder.path().display().to_string()).expect("valid");
    check(&destination, || std::fs::read_to_string(folder.path().join("k")).expect("a file"));
    let names = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 1, "no temporary file is left");
}

#[test]
fn stores_without_conditions_replace_any_object() {
    for store in [Store::GcsHmac, Store::Dbfs] {
        let (rig, destination) = store.open();
        put(&destination, "k", b"first".to_vec()).expect("stored");
        assert!(put_if(&destination, "second", Expected::Absent), "{store:?}");
        assert_eq!(text_of(&rig), "second", "{store:?}");
    }
    let (rig, destination) = Store::S3.open();
    put(&destination, "k", b"first".to_vec()).expect("stored");
    assert!(put_if(&destination, "second", Expected::Version(String::new())), "it has no name of a version");
    assert_eq!(text_of(&rig), "second");
    let (rig, destination) = Store::S3.open();
    let refusal = Fault::Text(501, Store::S3.rejection("NotImplemented"));
    rig.server.script(Rule::once("PUT", refusal));
    assert!(put_if(&destination, "first", Expected::Absent));
    assert_eq!((text_of(&rig).as_str(), rig.count("store_retries")), ("first", 0));
}

#[test]
fn a_write_with_a_lost_answer_may_have_been_successful() {
    for store in STORES {
        let (rig, destination) = store.open();
        rig.server.script(Rule::once("PUT", Fault::LoseAnswer));
        let has_conditions = !matches!(store, Store::GcsHmac | Store::Dbfs);
        assert_eq!(put_if(&destination, "first", Expected::Absent), !has_conditions, "{store:?}");
        assert_eq!(text_of(&rig), "first", "{store:?}");
    }
}

#[test]
fn a_conditional_write_needs_the_right_to_write() {
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::always("PUT", Fault::Text(403, Store::S3.rejection("AccessDenied"))));
    let error = destination.put_if("k", "x".into(), Expected::Absent).expect_err("denied");
    assert!(error.to_string().contains("s3:PutObject"), "{error}");
    let closed = rig.stores;
    Stores::close(&closed);
    assert!(destination.put_if("k", "x".into(), Expected::Absent).is_err());
}
