//! Chunks and documents, made here byte by byte; `python/tests/sources/test_litdata.py` compares with LitData.

use serde_json::json;

use super::{DataSet, Fronts};
use crate::columns::Scratch;
use crate::encoding::Value;
use crate::index::{Index, Shard};
use crate::tokens::TokenWindow;
use forebay_core::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Files in memory.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Fronts for Files {
    fn fronts(&self, names: &[&str], bytes: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let front = |name: &&str| {
            let file =
                self.0.get(*name).ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file").with("file", name))?;
            Ok((file[..file.len().min(bytes)].to_vec(), file.len() as u64))
        };
        names.iter().map(front).collect()
    }
}

/// Item of leaves, after their sizes.
fn item(leaves: &[&[u8]]) -> Vec<u8> {
    let sizes = leaves.iter().flat_map(|leaf| (leaf.len() as u32).to_le_bytes());
    sizes.chain(leaves.iter().flat_map(|leaf| leaf.iter().copied())).collect()
}

fn chunk(items: &[Vec<u8>]) -> Vec<u8> {
    let mut offset = 4 * (items.len() as u32 + 2);
    let mut chunk = (items.len() as u32).to_le_bytes().to_vec();
    chunk.extend(offset.to_le_bytes());
    for item in items {
        offset += item.len() as u32;
        chunk.extend(offset.to_le_bytes());
    }
    chunk.extend(items.concat());
    chunk
}

fn leaf() -> serde_json::Value {
    json!({"type": null, "context": null, "children_spec": []})
}

/// Description of a dictionary of leaves.
fn spec(keys: &[&str]) -> String {
    let context = json!(keys).to_string();
    let children: Vec<_> = keys.iter().map(|_| leaf()).collect();
    json!([1, {"type": "builtins.dict", "context": context, "children_spec": children}]).to_string()
}

/// Document of a data set with these columns and chunks.
fn document(columns: &[(&str, &str)], chunks: &[(&str, &[u8], u32)]) -> serde_json::Value {
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let formats: Vec<_> = columns.iter().map(|(_, format)| *format).collect();
    let chunk = |(name, bytes, items): &(&str, &[u8], u32)| {
        let bytes = bytes.len();
        json!({"chunk_bytes": bytes, "chunk_size": items, "dim": null, "filename": name})
    };
    json!({
        "chunks": chunks.iter().map(chunk).collect::<Vec<_>>(),
        "config": {"chunk_bytes": null, "chunk_size": 2, "compression": null, "data_format": formats,
            "data_spec": spec(&names), "encryption": null, "item_loader": "PyTreeLoader"},
    })
}

/// Returns the index of a document, after a round through the form in which it is kept.
fn index(document: &serde_json::Value, files: &Files) -> Result<Index> {
    let set = DataSet::parse(document.to_string().as_bytes())?.expect("a document of LitData");
    Index::parse(set.index(files)?.to_json().as_bytes(), "index.json")
}

/// Returns the values of sample `number` of a chunk.
fn values(shard: &Shard, chunk: &[u8], number: usize) -> Result<Vec<String>> {
    let (start, len) = shard.offsets(chunk)?.range(number)?;
    let mut scratch = Scratch::default();
    let columns = shard.layout.split(&chunk[start as usize..][..len as usize], &mut scratch)?;
    let values = shard.layout.columns.iter().zip(columns.iter());
    values.map(|(column, bytes)| Ok(format!("{:?}", column.encoding.decode(bytes)?))).collect()
}

fn two_columns() -> (serde_json::Value, Files) {
    let first = chunk(&[item(&[&7_i64.to_le_bytes(), b"seven"]), item(&[&8_i64.to_le_bytes(), b""])]);
    let last = chunk(&[item(&[&9_i64.to_le_bytes(), b"nine"])]);
    let document = document(&[("i", "int"), ("s", "str")], &[("a.bin", &first, 2), ("b.bin", &last, 1)]);
    (document, Files([("a.bin".into(), first), ("b.bin".into(), last)].into()))
}

#[test]
fn items_are_the_leaves_of_their_trees() {
    let (document, files) = two_columns();
    let index = index(&document, &files).unwrap();
    assert_eq!(index.samples(), 3);
    let shard = &index.shards[0];
    let names: Vec<_> = shard.layout.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["i", "s"]);
    assert_eq!(values(shard, &files.0["a.bin"], 0).unwrap(), ["Int(7)", "Str(\"seven\")"]);
    assert_eq!(values(shard, &files.0["a.bin"], 1).unwrap(), ["Int(8)", "Str(\"\")"]);
    assert_eq!(values(&index.shards[1], &files.0["b.bin"], 0).unwrap(), ["Int(9)", "Str(\"nine\")"]);
}

#[test]
fn the_lengths_of_chunks_follow_from_their_version_or_are_requested() {
    let (mut document, files) = two_columns();
    let lengths = |document: &serde_json::Value| -> Vec<u64> {
        index(document, &files).unwrap().shards.iter().map(|shard| shard.raw_data.bytes).collect()
    };
    let whole = lengths(&document);
    assert_eq!(whole, [files.0["a.bin"].len() as u64, files.0["b.bin"].len() as u64]);
    for (chunk, items) in [(0, 2), (1, 1)] {
        // Earlier versions did not count the table. With one chunk of each, both are requested.
        let bytes = &mut document["chunks"][chunk]["chunk_bytes"];
        *bytes = (bytes.as_u64().unwrap() - 4 * (items + 2)).into();
        assert_eq!(lengths(&document), whole);
    }
}

#[test]
fn the_leaves_of_nested_trees_have_the_paths_to_them() {
    let list = |children: Vec<_>| json!({"type": "builtins.list", "context": "null", "children_spec": children});
    let dict = |keys: &[&str], children: Vec<_>| {
        let context = json!(keys).to_string();
        json!({"type": "builtins.dict", "context": context, "children_spec": children})
    };
    let defaults = json!({"type": "collections.defaultdict", "children_spec": [leaf()],
        "context": {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["k"]}});
    for (tree, names) in [
        (leaf(), &["0"] as &[&str]),
        (list(vec![leaf(), list(vec![leaf(), leaf()])]), &["0", "1.0", "1.1"]),
        (dict(&["a", "b"], vec![leaf(), dict(&["c"], vec![list(vec![leaf()])])]), &["a", "b.c.0"]),
        (defaults, &["k"]),
        (json!({"type": "my.Pair", "context": "{}", "children_spec": [leaf(), leaf()]}), &["0", "1"]),
    ] {
        let found = super::tree::leaf_names(&json!([1, tree]).to_string(), "0").unwrap();
        assert_eq!(found, names, "{tree}");
    }
    let deep = (0..100).fold(leaf(), |tree, _| list(vec![tree]));
    for wrong in
        [json!([2, leaf()]), json!([1]), json!([1, deep]), json!([1, dict(&["a"], vec![])]), json!([1, {}]), json!(1)]
    {
        let e = super::tree::leaf_names(&wrong.to_string(), "0").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{wrong}");
    }
}

/// Tokens 0 to 11 in three items of 3, 4 and 5.
fn tokens() -> (serde_json::Value, Files) {
    let of = |range: std::ops::Range<i32>| range.flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
    let chunk = chunk(&[of(0..3), of(3..7), of(7..12)]);
    let mut document = document(&[("x", "no_header_tensor:16")], &[("a.bin", &chunk, 3)]);
    document["chunks"][0]["dim"] = 12.into();
    document["config"]["data_spec"] = json!([1, leaf()]).to_string().into();
    document["config"]["item_loader"] = "TokensLoader".into();
    (document, Files([("a.bin".into(), chunk)].into()))
}

fn ints(shard: &Shard, chunk: &[u8], number: usize) -> Vec<i32> {
    let (start, len) = shard.offsets(chunk).unwrap().range(number).unwrap();
    let mut scratch = Scratch::default();
    let columns = shard.layout.split(&chunk[start as usize..][..len as usize], &mut scratch).unwrap();
    match shard.layout.columns[0].encoding.decode(columns.get(0)).unwrap() {
        Value::Array(array) => array.data.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tokens_are_read_by_item_or_by_window() {
    let (document, files) = tokens();
    let chunk = &files.0["a.bin"];
    let items = index(&document, &files).unwrap();
    assert_eq!(items.shards[0].layout.columns[0].name, "tokens");
    let all: Vec<_> = (0..3).map(|number| ints(&items.shards[0], chunk, number)).collect();
    assert_eq!(all, [(0..3).collect::<Vec<_>>(), (3..7).collect(), (7..12).collect()]);
    for (tokens, stride, starts) in [
        (5, 5, &[0, 5] as &[i32]),
        (4, 4, &[0, 4, 8]),
        (4, 3, &[0, 3, 6]),
        (2, 5, &[0, 5, 10]),
        (12, 1, &[0]),
        (13, 1, &[]),
    ] {
        let windows = items.windows(TokenWindow { tokens, stride }).unwrap();
        let shard = &windows.shards[0];
        assert_eq!(shard.samples as usize, starts.len());
        for (number, start) in starts.iter().enumerate() {
            assert_eq!(ints(shard, chunk, number), (*start..start + tokens as i32).collect::<Vec<_>>());
        }
        // The identity of the data set depends on its windows.
        assert_ne!(windows.to_json(), items.to_json());
        assert_ne!(windows.to_json(), items.windows(TokenWindow { tokens, stride: stride + 1 }).unwrap().to_json());
    }
    for (tokens, stride) in [(0, 1), (1, 0), (u32::MAX, 1)] {
        assert_eq!(items.windows(TokenWindow { tokens, stride }).unwrap_err().kind(), ErrorKind::Config);
    }
    let (document, files) = two_columns();
    let e = index(&document, &files).unwrap().windows(TokenWindow { tokens: 2, stride: 2 }).unwrap_err();
    assert!(e.to_string().contains("windows are cut from tokens"), "{e}");
}

#[test]
fn an_error_names_the_field_that_cannot_be_read() {
    let (good, files) = two_columns();
    for (field, value, kind, says) in [
        ("encryption", json!({"algorithm": "fernet", "level": "sample"}), ErrorKind::Unsupported, "encrypted"),
        ("item_loader", json!("ParquetLoader"), ErrorKind::Unsupported, "Parquet"),
        ("item_loader", json!("TemporalArrayLoader"), ErrorKind::Unsupported, "TemporalArrayLoader"),
        ("compression", json!("gz"), ErrorKind::Unsupported, "zstd"),
        ("data_format", json!(["int"]), ErrorKind::Format, "2 leaves and 1 formats"),
        ("data_format", json!("int"), ErrorKind::Format, "LitData does not write it in this form"),
        ("data_spec", json!("[]"), ErrorKind::Format, "data_spec"),
        ("item_loader", json!("TokensLoader"), ErrorKind::Format, "tokens are one array of integers, not int, str"),
    ] {
        let mut document = good.clone();
        document["config"][field] = value;
        let e = index(&document, &files).unwrap_err();
        assert_eq!(e.kind(), kind, "{field}: {e}");
        assert!(e.to_string().contains(says), "{field}: {e}");
    }
    for (field, value) in [
        ("filename", json!("../a.bin")),
        ("filename", json!("/etc/passwd")),
        ("filename", json!("b.bin")),
        ("chunk_size", json!(-1)),
        ("chunk_size", json!(u64::MAX)),
        ("chunk_bytes", json!("x")),
    ] {
        let mut document = good.clone();
        document["chunks"][0][field] = value.clone();
        let e = index(&document, &files).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{field} {value}: {e}");
    }
    for other in ["", "[]", "{}", "{\"chunks\": []}", "{\"shards\": [], \"chunks\": [], \"config\": {}}", "<html>"] {
        assert_eq!(DataSet::parse(other.as_bytes()).unwrap(), None, "{other}");
    }
    let e = Index::parse(good.to_string().as_bytes(), "index.json").unwrap_err();
    assert!(e.to_string().contains("LitData's chunks, which a Loader reads"), "{e}");
}

#[test]
fn a_chunk_that_is_damaged_anywhere_is_an_error_or_has_different_values() {
    for (document, files) in [two_columns(), tokens()] {
        let items = index(&document, &files).unwrap();
        let mut indexes = vec![items.clone()];
        indexes.extend(items.windows(TokenWindow { tokens: 5, stride: 3 }));
        for index in indexes {
            let (shard, good) = (&index.shards[0], &files.0["a.bin"]);
            let read = |bytes: &[u8]| -> Result<()> {
                let table = shard.offsets(bytes)?;
                let mut scratch = Scratch::default();
                for number in 0..shard.samples as usize {
                    let (start, len) = table.range(number)?;
                    let sample = bytes.get(start as usize..).and_then(|rest| rest.get(..len as usize));
                    let sample = sample.ok_or_else(|| Error::format("the sample is outside the file"))?;
                    for (column, bytes) in
                        shard.layout.columns.iter().zip(shard.layout.split(sample, &mut scratch)?.iter())
                    {
                        column.encoding.decode(bytes)?;
                    }
                }
                Ok(())
            };
            read(good).unwrap();
            // Bytes after the last window are in no sample.
            for len in 0..shard.offsets(&good[..]).unwrap().end() as usize {
                assert_eq!(read(&good[..len]).unwrap_err().kind(), ErrorKind::Format, "{len}");
            }
            for at in 0..good.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at] ^= value;
                    if let Err(e) = read(&bad) {
                        assert_eq!(e.kind(), ErrorKind::Format, "{at} {value}: {e}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_in_an_arrow_file_are_not_taken_for_empty_items() {
    let mut rows = chunk(&[vec![], vec![]]);
    rows.extend(b"ARROW1 ... LDARW01\0");
    let document = document(&[("l", "json")], &[("a.bin", &rows, 2)]);
    let index = index(&document, &Files([("a.bin".into(), rows.clone())].into())).unwrap();
    let e = index.shards[0].offsets(&rows).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("Arrow file") && e.to_string().contains("a.bin"), "{e}");
}

/// The same chunk, with its items in frames of two.
fn framed(chunk: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap());
    let items = word(0) as usize;
    let offsets: Vec<u32> = (0..=items).map(|i| word(4 + 4 * i)).collect();
    let frames: Vec<usize> = (0..items).step_by(2).collect();
    let mut packed = b"LDFZ01\0\0\x01\0\0\0".to_vec();
    for word in [items as u32, 2, frames.len() as u32] {
        packed.extend(word.to_le_bytes());
    }
    packed.extend(offsets.iter().flat_map(|offset| (offset - offsets[0]).to_le_bytes()));
    let mut place = packed.len() + 24 * frames.len();
    let mut content = Vec::new();
    for &first in &frames {
        let end = (first + 2).min(items);
        let raw = &chunk[offsets[first] as usize..offsets[end] as usize];
        let frame = zstd::bulk::compress(raw, 3).unwrap();
        packed.extend((first as u32).to_le_bytes());
        packed.extend((end as u32 - first as u32).to_le_bytes());
        packed.extend((place as u64).to_le_bytes());
        packed.extend((frame.len() as u32).to_le_bytes());
        packed.extend((raw.len() as u32).to_le_bytes());
        place += frame.len();
        content.extend(frame);
    }
    packed.extend(content);
    packed
}

#[test]
fn items_that_are_compressed_in_groups_are_unpacked_with_their_chunk() {
    let (mut document, mut files) = two_columns();
    document["config"]["compression"] = "zstd:3".into();
    document["config"]["compression_level"] = "batch".into();
    let plain = files.0.clone();
    files.0.values_mut().for_each(|chunk| *chunk = framed(chunk));
    let index = index(&document, &files).unwrap();
    for shard in &index.shards {
        let stored = shard.zip_data.as_ref().unwrap();
        let (packed, raw) = (&files.0[&*stored.basename], &plain[&*stored.basename]);
        assert_eq!((stored.bytes, shard.raw_data.bytes), (packed.len() as u64, raw.len() as u64));
        let (compression, mut out) = (shard.compression.unwrap(), Vec::new());
        compression.decompress(packed, shard.raw_data.bytes, &mut out).unwrap();
        assert_eq!(&out, raw);
        for len in 0..packed.len() {
            let e = compression.decompress(&packed[..len], shard.raw_data.bytes, &mut out).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{len}: {e}");
        }
        for at in 0..packed.len() {
            for value in [1, 0x7f, 0x80, 0xff] {
                let mut bad = packed.clone();
                bad[at] ^= value;
                if let Err(e) = compression.decompress(&bad, shard.raw_data.bytes, &mut out) {
                    assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{at} {value}: {e}");
                }
            }
        }
    }
    files.0.insert("a.bin".into(), plain["a.bin"].clone());
    let e = DataSet::parse(document.to_string().as_bytes()).unwrap().unwrap().index(&files).unwrap_err();
    assert!(e.to_string().contains("not compressed in groups") && e.to_string().contains("a.bin"), "{e}");
}

#[test]
fn items_that_are_compressed_alone_are_unpacked_when_they_are_read() {
    let (mut document, mut files) = two_columns();
    document["config"]["compression"] = "zstd".into();
    document["config"]["compression_level"] = "sample".into();
    let items = [item(&[&7_i64.to_le_bytes(), b"seven"]), item(&[&8_i64.to_le_bytes(), &[b'x'; 5000]])];
    let packed = chunk(&items.map(|item| zstd::bulk::compress(&item, 4).unwrap()));
    document["chunks"][0]["chunk_bytes"] = packed.len().into();
    files.0.insert("a.bin".into(), packed.clone());
    let index = index(&document, &files).unwrap();
    let shard = &index.shards[0];
    assert_eq!(values(shard, &packed, 0).unwrap(), ["Int(7)", "Str(\"seven\")"]);
    assert_eq!(values(shard, &packed, 1).unwrap()[1].len(), 5000 + "Str(\"\")".len());
    for at in shard.offsets(&packed[..]).unwrap().range(0).unwrap().0 as usize..packed.len() {
        for value in [1, 0x7f, 0x80, 0xff] {
            let mut bad = packed.clone();
            bad[at] ^= value;
            for number in 0..2 {
                if let Err(e) = values(shard, &bad, number) {
                    assert_eq!(e.kind(), ErrorKind::Format, "{at} {value}: {e}");
                }
            }
        }
    }
}
