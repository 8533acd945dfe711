//! Offsets of the rows of Parquet files, by their footers.

use super::index::{Maker, TableFile};
use super::table::Table;
use crate::catalog::file_ends::{End, FileEnds};
use crate::catalog::found_files::FoundFile;
use crate::error::Result;
use crate::format::parquet::{Footer, TAIL_BYTES, footer_bytes};
use crate::store::Remote;
use std::sync::Arc;

/// Ends of Parquet files.
const ENDS: FileEnds =
    FileEnds { bytes: TAIL_BYTES, file_bytes_min: 1, too_short: "an empty file is not in Parquet's format" };

/// Reads the footers of `files` in `remote`.
///
/// # Errors
///
/// Errors of the store; errors of a footer and of the columns, with the file's name.
pub(super) fn fetch(
    remote: &Remote,
    files: &[&FoundFile],
    maker: &mut Maker<'_>,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<TableFile>> {
    ENDS.read(remote, files, progress, |number, tail, file_bytes| {
        let footer = footer_bytes(tail, file_bytes)?;
        if footer > tail.len() as u64 {
            return Ok(End::Longer(footer));
        }
        let Footer { schema, groups } = Footer::parse(tail, file_bytes)?;
        let table = Table::Parquet(Arc::new(schema));
        maker.file(&files[number].name, file_bytes, table, groups, Vec::new()).map(End::Read)
    })
}
