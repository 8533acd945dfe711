//! Neighbouring records of a text, as the source of a shard.

use crate::read_at::ReadAt;
use forebay_core::error::Result;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Neighbouring records of a text, which are a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineRange {
    /// First byte in the text.
    pub start: u64,
    /// Bytes, up to the first record after them.
    pub bytes: u64,
    /// Number of records.
    pub samples: u64,
    /// Line of the first record, from 1.
    pub line: u64,
    /// Numbers of records that follow different lines than the record before, and how many such lines there
    /// are up to there: the lines of quoted cells, and empty ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_lines: Vec<(u64, u64)>,
}

/// Position of a sample in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine {
    /// Key of the file relative to the remote.
    pub file: Arc<str>,
    /// Its first line, from 1.
    pub line: u64,
}

impl LineRange {
    /// Adds a record that begins in line `line`.
    pub(super) fn add(&mut self, line: u64) {
        if self.samples == 0 {
            self.line = line;
        }
        let more = line - self.line - self.samples;
        if more != self.more_lines.last().map_or(0, |(_, more)| *more) {
            self.more_lines.push((self.samples, more));
        }
        self.samples += 1;
    }

    /// Returns the line in which record `index` begins.
    pub fn line_of(&self, index: u64) -> u64 {
        let after = self.more_lines.partition_point(|(record, _)| *record <= index);
        let more = after.checked_sub(1).map_or(0, |at| self.more_lines[at].1);
        self.line.saturating_add(index).saturating_add(more)
    }

    /// Returns the range of `file` as a file.
    pub(crate) fn of<'a>(&self, file: &'a dyn ReadAt) -> impl ReadAt + 'a {
        PartOfFile { file, start: self.start, bytes: self.bytes }
    }
}

/// Range of a file.
struct PartOfFile<'a> {
    file: &'a dyn ReadAt,
    start: u64,
    bytes: u64,
}

impl ReadAt for PartOfFile<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(into, self.start.saturating_add(offset))
    }
}
