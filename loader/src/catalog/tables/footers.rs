//! Places of the rows of Parquet files, by their footers.

use super::kept::{KeptFile, Maker};
use super::table::Table;
use crate::catalog::found_files::{FoundFile, sized};
use crate::catalog::requests::{FileRange, fetch_ranges};
use crate::error::{Context, Error, Result};
use crate::format::parquet::{Footer, TAIL_BYTES, footer_bytes};
use crate::store::Remote;
use std::sync::Arc;

/// Reads the footers of `files` in `remote`.
///
/// # Errors
///
/// Errors of the store; those of a footer and of the columns, with the file's name.
pub(super) fn fetch(
    remote: &Remote,
    files: &[&FoundFile],
    maker: &mut Maker<'_>,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<KeptFile>> {
    let bytes = sized(remote, files.iter().copied())?;
    if let Some(empty) = bytes.iter().position(|bytes| *bytes == 0) {
        return Err(Error::format("an empty file is not in Parquet's format").with("file", &files[empty].name));
    }
    let tail_of = |number: usize, tail: u64| {
        let (name, file_bytes) = (&*files[number].name, bytes[number]);
        FileRange { name, start: file_bytes - tail, bytes: tail, file_bytes }
    };
    let mut entry = |number: usize, tail: &[u8]| {
        let (name, file_bytes) = (&files[number].name, bytes[number]);
        let footer = Footer::parse(tail, file_bytes).context("file", || name)?;
        progress();
        maker.file(name, file_bytes, Table::Parquet(Arc::new(footer.schema)), footer.groups)
    };
    let mut kept: Vec<Option<KeptFile>> = files.iter().map(|_| None).collect();
    let mut longer = Vec::new();
    let tails: Vec<_> = (0..files.len()).map(|number| tail_of(number, TAIL_BYTES.min(bytes[number]))).collect();
    fetch_ranges(remote, &tails, |number, tail| {
        let footer = footer_bytes(tail, bytes[number]).context("file", || &files[number].name)?;
        if footer > tail.len() as u64 {
            longer.push((number, footer));
        } else {
            kept[number] = Some(entry(number, tail)?);
        }
        Ok(())
    })?;
    let tails: Vec<_> = longer.iter().map(|(number, footer)| tail_of(*number, *footer)).collect();
    fetch_ranges(remote, &tails, |at, tail| {
        kept[longer[at].0] = Some(entry(longer[at].0, tail)?);
        Ok(())
    })?;
    kept.into_iter().collect::<Option<_>>().ok_or_else(|| Error::internal("a footer was not read"))
}
