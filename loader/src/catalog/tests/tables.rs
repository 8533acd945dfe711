//! Parquet and Arrow files.

use super::sets::made;
use super::{Folders, check, list, open, open_with, samples, write};
use crate::config::{LoaderConfig, SkipConfig};
use crate::error::ErrorKind;

fn table(name: &str) -> Vec<u8> {
    std::fs::read(made("parquet").join(name)).unwrap()
}

fn two_tables() -> Folders {
    Folders::new(|data| {
        write(&data.join("0.parquet"), &table("set-0.parquet"));
        write(&data.join("1.parquet"), &table("set-1.parquet"));
    })
}

#[test]
fn tables_of_a_folder_are_the_visible_ones_of_a_split() {
    let folders = Folders::new(|data| {
        for name in ["data/train-0.parquet", "data/test-0.parquet", "_temporary/train-1.parquet", ".x/train-2.parquet"]
        {
            write(&data.join(name), &table("set-0.parquet"));
        }
        write(&data.join("data/train-1.parquet"), &table("set-1.parquet"));
    });
    check(&folders.error(""), ErrorKind::Config, &["split", "test", "train"]);
    let of_split = |split: &str| {
        let mut stream = folders.stream("");
        stream.split = Some(split.to_owned());
        open(stream)
    };
    let both = samples(&two_tables().open("*.parquet").unwrap());
    assert_eq!(samples(&of_split("train").unwrap()), both);
    check(&of_split("valid").expect_err("no such split"), ErrorKind::Config, &["valid", "train"]);
}

#[test]
fn files_that_are_no_tables_are_named() {
    let folders = two_tables();
    for (content, message) in
        [(&b""[..], "an empty file"), (b"PAR1, and no table", "1.parquet"), (b"PAR1", "1.parquet")]
    {
        write(&folders.path("1.parquet"), content);
        check(&folders.error("*.parquet"), ErrorKind::Format, &["file 1.parquet", message]);
    }
    check(&folders.error("{0,2}.parquet"), ErrorKind::NotFound, &["2.parquet"]);
    write(&folders.path("0.arrow"), b"ARROW1, and no table");
    check(&folders.error("0.arrow"), ErrorKind::Format, &["file 0.arrow"]);
    let tars = Folders::of_names(&["0.parquet", "a.tar"]);
    check(&tars.error(""), ErrorKind::Config, &["tables and tars", "0.parquet", "a.tar"]);
}

#[test]
fn the_index_next_to_the_tables_is_used_for_files_that_are_the_same() {
    let folders = two_tables();
    let whole = folders.open("*.parquet").unwrap();
    let listing = list(&folders, "*.parquet");
    assert_eq!((listing.basename, listing.samples), ("_forebay_tables.json", samples(&whole)));
    let opened = || {
        let _ = std::fs::remove_dir_all(folders.cache.path());
        folders.open("*.parquet")
    };
    for wrong in [&listing.document[..listing.document.len() / 2], b"{}"] {
        write(&folders.path(listing.basename), wrong);
        assert_eq!(opened().unwrap().digest, whole.digest);
    }
    write(&folders.path(listing.basename), &listing.document);
    for name in ["0.parquet", "1.parquet"] {
        let bytes = std::fs::read(folders.path(name)).unwrap().len();
        write(&folders.path(name), &vec![0x55; bytes]);
    }
    folders.set_times(0);
    assert_eq!(opened().unwrap().digest, whole.digest, "no file is read");
    super::set_times(&folders.path("1.parquet"), 1);
    check(&opened().expect_err("it was written again"), ErrorKind::Format, &["file 1.parquet"]);
}

#[test]
fn rows_that_may_be_left_out_have_a_separate_folder_and_the_same_digest() {
    let folders = two_tables();
    let opened = |errors| {
        let streams = vec![folders.stream("*.parquet")];
        let skip = SkipConfig { errors, ..SkipConfig::default() };
        open_with(LoaderConfig { streams, skip, ..LoaderConfig::default() }).unwrap()
    };
    let (strict, lenient) = (opened(0), opened(1));
    assert_ne!(strict.cache.dir, lenient.cache.dir);
    assert_eq!(strict.digest, lenient.digest);
}
