//! TensorFlow's record files as the shards of a stream.
//!
//! Their index is made of the indexes that other programs left next to them, or of one pass over the files, and stays in the
//! stream's folder on local disk. [`kept`](super::kept) has the files that a stopped pass has read.

use super::cache_folder::unfinished;
use super::file_versions::{self, Condition, check, remove_outdated, with_versions};
use super::found_files::{FoundFile, names_of, sized};
use super::index_origin::IndexOrigin;
use super::kept::Kept;
use super::opening::{Files, OpenFiles, Opening};
use super::parallel::{in_parallel, in_threads};
use super::remote_file::RemoteFile;
use super::requests::{DOCUMENTS_AT_ONCE, FileRange, document, fetch_ranges, peek};
use super::stream::IndexedStream;
use crate::cache::CachedIndex;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::tfrecord::{FeatureCounts, compression_of, count_features, front_features, is_record};
use crate::format::{Compression, Digests, FileInfo, INDEX_BASENAME, Index, Layout, ReadAt, Shard};
use crate::io::read_up_to_at;
use crate::sources::tfrecords::{RecordIndex, index_names, raw_name};
use crate::store::{Remote, Version};
use crate::sync::{Arc, Mutex};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;

/// Most bytes of a compressed file, and of the same file when it is unpacked: offsets are of 32 bits.
const BYTES_MAX: u64 = u32::MAX as u64;

/// Bytes of a file whose first records show the features: at first, and at most.
const FRONT_BYTES: usize = 256 << 10;
const FRONT_BYTES_MAX: usize = 256 << 20;

/// Bytes of the head of a record, which shows a file's compression, too.
const HEAD_BYTES: usize = 12;

/// End of the name of an unpacked file, if that of the compressed one has none for its compression.
const UNPACKED: &str = ".unpacked";

/// Bytes of a record that show if an index is of its file: its head.
const PROBE_BYTES: u64 = HEAD_BYTES as u64;

/// Opener of TensorFlow's record files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let names = files.into_names()?;
        let cache = at.list_cache(&names.listed().join("\n"))?;
        let (root, folder, condition) = (at.root.to_owned(), at.folder(), at.condition());
        let records = TfRecords { root, folder, files: at.find(Files::Named(names))?, cache: cache.clone(), condition };
        at.install(cache, &records)
    }
}

/// Record files by their names.
struct TfRecords {
    /// Address of their folder, with secrets.
    root: String,
    /// That folder, if it is on this machine.
    folder: Option<PathBuf>,
    files: Vec<FoundFile>,
    /// Folder of the index, and of copies of the files if they are not read in place.
    cache: PathBuf,
    condition: Condition,
}

impl IndexOrigin for TfRecords {
    fn cached(&self) -> CachedIndex {
        // Names and versions are compared instead, and each file's size when it is fetched.
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        self.files.iter().all(|file| raw_name(&file.name) == file.name) && !self.is_first_compressed()
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        remove_outdated(&self.cache, &self.files, self.folder.as_deref());
        let indexed = if self.condition.ignore_counts { None } else { self.indexed(remote)? };
        let kept = Kept::open(unfinished().ok().as_deref(), &self.root, &names_of(&self.files));
        let files = self.counted(remote, indexed.unwrap_or_default(), kept, progress)?;
        Ok(with_versions(&self.index(files)?, &self.files, self.condition.ignore_counts, None))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        check(&index, bytes, &self.files, self.condition)?;
        Ok(index)
    }

    fn version(&self) -> Option<String> {
        file_versions::digest(&self.files)
    }

    fn identity<'a>(&self, index: &Index, _: &'a [u8]) -> Cow<'a, [u8]> {
        // Without the versions: a copy of the files has others.
        index.to_json().into_bytes().into()
    }
}

impl TfRecords {
    /// Returns true if the first of the files on this machine is compressed, whatever its name: others are then, too.
    fn is_first_compressed(&self) -> bool {
        let (Some(folder), Some(file)) = (&self.folder, self.files.first()) else { return false };
        let mut front = [0; HEAD_BYTES];
        // A file that cannot be read is an error when it is counted.
        let path = folder.join(&file.name);
        let opened = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
        let read = opened
            .and_then(|_| std::fs::File::open(&path).ok())
            .and_then(|file| read_up_to_at(file, &mut front, 0).ok());
        read.is_some_and(|bytes| compression_of(&front[..bytes]).is_some())
    }

    /// Returns the files by the indexes next to them; `None` for those without one, and for those that are other files than their
    /// index is of.
    fn indexed(&self, remote: &Remote) -> Result<Option<Vec<Option<RecordFile>>>> {
        let Some(first) = self.files.first().filter(|_| self.reads_in_place()) else { return Ok(None) };
        // The first file shows which program was used.
        let forms = index_names(&first.name).into_iter().enumerate();
        let mut form = None;
        for (number, name) in forms {
            if document(remote, &name)?.is_some_and(|bytes| usable(&bytes).is_some()) {
                form = Some(number);
                break;
            }
        }
        let Some(form) = form else { return Ok(None) };
        let mut found = in_threads(DOCUMENTS_AT_ONCE, &self.files, |file| {
            let Some(index) = index_names(&file.name).into_iter().nth(form) else { return Ok(None) };
            Ok(document(remote, &index)?.and_then(|bytes| usable(&bytes)))
        })?;
        self.drop_misfits(remote, &mut found)?;
        let with_records = found.iter().position(|index| index.as_ref().is_some_and(|index| index.records > 0));
        let features = match with_records.map(|number| &self.files[number].name) {
            Some(name) => front_of(remote, name).context("file", || name)?,
            None => return Ok(None),
        };
        let file = |index: Option<RecordIndex>| {
            let RecordIndex { records, bytes, .. } = index?;
            Some(RecordFile { counts: features.of_samples(records), raw_bytes: bytes, packed: None })
        };
        Ok(Some(found.into_iter().map(file).collect()))
    }

    /// Removes indexes that do not fit their files, which were written again: by the lengths of the files, and the heads of a few
    /// records.
    fn drop_misfits(&self, remote: &Remote, indexes: &mut [Option<RecordIndex>]) -> Result<()> {
        let lengths = sized(remote, &self.files)?;
        let misfits = |number: usize| {
            log::warn!("the index of {} is of another file and is not used", self.files[number].name);
        };
        for (number, (index, bytes)) in indexes.iter_mut().zip(&lengths).enumerate() {
            if index.as_ref().is_some_and(|index| index.bytes != *bytes) {
                misfits(number);
                *index = None;
            }
        }
        let probes = indexes.iter().enumerate().flat_map(|(number, index)| {
            index.iter().flat_map(move |index| index.probes.iter().map(move |probe| (number, probe.clone())))
        });
        let probes: Vec<(usize, Range<u64>)> = probes.collect();
        let range = |(number, probe): &(usize, Range<u64>)| FileRange {
            name: &self.files[*number].name,
            start: probe.start,
            bytes: PROBE_BYTES.min(lengths[*number] - probe.start),
            file_bytes: lengths[*number],
        };
        fetch_ranges(remote, &probes.iter().map(range).collect::<Vec<_>>(), |at, head| {
            let (number, probe) = &probes[at];
            if indexes[*number].is_some() && !is_record(head, probe.end - probe.start) {
                misfits(*number);
                indexes[*number] = None;
            }
            Ok(())
        })
    }

    /// Reads the files once that are not in `indexed`, but for those in `kept`.
    fn counted(
        &self,
        remote: &Remote,
        mut indexed: Vec<Option<RecordFile>>,
        kept: Kept,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<RecordFile>> {
        indexed.resize_with(self.files.len(), || None);
        let numbers: Vec<usize> = (0..self.files.len()).filter(|number| indexed[*number].is_none()).collect();
        let all = numbers.iter().filter(|number| kept.get(&self.files[**number].name).is_none()).count();
        if all > 0 {
            let why =
                if self.condition.ignore_counts { "ignore_counts" } else { "they have no index next to them (.idx)" };
            log::warn!("{all} TFRecord files are read once to count their records: {why}");
        }
        let is_in_place = self.folder.is_some() && self.reads_in_place();
        // Locked while a compressed file is in memory, which is read as a whole: one at a time.
        let unpacking = Mutex::new(());
        let file = |name: &str| {
            if let Some((file, entry)) =
                kept.get(name).and_then(|entry| Some((RecordFile::of_entry(&entry.shard)?, entry)))
                && entry.is_of(&peek(remote, name, 1)?)
            {
                return Ok(file);
            }
            let (file, version) = RecordFile::read(remote, name, &unpacking, progress)?;
            if is_in_place && file.packed.is_some() {
                let message = "the file is compressed, and the first one is not: read them as two streams";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            if !file.counts.is_partial() {
                kept.add(name, &file.entry(name, Arc::new(Layout::tfrecord(&file.counts))), version.as_ref());
            }
            Ok(file)
        };
        let found = in_parallel(&numbers, |number| {
            let name = &self.files[*number].name;
            file(name).context("file", || name)
        })?;
        for (number, file) in numbers.into_iter().zip(found) {
            indexed[number] = Some(file);
        }
        kept.end();
        indexed.into_iter().map(|file| file.ok_or_else(|| Error::internal("a file was not counted"))).collect()
    }

    /// Returns the index of `files`, which are those of the names.
    fn index(&self, files: Vec<RecordFile>) -> Result<Index> {
        let mut all = FeatureCounts::default();
        let mut raw_names = HashSet::new();
        for (file, FoundFile { name, .. }) in files.iter().zip(&self.files) {
            all.merge(&file.counts).context("file", || name)?;
            if !raw_names.insert(file.raw_name(name)) {
                let message = "a file is in the list as it is and compressed: leave one of them out";
                return Err(Error::config(message).with("file", name));
            }
        }
        // All shards have one layout: a feature is optional if any record of any file lacks it.
        let layout = Arc::new(Layout::tfrecord(&all));
        let entry = |(file, found): (&RecordFile, &FoundFile)| file.entry(&found.name, layout.clone());
        Ok(Index { shards: files.iter().zip(&self.files).map(entry).collect() })
    }
}

/// Returns the features of the first records of the file `name`.
fn front_of(remote: &Remote, name: &str) -> Result<FeatureCounts> {
    let mut bytes = FRONT_BYTES;
    loop {
        let peek = peek(remote, name, bytes)?;
        let counts = front_features(&peek.front)?;
        if counts.samples > 0 || peek.front.len() as u64 == peek.len || bytes >= FRONT_BYTES_MAX {
            return Ok(counts);
        }
        bytes *= 8;
    }
}

/// Returns the records and bytes of a file by its index, and logs the reason why that is not used.
fn usable(index: &[u8]) -> Option<RecordIndex> {
    RecordIndex::parse(index).inspect_err(|e| log::warn!("an index is not used: {e}")).ok()
}

/// File with its records.
struct RecordFile {
    counts: FeatureCounts,
    raw_bytes: u64,
    /// Compression and bytes of a compressed file.
    packed: Option<(Compression, u64)>,
}

impl RecordFile {
    /// Reads a whole file. Returns it with the version of its content.
    fn read(
        remote: &Remote,
        name: &str,
        unpacking: &Mutex<()>,
        progress: &dyn Fn(),
    ) -> Result<(Self, Option<Version>)> {
        let file = RemoteFile::open(remote, name, progress)?;
        let mut front = [0; HEAD_BYTES];
        let front = &mut front[..HEAD_BYTES.min(usize::try_from(file.bytes()).unwrap_or(HEAD_BYTES))];
        file.read_at(front, 0)?;
        let found = match compression_of(front) {
            Some(compression) => {
                let _alone = unpacking.lock();
                let packed = remote.get_small(name, BYTES_MAX as usize)?.0;
                let raw = compression.decompress_all(&packed, BYTES_MAX)?;
                progress();
                let packed = Some((compression, packed.len() as u64));
                Self { counts: count_features(&*raw)?, raw_bytes: raw.len() as u64, packed }
            }
            None => {
                check_size(file.bytes())?;
                Self { counts: count_features(&file)?, raw_bytes: file.bytes(), packed: None }
            }
        };
        progress();
        let version = file.version().cloned();
        Ok((found, version))
    }

    /// Returns the file of an entry that [`entry`](Self::entry) has made of it.
    fn of_entry(entry: &Shard) -> Option<Self> {
        let packed = entry.compression.zip(entry.zip_data.as_ref()).map(|(of, info)| (of, info.bytes));
        let counts = FeatureCounts::of_layout(&entry.layout, entry.samples)?;
        Some(Self { counts, raw_bytes: entry.raw_data.bytes, packed })
    }

    /// Name of the file in the cache, where it is unpacked.
    fn raw_name(&self, name: &str) -> String {
        match &self.packed {
            Some(_) if raw_name(name) == name => format!("{name}{UNPACKED}"),
            Some(_) => raw_name(name).to_owned(),
            None => name.to_owned(),
        }
    }

    fn entry(&self, name: &str, layout: Arc<Layout>) -> Shard {
        let info = |basename: &str, bytes| FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
        Shard {
            compression: self.packed.map(|(compression, _)| compression),
            zip_data: self.packed.map(|(_, bytes)| info(name, bytes)),
            ..Shard::new(layout, self.counts.samples, info(&self.raw_name(name), self.raw_bytes))
        }
    }
}

/// Rejects files that are too large.
fn check_size(bytes: u64) -> Result<()> {
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("a TFRecord file of {bytes} bytes; those of more than 4 GiB are not read: write smaller ones");
    Err(Error::new(ErrorKind::Unsupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::found_files;
    use crate::clock::Clock;
    use crate::sources::Names;
    use crate::stats::Stats;
    use crate::store::{StoreConfig, Stores};
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    const NAMES: [&str; 3] =
        ["set.tfrecord-00000-of-00003", "set.tfrecord-00001-of-00003", "set.tfrecord-00002-of-00003"];

    /// Folder with TensorFlow's files.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tfrecord");
        for name in NAMES {
            std::fs::copy(made.join(name), folder.path().join(name)).unwrap();
        }
        folder
    }

    fn files(folder: &Path) -> (TfRecords, Remote) {
        let root = folder.display().to_string();
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let remote = stores.open(&root).unwrap();
        let names = Names::Listed(NAMES.map(str::to_owned).to_vec());
        let found = found_files::find(names, Some(folder), || Ok(Vec::new())).unwrap();
        let (folder, cache) = (Some(folder.to_owned()), folder.join("cache"));
        let condition = Condition { ignore_counts: false, is_verified: false };
        (TfRecords { root, folder, files: found, cache, condition }, remote)
    }

    fn set_time(path: &Path, time: SystemTime) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn kept(files: &TfRecords, folder: &Path) -> Kept {
        Kept::open(Some(&folder.join("unfinished")), &files.root, &names_of(&files.files))
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_files_that_are_the_same() {
        let folder = folder();
        let (files, remote) = files(folder.path());
        let none = || Kept::open(None, &files.root, &names_of(&files.files));
        let whole = files.index(files.counted(&remote, Vec::new(), none(), &|| ()).unwrap()).unwrap();
        assert_eq!(whole.samples(), 18);
        let of_stopped_pass = |number: usize| {
            let (read, version) = RecordFile::read(&remote, NAMES[number], &Mutex::new(()), &|| ()).unwrap();
            let entry = read.entry(NAMES[number], Arc::new(Layout::tfrecord(&read.counts)));
            kept(&files, folder.path()).add(NAMES[number], &entry, version.as_ref());
        };
        of_stopped_pass(0);
        of_stopped_pass(2);
        // Another content of the same size and time: it is not read again.
        for name in [NAMES[0], NAMES[2]] {
            let path = folder.path().join(name);
            let found = std::fs::metadata(&path).unwrap();
            std::fs::write(&path, vec![7; found.len() as usize]).unwrap();
            set_time(&path, found.modified().unwrap());
        }
        let continued = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(continued).unwrap(), whole);
        let e = files
            .counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ())
            .err()
            .expect("the pass is complete");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        // A file that was written again is read, and one of another size.

        let bytes = std::fs::read(folder.path().join(NAMES[1])).unwrap();
        std::fs::write(folder.path().join(NAMES[0]), &bytes).unwrap();
        std::fs::write(folder.path().join(NAMES[2]), &bytes).unwrap();
        of_stopped_pass(0);
        let same = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(same).unwrap().samples(), 21);
        of_stopped_pass(0);
        std::fs::write(folder.path().join(NAMES[0]), vec![7; bytes.len()]).unwrap();
        set_time(&folder.path().join(NAMES[0]), UNIX_EPOCH);
        let e = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).err().expect("damaged");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        std::fs::write(folder.path().join(NAMES[0]), b"").unwrap();
        let smaller = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(smaller).unwrap().samples(), 14);
    }

    #[test]
    fn a_pass_shows_its_progress_within_each_file() {
        let folder = folder();
        let (files, remote) = files(folder.path());
        let parts = crate::sync::AtomicUsize::new(0);
        let count = || {
            parts.fetch_add(1, crate::sync::Ordering::Relaxed);
        };
        files.counted(&remote, Vec::new(), Kept::open(None, &files.root, &names_of(&files.files)), &count).unwrap();
        assert_eq!(parts.into_inner(), 3);
    }
}
