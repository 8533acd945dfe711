//! Offsets of the batches of a stream, by a pass over the descriptions of its messages.

use super::batches::{Batch, Batches, Dictionary};
use super::guard::{damaged, guarded};
use super::head::TableHead;
use super::message::{HEAD_BYTES_MAX, Message, PREFIX_BYTES, lengths};
use crate::read_at::ReadAt;
use arrow_ipc::MessageHeader;
use forebay_core::error::{Error, Result};

/// Returns the positions of all rows of `file`, with messages from byte `start` on.
pub(super) fn batches<R: ReadAt + ?Sized>(file: &R, start: u64) -> Result<Batches> {
    let (mut at, end) = (start, file.bytes());
    let (mut schema, mut batches, mut dictionaries) = (None, Vec::new(), Vec::new());
    // A stream may end without a mark.
    while at + PREFIX_BYTES <= end {
        let mut prefix = [0; PREFIX_BYTES as usize];
        file.read_at(&mut prefix, at)?;
        let (prefix, head) = lengths(&prefix).ok_or_else(|| damaged().with("byte", at))?;
        if head == 0 {
            break;
        }
        if head > HEAD_BYTES_MAX || at + prefix + head > end {
            return Err(damaged().with("byte", at));
        }
        let mut bytes = vec![0; usize::try_from(head).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, at + prefix)?;
        let message = guarded(|| Message::parse(&bytes)).map_err(|e| e.with("byte", at))?;
        let whole = (prefix + head).checked_add(message.body).filter(|whole| *whole <= end - at);
        let whole = whole.ok_or_else(|| damaged().with("byte", at))?;
        match (message.kind, message.dictionary) {
            (MessageHeader::Schema, _) if schema.is_none() => schema = Some(TableHead::parse(&bytes)?),
            (MessageHeader::RecordBatch, _) => {
                let schema = schema.as_ref().ok_or_else(damaged);
                let checked = schema.and_then(|schema: &TableHead| message.check_rows(schema.fields()));
                checked.map_err(|e| e.with("byte", at))?;
                batches.push(Batch { start: at, bytes: whole, rows: message.rows });
            }
            (MessageHeader::DictionaryBatch, Some((id, is_delta))) => {
                let before = batches.len() as u64;
                dictionaries.push(Dictionary { id, start: at, bytes: whole, before, is_delta });
            }
            _ => return Err(damaged().with("byte", at)),
        }
        at += whole;
    }
    let schema = schema.ok_or_else(|| Error::format("the file is not in Arrow's format"))?;
    Ok(Batches { schema, batches, dictionaries })
}
