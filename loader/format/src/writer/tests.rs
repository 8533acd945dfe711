use std::sync::{Arc, Mutex};

use super::{LocalDir, Options, Sink, Writer};
use crate::ErrorKind;
use crate::columns::Scratch;
use crate::encoding::{Encoding, Value};
use crate::hash::HashAlgo;
use crate::{Compression, Index};
use crate::{Layout, XsvKind};
use bytes::Bytes;
use forebay_core::error::{Error, Result};

type NamedBytes = (String, Vec<u8>);

/// Stored files in the order of their arrival, and the file to reject.
#[derive(Clone, Default)]
struct MemorySink {
    files: Arc<Mutex<Vec<NamedBytes>>>,
    rejected: Option<&'static str>,
}

impl MemorySink {
    fn file(&self, name: &str) -> Vec<u8> {
        let files = self.files.lock().unwrap();
        files.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no file {name}")).1.clone()
    }

    fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }
}

impl Sink for MemorySink {
    fn put(&self, basename: &str, pieces: &[Bytes]) -> Result<()> {
        if self.rejected.is_some_and(|name| basename.contains(name)) {
            return Err(Error::new(ErrorKind::Full, "no room").with("file", basename));
        }
        self.files.lock().unwrap().push((basename.to_owned(), pieces.concat()));
        Ok(())
    }

    fn finish(&self, index: &[u8]) -> Result<()> {
        self.put("index.json", &[index.to_vec().into()])
    }
}

fn id_and_sample() -> Layout {
    Layout::mds([("sample".to_owned(), Encoding::Int), ("id".to_owned(), Encoding::Str)]).unwrap()
}

fn limited(size_limit: u64) -> Options {
    Options { size_limit: Some(size_limit), threads: 2, ..Options::default() }
}

#[test]
fn the_documented_shard_is_written_byte_for_byte() {
    let memory = MemorySink::default();
    let mut writer = Writer::new(id_and_sample(), Box::new(memory.clone()), limited(256)).unwrap();
    for i in 0..10i64 {
        let id = format!("{i:06}");
        writer.write(&[id.as_str().into(), Value::Int(3 * i)]).unwrap();
    }
    let index = writer.finish().unwrap();
    let shard = memory.file("shard.00000.mds");
    assert_eq!(shard.len(), 256);
    let head = [[3, 0, 0, 0], [0xca, 0, 0, 0], [0xdc, 0, 0, 0], [0xee, 0, 0, 0], [0, 1, 0, 0]].concat();
    assert_eq!(shard[..20], head);
    assert_eq!(shard[0xca..0xdc], *b"\x06\0\0\x00000000\0\0\0\0\0\0\0\0");
    assert_eq!(index.shards.iter().map(|s| s.samples).collect::<Vec<_>>(), [3, 3, 3, 1]);
    assert_eq!(memory.names().last().unwrap(), "index.json", "the index comes last");
    assert_eq!(Index::parse(&memory.file("index.json"), "index.json").unwrap(), index);

    let mut scratch = Scratch::default();
    let offsets = index.shards[1].offsets(&memory.file("shard.00001.mds")).unwrap();
    let (start, len) = offsets.range(2).unwrap();
    let second = memory.file("shard.00001.mds");
    let columns = index.shards[1].layout.split(&second[start as usize..][..len as usize], &mut scratch).unwrap();
    assert_eq!(columns.get(0), b"000005");
}

#[test]
fn a_first_sample_that_is_too_large_leaves_an_empty_shard() {
    for layout in [
        Layout::mds([("a".to_owned(), Encoding::Str)]).unwrap(),
        Layout::jsonl([("a", "str")], "\n").unwrap(),
        Layout::xsv(XsvKind::Csv, [("a", "str")], "", "\n").unwrap(),
    ] {
        let memory = MemorySink::default();
        let mut writer = Writer::new(layout, Box::new(memory.clone()), limited(300)).unwrap();
        for size in [1000, 1, 1000] {
            writer.write(&[Value::Str("x".repeat(size).into())]).unwrap();
        }
        let index = writer.finish().unwrap();
        assert_eq!(index.shards.iter().map(|s| s.samples).collect::<Vec<_>>(), [0, 1, 1, 1]);
        for shard in &index.shards {
            let table = shard.offsets(&memory.file(&shard.table_file().basename)).unwrap();
            assert_eq!(table.len() as u64, shard.samples);
        }
    }
}

#[test]
fn an_empty_data_set_has_an_index_of_28_bytes() {
    let memory = MemorySink::default();
    Writer::new(id_and_sample(), Box::new(memory.clone()), Options::default()).unwrap().finish().unwrap();
    assert_eq!(memory.file("index.json"), b"{\"shards\": [], \"version\": 2}");
}

#[test]
fn compressed_shards_unpack_to_the_uncompressed_ones() {
    let write = |compression: Option<&str>| {
        let memory = MemorySink::default();
        let options = Options {
            compression: compression.map(|c| Compression::parse(c).unwrap()),
            hashes: vec![HashAlgo::Sha1, HashAlgo::Xxh64],
            ..limited(400)
        };
        let mut writer =
            Writer::new(Layout::jsonl([("a", "int")], "\n").unwrap(), Box::new(memory.clone()), options).unwrap();
        (0..100).for_each(|i| writer.write(&[Value::Int(i)]).unwrap());
        (writer.finish().unwrap(), memory)
    };
    let (plain, raw) = write(None);
    for text in ["zstd:3", "gz", "br:4", "bz2", "snappy"] {
        let (index, packed) = write(Some(text));
        assert!(packed.names().iter().all(|n| n == "index.json" || n.ends_with(text.split(':').next().unwrap())));
        for (shard, expected) in index.shards.iter().zip(&plain.shards) {
            let mut out = Vec::new();
            for (pair, original) in shard.files().zip(expected.files()) {
                let zip = pair.zip.unwrap();
                let bytes = packed.file(&zip.basename);
                assert_eq!(zip.bytes, bytes.len() as u64);
                assert_eq!(zip.hashes.get(HashAlgo::Sha1).unwrap(), HashAlgo::Sha1.hex(&bytes));
                shard.compression.unwrap().decompress(&bytes, pair.raw.bytes, &mut out).unwrap();
                assert_eq!(pair.raw.hashes.get(HashAlgo::Xxh64).unwrap(), HashAlgo::Xxh64.hex(&out));
                // The settings after the offsets contain the compression, so only the data file is the same.
                if pair.raw.basename == shard.raw_data.basename {
                    assert_eq!(out, raw.file(&original.raw.basename));
                }
            }
        }
    }
}

#[test]
fn a_rejected_sample_is_not_written_and_writing_continues() {
    let memory = MemorySink::default();
    let mut writer = Writer::new(id_and_sample(), Box::new(memory.clone()), limited(4096)).unwrap();
    writer.write(&[Value::Str("a".into()), Value::Int(1)]).unwrap();
    let e = writer.write(&[Value::Str("b".into()), Value::Float(1.0)]).unwrap_err();
    assert!(e.to_string().contains("column sample"), "{e}");
    assert!(writer.write(&[]).is_err());
    assert!(writer.write(&["b".into(), Value::Bytes(b"1234567"[..].into())]).is_err());
    writer.write(&["b".into(), Value::Bytes(b"12345678"[..].into())]).unwrap();
    let index = writer.finish().unwrap();
    assert_eq!(index.samples(), 2);
    assert!(memory.file("shard.00000.mds").ends_with(b"\x01\0\0\0a\x01\0\0\0\0\0\0\0\x01\0\0\0b12345678"));
}

#[test]
fn rows_that_would_be_read_back_as_different_cells_are_rejected() {
    let layout = Layout::xsv(XsvKind::Xsv, [("a", "str"), ("b", "str")], "::", "\r\n").unwrap();
    let mut writer = Writer::new(layout, Box::new(MemorySink::default()), limited(4096)).unwrap();
    writer.write(&["x".into(), "y".into()]).unwrap();
    for (a, b) in [("a::b", ""), ("a:", "b"), ("", "\r\n"), ("a", "b\r\n")] {
        assert_eq!(writer.write(&[a.into(), b.into()]).unwrap_err().kind(), ErrorKind::Config, "{a} {b}");
    }
    assert!(writer.write(&["x".into(), Value::Int(1)]).is_err());
    assert_eq!(writer.finish().unwrap().samples(), 1);
}

#[test]
fn a_failure_of_the_sink_is_returned_and_there_is_no_index() {
    let memory = MemorySink { rejected: Some("00001"), ..MemorySink::default() };
    let mut writer = Writer::new(id_and_sample(), Box::new(memory.clone()), limited(256)).unwrap();
    let mut failed = None;
    for i in 0..1000 {
        if let Err(e) = writer.write(&["000000".into(), Value::Int(i)]) {
            failed = Some(e);
            break;
        }
    }
    let e = failed.unwrap_or_else(|| Error::internal("a thousand samples went by"));
    assert_eq!((e.kind(), e.message()), (ErrorKind::Full, "no room"));
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Closed);
    assert!(!memory.names().contains(&"index.json".to_owned()));
}

#[test]
fn a_failure_of_the_last_shard_is_returned_by_finish() {
    let memory = MemorySink { rejected: Some("00000"), ..MemorySink::default() };
    let mut writer = Writer::new(id_and_sample(), Box::new(memory.clone()), limited(256)).unwrap();
    writer.write(&["000000".into(), Value::Int(0)]).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Full);
    assert!(memory.names().is_empty());
}

#[test]
fn a_dropped_writer_leaves_no_index() {
    let memory = MemorySink::default();
    let mut writer = Writer::new(id_and_sample(), Box::new(memory.clone()), limited(256)).unwrap();
    (0..20).for_each(|i| writer.write(&["000000".into(), Value::Int(i)]).unwrap());
    drop(writer);
    assert!(!memory.names().contains(&"index.json".to_owned()));
}

#[test]
fn invalid_settings_are_rejected() {
    let new = |options| Writer::new(id_and_sample(), Box::new(MemorySink::default()), options).err().map(|e| e.kind());
    assert_eq!(new(limited(0)), Some(ErrorKind::Config));
    assert_eq!(new(limited(1 << 32)), Some(ErrorKind::Config));
    for hashes in [vec![HashAlgo::Xxh64, HashAlgo::Sha1], vec![HashAlgo::Sha1; 2]] {
        assert_eq!(new(Options { hashes, ..Options::default() }), Some(ErrorKind::Config));
    }
    assert!(Layout::mds([("a".to_owned(), Encoding::Str), ("a".to_owned(), Encoding::Str)]).is_err());
    assert!(Layout::jsonl([("a", "bytes")], "\n").is_err());
    assert!(Layout::xsv(XsvKind::Csv, [("a,b", "str")], "", "\n").is_err());
    assert!(Layout::xsv(XsvKind::Xsv, [("a", "str")], "", "\n").is_err());
}

#[test]
fn a_directory_holds_complete_files_only_and_is_not_overwritten_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/set");
    let write = |overwrite| {
        let sink = LocalDir::create(&path, overwrite)?;
        let mut writer = Writer::new(id_and_sample(), Box::new(sink), limited(256))?;
        (0..10).try_for_each(|i| writer.write(&["000000".into(), Value::Int(i)]))?;
        writer.finish()
    };
    let index = write(false).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["index.json", "shard.00000.mds", "shard.00001.mds", "shard.00002.mds", "shard.00003.mds"]);
    assert_eq!(std::fs::read_to_string(path.join("index.json")).unwrap(), index.to_json());

    let e = write(false).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Config, "Directory is not empty: name a new or an empty one"));
    std::fs::create_dir(path.join("sub")).unwrap();
    std::fs::write(path.join("sub/file"), b"x").unwrap();
    assert_eq!(write(true).unwrap(), index);
    assert!(!path.join("sub").exists());
}

#[test]
fn a_failed_write_to_a_directory_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let sink = LocalDir::create(dir.path(), false).unwrap();
    // A directory in the way of the temporary file makes the write fail for any user.
    std::fs::create_dir(dir.path().join("shard.00000.mds.tmp")).unwrap();
    let mut writer = Writer::new(id_and_sample(), Box::new(sink), Options::default()).unwrap();
    writer.write(&["a".into(), Value::Int(1)]).unwrap();
    let e = writer.finish().unwrap_err();
    assert!(e.to_string().contains("shard.00000.mds"), "{e}");
    assert!(!dir.path().join("index.json").exists());
}
