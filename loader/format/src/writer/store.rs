//! Storing of one file of a shard.

use super::sink::Sink;
use crate::hash::Hasher;
use crate::index::{Digests, FileInfo};
use crate::{Compression, HashAlgo};
use bytes::Bytes;
use forebay_core::error::Result;

/// Stores the concatenated `pieces`, compressed if requested, and returns the index's entries of the raw file and of
/// the compressed one.
///
/// # Errors
///
/// Failures of the compression or the sink.
pub fn store_file(
    sink: &dyn Sink,
    compression: Option<Compression>,
    hashes: &[HashAlgo],
    basename: &str,
    pieces: &[Bytes],
) -> Result<(FileInfo, Option<FileInfo>)> {
    let raw = describe(hashes, basename, pieces);
    let Some(compression) = compression else {
        sink.put(basename, pieces)?;
        return Ok((raw, None));
    };
    let packed = [Bytes::from(compression.compress(&pieces.concat())?)];
    let zip = describe(hashes, &format!("{basename}.{}", compression.name()), &packed);
    sink.put(&zip.basename, &packed)?;
    Ok((raw, Some(zip)))
}

fn describe(hashes: &[HashAlgo], basename: &str, pieces: &[Bytes]) -> FileInfo {
    let digest = |&algo: &HashAlgo| {
        let mut hasher = Hasher::new(algo);
        pieces.iter().for_each(|piece| hasher.update(piece));
        (algo, hasher.finish_hex())
    };
    FileInfo {
        basename: basename.into(),
        bytes: pieces.iter().map(|piece| piece.len() as u64).sum(),
        hashes: Digests::new(hashes.iter().map(digest)),
    }
}
