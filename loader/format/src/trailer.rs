//! Optional trailer of an MDS shard, after the last sample: an index of the values of some columns.
//!
//! The offset table contains the end of the last sample, so readers without support for trailers ignore the rest. The
//! trailer is part of the shard's file: of its size and of its hashes.
//!
//! ```text
//! u8[8]   "FBVALIDX"
//! u32     version: 1
//! u32     k, columns that have an index
//! u64     XXH3-64 of the rest of the file
//! k times
//!   u32              the column's number among the shard's columns, ascending
//!   u32              bytes of its entries
//!   u32[samples + 1] start of each sample's entry among them, and the end of the last one
//!   entries          their meaning depends on the column's encoding; 0 bytes mean no entry
//! ```
//!
//! All numbers are little-endian. The entries of a `jpeg` column are row indexes (`forebay_picture::jpeg`).

use std::ops::Range;

use bytes::Buf;
use xxhash_rust::xxh3::xxh3_64;

use forebay_core::error::{Error, Result};

const MAGIC: [u8; 8] = *b"FBVALIDX";
const VERSION: u32 = 1;

/// Bytes before the columns.
const HEAD_BYTES: usize = 24;

/// Upper bound of the bytes of a trailer that is read.
pub const TRAILER_BYTES_MAX: u64 = 64 << 20;

/// Builder of the indexes of a shard's columns.
#[derive(Debug, Default)]
pub struct TrailerWriter {
    columns: Vec<ColumnEntries>,
}

#[derive(Debug)]
struct ColumnEntries {
    column: u32,
    starts: Vec<u32>,
    bytes: Vec<u8>,
}

impl TrailerWriter {
    /// Starts an index for each of `columns`, which are numbers among the shard's columns, ascending.
    pub fn new(columns: &[usize]) -> Self {
        let entries = |column: &usize| ColumnEntries { column: *column as u32, starts: vec![0], bytes: Vec::new() };
        Self { columns: columns.iter().map(entries).collect() }
    }

    /// Adds the next sample's entry for the `number`-th column with an index: `append` appends its bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for entries of 4 GiB and more.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn push(&mut self, number: usize, append: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let ColumnEntries { starts, bytes, .. } = &mut self.columns[number];
        append(bytes);
        let end = u32::try_from(bytes.len()).map_err(|_| Error::config("an index of 4 GiB: make smaller shards"))?;
        starts.push(end);
        Ok(())
    }

    /// Returns the trailer; no bytes if all entries are empty.
    pub fn finish(self) -> Vec<u8> {
        if self.columns.iter().all(|column| column.bytes.is_empty()) {
            return Vec::new();
        }
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.columns.len() as u32).to_le_bytes());
        out.extend([0; 8]);
        for ColumnEntries { column, starts, bytes } in self.columns {
            out.extend(column.to_le_bytes());
            out.extend((bytes.len() as u32).to_le_bytes());
            starts.iter().for_each(|start| out.extend(start.to_le_bytes()));
            out.extend(bytes);
        }
        let hash = xxh3_64(&out[HEAD_BYTES..]);
        out[HEAD_BYTES - 8..HEAD_BYTES].copy_from_slice(&hash.to_le_bytes());
        out
    }
}

/// Parsed trailer of a shard.
#[derive(Debug)]
pub struct Trailer {
    bytes: Box<[u8]>,
    samples: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    column: u32,
    /// Offset of its starts.
    starts: usize,
    entries: Range<usize>,
}

impl Trailer {
    /// Parses the trailer of a shard with `samples` samples.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are not a trailer or do not match their hash,
    /// [`crate::ErrorKind::Unsupported`] for a different version. Such a shard is read without its trailer.
    pub fn parse(bytes: Box<[u8]>, samples: usize) -> Result<Self> {
        let mut rest = &*bytes;
        if take(&mut rest, 8)? != MAGIC {
            return Err(Error::format("the bytes after the last sample are not a trailer"));
        }
        let version = word(&mut rest)?;
        if version != VERSION {
            let error =
                Error::format("the version of the trailer is not supported").of_kind(crate::ErrorKind::Unsupported);
            return Err(error.with("version", version));
        }
        let count = word(&mut rest)?;
        let hash = take(&mut rest, 8)?;
        if hash != xxh3_64(rest).to_le_bytes() {
            return Err(Error::format("the trailer is damaged: its hash differs"));
        }
        let table = samples.checked_add(1).and_then(|n| n.checked_mul(4)).ok_or_else(too_short)?;
        let mut columns: Vec<Column> = Vec::new();
        for _ in 0..count {
            let at = |rest: &[u8]| bytes.len() - rest.len();
            let (column, length) = (word(&mut rest)?, word(&mut rest)? as usize);
            if columns.last().is_some_and(|last| last.column >= column) {
                return Err(Error::format("the trailer's columns are out of order").with("column", column));
            }
            let starts = at(rest);
            take(&mut rest, table)?;
            let entries = at(rest);
            take(&mut rest, length)?;
            columns.push(Column { column, starts, entries: entries..entries + length });
        }
        if !rest.is_empty() {
            return Err(Error::format("the trailer is longer than its columns"));
        }
        Ok(Self { samples, columns, bytes })
    }

    /// Returns the entry for the value of `sample` in `column`; no bytes if there is none or if it is invalid.
    pub fn entry(&self, column: usize, sample: usize) -> &[u8] {
        let find = || {
            let column = self.columns.iter().find(|c| c.column as usize == column)?;
            let places = (sample < self.samples).then(|| &self.bytes[column.starts + 4 * sample..])?;
            let (starts, _) = places.first_chunk::<8>()?.as_chunks::<4>();
            let [start, end] = [starts[0], starts[1]].map(|word| u32::from_le_bytes(word) as usize);
            self.bytes[column.entries.clone()].get(start..end)
        };
        find().unwrap_or_default()
    }

    /// Bytes of memory that the trailer takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8]> {
    rest.split_off(..bytes).ok_or_else(too_short)
}

fn word(rest: &mut &[u8]) -> Result<u32> {
    rest.try_get_u32_le().map_err(|_| too_short())
}

fn too_short() -> Error {
    Error::format("the trailer is truncated")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut writer = TrailerWriter::new(&[0, 3]);
        for (number, entry) in [(0, &b"ab"[..]), (1, b"xyz"), (0, b""), (1, b""), (0, b"c"), (1, b"w")] {
            writer.push(number, |out| out.extend(entry)).unwrap();
        }
        writer.finish()
    }

    fn parse(bytes: &[u8]) -> Result<Trailer> {
        Trailer::parse(bytes.into(), 3)
    }

    /// Returns `bytes` with the correct hash.
    fn rehashed(mut bytes: Vec<u8>) -> Vec<u8> {
        let hash = xxh3_64(&bytes[HEAD_BYTES..]).to_le_bytes();
        bytes[16..24].copy_from_slice(&hash);
        bytes
    }

    #[test]
    fn a_trailer_is_written_in_its_documented_format() {
        let mut body = vec![0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        body.extend(b"abc");
        body.extend([3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        body.extend(b"xyzw");
        let mut expected = b"FBVALIDX\x01\0\0\0\x02\0\0\0".to_vec();
        expected.extend(xxh3_64(&body).to_le_bytes());
        expected.extend(body);
        assert_eq!(written(), expected);
    }

    #[test]
    fn entries_are_found_by_column_and_sample() {
        let trailer = parse(&written()).unwrap();
        let of = |column| (0..4).map(|sample| trailer.entry(column, sample)).collect::<Vec<_>>();
        assert_eq!(of(0), [&b"ab"[..], b"", b"c", b""]);
        assert_eq!(of(3), [&b"xyz"[..], b"", b"w", b""]);
        assert_eq!((of(1), of(usize::MAX)), (vec![&b""[..]; 4], vec![&b""[..]; 4]));
    }

    #[test]
    fn an_index_without_entries_takes_no_bytes() {
        let mut writer = TrailerWriter::new(&[0]);
        writer.push(0, |_| {}).unwrap();
        assert!(writer.finish().is_empty());
        assert!(TrailerWriter::new(&[]).finish().is_empty());
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let bytes = written();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(parse(&changed).is_err(), "byte {at}");
            assert!(parse(&bytes[..at]).is_err(), "cut at {at}");
        }
        let mut version = bytes;
        version[8] = 2;
        assert_eq!(parse(&version).unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }

    #[test]
    fn an_invalid_trailer_with_the_right_hash_is_rejected_or_has_no_entry() {
        let bytes = written();
        // A different number of samples, repeated or unordered columns, more columns or entries than there are bytes.
        assert!(Trailer::parse(bytes.clone().into(), 4).is_err());
        assert!(Trailer::parse(bytes.clone().into(), usize::MAX).is_err());
        for (at, value) in [(12, 3), (12, 1), (24, 3), (24, 9), (28, 200), (28, 255), (51, 0)] {
            let mut forged = bytes.clone();
            forged[at] = value;
            assert!(parse(&rehashed(forged)).is_err(), "{value} at {at}");
        }
        // Columns that start after the end of the sample, or end before they start.
        for value in 0..=255 {
            for at in 32..48 {
                let mut forged = bytes.clone();
                forged[at] = value;
                let trailer = parse(&rehashed(forged)).unwrap();
                for sample in 0..3 {
                    let entry = trailer.entry(0, sample);
                    assert!(entry.is_empty() || b"abc".windows(entry.len()).any(|w| w == entry));
                }
            }
        }
    }
}
