//! MDS shards, written by the engine's own writer.

use super::SynthArgs;
use forebay_loader::format::writer::Options;
use forebay_loader::format::{Compression, HashAlgo, INDEX_BASENAME, Index};
use forebay_loader::indexing::IndexedCopy;
use forebay_loader::{Error, Result};
use std::fs;
use std::path::Path;

/// Whether the folder `mds` is there: one with an index is whole.
pub(super) fn is_made(args: &SynthArgs) -> bool {
    args.out.join("mds").join(INDEX_BASENAME).is_file()
}

/// Has `fill` write the folder `mds`. One that is whole is kept.
pub(super) fn write(args: &SynthArgs, fill: impl FnOnce(&Path, Options) -> Result<Index>) -> Result<()> {
    let folder = args.out.join("mds");
    if is_made(args) {
        return Ok(());
    }
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(|e| Error::from_io(e, "an unfinished folder cannot be removed"))?;
    }
    let mut hashes = args.hashes.iter().map(|name| HashAlgo::parse(name)).collect::<Result<Vec<_>>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    let compression = args.compression.as_deref().map(Compression::parse).transpose()?;
    let options = Options { compression, hashes, size_limit: Some(args.shard_bytes_max), ..Options::default() };
    let index = fill(&folder, options)?;
    println!("{} shards", index.shards.len());
    Ok(())
}

/// Copies the folder `mds` to `mds-indexed`, with row indexes. One with an index.json is whole, and is kept.
pub(super) fn index(args: &SynthArgs) -> Result<()> {
    let folder = args.out.join("mds-indexed");
    if folder.join(INDEX_BASENAME).is_file() {
        return Ok(());
    }
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(|e| Error::from_io(e, "an unfinished folder cannot be removed"))?;
    }
    let copy = IndexedCopy::begin(&args.out.join("mds"), &folder, true)?;
    let (mut jpegs, mut indexed, mut transcoded) = (0, 0, 0);
    for number in 0..copy.shards() {
        let shard = copy.shard(number)?;
        jpegs += shard.jpegs;
        indexed += shard.indexed;
        transcoded += shard.transcoded;
    }
    copy.finish()?;
    println!("{indexed} of {jpegs} JPEGs with row indexes, {transcoded} of them rewritten");
    Ok(())
}
