//! MDS shards, written by the engine's own writer.

use super::SynthArgs;
use forebay_loader::format::writer::Options;
use forebay_loader::format::{Compression, HashAlgo, INDEX_BASENAME, Index};
use forebay_loader::{Error, Result};
use std::fs;
use std::path::Path;

/// Has `fill` write the folder `mds`. One with an index is whole, and is kept.
pub(super) fn write(args: &SynthArgs, fill: impl FnOnce(&Path, Options) -> Result<Index>) -> Result<()> {
    let folder = args.out.join("mds");
    if folder.join(INDEX_BASENAME).is_file() {
        return Ok(());
    }
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(|e| Error::from_io(e, "an unfinished folder cannot be removed"))?;
    }
    let mut hashes = args.hashes.iter().map(|name| HashAlgo::parse(name)).collect::<Result<Vec<_>>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    let compression = args.compression.as_deref().map(Compression::parse).transpose()?;
    let options = Options { compression, hashes, size_limit: Some(args.shard_bytes_max), threads: 0 };
    let index = fill(&folder, options)?;
    println!("{} shards", index.shards.len());
    Ok(())
}
