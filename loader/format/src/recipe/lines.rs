//! Recipe of a shard of neighbouring records of a text, which stay as they are.

use super::{ObjectRange, PackedPart, Recipe};
use crate::compression::Compression;
use crate::layout::Layout;
use crate::lines::LineRange;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::sync::Arc;

/// Neighbouring records of a stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinesOfText {
    /// Key of the file relative to the remote.
    pub key: Arc<str>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Records in the text.
    pub range: LineRange,
    /// Compression of the file, and bytes of the text in it. It is fetched as a whole.
    pub packed: Option<(Compression, u64)>,
}

impl LinesOfText {
    fn read(&self, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let mut parts = parts.into_iter();
        let (Some(fetched), None) = (parts.next(), parts.next()) else {
            return Err(Error::internal("ranges of a different shard were fetched"));
        };
        let Some((compression, text_bytes)) = self.packed else { return Ok(fetched.into()) };
        let mut text = Vec::new();
        compression.decompress(&fetched, text_bytes, &mut text)?;
        let start = usize::try_from(self.range.start).unwrap_or(usize::MAX);
        let bytes = usize::try_from(self.range.bytes).unwrap_or(usize::MAX);
        let is_inside = start.checked_add(bytes).is_some_and(|end| end <= text.len());
        if !is_inside {
            return Err(Error::format("the text is shorter than its index declares"));
        }
        text.truncate(start + bytes);
        text.drain(..start);
        Ok(text)
    }
}

impl Recipe for LinesOfText {
    fn ranges(&self) -> Vec<ObjectRange> {
        let (start, bytes) = match self.packed {
            Some(_) => (0, self.file_bytes),
            None => (self.range.start, self.range.bytes),
        };
        vec![ObjectRange { key: self.key.clone(), start, bytes, object_bytes: Some(self.file_bytes) }]
    }

    fn packed(&self) -> Option<PackedPart> {
        let (compression, content_bytes) = self.packed?;
        Some(PackedPart { compression, content_bytes, start: self.range.start })
    }

    fn assemble(&self, _: &Layout, _: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        self.read(parts).map_err(|e| e.with("file", &self.key))
    }

    fn facts_of(&self, index: u32) -> Vec<(&'static str, String)> {
        vec![("file", self.key.to_string()), ("line", self.range.line_of(index.into()).to_string())]
    }

    fn as_lines(&self) -> Option<(Arc<str>, &LineRange)> {
        Some((self.key.clone(), &self.range))
    }
}
