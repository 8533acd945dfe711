//! One entry of an index, as a tree of JSON.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;

use super::digests::Digests;
use super::object::{Brief, JsonObject, expected, missing};
use super::shard::{FileInfo, INDEX_BASENAME, Shard, VERSION};
use crate::layout::Layout;
use crate::{Compression, HashAlgo, registry};
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Length limits of Linux for a path and for a name in it, in bytes.
const PATH_BYTES_MAX: usize = 4095;
const NAME_BYTES_MAX: usize = 255;

/// Keys of every shard's entry.
const COMMON_KEYS: [&str; 8] =
    ["version", "format", "compression", "hashes", "size_limit", "samples", "raw_data", "zip_data"];

/// Checks a version of the formats.
pub(super) fn version(found: Option<&Json>) -> Result<()> {
    let found = found.ok_or_else(|| missing("version"))?;
    if found.as_u64() == Some(VERSION) {
        return Ok(());
    }
    let message = format!("version {} is not supported, only {VERSION}", Brief(found));
    Err(Error::new(ErrorKind::Unsupported, message).with("field", "version"))
}

pub(super) fn shard(entry: &Json, previous: Option<&Shard>) -> Result<Shard> {
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

/// Checks sizes and presence of files among themselves and against the number of samples.
pub(super) fn check_files(shard: &Shard) -> Result<()> {
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
                format!(
                    "{bytes} bytes are more than 32-bit offsets can address, so the writer lost data: write smaller \
                     shards"
                ),
            );
        }
        if let Some(zip) = pair.zip
            && zip.bytes > zip_bytes_max(pair.raw.bytes)
        {
            let (zip, raw) = (zip.bytes, pair.raw.bytes);
            return wrong(
                &format!("zip_{field}.bytes"),
                format!("{zip} compressed bytes are too many for {raw} bytes of content"),
            );
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
pub(super) fn zip_bytes_max(raw_bytes: u64) -> u64 {
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

/// Returns true if `hex` is a digest under `algo`.
pub(super) fn is_digest(algo: HashAlgo, hex: &str) -> bool {
    hex.len() == algo.hex_len() && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
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
        let hex = hex.as_str().filter(|hex| is_digest(algo, hex)).ok_or_else(|| {
            expected("hashes", &format!("text of {} hexadecimal digits for {name}", algo.hex_len()), hex)
        })?;
        hashes.push((algo, hex));
    }
    Ok(FileInfo { basename: basename.into(), bytes: object.uint("bytes")?, hashes: Digests::new(hashes) })
}
