use super::*;
use crate::ErrorKind;
use crate::decode::geometry::Size;
use crate::decode::jpeg::{Subsampling, encode};
use crate::format::writer::{LocalDir, Options, Writer};
use crate::format::{Compression, HashAlgo, INDEX_BASENAME, Index, Layout, Scratch, Shard, Trailer, Value};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn picture(number: u32, progressive: bool) -> Vec<u8> {
    let size = Size { w: 40 + number, h: 90 - number };
    let bytes = size.w * size.h * 3;
    let rgb: Vec<u8> = (0..bytes).map(|i| (i * (number + 3) / 9 + i * i / 5) as u8).collect();
    encode(&rgb, size, 80, Subsampling::S420, progressive).unwrap()
}

/// Pictures 0 to 29; of every ten the fourth is progressive and the fifth is not a picture.
fn value(number: u32) -> Vec<u8> {
    match number % 10 {
        4 => b"no picture".to_vec(),
        _ => picture(number, number % 10 == 3),
    }
}

fn write(folder: &Path, options: &Options) -> Index {
    let columns = [("image", Encoding::Jpeg), ("class", Encoding::Int), ("thumbnail", Encoding::Jpeg)];
    let layout = Layout::mds(columns.map(|(name, encoding)| (name.to_owned(), encoding))).unwrap();
    let mut writer = Writer::new(layout, Box::new(LocalDir::create(folder, false).unwrap()), options.clone()).unwrap();
    for number in 0..30 {
        let values = [
            Value::Int(number.into()),
            Value::Jpeg(value(number).into()),
            Value::Jpeg(picture(number % 5, false).into()),
        ];
        writer.write(&values).unwrap();
    }
    writer.finish().unwrap()
}

fn options(compression: Option<&str>, index: bool) -> Options {
    Options {
        compression: compression.map(|name| Compression::parse(name).unwrap()),
        hashes: vec![HashAlgo::Sha1, HashAlgo::Xxh3_64],
        size_limit: Some(40_000),
        threads: 2,
        index: if index { Some(Arc::new(JpegRows)) } else { None },
    }
}

fn copy(from: &Path, to: &Path, transcode: bool) -> (Index, Vec<CopiedShard>) {
    let copy = IndexedCopy::begin(from, to, transcode).unwrap();
    // In any order.
    let mut shards: Vec<_> = (0..copy.shards()).rev().map(|number| copy.shard(number).unwrap()).collect();
    shards.reverse();
    (copy.finish().unwrap(), shards)
}

/// Raw bytes of a shard.
fn raw(folder: &Path, shard: &Shard) -> Vec<u8> {
    let mut raw = Vec::new();
    match (&shard.zip_data, shard.compression) {
        (Some(zip), Some(compression)) => {
            let packed = fs::read(folder.join(&*zip.basename)).unwrap();
            compression.decompress(&packed, shard.raw_data.bytes, &mut raw).unwrap();
        }
        _ => raw = fs::read(folder.join(&*shard.raw_data.basename)).unwrap(),
    }
    raw
}

#[test]
fn a_copy_equals_the_output_of_a_writer_with_an_index() {
    for compression in [None, Some("zstd")] {
        let root = tempfile::tempdir().unwrap();
        let [plain, written, copied] = ["plain", "written", "copied"].map(|name| root.path().join(name));
        let before = write(&plain, &options(compression, false));
        let index = write(&written, &options(compression, true));
        assert_eq!(copy(&plain, &copied, false).0, index);
        let mut names: Vec<_> = fs::read_dir(&written).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert!(names.len() > 4);
        for name in &names {
            assert!(fs::read(written.join(name)).unwrap() == fs::read(copied.join(name)).unwrap(), "{name:?}");
        }
        assert_eq!(fs::read_dir(&copied).unwrap().count(), names.len());
        // The same samples in the same shards, with sizes and hashes that cover the index.
        for (old, new) in before.shards.iter().zip(&index.shards) {
            assert_eq!(old.samples, new.samples);
            let (before, after) = (raw(&plain, old), raw(&written, new));
            assert!(after.starts_with(&before) && after.len() > before.len());
            assert_eq!(new.raw_data.bytes, after.len() as u64);
            let algo = HashAlgo::Xxh3_64;
            assert_eq!(new.raw_data.hashes.get(algo), Some(algo.hex(&after)));
        }
    }
}

#[test]
fn entries_belong_to_the_values_that_can_have_one() {
    let root = tempfile::tempdir().unwrap();
    let index = write(&root.path().join("set"), &options(None, true));
    let (mut number, mut indexer) = (0, RowIndexer::default());
    for shard in &index.shards {
        let bytes = raw(&root.path().join("set"), shard);
        let table = shard.offsets(&bytes).unwrap();
        let trailer = Trailer::parse(bytes[table.end() as usize..].into(), table.len()).unwrap();
        for sample in 0..table.len() {
            for (column, value) in [(1, value(number)), (2, picture(number % 5, false))] {
                let mut entry = Vec::new();
                let has_one = indexer.append(&value, &mut entry);
                assert_eq!(has_one, column == 2 || ![3, 4].contains(&(number % 10)), "{number}");
                assert_eq!(trailer.entry(column, sample), entry, "{number}");
            }
            assert!(trailer.entry(0, sample).is_empty());
            number += 1;
        }
    }
    assert_eq!(number, 30);
}

#[test]
fn a_copy_counts_its_work_and_can_make_progressive_pictures_baseline() {
    let root = tempfile::tempdir().unwrap();
    let [plain, kept, transcoded, again] = ["plain", "kept", "transcoded", "again"].map(|n| root.path().join(n));
    write(&plain, &options(Some("zstd"), false));
    let total = |shards: &[CopiedShard], of: fn(&CopiedShard) -> u64| shards.iter().map(of).sum::<u64>();
    let (_, shards) = copy(&plain, &kept, false);
    assert_eq!((total(&shards, |s| s.jpegs), total(&shards, |s| s.indexed)), (60, 54));
    assert_eq!(total(&shards, |s| s.transcoded), 0);
    let (index, shards) = copy(&kept, &transcoded, true);
    assert_eq!((total(&shards, |s| s.indexed), total(&shards, |s| s.transcoded)), (57, 3));
    let mut scratch = Scratch::default();
    let mut number = 0;
    for shard in &index.shards {
        let bytes = raw(&transcoded, shard);
        let table = shard.offsets(&bytes).unwrap();
        for sample in 0..table.len() {
            let (start, length) = table.range(sample).unwrap();
            let sample = &bytes[start as usize..][..length as usize];
            let columns = shard.layout.split(sample, &mut scratch).unwrap();
            assert_eq!(columns.get(0), i64::from(number).to_le_bytes());
            let is_changed = number % 10 == 3;
            assert_eq!(columns.get(1) == value(number), !is_changed, "{number}");
            number += 1;
        }
    }
    // An existing index is replaced.
    let (once_more, _) = copy(&transcoded, &again, true);
    assert_eq!(once_more, index);
}

#[test]
fn a_copy_that_fails_leaves_no_index() {
    let root = tempfile::tempdir().unwrap();
    let [plain, lines] = ["plain", "lines"].map(|name| root.path().join(name));
    let index = write(&plain, &options(None, false));
    let to = |name: &str| root.path().join(name);
    // Not all shards.
    let copy = IndexedCopy::begin(&plain, &to("part"), false).unwrap();
    copy.shard(0).unwrap();
    assert_eq!(copy.shard(99).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(copy.finish().unwrap_err().kind(), ErrorKind::Config);
    assert!(!to("part").join(INDEX_BASENAME).exists());
    // Into a folder that is not empty.
    assert_eq!(IndexedCopy::begin(&plain, &to("part"), false).unwrap_err().kind(), ErrorKind::Config);
    // A damaged or truncated shard.
    let shard = plain.join(&*index.shards[1].raw_data.basename);
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let e = IndexedCopy::begin(&plain, &to("damaged"), false).unwrap().shard(1).unwrap_err();
    assert!(e.to_string().contains("damaged") && e.to_string().contains("shard.00001.mds"), "{e}");
    fs::write(&shard, &bytes[..last]).unwrap();
    let e = IndexedCopy::begin(&plain, &to("cut"), false).unwrap().shard(1).unwrap_err();
    assert!(e.to_string().contains("size"), "{e}");
    // No data set, and a different format.
    assert_eq!(IndexedCopy::begin(&to("absent"), &to("x"), false).unwrap_err().kind(), ErrorKind::NotFound);
    let layout = Layout::jsonl([("text", "str")], "\n").unwrap();
    let mut writer =
        Writer::new(layout, Box::new(LocalDir::create(&lines, false).unwrap()), options(None, true)).unwrap();
    writer.write(&[Value::Str("a".into())]).unwrap();
    writer.finish().unwrap();
    let e = IndexedCopy::begin(&lines, &to("y"), false).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
}
