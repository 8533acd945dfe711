//! Footer of an ArrayRecord file: the offsets of its chunks.

use super::chunk::{BLOCK_BYTES, each_record};
use crate::wire::{Content, Field, Fields};
use forebay_core::error::{Error, ErrorKind, Result};

/// Number in the postscript by which the format is known.
const MAGIC: u64 = 0x7193_0e70_4fda_e05e;

/// Version of the format; there is only one.
const VERSION: u64 = 1;

/// Chunk with records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// First byte in the file.
    pub start: u64,
    /// Byte after the last, of this chunk and of padding.
    pub end: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of all records together.
    pub record_bytes: u64,
}

/// Returns the offset of the footer of a file of `file_bytes` bytes with the last block `last`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a file that is no ArrayRecord file or is cut off.
pub fn footer_start(last: &[u8], file_bytes: u64) -> Result<u64> {
    let other =
        || Error::format("the file does not end like an ArrayRecord file: it is cut off, or of a different kind");
    let start = file_bytes.checked_sub(BLOCK_BYTES).filter(|start| start % BLOCK_BYTES == 0).ok_or_else(other)?;
    if last.len() as u64 != BLOCK_BYTES {
        return Err(Error::internal("a part that is not the last block of a file"));
    }
    let mut found = None;
    each_record(last, start, |record| {
        let numbers = numbers::<2>(record)?;
        found = numbers[0].filter(|_| numbers[1] == Some(MAGIC));
        Ok(false)
    })
    .map_err(|e| other().caused_by(e))?;
    found.filter(|footer| *footer < start).ok_or_else(other)
}

/// Returns the offsets of the chunks by the footer, which is at byte `start` of the file.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a damaged footer; [`ErrorKind::Unsupported`] for a different version of the format.
pub fn chunk_ranges(footer: &[u8], start: u64) -> Result<Vec<ChunkRange>> {
    let damaged = || Error::format("the footer of the file is damaged");
    let mut declared: Option<(u64, u64)> = None;
    let mut ranges: Vec<ChunkRange> = Vec::new();
    each_record(footer, start, |record| {
        if declared.is_none() {
            declared = Some(metadata(record)?);
            return Ok(true);
        }
        let [Some(at), record_bytes, records] = numbers::<3>(record)? else { return Err(damaged()) };
        if let Some(last) = ranges.last_mut() {
            last.end = at;
        }
        let (records, record_bytes) = (records.unwrap_or(0), record_bytes.unwrap_or(0));
        ranges.push(ChunkRange { start: at, end: start, records, record_bytes });
        Ok(true)
    })?;
    let (chunks, records) = declared.ok_or_else(damaged)?;
    let total = ranges.iter().try_fold(0_u64, |total, range| total.checked_add(range.records));
    let are_sorted = ranges.iter().all(|range| range.start < range.end && range.end <= start);
    if ranges.len() as u64 != chunks || total != Some(records) || !are_sorted {
        return Err(damaged());
    }
    Ok(ranges)
}

/// Returns the numbers of chunks and of records of the file.
fn metadata(record: &[u8]) -> Result<(u64, u64)> {
    let mut found = None;
    each_field(record, |number, content| {
        if let (1, Content::Bytes(range)) = (number, content) {
            found = Some(numbers::<3>(&record[range])?);
        }
        Ok(())
    })?;
    match found {
        Some([Some(VERSION), chunks, records]) => Ok((chunks.unwrap_or(0), records.unwrap_or(0))),
        Some([Some(version), ..]) => {
            let message = format!("version {version} of ArrayRecord is not supported");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => Err(Error::format("the footer of the file is not an ArrayRecord file's")),
    }
}

/// Returns the first `N` fields of a message of numbers.
fn numbers<const N: usize>(message: &[u8]) -> Result<[Option<u64>; N]> {
    let mut found = [None; N];
    each_field(message, |number, content| {
        let field = usize::try_from(number).ok().and_then(|number| found.get_mut(number.checked_sub(1)?));
        if let (Some(field), Content::Varint(value)) = (field, content) {
            *field = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

fn each_field(message: &[u8], mut each: impl FnMut(u64, Content) -> Result<()>) -> Result<()> {
    let mut fields = Fields::new(message, 0..message.len());
    while let Some(Field { number, content }) = fields.next()? {
        each(number, content)?;
    }
    Ok(())
}
