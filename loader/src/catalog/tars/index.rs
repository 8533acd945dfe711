//! Index of tars without one: from what other files have about them, or by a pass over all of them.

use super::known::{fields_of, known_counts, lengths};
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use crate::clock::Clock;
use crate::error::{Context, Error, Result};
use crate::format::tar::{FieldCounts, count_fields};
use crate::format::{Compression, Digests, FileInfo, HashAlgo, Index, Layout, ReadAt, Shard};
use crate::sources::counts::Known;
use crate::sources::{FileKind, Packing, ShardNames, shard_names};
use crate::stats::Stats;
use crate::store::{Remote, StoreConfig, Stores, redact};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use std::collections::HashSet;

/// Most bytes of a compressed tar, and of the same tar when it is unpacked.
const PACKED_BYTES_MAX: usize = 4 << 30;
const RAW_BYTES_MAX: u64 = 8 << 30;

/// Tars of a remote folder, to make an index of them.
pub struct TarSet {
    remote: Remote,
    root: String,
    names: Vec<String>,
    /// Tars whose samples other files count.
    known: Vec<Option<CountedTar>>,
    hashes: Arc<[HashAlgo]>,
    /// Locked while a compressed tar is in memory, which is read as a whole: one at a time.
    unpacking: Mutex<()>,
}

impl TarSet {
    /// Opens the tars `names` of `remote`, whose address is `root`, and reads what other files have about them.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is no tar file, with its name; errors of the store.
    pub(crate) fn open(remote: &Remote, root: &str, names: &[String]) -> Result<Self> {
        let mut raw_names = HashSet::new();
        let twice = names.iter().map(|name| raw_name(name)).find(|name| !raw_names.insert(name.clone()));
        if let Some(name) = twice {
            let message =
                "a tar is in the list as it is and compressed, or compressed in two ways: leave one of them out";
            return Err(Error::config(message).with("tar", name));
        }
        let are_plain = names.iter().all(|name| Packing::is_plain(name));
        // The bytes of an unpacked tar are known only when it has been read.
        let known = if are_plain { known_counts(remote, root, names)? } else { vec![None; names.len()] };
        let known = by_known(remote, names, &known)?;
        let (root, names) = (root.to_owned(), names.to_vec());
        Ok(Self { remote: remote.clone(), root, names, known, hashes: Arc::new([]), unpacking: Mutex::new(()) })
    }

    /// Opens the tars of `list`, such as `s3://bucket/train-{000..146}.tar`, with separate fetch threads.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a text that is no list of tars; as [`Stores::new`] and [`Stores::open`]; errors of the
    /// store; [`crate::ErrorKind::Format`] for a file that is no tar file, with its name.
    pub fn of_list(list: &str, config: StoreConfig) -> Result<Self> {
        let tars = shard_names(list)?.filter(|list| list.kind == FileKind::Tar);
        let ShardNames { root, names, .. } = tars.ok_or_else(|| {
            Error::config("no list of tars: their names end in .tar, .tar.gz or the like").with("list", redact(list))
        })?;
        let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
        let keys = || Ok(stores.files_below(&root)?.into_iter().map(|entry| entry.key).collect());
        let names = names.found(keys)?;
        Self::open(&stores.open(&root)?, &root, &names)
    }

    /// Address of their folder.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Paths of the tars below their folder.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns true if the entry of tar `number` is made without reading it.
    pub fn is_known(&self, number: usize) -> bool {
        self.known[number].is_some()
    }

    /// Returns the entry of tar `number` in the index. The tar is read, unless other files have its number of samples.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is no tar file, with its name; errors of the store.
    pub fn entry(&self, number: usize) -> Result<Shard> {
        self.entry_with(number, &|| ())
    }

    /// Returns [`entry`](Self::entry), and calls `progress` for each part that is read.
    fn entry_with(&self, number: usize, progress: &dyn Fn()) -> Result<Shard> {
        let name = &self.names[number];
        let made = || {
            let counted = match &self.known[number] {
                Some(known) => known.clone(),
                None => CountedTar::read(&self.remote, name, &self.unpacking, progress)?,
            };
            Ok(counted.entry(name, Layout::tar(&counted.counts).into(), self.hashes.clone()))
        };
        made().context("tar", || name)
    }

    /// Returns an index of all tars. `done` is called after each that has been read, with their number, and `progress` after
    /// each part of one.
    ///
    /// # Errors
    ///
    /// As [`entry`](Self::entry).
    pub(super) fn index(&self, done: &(dyn Fn(usize) + Sync), progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let read = AtomicUsize::new(0);
        let numbers: Vec<usize> = (0..self.names.len()).collect();
        let mut shards = in_parallel(&numbers, |number| {
            let entry = self.entry_with(*number, progress)?;
            progress();
            if !self.is_known(*number) {
                done(read.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(entry)
        })?;
        for number in 1..shards.len() {
            if shards[number].layout == shards[number - 1].layout {
                shards[number].layout = shards[number - 1].layout.clone();
            }
        }
        Ok(Index { shards })
    }
}

/// Returns the tars of `known` numbers of samples, with the fields of the first of them.
fn by_known(remote: &Remote, names: &[String], known: &[Option<Known>]) -> Result<Vec<Option<CountedTar>>> {
    let with_samples = known.iter().zip(names).find_map(|(known, name)| Some((known.filter(|k| k.samples > 0)?, name)));
    let Some((first, name)) = with_samples else { return Ok(vec![None; names.len()]) };
    let fields = fields_of(remote, name, first.samples).context("tar", || name)?;
    let is_unsized = |known: &Option<Known>| known.is_some_and(|known| known.bytes.is_none());
    let unsized_names = names.iter().zip(known).filter(|(_, known)| is_unsized(known)).map(|(name, _)| name.as_str());
    let mut lengths = lengths(remote, &unsized_names.collect::<Vec<_>>())?.into_iter();
    let tar = |known: &Option<Known>| {
        let known = (*known)?;
        let raw_bytes = known.bytes.or_else(|| lengths.next())?;
        Some(CountedTar { counts: fields.of_samples(known.samples), raw_bytes, packed: None })
    };
    Ok(known.iter().map(tar).collect())
}

/// Tar with its samples.
#[derive(Clone)]
struct CountedTar {
    counts: FieldCounts,
    raw_bytes: u64,
    /// Compression and bytes of a compressed tar.
    packed: Option<(Compression, u64)>,
}

impl CountedTar {
    fn read(remote: &Remote, name: &str, unpacking: &Mutex<()>, progress: &dyn Fn()) -> Result<Self> {
        match Packing::of(name)? {
            Some(Packing::Compressed(compression)) => {
                let _alone = unpacking.lock();
                let packed = remote.get_small(name, PACKED_BYTES_MAX)?.0;
                let raw = compression.decompress_all(&packed, RAW_BYTES_MAX)?;
                progress();
                let packed = Some((compression, packed.len() as u64));
                Ok(Self { counts: count_fields(&*raw)?, raw_bytes: raw.len() as u64, packed })
            }
            _ => {
                let file = RemoteFile::open(remote, name, progress)?;
                Ok(Self { counts: count_fields(&file)?, raw_bytes: file.bytes(), packed: None })
            }
        }
    }

    fn entry(&self, name: &str, layout: Arc<Layout>, hashes: Arc<[HashAlgo]>) -> Shard {
        let info = |basename: &str, bytes| FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
        let raw_data = info(&raw_name(name), self.raw_bytes);
        Shard {
            compression: self.packed.map(|(compression, _)| compression),
            hashes,
            zip_data: self.packed.map(|(_, bytes)| info(name, bytes)),
            ..Shard::new(layout, self.counts.samples, raw_data)
        }
    }
}

/// Name of a tar in the cache: "a.tar" for "a.tar", "a.tar.gz" and "a.tgz".
fn raw_name(name: &str) -> String {
    if Packing::is_plain(name) {
        return name.to_owned();
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.to_ascii_lowercase().ends_with(".tar") { stem.to_owned() } else { format!("{stem}.tar") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_tar_is_unpacked_under_the_name_without_its_compression() {
        for (name, raw) in [("a/0.tar.gz", "a/0.tar"), ("0.tar", "0.tar"), ("0.tgz", "0.tar"), ("0.TAR.zst", "0.TAR")] {
            assert_eq!(raw_name(name), raw);
        }
    }

    #[test]
    fn a_pass_shows_its_progress_within_each_tar() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["0.tar", "1.tar"] {
            let mut tar = tar::Builder::new(std::fs::File::create(folder.path().join(name)).unwrap());
            let content = vec![0; 1 << 20];
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, "0.bin", &*content).unwrap();
            tar.finish().unwrap();
        }
        let list = format!("{}/{{0,1}}.tar", folder.path().display());
        let set = TarSet::of_list(&list, StoreConfig::default()).unwrap();
        let parts = AtomicUsize::new(0);
        let count = || {
            parts.fetch_add(1, Ordering::Relaxed);
        };
        let index = set.index(&|_| (), &count).unwrap();
        assert_eq!(index.shards.len(), 2);
        // For each tar one after the end of its front, and one at its end.
        assert_eq!(parts.load(Ordering::Relaxed), 4);
    }
}
