//! Indexes that are kept: their digests, and the use of one that is old, foreign, damaged or half-written, or of files
//! that have changed since.

use super::sets::{ALL, DataSet};
use super::{Folders, IndexedStream, kept_index, open, samples, write};
use crate::config::StreamConfig;
use crate::error::Result;

impl DataSet {
    fn folders(&self) -> Folders {
        Folders::new(self.fill)
    }

    fn open(&self, folders: &Folders) -> Result<IndexedStream> {
        let mut stream = folders.stream(self.list);
        (self.options)(&mut stream);
        open(stream)
    }
}

#[test]
fn the_digests_of_indexes_equal_the_digests_of_earlier_versions() {
    for set in &ALL {
        let folders = set.folders();
        let made = set.open(&folders).unwrap();
        let kept = set.open(&folders).unwrap();
        assert_eq!((samples(&made), &*made.digest), (set.samples, set.digest), "{}", set.kind);
        assert_eq!((&kept.digest, samples(&kept)), (&made.digest, set.samples), "{}", set.kind);
        assert_eq!(kept.cache.shards.index(), made.cache.shards.index(), "{}", set.kind);
    }
}

#[test]
fn a_kept_index_is_used_while_the_files_are_the_same() {
    for set in &ALL {
        let folders = set.folders();
        let made = set.open(&folders).unwrap();
        let bytes = std::fs::read(kept_index(&made)).unwrap();
        // Damage of the same length and time is not noticed, since no file is read.
        for entry in std::fs::read_dir(folders.data.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let content = vec![0x55; std::fs::read(&path).unwrap().len()];
                std::fs::write(&path, content).unwrap();
            }
        }
        folders.set_times(0);
        let again = set.open(&folders).unwrap();
        assert_eq!((&again.digest, &again.cache.dir), (&made.digest, &made.cache.dir), "{}", set.kind);
        assert_eq!(std::fs::read(kept_index(&again)).unwrap(), bytes, "{}", set.kind);
    }
}

#[test]
fn an_index_that_is_damaged_half_written_or_of_something_else_is_made_again() {
    let data_set = br#"{"version": 2, "shards": []}"#.to_vec();
    for set in &ALL {
        let folders = set.folders();
        let made = set.open(&folders).unwrap();
        let path = kept_index(&made);
        let bytes = std::fs::read(&path).unwrap();
        let half = bytes[..bytes.len() / 2].to_vec();
        let longer = [&bytes[..], b"{"].concat();
        for wrong in [b"".to_vec(), b"{}".to_vec(), b"\0\xff".to_vec(), half, longer, data_set.clone()] {
            std::fs::remove_file(&path).unwrap();
            write(&path, &wrong);
            let again = set.open(&folders).unwrap();
            let shown = String::from_utf8_lossy(&wrong).into_owned();
            assert_eq!((&again.digest, samples(&again)), (&made.digest, set.samples), "{}: {shown}", set.kind);
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{}: {shown}", set.kind);
        }
    }
}

#[test]
fn an_index_of_a_different_kind_or_of_different_files_is_made_again() {
    let indexes: Vec<(&str, Vec<u8>)> = ALL
        .iter()
        .map(|set| {
            let folders = set.folders();
            (set.kind, std::fs::read(kept_index(&set.open(&folders).unwrap())).unwrap())
        })
        .collect();
    for set in &ALL {
        for (kind, other) in indexes.iter().filter(|(kind, _)| *kind != set.kind) {
            let folders = set.folders();
            let made = set.open(&folders).unwrap();
            let path = kept_index(&made);
            std::fs::remove_file(&path).unwrap();
            write(&path, other);
            let again = set.open(&folders).unwrap();
            assert_eq!(again.digest, made.digest, "{} over {kind}", set.kind);
        }
    }
}

#[test]
fn files_that_were_written_again_have_a_new_index() {
    for set in ALL.iter().filter(|set| !matches!(set.kind, "pictures" | "manifest")) {
        let folders = set.folders();
        set.open(&folders).unwrap();
        for entry in std::fs::read_dir(folders.data.path()).unwrap() {
            write(&entry.unwrap().path(), b"no such file");
        }
        folders.set_times(1);
        assert!(set.open(&folders).is_err(), "{}: the files are read again", set.kind);
    }
}

#[test]
fn files_that_were_added_or_removed_have_a_new_index() {
    for set in &ALL {
        let folders = set.folders();
        let made = set.open(&folders).unwrap();
        let (removed, text) = match set.kind {
            "manifest" => ("labels.csv", Some("file_name,text\ndog/0.jpg,a dog\n")),
            "pictures" => ("cat/1.jpg", None),
            "tar" => ("1.tar", None),
            "tfrecord" => ("set.tfrecord-00002-of-00003", None),
            "array_record" => ("set.array_record-00002-of-00003", None),
            "parquet" => ("set-1.parquet", None),
            "tokens" | "windows" => ("b.bin", None),
            // There is one file.
            _ => continue,
        };
        let content = std::fs::read(folders.path(removed)).unwrap();
        std::fs::remove_file(folders.path(removed)).unwrap();
        if let Some(text) = text {
            write(&folders.path(removed), text.as_bytes());
        }
        // As the file system does, which may have too coarse a clock for a test.
        folders.set_times(1);
        let fewer = set.open(&folders).unwrap();
        assert!(samples(&fewer) < set.samples, "{}", set.kind);
        assert_ne!(fewer.digest, made.digest, "{}", set.kind);
        write(&folders.path(removed), &content);
        folders.set_times(2);
        let again = set.open(&folders).unwrap();
        assert_eq!((samples(&again), &again.digest), (set.samples, &made.digest), "{}", set.kind);
    }
}

#[test]
fn the_folder_of_an_index_can_be_opened_without_the_files() {
    for set in ALL.iter().filter(|set| matches!(set.kind, "tar" | "tfrecord" | "pictures" | "manifest")) {
        let folders = set.folders();
        let made = set.open(&folders).unwrap();
        let local = Some(folders.cache.path().to_owned());
        let alone = open(StreamConfig { local: local.clone(), ..StreamConfig::default() }).unwrap();
        assert_eq!((&alone.digest, samples(&alone)), (&made.digest, set.samples), "{}", set.kind);
        // As the folder of a data set it belongs to a different one.
        let other = Folders::new(|data| write(&data.join("index.json"), br#"{"version": 2, "shards": []}"#));
        let of_data_set = open(StreamConfig { local, ..other.stream("") }).unwrap();
        assert_eq!(samples(&of_data_set), 0, "{}", set.kind);
    }
}
