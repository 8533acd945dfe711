//! Comparison of one shard's files with the index. Files are read in pieces, and compressed ones are unpacked while
//! they are read.

use crate::error::Error;
use crate::format::compression::{ForwardFile, check_expansion};
use crate::format::hash::Hasher;
use crate::format::{Compression, FileInfo, FilePair, FileReader, ReadAt, Shard};
use std::io::BufReader;

/// Bytes of a file that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// State of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// All files that are needed are there, and no file is damaged.
    Whole {
        /// Bytes that were compared.
        bytes: u64,
    },
    /// It has no file: in a cache it was evicted or not fetched yet.
    Absent,
    /// Files that are damaged or missing, at least one.
    Damaged(Vec<DamagedFile>),
}

/// File that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its name in the index.
    pub name: String,
    /// The difference from the index, such as "it has 10 bytes, and the index 12".
    pub reason: String,
}

impl DamagedFile {
    fn new(file: &FileInfo, reason: impl Into<String>) -> Self {
        Self { name: file.basename.to_string(), reason: reason.into() }
    }
}

/// Result of an attempt to open a file.
pub(super) enum FoundFile {
    Open(Box<dyn ReadAt>),
    Absent,
    /// It is there and cannot be used, for this reason.
    Unreadable(String),
}

/// Compares the files of `shard`, which `open` returns one by one.
///
/// A shard is whole when all its raw files or all its compressed ones are there. A file that is there must be intact
/// even if the shard is whole without it.
pub(super) fn check(shard: &Shard, open: impl FnMut(&FileInfo) -> FoundFile) -> ShardState {
    let mut check =
        ShardCheck { shard, open, bytes: 0, missing_raw: Vec::new(), missing_zip: Vec::new(), damaged: Vec::new() };
    let mut files = 0;
    for pair in shard.files() {
        check.add(pair);
        files += 1;
    }
    let ShardCheck { bytes, missing_raw, missing_zip, damaged, .. } = check;
    let has_all_zips = shard.zip_data.is_some() && missing_zip.is_empty();
    let has_no_zip = shard.zip_data.is_none() || missing_zip.len() == files;
    match (damaged.is_empty(), missing_raw.is_empty() || has_all_zips) {
        (true, true) => ShardState::Whole { bytes },
        (true, false) if missing_raw.len() == files && has_no_zip => ShardState::Absent,
        (true, false) => {
            let missing = if has_no_zip { missing_raw } else { missing_zip };
            let reason = "it is missing, and the rest of the shard's files are there";
            ShardState::Damaged(missing.into_iter().map(|file| DamagedFile::new(file, reason)).collect())
        }
        (false, _) => ShardState::Damaged(damaged),
    }
}

/// Check of one shard, so far.
struct ShardCheck<'a, R> {
    shard: &'a Shard,
    open: R,
    bytes: u64,
    missing_raw: Vec<&'a FileInfo>,
    missing_zip: Vec<&'a FileInfo>,
    damaged: Vec<DamagedFile>,
}

impl<'a, R: FnMut(&FileInfo) -> FoundFile> ShardCheck<'a, R> {
    fn add(&mut self, pair: FilePair<'a>) {
        match (self.open)(pair.raw) {
            FoundFile::Absent => self.missing_raw.push(pair.raw),
            found => {
                let intact = self.compared(pair.raw, found);
                let checked = intact.filter(|_| self.has_table(pair)).map(|raw| self.survey(&*raw));
                checked.and_then(|checked| self.noted(pair.raw, checked));
            }
        }
        let Some(zip) = pair.zip else { return };
        match (self.open)(zip) {
            FoundFile::Absent => self.missing_zip.push(zip),
            found => {
                let checked = self.compared(zip, found).map(|packed| self.unpacked(pair, &*packed));
                checked.and_then(|checked| self.noted(zip, checked));
            }
        }
    }

    /// Compares a file with the index, and returns it if it is intact.
    fn compared(&mut self, file: &FileInfo, found: FoundFile) -> Option<Box<dyn ReadAt>> {
        let compared = match found {
            FoundFile::Open(content) => compare(file, self.shard.disk_bytes(file), &*content).map(|()| content),
            FoundFile::Unreadable(reason) => Err(reason),
            FoundFile::Absent => return None,
        };
        let content = self.noted(file, compared)?;
        self.bytes += content.bytes();
        Some(content)
    }

    /// True if the raw file of `pair` has the offsets of the samples.
    fn has_table(&self, pair: FilePair<'_>) -> bool {
        std::ptr::eq(pair.raw, self.shard.table_file())
    }

    /// Checks the offsets of the samples and the checksums of the format in `raw`.
    fn survey(&self, raw: &dyn ReadAt) -> Result<(), String> {
        let surveyed = self.shard.survey(raw).and_then(|(_, damage)| damage.map_or(Ok(()), Err));
        surveyed.map_err(|e| e.message().to_owned())
    }

    /// Unpacks a compressed file, compares the content with the raw file's entry, and checks it as a raw file.
    fn unpacked(&self, pair: FilePair<'_>, packed: &dyn ReadAt) -> Result<(), String> {
        let Some(compression) = self.shard.compression else { return Ok(()) };
        let survey = |raw: &dyn ReadAt| if self.has_table(pair) { self.survey(raw) } else { Ok(()) };
        if !compression.is_streamed() {
            let raw = decompressed(compression, packed, pair.raw.bytes)?;
            compare(pair.raw, pair.raw.bytes, &raw).map_err(|why| format!("unpacked, {why}"))?;
            return survey(&raw);
        }
        let mut hashes = Hashes::new(pair.raw);
        let mut forward = || {
            check_expansion(packed.bytes(), pair.raw.bytes)?;
            let reader = BufReader::with_capacity(PIECE_BYTES as usize, FileReader::new(packed));
            // The content is bounded by the file, and so is its window.
            let content = ForwardFile::new(compression, reader, u64::MAX, pair.raw.bytes)?;
            let content = content.watched(|bytes| hashes.update(bytes));
            let surveyed = survey(&content);
            Ok((surveyed, content.read_to_end()?))
        };
        let (surveyed, bytes) = forward().map_err(|e: Error| format!("unpacked, {}", e.message()))?;
        hashes.compare(pair.raw, pair.raw.bytes, bytes).map_err(|why| format!("unpacked, {why}"))?;
        surveyed
    }

    fn noted<T>(&mut self, file: &FileInfo, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|reason| self.damaged.push(DamagedFile::new(file, reason))).ok()
    }
}

/// Unpacks a file of a compression that needs all of it at once.
fn decompressed(compression: Compression, packed: &dyn ReadAt, raw_bytes: u64) -> Result<Vec<u8>, String> {
    let unpack = || {
        let mut bytes = vec![0; packed.bytes() as usize];
        packed.read_at(&mut bytes, 0)?;
        let mut raw = Vec::new();
        compression.decompress(&bytes, raw_bytes, &mut raw).map(|()| raw)
    };
    unpack().map_err(|e: Error| format!("unpacked, {}", e.message()))
}

/// Compares the size with `expected` bytes, and every recorded hash. The error is the first difference.
fn compare(file: &FileInfo, expected: u64, content: &dyn ReadAt) -> Result<(), String> {
    let (bytes, mut hashes) = (content.bytes(), Hashes::new(file));
    let mut piece = Vec::new();
    // A file of a wrong size is not read.
    let mut at = if bytes == expected { 0 } else { bytes };
    while at < bytes {
        piece.resize(PIECE_BYTES.min(bytes - at) as usize, 0);
        content.read_at(&mut piece, at).map_err(|e| e.to_string())?;
        hashes.update(&piece);
        at += piece.len() as u64;
    }
    hashes.compare(file, expected, bytes)
}

/// Hashes of a file that the index has, in progress.
struct Hashes(Vec<Hasher>);

impl Hashes {
    fn new(file: &FileInfo) -> Self {
        Self(file.hashes.iter().map(|(algo, _)| Hasher::new(algo)).collect())
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.update(bytes));
    }

    /// Compares the `bytes` bytes that were added with the `expected` ones of the index.
    fn compare(self, file: &FileInfo, expected: u64, bytes: u64) -> Result<(), String> {
        if bytes != expected {
            return Err(format!("it has {bytes} bytes, and the index {expected}"));
        }
        for (hasher, (algo, expected)) in self.0.into_iter().zip(file.hashes.iter()) {
            let found = hasher.finish_hex();
            if found != expected {
                return Err(format!("its {} is {found}, and in the index {expected}", algo.name()));
            }
        }
        Ok(())
    }
}
