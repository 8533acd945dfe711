//! Megatron's files of token ids.

use super::sets::token_files;
use super::{Folders, check, open, samples, set_times, shard_names, write};
use crate::error::ErrorKind;

fn pair() -> Folders {
    Folders::new(|data| {
        let (bin, idx) = token_files(&[3, 5, 2]);
        write(&data.join("a.bin"), &bin);
        write(&data.join("a.idx"), &idx);
    })
}

#[test]
fn a_pair_is_named_by_its_first_file_or_by_the_common_part_of_both_names() {
    let folders = pair();
    let by_file = folders.open("a.bin").unwrap();
    assert_eq!((samples(&by_file), shard_names(&by_file)), (3, vec!["a.bin.documents.00000".to_owned()]));
    assert_eq!(folders.open("a").unwrap().digest, by_file.digest);
}

#[test]
fn a_pair_with_an_absent_or_a_different_file_is_an_error() {
    let folders = pair();
    std::fs::rename(folders.path("a.idx"), folders.path("b.idx")).unwrap();
    check(&folders.error("a.bin"), ErrorKind::NotFound, &["is read with the .idx file", "a.idx"]);
    check(&folders.error("b.bin"), ErrorKind::NotFound, &["b.bin"]);
    write(&folders.path("a.idx"), &token_files(&[30, 5]).1);
    check(&folders.error("a.bin"), ErrorKind::Format, &["the .bin file ends before", "a.idx"]);
    write(&folders.path("a.idx"), b"MMIDIDX");
    check(&folders.error("a.bin"), ErrorKind::Format, &["MMIDIDX", "a.idx"]);
}

#[test]
fn windows_are_no_option_for_files_without_tokens() {
    let folders = Folders::new(|data| write(&data.join("0.tar"), &super::sets::tar_of(&["a.cls"])));
    let mut stream = folders.stream("0.tar");
    stream.window = Some(8.into());
    check(&open(stream).expect_err("no tokens"), ErrorKind::Config, &["window is an option for files of token ids"]);
}

#[test]
fn copies_of_ranges_of_files_that_were_written_again_are_removed() {
    for changed in ["a.bin", "a.idx"] {
        let folders = pair();
        folders.open("a.bin").unwrap();
        let copy = folders.cache.path().join("a.bin.documents.00000");
        write(&copy, b"copy");
        folders.open("a.bin").unwrap();
        assert!(copy.exists());
        set_times(&folders.path(changed), 1);
        folders.open("a.bin").unwrap();
        assert!(!copy.exists(), "{changed}");
    }
}
