//! Recipe of a shard of the records of an ArrayRecord file. It becomes a file of TensorFlow's records.

use super::{ObjectRange, Recipe};
use crate::array_record::{ChunkContent, each_content};
use crate::compression::check_expansion;
use crate::layout::Layout;
use crate::tfrecord::{FRAME_BYTES, append, append_lost};
use bytes::Bytes;
use forebay_core::error::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Neighbouring chunks of an ArrayRecord file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChunks {
    /// Key of the file relative to the remote.
    pub key: Arc<str>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// First byte of the first chunk.
    pub start: u64,
    /// Byte after the last chunk.
    pub end: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of all records together.
    pub record_bytes: u64,
}

impl RecordChunks {
    /// Bytes of the shard's file.
    pub fn assembled_bytes(&self) -> u64 {
        self.records.saturating_mul(FRAME_BYTES).saturating_add(self.record_bytes)
    }

    /// Makes the shard's file of chunks that may be damaged: reading a record of such a chunk is an error.
    ///
    /// # Errors
    ///
    /// As [`Recipe::assemble`], for damaged heads of chunks.
    pub fn assemble_damaged(&self, parts: &[Bytes]) -> Result<Vec<u8>> {
        self.read(parts, true).map_err(|e| e.with("file", &self.key))
    }

    fn read(&self, parts: &[Bytes], accepts_damage: bool) -> Result<Vec<u8>> {
        let [chunks] = parts else { return Err(Error::internal("the fetched ranges are not the ranges of the shard")) };
        let bytes = usize::try_from(self.assembled_bytes()).unwrap_or(usize::MAX);
        let other = || Error::format("the chunks have different records than the footer of the file declares");
        let full = |_| Error::new(ErrorKind::Full, format!("no memory for a shard of {bytes} bytes"));
        let mut file = Vec::new();
        // The footer may declare anything: memory grows with the records.
        file.try_reserve_exact(bytes.min(chunks.len().saturating_mul(4))).map_err(full)?;
        let reserve = |file: &mut Vec<u8>, records: u64, record_bytes: u64| {
            let needed = records.saturating_mul(FRAME_BYTES).saturating_add(record_bytes);
            // The head of a damaged chunk may declare anything as well.
            check_expansion(chunks.len() as u64, (file.len() as u64).saturating_add(needed))?;
            let needed = usize::try_from(needed).ok().filter(|needed| *needed <= bytes - file.len());
            file.try_reserve(needed.ok_or_else(other)?).map_err(full)
        };
        each_content(chunks, self.start, |content| {
            match content {
                ChunkContent::Record(record) => {
                    reserve(&mut file, 1, record.len() as u64)?;
                    append(record, &mut file);
                }
                ChunkContent::Lost { records, bytes: lost, .. } if accepts_damage => {
                    reserve(&mut file, records, lost)?;
                    // The size of each is not known.
                    (0..records).for_each(|number| append_lost(if number == 0 { lost as usize } else { 0 }, &mut file));
                }
                ChunkContent::Lost { error, .. } => return Err(error),
            }
            Ok(true)
        })?;
        // The number of records is compared when the shard is opened.
        if file.len() == bytes { Ok(file) } else { Err(other()) }
    }
}

impl Recipe for RecordChunks {
    fn ranges(&self) -> Vec<ObjectRange> {
        let object_bytes = Some(self.file_bytes);
        vec![ObjectRange { key: self.key.clone(), start: self.start, bytes: self.stored_bytes(), object_bytes }]
    }

    fn stored_bytes(&self) -> u64 {
        self.end - self.start
    }

    fn assemble(&self, _: &Layout, _: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        self.read(&parts, false).map_err(|e| e.with("file", &self.key))
    }

    fn as_chunks(&self) -> Option<&RecordChunks> {
        Some(self)
    }

    fn facts_of(&self, index: u32) -> Vec<(&'static str, String)> {
        vec![("file", self.key.to_string()), ("record", format!("{index} after byte {}", self.start))]
    }
}
