//! TensorFlow's record files as the shards of a stream.
//!
//! Their index is made of the indexes that other programs left next to them, or of one pass over the files, and stays in the
//! stream's folder on local disk.

use super::fronts::peek_all;
use super::index_origin::IndexOrigin;
use super::parallel::in_parallel;
use super::tars::{RemoteFile, check_sizes, document, stored_names};
use crate::cache::CachedIndex;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::tfrecord::{FeatureCounts, count_features, front_features};
use crate::format::{Compression, Digests, FileInfo, INDEX_BASENAME, Index, Layout, ReadAt, Shard};
use crate::sources::tfrecord::{compression_of, index_names, parse_index, raw_name};
use crate::store::Remote;
use crate::sync::{Arc, Mutex};
use std::path::PathBuf;

/// Most bytes of a compressed file, and of the same file when it is unpacked: offsets are of 32 bits.
const BYTES_MAX: u64 = u32::MAX as u64;

/// Bytes of a file whose first records show the features: at first, and at most.
const FRONT_BYTES: usize = 256 << 10;
const FRONT_BYTES_MAX: usize = 256 << 20;

/// Record files by their names.
pub(super) struct TfRecords {
    /// Their folder, if it is on this machine.
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
        self.names.iter().all(|name| raw_name(name) == name)
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let mut files = match self.indexed(remote)? {
            Some(files) => files,
            None => self.counted(remote, progress)?,
        };
        let mut all = FeatureCounts::default();
        for (file, name) in files.iter().zip(&self.names) {
            all.merge(&file.counts).context("file", || name)?;
        }
        // All shards have one layout: a feature is optional if any record of any file lacks it.
        let layout = Arc::new(Layout::tfrecord(&all));
        let shards = files.drain(..).zip(&self.names).map(|(file, name)| file.entry(name, layout.clone())).collect();
        Ok(Index { shards }.to_json().into_bytes())
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

    /// Reads all files once.
    fn counted(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<RecordFile>> {
        let all = self.names.len();
        log::warn!("{all} TFRecord files have no index next to them (.idx) and are read once to count their records");
        // Locked while a compressed file is in memory, which is read as a whole: one at a time.
        let unpacking = Mutex::new(());
        in_parallel(&self.names, |name| RecordFile::read(remote, name, &unpacking, progress).context("file", || name))
    }
}

/// Returns the features of the first records of the file `name`.
fn front_of(remote: &Remote, name: &str) -> Result<FeatureCounts> {
    let mut bytes = FRONT_BYTES;
    loop {
        let peek = peek_all(remote, &[name], bytes)?.pop();
        let peek = peek.ok_or_else(|| Error::internal("a request of a file has no outcome"))?;
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
        let found = match compression_of(name)? {
            Some(compression) => {
                let _alone = unpacking.lock();
                let packed = remote.get_small(name, BYTES_MAX as usize)?.0;
                let raw = compression.decompress_all(&packed, BYTES_MAX)?;
                progress();
                let packed = Some((compression, packed.len() as u64));
                Self { counts: count_features(&*raw)?, raw_bytes: raw.len() as u64, packed }
            }
            None => {
                let file = RemoteFile::open(remote, name, progress)?;
                check_front(&file)?;
                Self { counts: count_features(&file)?, raw_bytes: file.bytes(), packed: None }
            }
        };
        progress();
        Ok(found)
    }

    fn entry(self, name: &str, layout: Arc<Layout>) -> Shard {
        let info = |basename: &str, bytes| FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
        Shard {
            compression: self.packed.map(|(compression, _)| compression),
            zip_data: self.packed.map(|(_, bytes)| info(name, bytes)),
            ..Shard::new(layout, self.counts.samples, info(raw_name(name), self.raw_bytes))
        }
    }
}

/// Rejects files that are too large, and those that are compressed whatever their name.
fn check_front(file: &RemoteFile<'_>) -> Result<()> {
    let bytes = file.bytes();
    if bytes > BYTES_MAX {
        let message =
            format!("a TFRecord file of {bytes} bytes; those of more than 4 GiB are not read: write smaller ones");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut front = [0; 2];
    if bytes >= 2 {
        file.read_at(&mut front, 0)?;
    }
    if front == [0x1f, 0x8b] {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the file is compressed by gzip: give it a name that ends in .gz",
        ));
    }
    Ok(())
}
