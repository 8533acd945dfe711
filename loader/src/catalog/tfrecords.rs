//! TensorFlow's record files as the shards of a stream.
//!
//! Their index is made of the indexes that other programs left next to them, or of one pass over the files, and stays in the
//! stream's folder on local disk. [`kept`](super::kept) has the files that a stopped pass has read.

use super::cache_folder::unfinished;
use super::index_origin::IndexOrigin;
use super::kept::Kept;
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use super::requests::{document, peek};
use super::tars::{check_sizes, stored_names};
use crate::cache::CachedIndex;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::tfrecord::{FeatureCounts, compression_of, count_features, front_features};
use crate::format::{Compression, Digests, FileInfo, INDEX_BASENAME, Index, Layout, ReadAt, Shard};
use crate::io::read_up_to_at;
use crate::sources::records::{index_names, parse_index, raw_name};
use crate::store::Remote;
use crate::sync::{Arc, Mutex};
use std::collections::HashSet;
use std::path::PathBuf;

/// Most bytes of a compressed file, and of the same file when it is unpacked: offsets are of 32 bits.
const BYTES_MAX: u64 = u32::MAX as u64;

/// Bytes of a file whose first records show the features: at first, and at most.
const FRONT_BYTES: usize = 256 << 10;
const FRONT_BYTES_MAX: usize = 256 << 20;

/// Bytes that show a file's compression.
const HEAD_BYTES: usize = 12;

/// End of the name of an unpacked file, if that of the compressed one has none for its compression.
const UNPACKED: &str = ".unpacked";

/// Record files by their names.
pub(super) struct TfRecords {
    /// Address of their folder, with secrets.
    pub(super) root: String,
    /// That folder, if it is on this machine.
    pub(super) folder: Option<PathBuf>,
    /// Paths below it.
    pub(super) names: Vec<String>,
}

impl IndexOrigin for TfRecords {
    fn cached(&self) -> CachedIndex {
        // The names are compared instead, and each file's size when it is fetched.
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        self.names.iter().all(|name| raw_name(name) == name) && !self.is_first_compressed()
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let files = match self.indexed(remote)? {
            Some(files) => files,
            None => {
                self.counted(remote, Kept::open(unfinished().ok().as_deref(), &self.root, &self.names), progress)?
            }
        };
        Ok(self.index(files)?.to_json().into_bytes())
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        if stored_names(&index).eq(self.names.iter().map(String::as_str)) {
            return check_sizes(&index, self.folder.as_deref()).map(|()| index);
        }
        Err(Error::format("the index is of other files").with("files", self.names.len()))
    }
}

impl TfRecords {
    /// Returns true if the first of the files on this machine is compressed, whatever its name: others are then, too.
    fn is_first_compressed(&self) -> bool {
        let (Some(folder), Some(name)) = (&self.folder, self.names.first()) else { return false };
        let mut front = [0; HEAD_BYTES];
        // A file that cannot be read is an error when it is counted.
        let path = folder.join(name);
        let opened = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
        let read = opened
            .and_then(|_| std::fs::File::open(&path).ok())
            .and_then(|file| read_up_to_at(file, &mut front, 0).ok());
        read.is_some_and(|bytes| compression_of(&front[..bytes]).is_some())
    }

    /// Returns the files by the indexes next to them; `None` unless each has one.
    fn indexed(&self, remote: &Remote) -> Result<Option<Vec<RecordFile>>> {
        let Some(first) = self.names.first().filter(|_| self.reads_in_place()) else { return Ok(None) };
        // The first file shows which program was used.
        let forms = index_names(first).into_iter().enumerate();
        let mut form = None;
        for (number, name) in forms {
            if document(remote, &name)?.is_some_and(|bytes| usable(&bytes).is_some()) {
                form = Some(number);
                break;
            }
        }
        let Some(form) = form else { return Ok(None) };
        let found = in_parallel(&self.names, |name| {
            let Some(index) = index_names(name).into_iter().nth(form) else { return Ok(None) };
            Ok(document(remote, &index)?.and_then(|bytes| usable(&bytes)))
        })?;
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let Some(with_records) = found.iter().position(|(records, _)| *records > 0) else { return Ok(None) };
        let features = front_of(remote, &self.names[with_records]).context("file", || &self.names[with_records])?;
        let file =
            |(records, bytes)| RecordFile { counts: features.of_samples(records), raw_bytes: bytes, packed: None };
        Ok(Some(found.into_iter().map(file).collect()))
    }

    /// Reads all files once, but for those in `kept`.
    fn counted(&self, remote: &Remote, kept: Kept, progress: &(dyn Fn() + Sync)) -> Result<Vec<RecordFile>> {
        let all = self.names.iter().filter(|name| kept.get(name).is_none()).count();
        log::warn!("{all} TFRecord files have no index next to them (.idx) and are read once to count their records");
        let is_in_place = self.folder.is_some() && self.reads_in_place();
        // Locked while a compressed file is in memory, which is read as a whole: one at a time.
        let unpacking = Mutex::new(());
        let file = |name: &str| {
            if let Some((file, entry)) = kept.get(name).and_then(|entry| Some((RecordFile::of_entry(entry)?, entry)))
                && peek(remote, name, 1)?.len == entry.zip_data.as_ref().unwrap_or(&entry.raw_data).bytes
            {
                return Ok(file);
            }
            let file = RecordFile::read(remote, name, &unpacking, progress)?;
            if is_in_place && file.packed.is_some() {
                let message = "the file is compressed, and the first one is not: read them as two streams";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            if !file.counts.is_partial() {
                kept.add(name, &file.entry(name, Arc::new(Layout::tfrecord(&file.counts))));
            }
            Ok(file)
        };
        let files = in_parallel(&self.names, |name| file(name).context("file", || name))?;
        kept.end();
        Ok(files)
    }

    /// Returns the index of `files`, which are those of the names.
    fn index(&self, files: Vec<RecordFile>) -> Result<Index> {
        let mut all = FeatureCounts::default();
        let mut raw_names = HashSet::new();
        for (file, name) in files.iter().zip(&self.names) {
            all.merge(&file.counts).context("file", || name)?;
            if !raw_names.insert(file.raw_name(name)) {
                let message = "a file is in the list as it is and compressed: leave one of them out";
                return Err(Error::config(message).with("file", name));
            }
        }
        // All shards have one layout: a feature is optional if any record of any file lacks it.
        let layout = Arc::new(Layout::tfrecord(&all));
        let shards = files.iter().zip(&self.names).map(|(file, name)| file.entry(name, layout.clone())).collect();
        Ok(Index { shards })
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
fn usable(index: &[u8]) -> Option<(u64, u64)> {
    parse_index(index).inspect_err(|e| log::warn!("an index is not used: {e}")).ok()
}

/// File with its records.
struct RecordFile {
    counts: FeatureCounts,
    raw_bytes: u64,
    /// Compression and bytes of a compressed file.
    packed: Option<(Compression, u64)>,
}

impl RecordFile {
    fn read(remote: &Remote, name: &str, unpacking: &Mutex<()>, progress: &dyn Fn()) -> Result<Self> {
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
        Ok(found)
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
    use crate::clock::Clock;
    use crate::stats::Stats;
    use crate::store::{StoreConfig, Stores};
    use std::path::Path;

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
        (TfRecords { root, folder: Some(folder.to_owned()), names: NAMES.map(str::to_owned).to_vec() }, remote)
    }

    fn kept(files: &TfRecords, folder: &Path) -> Kept {
        Kept::open(Some(&folder.join("unfinished")), &files.root, &files.names)
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_files_of_the_same_size() {
        let folder = folder();
        let (files, remote) = files(folder.path());
        let none = || Kept::open(None, &files.root, &files.names);
        let whole = files.index(files.counted(&remote, none(), &|| ()).unwrap()).unwrap();
        assert_eq!(whole.samples(), 18);
        let of_stopped_pass = |number: usize| {
            let read = RecordFile::read(&remote, NAMES[number], &Mutex::new(()), &|| ()).unwrap();
            let entry = read.entry(NAMES[number], Arc::new(Layout::tfrecord(&read.counts)));
            kept(&files, folder.path()).add(NAMES[number], &entry);
        };
        of_stopped_pass(0);
        of_stopped_pass(2);
        // Another content of the same size: it is not read again.
        for name in [NAMES[0], NAMES[2]] {
            let path = folder.path().join(name);
            let bytes = std::fs::metadata(&path).unwrap().len();
            std::fs::write(path, vec![7; bytes as usize]).unwrap();
        }
        let continued = files.counted(&remote, kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(continued).unwrap(), whole);
        let e = files.counted(&remote, kept(&files, folder.path()), &|| ()).err().expect("the pass is complete");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        // A file of another size is read.
        let bytes = std::fs::read(folder.path().join(NAMES[1])).unwrap();
        std::fs::write(folder.path().join(NAMES[0]), &bytes).unwrap();
        std::fs::write(folder.path().join(NAMES[2]), &bytes).unwrap();
        of_stopped_pass(0);
        std::fs::write(folder.path().join(NAMES[0]), b"").unwrap();
        let smaller = files.counted(&remote, kept(&files, folder.path()), &|| ()).unwrap();
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
        files.counted(&remote, Kept::open(None, &files.root, &files.names), &count).unwrap();
        assert_eq!(parts.into_inner(), 3);
    }
}
