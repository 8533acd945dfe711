//! Index of tars without one: a pass over all of them, which finds their samples and fields.

use super::remote_file::RemoteFile;
use crate::error::{Context, Error, Result};
use crate::format::tar::{FieldCounts, count_fields};
use crate::format::{Compression, Digests, FileInfo, HashAlgo, Index, Layout, Shard};
use crate::sources::Packing;
use crate::store::Remote;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, scope};

/// Tars that are read at the same time: enough to hide a store's latency.
const TARS_AT_ONCE: usize = 16;

/// Most bytes of a compressed tar, which is read as a whole.
const PACKED_BYTES_MAX: usize = 4 << 30;

/// Reads the tars `names` of `remote`, and returns an index with an entry for each, in their order. `done` is called after
/// each with the number of tars that have been read.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a tar that cannot be read, with its name; errors of the store.
pub(super) fn index_of(remote: &Remote, names: &[String], done: &(dyn Fn(usize) + Sync)) -> Result<Index> {
    let (next, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found: Vec<Mutex<Option<CountedTar>>> = names.iter().map(|_| Mutex::new(None)).collect();
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(number) else { return Ok(()) };
            // After a failure the others stop at their next tar.
            let counted = CountedTar::read(remote, name).context("tar", || name);
            let counted = counted.inspect_err(|_| next.store(names.len(), Ordering::Relaxed))?;
            *found[number].lock() = Some(counted);
            done(read.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    scope(|scope| {
        let threads: Vec<_> = (0..TARS_AT_ONCE.min(names.len())).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err(Error::internal("the pass over the tars panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect::<Result<Vec<()>>>()
    })?;
    let counted: Option<Vec<CountedTar>> = found.into_iter().map(|tar| tar.lock().take()).collect();
    let counted = counted.ok_or_else(|| Error::internal("a tar was not read"))?;
    let mut shards: Vec<Shard> = Vec::with_capacity(names.len());
    let hashes: Arc<[HashAlgo]> = Arc::new([]);
    for (name, tar) in names.iter().zip(counted) {
        let layout = Layout::tar(&tar.counts).context("tar", || name)?;
        let layout = match shards.last() {
            Some(last) if *last.layout == layout => last.layout.clone(),
            _ => Arc::new(layout),
        };
        shards.push(tar.entry(name, layout, hashes.clone()));
    }
    Ok(Index { shards })
}

/// Tar that has been read.
struct CountedTar {
    counts: FieldCounts,
    raw_bytes: u64,
    /// Compression and bytes of a compressed tar.
    packed: Option<(Compression, u64)>,
}

impl CountedTar {
    fn read(remote: &Remote, name: &str) -> Result<Self> {
        match Packing::of(name)? {
            Some(Packing::Compressed(compression)) => {
                let packed = remote.get_small(name, PACKED_BYTES_MAX)?.0;
                let raw = compression.decompress_all(&packed, u64::MAX)?;
                let packed = Some((compression, packed.len() as u64));
                Ok(Self { counts: count_fields(&*raw)?, raw_bytes: raw.len() as u64, packed })
            }
            _ => {
                let file = RemoteFile::open(remote, name)?;
                Ok(Self { counts: count_fields(&file)?, raw_bytes: file.len(), packed: None })
            }
        }
    }

    fn entry(&self, name: &str, layout: Arc<Layout>, hashes: Arc<[HashAlgo]>) -> Shard {
        let info = |basename: &str, bytes| FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
        let raw_name = match self.packed {
            Some(_) => unpacked_name(name),
            None => name.to_owned(),
        };
        Shard {
            layout,
            samples: self.counts.samples,
            compression: self.packed.map(|(compression, _)| compression),
            hashes,
            size_limit: None,
            raw_data: info(&raw_name, self.raw_bytes),
            zip_data: self.packed.map(|(_, bytes)| info(name, bytes)),
            raw_meta: None,
            zip_meta: None,
        }
    }
}

/// Name of an unpacked tar in the cache: "a.tar" for "a.tar.gz" and for "a.tgz".
fn unpacked_name(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.to_ascii_lowercase().ends_with(".tar") { stem.to_owned() } else { format!("{stem}.tar") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_tar_is_unpacked_under_the_name_without_its_compression() {
        for (name, raw) in [("a/0.tar.gz", "a/0.tar"), ("0.tgz", "0.tar"), ("0.TAR.zst", "0.TAR")] {
            assert_eq!(unpacked_name(name), raw);
        }
    }
}
