//! Bytes that files occupy on disk, as `cache_limit` counts them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a block of the usual file systems.
const BLOCK_BYTES: u64 = 4096;

/// Returns the bytes that files of these lengths occupy in `folder`, with the folder itself.
pub fn room(folder: &Path, lengths: impl IntoIterator<Item = u64>) -> u64 {
    let files: u64 = lengths.into_iter().map(|length| length.next_multiple_of(BLOCK_BYTES)).sum();
    std::fs::metadata(folder).map_or(0, |found| on_disk(&found)) + files
}

/// Returns the bytes that `folder` and the files in it occupy. A file that is removed meanwhile does not count.
pub fn used(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.metadata());
    files.chain([std::fs::metadata(folder)]).map(|found| found.map_or(0, |found| on_disk(&found))).sum()
}

fn on_disk(found: &Metadata) -> u64 {
    found.blocks() * 512
}
