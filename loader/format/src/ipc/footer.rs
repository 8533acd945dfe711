//! Offsets of the batches of a file, by its footer.

use super::batches::{Batch, Batches, Dictionary};
use super::guard::{damaged, guarded};
use super::head::TableHead;
use super::message::{HEAD_BYTES_MAX, MAGIC, Message, PREFIX_BYTES, lengths};
use crate::read_at::ReadAt;
use arrow_ipc::{Block, MessageHeader};
use forebay_core::error::{Error, Result};

/// Bytes after a footer: its length and the magic number.
const END_BYTES: u64 = 10;

/// Bytes at the end of a file that nearly always have its whole footer.
const TAIL_BYTES: u64 = 64 << 10;

/// Returns the positions of all rows of `file`; `None` for a file without a footer.
///
/// The messages of a file may come from a stream, but some programs write no schema there. The footer counts.
pub(super) fn batches<R: ReadAt + ?Sized>(file: &R) -> Result<Option<Batches>> {
    let Some(footer) = footer(file)? else { return Ok(None) };
    let (schema, blocks) = guarded(|| TableHead::of_footer(&footer))?;
    let bytes = |block: &Block| block.metaDataLength() as i128 + block.bodyLength() as i128;
    let all: i128 = blocks.batches.iter().chain(&blocks.dictionaries).map(bytes).sum();
    if all > i128::from(file.bytes()) {
        return Err(Error::format("the footer declares more bytes than the file has"));
    }
    let mut dictionaries = Vec::with_capacity(blocks.dictionaries.len());
    for block in &blocks.dictionaries {
        let BlockRange { start, bytes, message } = block_range(file, block, MessageHeader::DictionaryBatch)?;
        let (id, is_delta) = message.dictionary.ok_or_else(damaged)?;
        dictionaries.push(Dictionary { id, start, bytes, before: 0, is_delta });
    }
    let mut batches = Vec::with_capacity(blocks.batches.len());
    for block in &blocks.batches {
        let BlockRange { start, bytes, message } = block_range(file, block, MessageHeader::RecordBatch)?;
        message.check_rows(schema.fields()).map_err(|e| e.with("byte", start))?;
        batches.push(Batch { start, bytes, rows: message.rows });
    }
    Ok(Some(Batches { schema, batches, dictionaries }))
}

/// Reads the footer of `file`, if it has one.
fn footer<R: ReadAt + ?Sized>(file: &R) -> Result<Option<Vec<u8>>> {
    let end = file.bytes();
    let tail_bytes = TAIL_BYTES.min(end);
    let mut tail = vec![0; tail_bytes as usize];
    file.read_at(&mut tail, end - tail_bytes)?;
    let Some(rest) = tail.strip_suffix(MAGIC) else { return Ok(None) };
    let len = rest.last_chunk().map(|len| i32::from_le_bytes(*len)).and_then(|len| u64::try_from(len).ok());
    let len = len.filter(|len| *len <= HEAD_BYTES_MAX && len + END_BYTES + PREFIX_BYTES <= end);
    let len = len.ok_or_else(|| Error::format("the footer of the file is damaged"))?;
    let start = end - END_BYTES - len;
    if len + END_BYTES <= tail_bytes {
        let from = (tail_bytes - END_BYTES - len) as usize;
        return Ok(Some(tail[from..][..len as usize].to_vec()));
    }
    let mut footer = vec![0; len as usize];
    file.read_at(&mut footer, start)?;
    Ok(Some(footer))
}

/// Offset of a message.
struct BlockRange {
    start: u64,
    bytes: u64,
    message: Message,
}

/// Reads the description of the message in `block`, which has this `kind`.
fn block_range<R: ReadAt + ?Sized>(file: &R, block: &Block, kind: MessageHeader) -> Result<BlockRange> {
    let start = u64::try_from(block.offset()).map_err(|_| damaged())?;
    let damaged = || damaged().with("byte", start);
    let head = u64::try_from(block.metaDataLength()).map_err(|_| damaged())?;
    let body = u64::try_from(block.bodyLength()).map_err(|_| damaged())?;
    let bytes = head.checked_add(body).filter(|bytes| {
        (PREFIX_BYTES..=HEAD_BYTES_MAX).contains(&head)
            && start.checked_add(*bytes).is_some_and(|end| end <= file.bytes())
    });
    let bytes = bytes.ok_or_else(damaged)?;
    let mut description = vec![0; head as usize];
    file.read_at(&mut description, start)?;
    let (prefix, len) = lengths(&description).ok_or_else(damaged)?;
    let description = description.get(prefix as usize..).and_then(|rest| rest.get(..len as usize));
    let message = guarded(|| Message::parse(description.ok_or_else(damaged)?)).map_err(|e| e.with("byte", start))?;
    // The description is followed by the body.
    if message.kind != kind || prefix + len + message.body > bytes {
        return Err(damaged());
    }
    Ok(BlockRange { start, bytes, message })
}
