//! Shard of objects that are samples, such as the pictures of a folder.

use super::{MdsBuilder, ObjectRange};
use crate::error::Result;
use crate::format::encoding::Encoding;
use crate::format::layout::Layout;
use std::sync::Arc;

/// Objects of a shard in the order of its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileGroup {
    /// Key relative to the remote, and bytes, of each.
    pub files: Vec<(Arc<str>, u64)>,
}

impl FileGroup {
    /// Name of the column with the content of the file.
    pub const FILE: &'static str = "file";
    /// Name of the column with its key.
    pub const PATH: &'static str = "path";

    /// Layout of its samples.
    ///
    /// # Errors
    ///
    /// None, since the names differ.
    pub fn layout() -> Result<Layout> {
        Layout::mds([(Self::FILE.to_owned(), Encoding::Bytes), (Self::PATH.to_owned(), Encoding::Str)])
    }

    /// Bytes of the shard's data file.
    pub fn file_bytes(&self, layout: &Layout) -> u64 {
        let values = self.files.iter().map(|(key, bytes)| bytes.saturating_add(key.len() as u64));
        MdsBuilder::file_bytes(layout, self.files.len() as u64, values.fold(0, u64::saturating_add))
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    pub(super) fn ranges(&self) -> Vec<ObjectRange> {
        let range = |(key, bytes): &(Arc<str>, u64)| ObjectRange {
            key: key.clone(),
            start: 0,
            bytes: *bytes,
            object_bytes: Some(*bytes),
        };
        self.files.iter().map(range).collect()
    }

    pub(super) fn assemble<'a>(&self, layout: &'a Layout, parts: &[impl AsRef<[u8]>]) -> Result<MdsBuilder<'a>> {
        let bytes = usize::try_from(self.file_bytes(layout)).unwrap_or(usize::MAX);
        let mut file = MdsBuilder::new(layout, bytes)?;
        for ((key, _), content) in self.files.iter().zip(parts) {
            file.push(&[content.as_ref(), key.as_bytes()])?;
        }
        Ok(file)
    }
}
