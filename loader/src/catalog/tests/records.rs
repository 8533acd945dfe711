//! TFRecord and ArrayRecord files.

use super::sets::made;
use super::{Folders, check, open, samples, write};
use crate::error::ErrorKind;
use crate::format::Compression;

fn tfrecord(name: &str) -> Vec<u8> {
    std::fs::read(made("tfrecord").join(name)).unwrap()
}

fn array_record(name: &str) -> Vec<u8> {
    let packed = std::fs::read(made("array_record").join(format!("{name}.gz"))).unwrap();
    Compression::GZIP.decompress_all(&packed, 1 << 30).unwrap()
}

/// Index of a record file as DALI writes it.
fn idx_of(mut records: &[u8]) -> String {
    let (mut lines, mut start) = (String::new(), 0);
    while let Some(length) = records.first_chunk() {
        let bytes = u64::from_le_bytes(*length) as usize + 16;
        lines.push_str(&format!("{start} {bytes}\n"));
        (records, start) = (&records[bytes..], start + bytes);
    }
    lines
}

#[test]
fn records_are_counted_by_the_indexes_of_their_files() {
    let parts = [0, 1].map(|part| tfrecord(&format!("set.tfrecord-0000{part}-of-00003")));
    let folders = Folders::new(|data| {
        for (name, part) in [("a.tfrecord", &parts[0]), ("b.tfrecord", &parts[1])] {
            write(&data.join(name), part);
            write(&data.join(format!("{name}.idx")), idx_of(part).as_bytes());
        }
    });
    assert_eq!(samples(&folders.open("*.tfrecord").unwrap()), 17);
    // The index of a different file is not used, nor is one that is damaged, and the file is read.
    for wrong in [idx_of(&parts[0]), "0 x\n".to_owned()] {
        write(&folders.path("b.tfrecord.idx"), wrong.as_bytes());
        std::fs::remove_dir_all(folders.cache.path()).unwrap();
        assert_eq!(samples(&folders.open("*.tfrecord").unwrap()), 17, "{wrong}");
    }
    // A damaged record is one of the samples, and a damaged length hides those after it.
    let all = || {
        std::fs::remove_dir_all(folders.cache.path()).unwrap();
        let mut stream = folders.stream("*.tfrecord");
        stream.ignore_counts = true;
        open(stream)
    };
    let mut damaged = parts[0].clone();
    let last = damaged.len() - 5;
    damaged[last] ^= 1;
    write(&folders.path("a.tfrecord"), &damaged);
    assert_eq!(samples(&all().unwrap()), 17);
    damaged[0] ^= 1;
    write(&folders.path("a.tfrecord"), &damaged);
    check(&all().expect_err("damaged"), ErrorKind::Format, &["does not match its CRC", "file a.tfrecord"]);
}

#[test]
fn record_files_that_cannot_be_one_stream_are_named() {
    let folders = Folders::new(|data| {
        write(&data.join("a.tfrecord"), &tfrecord("set.tfrecord-00000-of-00003"));
        write(&data.join("b.tfrecord"), &tfrecord("packed.tfrecord.gz"));
        write(&data.join("a.tfrecord.gz"), &tfrecord("packed.tfrecord.gz"));
    });
    check(&folders.error("{a,b}.tfrecord"), ErrorKind::Unsupported, &["read them as two streams", "file b.tfrecord"]);
    check(&folders.error("a.{tfrecord,tfrecord.gz}"), ErrorKind::Config, &["leave one of them out", "a.tfrecord"]);
    check(&folders.error("{a,c}.tfrecord"), ErrorKind::NotFound, &["c.tfrecord"]);
    write(&folders.path("b.tfrecord"), b"no records, and no head of one");
    check(&folders.error("{a,b}.tfrecord"), ErrorKind::Format, &["file b.tfrecord"]);
}

#[test]
fn folders_of_records_are_read_by_a_list_of_them() {
    for name in ["a.tfrecord", "a.array_record"] {
        check(&Folders::of_names(&[name]).error(""), ErrorKind::NotFound, &["index.json"]);
    }
}

#[test]
fn array_record_files_that_are_cut_off_or_something_else_are_named() {
    let whole = array_record("default.array_record");
    let folders = Folders::new(|data| write(&data.join("a.array_record"), &whole));
    let count = samples(&folders.open("a.array_record").unwrap());
    assert_eq!(count, 10);
    for (content, message) in [(&whole[..100], "too short"), (&vec![0x55; 1 << 17], "")] {
        write(&folders.path("b.array_record"), content);
        check(&folders.error("{a,b}.array_record"), ErrorKind::Format, &["file b.array_record", message]);
    }
    check(&folders.error("{a,c}.array_record"), ErrorKind::NotFound, &["c.array_record"]);
}

#[test]
fn all_records_show_the_features_if_counts_are_ignored() {
    let folders = Folders::new(|data| write(&data.join("many.array_record"), &array_record("many.array_record")));
    let sampled = folders.open("many.array_record").unwrap();
    let mut stream = folders.stream("many.array_record");
    stream.ignore_counts = true;
    let all = open(stream).unwrap();
    assert_eq!(samples(&all), samples(&sampled));
    assert_ne!(all.cache.dir, sampled.cache.dir);
}
