//! A sample in the file of its shard, which is read column by column.

use crate::error::Result;
use crate::format::{FIELDS, Layout, ReadAt};
use crate::io::{ShardFile, read_exact_at};
use crate::sync::Arc;
use std::ops::Range;

/// Sample in an open file, as a file.
#[derive(Debug)]
pub struct StoredSample {
    pub(super) file: Arc<ShardFile>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) layout: Arc<Layout>,
}

impl StoredSample {
    /// Format and columns.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the range of each column; `None` unless the columns are all of the sample.
    ///
    /// # Errors
    ///
    /// Errors of the file, and of its format.
    pub fn ranges(&self) -> Result<Option<Vec<Range<u64>>>> {
        // A sample may lack columns then.
        if self.layout.column(FIELDS).is_some() {
            return Ok(None);
        }
        let mut ranges = Vec::with_capacity(self.layout.columns.len());
        for column in 0..self.layout.columns.len() {
            let Some(range) = self.layout.value_range(column, self)? else { return Ok(None) };
            ranges.push(range);
        }
        Ok(Some(ranges).filter(|ranges| ranges.last().is_some_and(|last| last.end == self.bytes)))
    }
}

impl ReadAt for StoredSample {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&*self.file, into, self.offset.saturating_add(offset))
    }
}
