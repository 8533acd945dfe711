//! Parser of the index. Later stages rely on its checks: names stay below the index and are unique, raw files fit the
//! 32-bit offsets, sample counts fit the files, and lists of columns agree.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;

use super::digests::Digests;
use super::object::{Brief, JsonObject, expected, missing};
use super::shard::{FileInfo, INDEX_BASENAME, Index, Shard, VERSION};
use crate::layout::Layout;
use crate::{Compression, HashAlgo, json, registry};
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Length limits of Linux for a path and for a name in it, in bytes.
const PATH_BYTES_MAX: usize = 4095;
const NAME_BYTES_MAX: usize = 255;

/// Keys of every shard's entry.
const COMMON_KEYS: [&str; 8] =
    ["version", "format", "compression", "hashes", "size_limit", "samples", "raw_data", "zip_data"];

impl Index {
    /// Parses an index; `file` is its name in errors.
    ///
    /// Unknown keys next to `version` and `shards` are ignored; unknown keys inside a shard are errors, both as in the
    /// reference. An index without shards is valid and holds no sample.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`], or [`crate::ErrorKind::Unsupported`] for another version, format, compression or
    /// hash, with `file`, shard number and field.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self> {
        index(bytes).context("file", || file)
    }
}

fn index(bytes: &[u8]) -> Result<Index> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::format("an index is a JSON object with `version` and `shards`"));
    }
    let (mut version_at, mut shards_at) = (None, None);
    json::scan_object(bytes, |key, value| {
        // Of two equal keys the last counts, as everywhere in JSON.
        match &bytes[key] {
            b"\"version\"" => version_at = Some(value),
            b"\"shards\"" => shards_at = Some(value),
            _ => {}
        }
        Ok(())
    })?;
    if shards_at.is_none()
        && let Some(noun) = registry::foreign_index(bytes)
    {
        let message = format!("this is an index of {noun}, which a Loader reads");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    // Another version may have other entries, so the version is checked before errors in the entries are reported.
    version(version_at.map(|at| json::parse(&bytes[at])).transpose()?.as_ref())?;
    let list = &bytes[shards_at.ok_or_else(|| missing("shards"))?];
    if !list.starts_with(b"[") {
        return Err(expected("shards", "a list", &json::parse(list)?));
    }
    let mut shards: Vec<Shard> = Vec::new();
    let mut samples = 0_u64;
    // One entry at a time, because the tree of a large index would take many times its bytes.
    json::scan_list(list, |entry| {
        let number = shards.len();
        let shard = json::parse(&list[entry]).and_then(|entry| shard(&entry, shards.last()));
        let shard = shard.context("shard", || number)?;
        samples = samples.saturating_add(shard.samples);
        if i64::try_from(samples).is_err() {
            return Err(Error::format("the shards hold more samples than can be counted").with("shard", number));
        }
        shards.push(shard);
        Ok(())
    })?;
    unique_names(&shards)?;
    Ok(Index { shards })
}

fn version(found: Option<&Json>) -> Result<()> {
    let found = found.ok_or_else(|| missing("version"))?;
    if found.as_u64() == Some(VERSION) {
        return Ok(());
    }
    let message = format!("version {} is not supported, only {VERSION}", Brief(found));
    Err(Error::new(ErrorKind::Unsupported, message).with("field", "version"))
}

fn unique_names(shards: &[Shard]) -> Result<()> {
    let mut seen = HashSet::new();
    for (i, shard) in shards.iter().enumerate() {
        for info in shard.files().flat_map(|pair| [Some(pair.raw), pair.zip]).flatten() {
            if !seen.insert(&*info.basename) {
                let e = Error::format(format!("the file name `{}` is used twice", info.basename));
                return Err(e.with("field", "basename").with("shard", i));
            }
        }
    }
    Ok(())
}

fn shard(entry: &Json, previous: Option<&Shard>) -> Result<Shard> {
    let Json::Object(map) = entry else { return Err(Error::format("a shard is a JSON object")) };
    let object = JsonObject(map);
    version(map.get("version"))?;
    let layout = layout(&object)?;
    let layout = match previous {
        Some(shard) if *shard.layout == layout => Arc::clone(&shard.layout),
        _ => Arc::new(layout),
    };
    let hashes = object.texts("hashes")?.into_iter().map(HashAlgo::parse);
    let hashes: Vec<HashAlgo> = hashes.collect::<Result<_>>().context("field", || "hashes")?;
    let hashes = match previous {
        Some(shard) if *shard.hashes == *hashes => Arc::clone(&shard.hashes),
        _ => hashes.into(),
    };
    let split = layout.format.is_split();
    let compression = match object.get("compression")? {
        Json::Null => None,
        Json::String(text) if text.is_empty() => None,
        Json::String(text) => Some(Compression::parse(text).context("field", || "compression")?),
        _ => return Err(object.expected("compression", "a text or null")),
    };
    let shard = Shard {
        samples: object.uint("samples")?,
        compression,
        hashes,
        size_limit: size_limit(&object)?,
        raw_data: file(&object, "raw_data")?.ok_or_else(|| object.expected("raw_data", "a file"))?,
        zip_data: file(&object, "zip_data")?,
        raw_meta: if split { file(&object, "raw_meta")?.map(Box::new) } else { None },
        zip_meta: if split { file(&object, "zip_meta")?.map(Box::new) } else { None },
        layout,
        recipe: None,
        slice: None,
    };
    check_files(&shard)?;
    Ok(shard)
}

/// Checks sizes and presence of files against each other and against the number of samples.
fn check_files(shard: &Shard) -> Result<()> {
    let wrong = |field: &str, what: String| Err(Error::format(what).with("field", field));
    if shard.layout.format.is_split() && shard.raw_meta.is_none() {
        return wrong("raw_meta", format!("the format {} keeps its offsets in a file", shard.layout.format.name()));
    }
    let bytes_max = shard.layout.format.file_bytes_max();
    for (pair, field) in shard.files().zip(if shard.raw_meta.is_some() { ["meta", "data"] } else { ["data"; 2] }) {
        match (shard.compression, pair.zip) {
            (None, Some(_)) => return wrong(&format!("zip_{field}"), "a zip file without a compression".into()),
            (Some(c), None) => {
                return wrong(&format!("zip_{field}"), format!("the compression is {c}, the file missing"));
            }
            _ => {}
        }
        if pair.raw.bytes > bytes_max {
            let bytes = pair.raw.bytes;
            return wrong(
                &format!("raw_{field}.bytes"),
                format!("{bytes} bytes pass the 32-bit offsets: the writer lost data; write smaller shards"),
            );
        }
        if let Some(zip) = pair.zip
            && zip.bytes > zip_bytes_max(pair.raw.bytes)
        {
            let (zip, raw) = (zip.bytes, pair.raw.bytes);
            return wrong(&format!("zip_{field}.bytes"), format!("{zip} bytes, compressed, are too many for {raw}"));
        }
    }
    if shard.layout.format.file_bytes_min(shard.samples) > shard.table_file().bytes {
        let (samples, bytes) = (shard.samples, shard.table_file().bytes);
        return wrong("samples", format!("{samples} samples do not fit in a file of {bytes} bytes"));
    }
    Ok(())
}

/// Most bytes of a compressed file. No compression adds more than a sixth and some bytes to data that it cannot
/// compress, so a larger file does not exist, and no memory is taken for it.
fn zip_bytes_max(raw_bytes: u64) -> u64 {
    raw_bytes.saturating_mul(2).saturating_add(1 << 20)
}

fn size_limit(object: &JsonObject<'_>) -> Result<Option<u64>> {
    match object.get("size_limit")? {
        Json::Null => Ok(None),
        Json::Number(n) if n.as_u64().is_some() => Ok(n.as_u64()),
        Json::String(text) => parse_bytes(text).map(Some).ok_or_else(|| object.expected("size_limit", "a size")),
        _ => Err(object.expected("size_limit", "a size or null")),
    }
}

/// Parses sizes such as `100kb`, in powers of 1,024.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, factor) = [("kb", 1u64 << 10), ("mb", 1 << 20), ("gb", 1 << 30), ("tb", 1 << 40), ("b", 1), ("", 1)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = digits.trim().parse().ok()?;
    let bytes = (number * factor as f64).trunc();
    (0.0..9e18).contains(&bytes).then_some(bytes as u64)
}

fn layout(object: &JsonObject<'_>) -> Result<Layout> {
    let Some(found) = registry::find(object.text("format")?) else {
        let what = format!("the format {} is not one of {}", Brief(object.get("format")?), registry::names());
        return Err(Error::new(ErrorKind::Unsupported, what).with("field", "format"));
    };
    object.only(&[&COMMON_KEYS, found.keys])?;
    let layout = (found.layout)(object)?;
    let mut names = HashSet::new();
    match layout.columns.iter().find(|column| !names.insert(column.name.as_str())) {
        Some(column) => Err(Error::format("a column name is used twice").with("column", &column.name)),
        None => Ok(layout),
    }
}

/// Rejects a path that leaves the index's directory, or that the cache uses for its own files.
pub fn check_basename(path: &str) -> Result<()> {
    let reject = |why: &str| Err(Error::format(format!("the file name {} {why}", Brief(&Json::from(path)))));
    if path.is_empty() || path.len() > PATH_BYTES_MAX || path.split('/').any(|name| name.len() > NAME_BYTES_MAX) {
        return reject("is empty or longer than a file system takes");
    }
    if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return reject("is not a plain path below the index");
    }
    if path.chars().any(char::is_control) || path.contains('\\') {
        return reject("has control characters or backslashes in it");
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if name == INDEX_BASENAME || name.ends_with(".tmp") {
        return reject("is one that belongs to the cache");
    }
    Ok(())
}

fn file(object: &JsonObject<'_>, key: &'static str) -> Result<Option<FileInfo>> {
    match object.get(key)? {
        Json::Null => Ok(None),
        Json::Object(map) => file_info(&JsonObject(map)).context("in", || key).map(Some),
        _ => Err(object.expected(key, "a file or null")),
    }
}

fn file_info(object: &JsonObject<'_>) -> Result<FileInfo> {
    object.only(&[&["basename", "bytes", "hashes"]])?;
    let basename = object.text("basename")?;
    check_basename(basename).context("field", || "basename")?;
    let Json::Object(digests) = object.get("hashes")? else {
        return Err(object.expected("hashes", "an object"));
    };
    let mut hashes = Vec::with_capacity(digests.len());
    for (name, hex) in digests {
        let algo = HashAlgo::parse(name).context("field", || "hashes")?;
        let hex = hex
            .as_str()
            .filter(|hex| hex.len() == algo.hex_len() && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
            .ok_or_else(|| {
                expected("hashes", &format!("text of {} hexadecimal digits for {name}", algo.hex_len()), hex)
            })?;
        hashes.push((algo, hex));
    }
    Ok(FileInfo { basename: basename.into(), bytes: object.uint("bytes")?, hashes: Digests::new(hashes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoding;

    const MDS: &str = r#"{"shards": [{"column_encodings": ["str", "int"], "column_names": ["id", "x"], "column_sizes": [null, 8], "compression": "zstd:3", "format": "mds", "hashes": ["xxh64"], "raw_data": {"basename": "shard.00000.mds", "bytes": 256, "hashes": {"xxh64": "ef46db3751d8e999"}}, "samples": 3, "size_limit": 256, "version": 2, "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 100, "hashes": {"xxh64": "ef46db3751d8e999"}}}], "version": 2}"#;
    const JSONL: &str = r#"{"shards": [{"columns": {"a": "int", "b": "str"}, "compression": null, "format": "json", "hashes": [], "newline": "\n", "raw_data": {"basename": "shard.00000.json", "bytes": 20, "hashes": {}}, "raw_meta": {"basename": "shard.00000.json.meta", "bytes": 200, "hashes": {}}, "samples": 2, "size_limit": null, "version": 2, "zip_data": null, "zip_meta": null}], "version": 2}"#;
    const XSV: &str = r#"{"shards": [{"column_encodings": ["int", "float"], "column_names": ["a", "b"], "compression": null, "format": "xsv", "hashes": [], "newline": "\n", "raw_data": {"basename": "shard.00000.xsv", "bytes": 20, "hashes": {}}, "raw_meta": {"basename": "shard.00000.xsv.meta", "bytes": 200, "hashes": {}}, "samples": 2, "separator": "|", "size_limit": 67108864, "version": 2, "zip_data": null, "zip_meta": null}], "version": 2}"#;

    fn parse(text: &str) -> Result<Index> {
        Index::parse(text.as_bytes(), "index.json")
    }

    #[test]
    fn every_format_is_written_back_byte_for_byte() {
        for text in [MDS, JSONL, XSV, r#"{"shards": [], "version": 2}"#] {
            assert_eq!(parse(text).unwrap().to_json(), text);
        }
        let shard = &parse(JSONL).unwrap().shards[0];
        assert_eq!(&*shard.table_file().basename, "shard.00000.json.meta");
        assert_eq!((shard.table_bytes(), shard.raw_bytes(), shard.zip_bytes()), (16, 220, None));
    }

    #[test]
    fn shards_with_the_same_columns_share_them() {
        let entry = &MDS["{\"shards\": [".len()..MDS.len() - "], \"version\": 2}".len()];
        let second = entry.replace("00000", "00001");
        let index = parse(&format!("{{\"version\": 2, \"shards\": [{entry}, {second}]}}")).unwrap();
        assert!(Arc::ptr_eq(&index.shards[0].layout, &index.shards[1].layout));
        assert_eq!(index.samples(), 6);
    }

    #[test]
    fn no_compression_makes_files_larger_than_the_bound() {
        let raw: Vec<u8> = (0..1 << 20).map(|n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        for name in ["zstd", "br", "bz2", "gz", "snappy"] {
            for len in [0, 1, 1000, raw.len()] {
                let packed = Compression::parse(name).unwrap().compress(&raw[..len]).unwrap();
                assert!(packed.len() as u64 <= len as u64 + len as u64 / 6 + 1000, "{name}: {len} to {}", packed.len());
                assert!(packed.len() as u64 <= zip_bytes_max(len as u64));
            }
        }
    }

    #[test]
    fn hostile_indexes_are_rejected_with_file_and_field() {
        for (text, from, to, field) in [
            (MDS, "\"version\": 2}", "\"version\": 1}", "field version"),
            (MDS, "\"samples\": 3", "\"samples\": -3", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 3.5", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 18446744073709551615", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 64", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 3, \"extra\": 1", "field \"extra\""),
            (MDS, "\"samples\": 3, ", "", "field samples"),
            (MDS, "\"mds\"", "\"mds2\"", "field format"),
            (MDS, "zstd:3", "zstd:99", "field compression"),
            (MDS, "\"bytes\": 256", "\"bytes\": 4294967296", "field raw_data.bytes"),
            (MDS, "\"bytes\": 256", "\"bytes\": 256, \"more\": 0", "in raw_data"),
            (
                MDS,
                "[null, 8]",
                "[0, 8]",
                "from 1 to 4294967295 or null is expected, not 0 (field column_sizes, column id",
            ),
            (MDS, "[null, 8]", "[4611686018427387904, 8]", "not 4611686018427387904 (field column_sizes"),
            (
                MDS,
                "\"ef46db3751d8e999\"",
                "\"00\"",
                "text of 16 hexadecimal digits for xxh64 is expected, not \"00\" (field hashes",
            ),
            (MDS, "[\"id\", \"x\"]", "[\"id\", 3]", "a list of texts is expected, not 3 (field column_names"),
            (MDS, "[null, 8]", "[null]", "field column_names"),
            (MDS, "[\"id\", \"x\"]", "[\"x\", \"x\"]", "column x"),
            (MDS, "[\"xxh64\"]", "[\"crc32\"]", "field hashes"),
            (MDS, "ef46db3751d8e999", "EF46DB3751D8E999", "field hashes"),
            (MDS, "\"zstd:3\"", "null", "field zip_data"),
            (MDS, "\"bytes\": 100,", "\"bytes\": 100000000000000000,", "field zip_data.bytes"),
            (MDS, "\"bytes\": 100,", "\"bytes\": 1049089,", "field zip_data.bytes"),
            (MDS, "shard.00000.mds.zstd", "shard.00000.mds", "field basename"),
            (JSONL, "\"int\"", "\"bytes\"", "field columns"),
            (JSONL, "\"bytes\": 200", "\"bytes\": 12", "field samples"),
            (XSV, "\"|\"", "\"\"", "newline"),
        ] {
            assert!(text.contains(from), "{from}");
            let e = parse(&text.replace(from, to)).unwrap_err();
            assert!(e.to_string().contains(field), "{from} -> {to}: {e}");
            assert!(e.to_string().contains("file index.json"), "{e}");
            assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{e:?}");
        }
    }

    #[test]
    fn names_that_leave_their_directory_are_rejected() {
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//x",
            "./x",
            "a/",
            "a\\\\x",
            "a\\u0000",
            "index.json",
            "a/index.json",
            "x.tmp",
        ] {
            let e = parse(&JSONL.replace("shard.00000.json\"", &format!("{name}\""))).unwrap_err();
            assert!(e.to_string().contains("field basename"), "{name}: {e}");
        }
        let long = "a".repeat(256);
        assert!(parse(&JSONL.replace("shard.00000.json\"", &format!("{long}\""))).is_err());
        parse(&JSONL.replace("shard.00000.json\"", "part-1/deeper/shard.00000.json\"")).unwrap();
    }

    #[test]
    fn what_the_reference_tolerates_is_tolerated() {
        parse(&MDS.replace("\"version\": 2}", "\"version\": 2, \"made_by\": \"x\"}").replacen(
            ", \"made_by\": \"x\"}]",
            "}]",
            1,
        ))
        .unwrap();
        assert_eq!(
            parse(&MDS.replace("\"size_limit\": 256", "\"size_limit\": \"1.5kb\"")).unwrap().shards[0].size_limit,
            Some(1536)
        );
        let custom = parse(&MDS.replace("[\"str\"", "[\"my_encoding\"")).unwrap();
        assert_eq!(custom.shards[0].layout.columns[0].encoding, Encoding::Custom("my_encoding".into()));
    }

    #[test]
    fn an_encoding_registered_under_a_known_name_is_recognised_by_its_size() {
        let encoding = |name: &str, sizes: &str| {
            let text = MDS.replace("[\"str\"", &format!("[\"{name}\"")).replace("[null, 8]", sizes);
            let column = parse(&text).unwrap().shards[0].layout.columns[0].clone();
            (column.encoding, column.size)
        };
        let custom = |name: &str, size| (Encoding::Custom(name.into()), size);
        assert_eq!(encoding("uint8", "[1, 8]"), (Encoding::parse("uint8").unwrap(), Some(1)));
        assert_eq!(encoding("uint8", "[null, 8]"), custom("uint8", None));
        assert_eq!(encoding("uint16", "[4, 8]"), custom("uint16", Some(4)));
        assert_eq!(encoding("jpeg", "[9, 8]"), custom("jpeg", Some(9)));
        assert_eq!(encoding("pkl", "[9, 8]"), (Encoding::Pickle, Some(9)));
    }

    #[test]
    fn json_that_is_not_an_index_is_described() {
        let entry = &MDS["{\"shards\": [".len()..MDS.len() - "], \"version\": 2}".len()];
        for (text, says) in [
            ("[]".to_owned(), "an index is a JSON object"),
            ("3".to_owned(), "an index is a JSON object"),
            ("{\"version\": 2}".to_owned(), "field shards"),
            ("{\"shards\": []}".to_owned(), "field version"),
            ("{\"shards\": 3, \"version\": 2}".to_owned(), "a list is expected, not 3"),
            ("{\"shards\": {}, \"version\": 1}".to_owned(), "version 1 is not supported"),
            // The version comes after the entries.
            ("{\"shards\": [3], \"version\": 1}".to_owned(), "version 1 is not supported"),
            (format!("{{\"shards\": [{entry}, 3], \"version\": 2}}"), "a shard is a JSON object (shard 1"),
            (format!("{MDS} x"), "not valid JSON"),
            ("{\"shards\": [], \"version\": 2".to_owned(), "not valid JSON"),
            ("<html>".to_owned(), "an index is a JSON object"),
        ] {
            let e = parse(&text).unwrap_err();
            assert!(e.to_string().contains(says), "{text}: {e}");
        }
        // The last of two lists counts.
        let twice = format!("{{\"shards\": [{entry}], \"shards\": [], \"version\": 2}}");
        assert_eq!(parse(&twice).unwrap().shards, []);
    }

    #[test]
    fn deep_json_is_rejected() {
        let e = parse(&format!("{{\"version\": 2, \"shards\": {}", "[".repeat(100_000))).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format);
    }
}
