//! Recipe of a shard of files that are samples.

use super::files::{FileColumn, FileColumns, FileGroup, Piece};
use super::texts::Texts;
use super::{MdsBuilder, ObjectRange, Recipe};
use crate::layout::Layout;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::sync::Arc;

impl FileGroup {
    /// Ranges of the whole files.
    pub(super) fn ranges(&self) -> Vec<ObjectRange> {
        let range = |(key, bytes): (&str, &u64)| ObjectRange {
            key: key.into(),
            start: 0,
            bytes: *bytes,
            object_bytes: Some(*bytes),
        };
        self.paths.iter().zip(&self.bytes).map(range).collect()
    }

    /// Bytes of all files.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.bytes.iter().copied().fold(0, u64::saturating_add)
    }
}

/// Files that are samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSamples(pub Arc<FileGroup>);

impl Recipe for FileSamples {
    fn ranges(&self) -> Vec<ObjectRange> {
        self.0.ranges()
    }

    fn stored_bytes(&self) -> u64 {
        self.0.stored_bytes()
    }

    fn assemble(&self, layout: &Layout, samples: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let Self(group) = self;
        let bytes = usize::try_from(group.file_bytes()).unwrap_or(usize::MAX);
        let mut file = MdsBuilder::new(layout, bytes)?;
        for (i, contents) in parts.chunks(group.columns.files.max(1)).take(group.samples()).enumerate() {
            let mut labels = vec![[0; 8]; group.columns.origins.len()];
            let values = group.columns.origins.iter().zip(&mut labels).map(|(origin, label)| match *origin {
                FileColumn::File(n) => {
                    contents.get(n).map(AsRef::as_ref).ok_or_else(|| Error::internal("a file was not fetched"))
                }
                origin => match group.piece(i, origin, label) {
                    Piece::Bytes(bytes) => Ok(bytes),
                    Piece::File { .. } => Err(Error::internal("a value that is a file")),
                },
            });
            file.push(&values.collect::<Result<Vec<_>>>()?)?;
        }
        file.finish(samples)
    }

    fn classes(&self) -> Option<&Texts> {
        self.0.columns.classes()
    }

    fn key_column(&self) -> Option<&'static str> {
        Some(FileColumns::PATH)
    }

    fn path_of(&self, index: u32) -> Option<&str> {
        self.0.files(index as usize).next().map(|(path, _)| path)
    }

    fn as_files(&self) -> Option<&Arc<FileGroup>> {
        Some(&self.0)
    }
}
