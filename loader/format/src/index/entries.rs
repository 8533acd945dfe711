//! Entries of an index, in sequence. Most are equal to the one before but for names, sizes and hashes: of those
//! the shared part is compared as text, and not parsed again.

use super::digests::Digests;
use super::entry::{check_basename, check_files, is_digest, shard};
use super::shard::{FileInfo, Shard};
use crate::{HashAlgo, json};
use forebay_core::error::{Context, Error, Result};
use std::ops::Range;

/// Keys with values that differ from shard to shard, in quotes.
const PER_SHARD: [&[u8]; 5] = [b"\"raw_data\"", b"\"zip_data\"", b"\"raw_meta\"", b"\"zip_meta\"", b"\"samples\""];

/// Offsets of a key, with its quotes, and of its value.
type EntrySpan = (Range<usize>, Range<usize>);

/// Entries of an index.
#[derive(Default)]
pub(super) struct Entries<'a> {
    shards: Vec<Shard>,
    samples: u64,
    /// The first error.
    failed: Option<Error>,
    /// Text of the last entry, and the offsets of its keys and values.
    last: &'a [u8],
    places: Vec<EntrySpan>,
    /// Offsets of the entry that is added.
    found: Vec<EntrySpan>,
}

impl<'a> Entries<'a> {
    /// Adds the entry `text`, which is JSON. After an error it does nothing.
    pub(super) fn add(&mut self, text: &'a [u8]) {
        if self.failed.is_some() {
            return;
        }
        let number = self.shards.len();
        match self.parse(text).context("shard", || number) {
            Ok(shard) => self.shards.push(shard),
            Err(e) => self.failed = Some(e),
        }
    }

    /// Returns the shards.
    ///
    /// # Errors
    ///
    /// The error of the first entry that has one.
    pub(super) fn finish(self) -> Result<Vec<Shard>> {
        match self.failed {
            None => Ok(self.shards),
            Some(e) => Err(e),
        }
    }

    fn parse(&mut self, text: &'a [u8]) -> Result<Shard> {
        let found = self.find(text);
        let like = if found { self.shards.last().and_then(|last| like(last, text, &self.found)) } else { None };
        // The whole parser has the errors.
        let shard = like.map_or_else(|| json::parse(text).and_then(|entry| shard(&entry, self.shards.last())), Ok)?;
        self.samples = self.samples.saturating_add(shard.samples);
        if i64::try_from(self.samples).is_err() {
            return Err(Error::format("the shards hold more samples than can be counted"));
        }
        self.last = text;
        std::mem::swap(&mut self.places, &mut self.found);
        Ok(shard)
    }

    /// Finds the keys and values of `text`. Returns true if those that shards share are the ones of the last entry.
    fn find(&mut self, text: &[u8]) -> bool {
        self.found.clear();
        let scanned = json::scan_object(text, |key, value| {
            self.found.push((key, value));
            Ok(())
        });
        let is_equal = |((key, value), (last_key, last)): (&EntrySpan, &EntrySpan)| {
            text[key.clone()] == self.last[last_key.clone()]
                && (PER_SHARD.contains(&&text[key.clone()]) || text[value.clone()] == self.last[last.clone()])
        };
        scanned.is_ok() && self.found.len() == self.places.len() && self.found.iter().zip(&self.places).all(is_equal)
    }
}

/// Returns the shard of the entry `text`, which has the format, columns and settings of `last`. `None` if it is not
/// in the usual form, or has a mistake.
fn like(last: &Shard, text: &[u8], places: &[EntrySpan]) -> Option<Shard> {
    let (mut samples, mut files) = (None, [const { None }; 4]);
    for (key, value) in places {
        let Some(place) = PER_SHARD.iter().position(|name| *name == &text[key.clone()]) else { continue };
        let value = &text[value.clone()];
        match files.get_mut(place) {
            Some(file) => *file = if value == b"null" { None } else { Some(file_info(value)?) },
            None => samples = Some(uint(value)?),
        }
    }
    let [raw_data, zip_data, raw_meta, zip_meta] = files;
    let is_split = last.layout.format.is_split();
    let shard = Shard {
        compression: last.compression,
        hashes: last.hashes.clone(),
        size_limit: last.size_limit,
        zip_data,
        raw_meta: raw_meta.filter(|_| is_split).map(Box::new),
        zip_meta: zip_meta.filter(|_| is_split).map(Box::new),
        ..Shard::new(last.layout.clone(), samples?, raw_data?)
    };
    check_files(&shard).ok()?;
    Some(shard)
}

fn file_info(object: &[u8]) -> Option<FileInfo> {
    let (mut basename, mut bytes, mut hashes) = (None, None, None);
    let mut is_known = true;
    json::scan_object(object, |key, value| {
        let value = &object[value];
        match &object[key] {
            b"\"basename\"" => basename = text(value),
            b"\"bytes\"" => bytes = uint(value),
            b"\"hashes\"" => hashes = digests(value),
            _ => is_known = false,
        }
        Ok(())
    })
    .ok()?;
    let basename = basename.filter(|name| is_known && check_basename(name).is_ok())?;
    Some(FileInfo { basename: basename.into(), bytes: bytes?, hashes: hashes? })
}

fn digests(object: &[u8]) -> Option<Digests> {
    let (mut hashes, mut is_known, mut last) = (Vec::new(), true, "");
    json::scan_object(object, |key, value| {
        let name = text(&object[key]).unwrap_or_default();
        let found = HashAlgo::parse(name).ok().zip(text(&object[value]));
        // As the whole parser sorts them.
        match found.filter(|(algo, hex)| name > last && is_digest(*algo, hex)) {
            Some(hash) => hashes.push(hash),
            None => is_known = false,
        }
        last = name;
        Ok(())
    })
    .ok()?;
    is_known.then(|| Digests::new(hashes))
}

/// Returns the text of a JSON string without escapes.
fn text(token: &[u8]) -> Option<&str> {
    let plain = token.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(plain).ok().filter(|plain| !plain.contains('\\'))
}

fn uint(token: &[u8]) -> Option<u64> {
    std::str::from_utf8(token).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok()
}
