//! Values that are read from a shard directly into their rows.

use crate::decode::Row;
use crate::error::{Error, Result};
use crate::format::ReadAt;
use crate::io::{ShardFile, read_exact_at, read_exact_uninit_at};

/// Sample in a data file, as a file.
pub(super) struct StoredSample<'a> {
    pub(super) file: &'a ShardFile,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl ReadAt for StoredSample<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(self.file, into, self.offset.saturating_add(offset))
    }
}

/// Fills `row`, which has the size of a stored value, with the bytes of `file` from `offset` on.
pub(super) fn read_row(file: &ShardFile, row: &mut Row<'_>, offset: u64) -> Result<()> {
    match row {
        Row::Fixed(row) => read_exact_at(file, row, offset),
        Row::Var(row) => read_exact_at(file, row, offset),
        Row::Sized(row) => read_exact_uninit_at(file, row, offset),
        Row::Stored(_) | Row::Filled | Row::Encodable(..) => Err(Error::internal("a row that is not read directly")),
    }
}
