//! A small data set of each kind of files.

use super::write;
use crate::config::StreamConfig;
use crate::format::Compression;
use std::path::{Path, PathBuf};

/// Data set of a kind.
pub(super) struct DataSet {
    pub(super) kind: &'static str,
    /// List of its files below their folder; empty for the folder.
    pub(super) list: &'static str,
    pub(super) fill: fn(&Path),
    /// Options of the stream.
    pub(super) options: fn(&mut StreamConfig),
    pub(super) samples: u64,
    /// Digest by which a checkpoint knows the index. It never changes: a checkpoint of an earlier version is resumed.
    pub(super) digest: &'static str,
}

/// All kinds with indexes that are kept.
pub(super) const ALL: [DataSet; 9] = [
    DataSet { kind: "tar", list: "*.tar", fill: tars, options: |_| (), samples: 3, digest: "e387c4e986afc7b4" },
    DataSet {
        kind: "tfrecord",
        list: "set.tfrecord-*",
        fill: records,
        options: |_| (),
        samples: 18,
        digest: "3995a414a24f2809",
    },
    DataSet {
        kind: "array_record",
        list: "set.array_record-*",
        fill: array_records,
        options: |_| (),
        samples: 18,
        digest: "7fe8c9c678fc58ce",
    },
    DataSet {
        kind: "parquet",
        list: "*.parquet",
        fill: tables,
        options: |_| (),
        samples: 1120,
        digest: "895607b50b4550cc",
    },
    DataSet { kind: "arrow", list: "*.arrow", fill: arrow, options: |_| (), samples: 40, digest: "0f18b3321e9d5caf" },
    DataSet { kind: "tokens", list: "*.bin", fill: tokens, options: |_| (), samples: 5, digest: "9803c7421e80d6c6" },
    DataSet {
        kind: "windows",
        list: "*.bin",
        fill: tokens,
        options: |stream| stream.window = Some(4.into()),
        samples: 4,
        digest: "1ea44c9a2964d4d0",
    },
    DataSet { kind: "pictures", list: "", fill: pictures, options: |_| (), samples: 3, digest: "e471b7c999136542" },
    DataSet {
        kind: "manifest",
        list: "",
        fill: pictures,
        options: |stream| stream.manifest = Some("labels.csv".to_owned()),
        samples: 2,
        digest: "265a18fd38b7d78e",
    },
];

/// Path of a file of the tests' data.
pub(super) fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

fn copy(folder: &str, names: &[&str], into: &Path) {
    for name in names {
        write(&into.join(name), &std::fs::read(made(folder).join(name)).unwrap());
    }
}

/// Returns a tar with `files`, each of its name as its content.
pub(super) fn tar_of(files: &[&str]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(name.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn tars(folder: &Path) {
    write(&folder.join("0.tar"), &tar_of(&["a.cls", "a.txt", "b.cls", "b.txt"]));
    write(&folder.join("1.tar"), &tar_of(&["c.cls"]));
}

fn records(folder: &Path) {
    let names = ["set.tfrecord-00000-of-00003", "set.tfrecord-00001-of-00003", "set.tfrecord-00002-of-00003"];
    copy("tfrecord", &names, folder);
}

fn array_records(folder: &Path) {
    for part in 0..3 {
        let name = format!("set.array_record-0000{part}-of-00003");
        let packed = std::fs::read(made("array_record").join(format!("{name}.gz"))).unwrap();
        write(&folder.join(name), &Compression::GZIP.decompress_all(&packed, 1 << 30).unwrap());
    }
}

fn tables(folder: &Path) {
    copy("parquet", &["set-0.parquet", "set-1.parquet"], folder);
}

fn arrow(folder: &Path) {
    copy("parquet", &["pyarrow-stream.arrow"], folder);
}

/// Returns a pair of Megatron's files with documents of these numbers of tokens, which are 16 bits each.
pub(super) fn token_files(documents: &[i32]) -> (Vec<u8>, Vec<u8>) {
    let mut idx = b"MMIDIDX\0\0".to_vec();
    idx.extend(1_u64.to_le_bytes());
    idx.push(8);
    idx.extend((documents.len() as u64).to_le_bytes());
    idx.extend((documents.len() as u64 + 1).to_le_bytes());
    idx.extend(documents.iter().flat_map(|tokens| tokens.to_le_bytes()));
    let ends = documents.iter().scan(0_i64, |end, tokens| {
        *end += i64::from(*tokens) * 2;
        Some(*end)
    });
    let ends: Vec<i64> = std::iter::once(0).chain(ends).collect();
    idx.extend(ends[..documents.len()].iter().flat_map(|start| start.to_le_bytes()));
    idx.extend((0..=documents.len() as i64).flat_map(i64::to_le_bytes));
    (vec![7; *ends.last().unwrap() as usize], idx)
}

fn tokens(folder: &Path) {
    for (name, documents) in [("a", &[3, 5, 2][..]), ("b", &[4, 6])] {
        let (bin, idx) = token_files(documents);
        write(&folder.join(format!("{name}.bin")), &bin);
        write(&folder.join(format!("{name}.idx")), &idx);
    }
}

fn pictures(folder: &Path) {
    for (name, bytes) in [("cat/0.jpg", "one"), ("cat/1.jpg", "two"), ("dog/0.jpg", "three")] {
        write(&folder.join(name), bytes.as_bytes());
    }
    write(&folder.join("labels.csv"), b"file_name,text\ndog/0.jpg,a dog\ncat/1.jpg,a cat\n");
}
