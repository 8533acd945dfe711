//! Tars: which are read, and by which counts.

use super::sets::tar_of;
use super::{Folders, check, kept_index, open, samples, shard_names, write};
use crate::error::ErrorKind;

fn two_tars() -> Folders {
    Folders::new(|data| {
        write(&data.join("0.tar"), &tar_of(&["a.cls", "b.cls"]));
        write(&data.join("1.tar"), &tar_of(&["c.cls"]));
    })
}

/// Replaces the content of the tars by different bytes of the same lengths and times.
fn damage(folders: &Folders) {
    for name in ["0.tar", "1.tar"] {
        let bytes = std::fs::read(folders.path(name)).unwrap().len();
        write(&folders.path(name), &vec![0x55; bytes]);
    }
    folders.set_times(0);
}

#[test]
fn all_tars_of_a_folder_are_read_but_hidden_ones() {
    let folders = Folders::new(|data| {
        for name in ["b/1.tar", "a/0.tar", ".ipynb_checkpoints/2.tar", "__MACOSX/a/0.tar"] {
            write(&data.join(name), &tar_of(&["x.cls"]));
        }
        write(&data.join("sizes.json"), b"{}");
    });
    assert_eq!(shard_names(&folders.open("").unwrap()), ["a/0.tar", "b/1.tar"]);
    let splits = Folders::of_names(&["train/0.tar", "val/0.tar"]);
    check(&splits.error(""), ErrorKind::Config, &["more than one split (train, val)", "split=\"train\""]);
}

#[test]
fn tars_that_do_not_exist_or_are_no_tars_are_named() {
    let folders = two_tars();
    check(&folders.error("{0,1,2}.tar"), ErrorKind::NotFound, &["2.tar"]);
    check(&folders.error("x*.tar"), ErrorKind::NotFound, &["x*.tar"]);
    write(&folders.path("1.tar"), &[0x55; 2048]);
    check(&folders.error("*.tar"), ErrorKind::Format, &["tar 1.tar"]);
}

#[test]
fn a_tar_is_not_read_both_plain_and_compressed() {
    let folders = Folders::of_names(&["0.tar", "0.tar.gz"]);
    check(&folders.error("0.{tar,tar.gz}"), ErrorKind::Config, &["leave one of them out", "0.tar"]);
}

#[test]
fn the_index_next_to_the_tars_is_used_for_tars_of_its_lengths() {
    let folders = two_tars();
    let index = folders.open("*.tar").unwrap().cache.shards.index().clone();
    write(&folders.path("index.json"), index.to_json().as_bytes());
    damage(&folders);
    let indexed = folders.stream("{0,1}.tar");
    let cache = tempfile::tempdir().unwrap();
    let elsewhere = |mut stream: crate::config::StreamConfig| {
        stream.local = Some(cache.path().to_owned());
        stream
    };
    assert_eq!(samples(&open(elsewhere(indexed)).unwrap()), 3);
    // Both tars are read instead of an index that has a wrong length, or not all of them, or is none.
    write(&folders.path("0.tar"), &tar_of(&["a.cls", "b.cls", "c.cls", "d.cls"]));
    write(&folders.path("1.tar"), &tar_of(&["e.cls"]));
    for wrong in [index.to_json(), "{\"version\": 2, \"shards\": []}".to_owned(), "{".to_owned()] {
        write(&folders.path("index.json"), wrong.as_bytes());
        folders.set_times(1);
        assert_eq!(samples(&folders.open("*.tar").unwrap()), 5, "{wrong}");
        std::fs::remove_dir_all(folders.cache.path()).unwrap();
    }
}

#[test]
fn counts_next_to_tars_are_used_unless_they_are_to_be_ignored() {
    let folders = two_tars();
    write(&folders.path("sizes.json"), br#"{"0.tar": 1, "1.tar": 1}"#);
    let counted = folders.open("*.tar").unwrap();
    assert_eq!(samples(&counted), 2);
    let mut stream = folders.stream("*.tar");
    stream.ignore_counts = true;
    let read = open(stream).unwrap();
    assert_eq!((samples(&read), kept_index(&read)), (3, kept_index(&counted)), "the kept index is not used");
    assert_eq!(samples(&folders.open("*.tar").unwrap()), 2);
}

#[test]
fn copies_of_tars_that_were_written_again_are_removed() {
    let folders = two_tars();
    folders.open("*.tar").unwrap();
    let copies = ["0.tar", "1.tar"].map(|name| folders.cache.path().join(name));
    copies.iter().for_each(|copy| write(copy, b"copy"));
    super::set_times(&folders.path("1.tar"), 1);
    folders.open("*.tar").unwrap();
    assert_eq!(copies.map(|copy| copy.exists()), [true, false]);
}

#[test]
fn tars_of_the_folder_itself_are_no_copies() {
    let folders = two_tars();
    let mut stream = folders.stream("*.tar");
    stream.local = Some(folders.data.path().to_owned());
    open(stream.clone()).unwrap();
    super::set_times(&folders.path("1.tar"), 1);
    assert_eq!(samples(&open(stream).unwrap()), 3);
    assert!(["0.tar", "1.tar"].map(|name| folders.path(name).exists()) == [true, true]);
}
