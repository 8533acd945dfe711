//! Recipe of a shard of the records of an ArrayRecord file. It becomes a file of TensorFlow's records.

use super::{ObjectRange, Recipe};
use crate::array_record::each_record;
use crate::layout::Layout;
use crate::tfrecord::{FRAME_BYTES, append};
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

    fn read(&self, parts: &[Bytes]) -> Result<Vec<u8>> {
        let [chunks] = parts else { return Err(Error::internal("other ranges were fetched than a shard is made of")) };
        let bytes = usize::try_from(self.assembled_bytes()).unwrap_or(usize::MAX);
        let other = || Error::format("the chunks have other records than the footer of the file declares");
        let full = |_| Error::new(ErrorKind::Full, format!("no memory for a shard of {bytes} bytes"));
        let mut file = Vec::new();
        // The footer may declare anything: memory grows with the records.
        file.try_reserve_exact(bytes.min(chunks.len().saturating_mul(4))).map_err(full)?;
        each_record(chunks, self.start, |record| {
            if record.len() + FRAME_BYTES as usize > bytes - file.len() {
                return Err(other());
            }
            file.try_reserve(record.len() + FRAME_BYTES as usize).map_err(full)?;
            append(record, &mut file);
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
        self.read(&parts).map_err(|e| e.with("file", &self.key))
    }

    fn facts_of(&self, index: u32) -> Vec<(&'static str, String)> {
        vec![("file", self.key.to_string()), ("record", format!("{index} after byte {}", self.start))]
    }
}
