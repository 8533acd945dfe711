//! Form of an entry of an index: the text that entries have in common, with the values that differ between.

use super::digests::Digests;
use super::entry::{check_basename, check_files, is_digest};
use super::shard::{FileInfo, Shard};
use crate::{HashAlgo, json};
use std::ops::Range;

/// Files of an entry.
const FILES: [&[u8]; 4] = [b"\"raw_data\"", b"\"zip_data\"", b"\"raw_meta\"", b"\"zip_meta\""];

/// Form of an entry.
pub(super) struct Template {
    /// Text before each value, and the value.
    parts: Vec<(Box<[u8]>, Value)>,
    /// Text after the last value.
    end: Box<[u8]>,
}

/// Value that differs from entry to entry. A file is one of [`FILES`].
#[derive(Clone, Copy)]
enum Value {
    Samples,
    Name { file: usize },
    Bytes { file: usize },
    Digest { file: usize, algo: HashAlgo },
}

/// File of an entry that is being read.
#[derive(Default)]
struct FoundFile<'a> {
    name: Option<&'a str>,
    bytes: Option<u64>,
    digests: Digests,
}

/// Values with their ranges in the entry.
type ValueRanges = Vec<(Range<usize>, Value)>;

impl Template {
    /// Returns the form of the entry `text`, which describes `shard`. `None` if it is unusual.
    pub(super) fn of(text: &[u8], shard: &Shard) -> Option<Self> {
        let mut ranges = ValueRanges::new();
        let (mut keys, mut is_usual) = (Vec::new(), true);
        let scanned = json::scan_object(text, |key, value| {
            let key = &text[key];
            is_usual &= !keys.contains(&key) && json::plain_string(key).is_some();
            keys.push(key);
            if key == b"\"samples\"" {
                ranges.push((value, Value::Samples));
            } else if let Some(file) = FILES.iter().position(|name| *name == key)
                && &text[value.clone()] != b"null"
            {
                is_usual &= file < 2 || shard.layout.format.is_split();
                is_usual &= ranges_of(text, value, file, &mut ranges).is_some();
            }
            Ok(())
        });
        scanned.ok().filter(|()| is_usual)?;
        let mut done = 0;
        let mut before = |end: usize| text[std::mem::replace(&mut done, end)..end].into();
        let parts = ranges.iter().map(|(place, value)| {
            let text = before(place.start);
            // The value itself is left out.
            let _: Box<[u8]> = before(place.end);
            (text, *value)
        });
        let parts = parts.collect();
        let template = Self { parts, end: before(text.len()) };
        // The form describes its own entry, or something in it is unusual.
        let (found, bytes) = template.find(text, shard)?;
        (bytes == text.len() && found == *shard).then_some(template)
    }

    /// Reads the entry at the start of `text`, which has the format, columns and settings of `last`, and returns it
    /// with its bytes. `None` if it has a different form, or a mistake.
    pub(super) fn find(&self, text: &[u8], last: &Shard) -> Option<(Shard, usize)> {
        let (mut rest, mut samples) = (text, None);
        let mut files: [Option<FoundFile<'_>>; 4] = [const { None }; 4];
        for (before, value) in &self.parts {
            rest = rest.strip_prefix(&**before)?;
            let bytes = match *value {
                Value::Samples => {
                    let (number, bytes) = uint(rest)?;
                    samples = Some(number);
                    bytes
                }
                Value::Bytes { file } => {
                    let (number, bytes) = uint(rest)?;
                    files[file].get_or_insert_default().bytes = Some(number);
                    bytes
                }
                Value::Name { file } => {
                    let name = plain_text(rest)?;
                    files[file].get_or_insert_default().name = Some(name);
                    name.len() + 2
                }
                Value::Digest { file, algo } => {
                    let hex = plain_text(rest).filter(|hex| is_digest(algo, hex))?;
                    files[file].get_or_insert_default().digests.push(algo, hex)?;
                    hex.len() + 2
                }
            };
            rest = &rest[bytes..];
        }
        rest = rest.strip_prefix(&*self.end)?;
        let [raw_data, zip_data, raw_meta, zip_meta] = files;
        let optional = |file: Option<FoundFile<'_>>| file.map(|file| file.info().ok_or(())).transpose().ok();
        let shard = Shard {
            compression: last.compression,
            hashes: last.hashes.clone(),
            size_limit: last.size_limit,
            zip_data: optional(zip_data)?,
            raw_meta: optional(raw_meta)?.map(Box::new),
            zip_meta: optional(zip_meta)?.map(Box::new),
            ..Shard::new(last.layout.clone(), samples?, raw_data?.info()?)
        };
        check_files(&shard).ok()?;
        Some((shard, text.len() - rest.len()))
    }
}

impl FoundFile<'_> {
    fn info(self) -> Option<FileInfo> {
        let name = self.name.filter(|name| check_basename(name).is_ok())?;
        Some(FileInfo { basename: name.into(), bytes: self.bytes?, hashes: self.digests })
    }
}

/// Adds the values of the file at `object` in `text`.
fn ranges_of(text: &[u8], object: Range<usize>, file: usize, ranges: &mut ValueRanges) -> Option<()> {
    let inside = |range: Range<usize>| object.start + range.start..object.start + range.end;
    let mut hashes = None;
    json::scan_object(&text[object.clone()], |key, value| {
        match &text[inside(key)] {
            b"\"basename\"" => ranges.push((inside(value), Value::Name { file })),
            b"\"bytes\"" => ranges.push((inside(value), Value::Bytes { file })),
            b"\"hashes\"" => {
                let object = inside(value);
                hashes = ranges_of_hashes(text, object, file, ranges);
            }
            _ => {}
        }
        Ok(())
    })
    .ok()?;
    hashes
}

fn ranges_of_hashes(text: &[u8], object: Range<usize>, file: usize, ranges: &mut ValueRanges) -> Option<()> {
    let inside = |range: Range<usize>| object.start + range.start..object.start + range.end;
    let (mut is_usual, mut last) = (true, "");
    json::scan_object(&text[object.clone()], |key, value| {
        let name = plain_text(&text[inside(key)]).unwrap_or_default();
        // As the whole parser sorts them.
        match HashAlgo::parse(name).ok().filter(|_| name > last) {
            Some(algo) => ranges.push((inside(value), Value::Digest { file, algo })),
            None => is_usual = false,
        }
        last = name;
        Ok(())
    })
    .ok()?;
    is_usual.then_some(())
}

/// Returns the text of the JSON string without escapes at the start of `rest`.
fn plain_text(rest: &[u8]) -> Option<&str> {
    std::str::from_utf8(json::plain_string(rest)?).ok()
}

/// Returns the number at the start of `rest`, and its digits. A part of a longer number is none.
fn uint(rest: &[u8]) -> Option<(u64, usize)> {
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    if digits == 0 || (digits > 1 && rest[0] == b'0') {
        return None;
    }
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((number, digits))
}
