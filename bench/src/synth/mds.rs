//! MDS shards, written by the engine's writer.

use super::set::SynthArgs;
use crate::folder::{has_index, remove_unfinished};
use forebay_loader::Result;
use forebay_loader::format::writer::Options;
use forebay_loader::format::{Compression, HashAlgo, Index};
use forebay_loader::indexing::IndexedCopy;
use std::path::Path;

/// Writes the folder `mds` with `fill`. A complete one is kept.
pub(super) fn write(args: &SynthArgs, fill: impl FnOnce(&Path, Options) -> Result<Index>) -> Result<()> {
    let folder = args.out.join("mds");
    if has_index(&folder) {
        return Ok(());
    }
    remove_unfinished(&folder)?;
    let mut hashes = args.hashes.iter().map(|name| HashAlgo::parse(name)).collect::<Result<Vec<_>>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    let compression = args.compression.as_deref().map(Compression::parse).transpose()?;
    let options = Options { compression, hashes, size_limit: Some(args.shard_bytes_max), ..Options::default() };
    let index = fill(&folder, options)?;
    println!("{} shards", index.shards.len());
    Ok(())
}

/// Copies the folder `mds` to `mds-indexed` with row indexes. A complete one, with an index.json, is kept.
pub(super) fn index(args: &SynthArgs) -> Result<()> {
    let folder = args.out.join("mds-indexed");
    if has_index(&folder) {
        return Ok(());
    }
    remove_unfinished(&folder)?;
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
