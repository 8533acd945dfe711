//! Shard of a range of a file of token ids.

use super::{ObjectRange, Recipe};
use crate::layout::Layout;
use crate::table::OffsetTable;
use crate::tokens::TokenPart;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::sync::Arc;

/// Range of a stored file of token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// The range, and the samples in it.
    pub part: TokenPart,
    /// Key relative to the remote, and bytes, of the file.
    pub data: (Arc<str>, u64),
    /// Ranges of the file with the offsets of the samples; not used for windows.
    pub index: (Arc<str>, u64),
}

impl TokenRange {
    /// All ranges, also those without bytes: first the ranges of the index, then the range of the ids.
    fn all_ranges(&self) -> impl Iterator<Item = ObjectRange> {
        let range = |(key, whole): &(Arc<str>, u64), start, bytes| ObjectRange {
            key: key.clone(),
            start,
            bytes,
            object_bytes: Some(*whole),
        };
        let ids = range(&self.data, self.part.start, self.part.bytes);
        let offsets = self.part.index_ranges().into_iter();
        offsets.map(move |(start, bytes)| range(&self.index, start, bytes)).chain([ids])
    }
}

impl Recipe for TokenRange {
    fn ranges(&self) -> Vec<ObjectRange> {
        // No store has an answer of no bytes.
        self.all_ranges().filter(|range| range.bytes > 0).collect()
    }

    fn assemble(&self, _: &Layout, _: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let mut fetched = parts.iter().map(AsRef::as_ref);
        let part = |range: ObjectRange| if range.bytes > 0 { fetched.next() } else { Some(&[][..]) };
        let all: Option<Vec<&[u8]>> = self.all_ranges().map(part).collect();
        match all.as_deref() {
            Some([offsets @ .., ids]) => self.part.assembled(offsets, ids),
            _ => Err(Error::internal("fewer ranges were fetched than a shard is made of")),
        }
    }

    fn facts_of(&self, index: u32) -> Vec<(&'static str, String)> {
        vec![("file", self.data.0.to_string()), ("sample in file", format!("{index} after byte {}", self.part.start))]
    }

    fn offset_ranges(&self) -> Option<Vec<ObjectRange>> {
        let tables = self.part.index_ranges().len();
        Some(self.all_ranges().take(tables).filter(|range| range.bytes > 0).collect())
    }

    fn offsets_apart(&self, parts: &[Bytes]) -> Result<OffsetTable> {
        let mut fetched = parts.iter().map(AsRef::as_ref);
        let part = |range: ObjectRange| if range.bytes > 0 { fetched.next() } else { Some(&[][..]) };
        let tables: Option<Vec<&[u8]>> = self.all_ranges().take(self.part.index_ranges().len()).map(part).collect();
        self.part.offsets(&tables.ok_or_else(|| Error::internal("fewer ranges were fetched than have the offsets"))?)
    }

    fn offsets_assembled(&self) -> Option<Result<OffsetTable>> {
        self.part.offsets_assembled()
    }
}
