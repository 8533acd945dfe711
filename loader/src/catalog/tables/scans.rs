//! Offsets of the rows of Arrow files, by the descriptions of their batches.

use super::index::{Maker, TableFile};
use super::table::Table;
use crate::catalog::again::again;
use crate::catalog::found_files::FoundFile;
use crate::catalog::parallel::in_parallel;
use crate::catalog::remote_file::RemoteFile;
use crate::error::{Context, Result};
use crate::format::ReadAt as _;
use crate::format::ipc::{batches, batches_in};
use crate::format::litdata::range_of_rows;
use crate::format::parquet::{Chunk, Group};
use crate::store::Remote;
use std::sync::Arc;

/// Extension of LitData's chunks, which have an Arrow file in them. No Arrow file is called so.
const CHUNK: &str = ".bin";

/// Scans `files` in `remote`.
///
/// # Errors
///
/// Errors of the store; errors of a file and of the columns, with the file's name.
pub(super) fn fetch(
    remote: &Remote,
    files: &[&FoundFile],
    maker: &mut Maker<'_>,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<TableFile>> {
    let scanned = in_parallel(files, |file| {
        again(remote, &file.name, |_| {
            let opened = RemoteFile::open(remote, &file.name, progress)?;
            let found = if file.name.ends_with(CHUNK) {
                range_of_rows(&opened).and_then(|place| batches_in(&opened, place))
            } else {
                batches(&opened)
            };
            Ok((opened.bytes(), found.context("file", || &file.name)?))
        })
    })?;
    let entry = |(file, (bytes, found)): (&&FoundFile, (u64, crate::format::ipc::Batches))| {
        let group = |batch: crate::format::ipc::Batch| {
            let (start, bytes) = (batch.start, batch.bytes);
            let chunk = Chunk { start, bytes, values: batch.rows, compression: 0, unpacked: bytes };
            Group { rows: batch.rows, bytes, chunks: vec![chunk], bounds: Vec::new() }
        };
        let groups = found.batches.into_iter().map(group).collect();
        let table = Table::Arrow(Arc::new(found.schema));
        let entry = maker.file(&file.name, bytes, table, groups, found.dictionaries);
        entry.context("file", || &file.name)
    };
    files.iter().zip(scanned).map(entry).collect()
}
