//! Samples of tokens as Megatron's files: each of them a document.

use forebay_loader::format::{INDEX_BASENAME, Index};
use forebay_loader::{Error, Result};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the samples of the MDS shards in `folder`, of `length` tokens of 16 bits, into a `.bin` and an `.idx` file of
/// the folder `to`, unless they are there. Returns the path of the `.bin` file.
pub(super) fn write(folder: &Path, to: &Path, length: usize) -> Result<PathBuf> {
    let (bin, idx) = (to.join("tokens.bin"), to.join("tokens.idx"));
    if idx.exists() {
        return Ok(bin);
    }
    let failed = |e| Error::from_io(e, "the tokens cannot be written in Megatron's form").with("folder", to.display());
    fs::create_dir_all(to).map_err(failed)?;
    let index = Index::parse(&fs::read(folder.join(INDEX_BASENAME)).map_err(failed)?, INDEX_BASENAME)?;
    let mut ids = BufWriter::new(fs::File::create(&bin).map_err(failed)?);
    for shard in &index.shards {
        let bytes = fs::read(folder.join(&*shard.raw_data.basename)).map_err(failed)?;
        let table = shard.offsets(&bytes)?;
        for i in 0..table.len() {
            let (start, len) = table.range(i)?;
            ids.write_all(&bytes[start as usize..][..len as usize]).map_err(failed)?;
        }
    }
    ids.into_inner().map_err(|e| failed(e.into_error()))?.sync_all().map_err(failed)?;
    let samples = index.samples();
    // Of 16 bits: type 8.
    let mut tables = [&b"MMIDIDX\0\0"[..], &1_u64.to_le_bytes(), &[8]].concat();
    tables.extend([samples, samples + 1].iter().flat_map(|count| count.to_le_bytes()));
    tables.extend((0..samples).flat_map(|_| (length as i32).to_le_bytes()));
    tables.extend((0..samples).flat_map(|sample| (sample * 2 * length as u64).to_le_bytes()));
    tables.extend((0..=samples).flat_map(u64::to_le_bytes));
    fs::write(idx, tables).map_err(failed)?;
    Ok(bin)
}
