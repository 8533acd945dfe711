//! Reads a data set of the reference value by value, checks each value, and writes it again.

use std::path::Path;

use forebay_loader::format::encoding::Scalar;
use forebay_loader::format::writer::{LocalDir, Options};
use forebay_loader::format::{FileInfo, INDEX_BASENAME, Index, Scratch, Shard, Value, Writer};
use serde_json::{Value as Json, json};

/// Numbers of samples and values in a set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) samples: usize,
    pub(crate) values: usize,
}

/// Reads `set/data`, compares each value with `set/expected.json`, writes the same values into `ours`, and compares the
/// files: uncompressed ones and the index byte for byte, compressed ones after unpacking.
///
/// # Panics
///
/// On any difference.
pub(crate) fn check(set: &Path, ours: &Path) -> Counts {
    let theirs = set.join("data");
    let expected: Vec<Json> = serde_json::from_slice(&read(&set.join("expected.json"))).unwrap();
    let text = read(&theirs.join(INDEX_BASENAME));
    let index = Index::parse(&text, INDEX_BASENAME).unwrap();
    assert_eq!(index.to_json().as_bytes(), text, "{}: the index prints back as it was", set.display());
    assert_eq!(index.samples() as usize, expected.len());

    let mut seen = Counts::default();
    let mut writer = None;
    for shard in &index.shards {
        let writer = writer.get_or_insert_with(|| copy_writer(shard, ours));
        for_each_sample(shard, &theirs, |sample| {
            let columns = shard.layout.columns.iter();
            for (column, value) in columns.zip(sample) {
                let expected = &expected[seen.samples][&column.name];
                assert_eq!(describe(value), *expected, "{}: sample {}, {}", set.display(), seen.samples, column.name);
                seen.values += 1;
            }
            seen.samples += 1;
            writer.write(sample).unwrap();
        });
    }
    let Some(writer) = writer else { return seen };
    let copied = writer.finish().unwrap();
    assert_same_files(&index, &theirs, &copied, ours);
    seen
}

fn copy_writer(shard: &Shard, ours: &Path) -> Writer {
    let options = Options {
        compression: shard.compression,
        hashes: shard.hashes.to_vec(),
        size_limit: shard.size_limit,
        threads: 2,
        index: None,
    };
    Writer::new((*shard.layout).clone(), Box::new(LocalDir::create(ours, false).unwrap()), options).unwrap()
}

fn for_each_sample(shard: &Shard, dir: &Path, mut sample: impl FnMut(&[Value<'_>])) {
    let table_file = shard.files().next().unwrap();
    assert_eq!(table_file.raw, shard.table_file());
    let front = raw(shard, table_file.raw, table_file.zip, dir);
    let offsets = shard.offsets(&front[..shard.table_bytes() as usize]).unwrap();
    let data = raw(shard, &shard.raw_data, shard.zip_data.as_ref(), dir);
    let mut scratch = Scratch::default();
    for i in 0..offsets.len() {
        let (start, len) = offsets.range(i).unwrap();
        let columns = shard.layout.split(&data[start as usize..][..len as usize], &mut scratch).unwrap();
        let values: Vec<_> = shard
            .layout
            .columns
            .iter()
            .zip(columns.iter())
            .map(|(c, bytes)| c.encoding.decode(bytes).unwrap())
            .collect();
        sample(&values);
    }
}

/// Reads a raw file, unpacked if necessary, and checks sizes and hashes.
fn raw(shard: &Shard, raw: &FileInfo, zip: Option<&FileInfo>, dir: &Path) -> Vec<u8> {
    let check = |info: &FileInfo, bytes: &[u8]| {
        assert_eq!(info.bytes, bytes.len() as u64, "{}", info.basename);
        assert!(info.hashes.algos().eq(shard.hashes.iter().copied()));
        info.hashes.iter().for_each(|(algo, hex)| assert_eq!(algo.hex(bytes), hex, "{} {algo:?}", info.basename));
    };
    let stored = read(&dir.join(&*zip.unwrap_or(raw).basename));
    check(zip.unwrap_or(raw), &stored);
    let Some(compression) = shard.compression else { return stored };
    let mut out = Vec::new();
    compression.decompress(&stored, raw.bytes, &mut out).unwrap();
    check(raw, &out);
    out
}

fn assert_same_files(index: &Index, theirs: &Path, copied: &Index, ours: &Path) {
    assert_eq!(index.shards.len(), copied.shards.len(), "shards are cut at the same samples");
    for (shard, copy) in index.shards.iter().zip(&copied.shards) {
        for (a, b) in shard.files().zip(copy.files()) {
            assert_eq!(a.raw, b.raw);
            let (a, b) = (raw(shard, a.raw, a.zip, theirs), raw(copy, b.raw, b.zip, ours));
            assert!(a == b, "{}: different bytes", copy.raw_data.basename);
        }
    }
    if index.shards.iter().all(|shard| shard.compression.is_none()) {
        assert_eq!(read(&theirs.join(INDEX_BASENAME)), read(&ours.join(INDEX_BASENAME)));
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns a value in the form of `tests/oracle/format_sets.py`.
fn describe(value: &Value<'_>) -> Json {
    match value {
        Value::Bytes(bytes) => json!({"bytes": hex(bytes)}),
        Value::Str(text) => json!({"str": text}),
        Value::Int(int) => json!({"int": int.to_string()}),
        Value::BigInt(digits) => json!({"int": digits}),
        Value::Float(float) => {
            let text = forebay_loader::format::json::python_float(*float, forebay_loader::format::json::STR_WORDS);
            json!({"float": text})
        }
        Value::Scalar(scalar) => json!({"scalar": [scalar.dtype().name(), hex(&scalar_bytes(*scalar))]}),
        Value::Decimal(text) => json!({"decimal": text}),
        Value::Array(array) => json!({"array": [array.dtype.name(), array.shape, hex(&array.data)]}),
        Value::Pixels(p) => json!({"pixels": [p.width, p.height, p.mode, hex(&p.data)]}),
        Value::Jpeg(bytes) => json!({"jpeg": hex(bytes)}),
        Value::Png(bytes) => json!({"png": hex(bytes)}),
        Value::List(items) => json!({"list": items.iter().map(describe).collect::<Vec<_>>()}),
        Value::Json(text) => json!({"json": text}),
        Value::Pickle(bytes) => json!({"pickle": hex(bytes)}),
    }
}

fn scalar_bytes(scalar: Scalar) -> Vec<u8> {
    let mut bytes = Vec::new();
    scalar.write(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
