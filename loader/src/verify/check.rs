//! Comparison of one shard's files with the index.

use crate::format::{FileInfo, FilePair, Shard};

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

/// Result of an attempt to read a file.
pub(super) enum FoundFile {
    Bytes(Vec<u8>),
    Absent,
    /// It is there and cannot be used, for this reason.
    Unreadable(String),
}

/// Compares the files of `shard`, which `read` returns one by one.
///
/// A shard is whole when all its raw files or all its compressed ones are there. A file that is there must be intact
/// even if the shard is whole without it.
pub(super) fn check(shard: &Shard, read: impl FnMut(&FileInfo) -> FoundFile) -> ShardState {
    let mut check =
        ShardCheck { shard, read, bytes: 0, missing_raw: Vec::new(), missing_zip: Vec::new(), damaged: Vec::new() };
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
            let reason = "it is missing, and other files of the shard are there";
            ShardState::Damaged(missing.into_iter().map(|file| DamagedFile::new(file, reason)).collect())
        }
        (false, _) => ShardState::Damaged(damaged),
    }
}

/// Check of one shard, so far.
struct ShardCheck<'a, R> {
    shard: &'a Shard,
    read: R,
    bytes: u64,
    missing_raw: Vec<&'a FileInfo>,
    missing_zip: Vec<&'a FileInfo>,
    damaged: Vec<DamagedFile>,
}

impl<'a, R: FnMut(&FileInfo) -> FoundFile> ShardCheck<'a, R> {
    fn add(&mut self, pair: FilePair<'a>) {
        match (self.read)(pair.raw) {
            FoundFile::Absent => self.missing_raw.push(pair.raw),
            found => {
                let intact = self.compared(pair.raw, found);
                self.check_table(pair, pair.raw, intact);
            }
        }
        let Some(zip) = pair.zip else { return };
        match (self.read)(zip) {
            FoundFile::Absent => self.missing_zip.push(zip),
            found => {
                let unpacked = self.compared(zip, found).and_then(|packed| self.unpacked(pair, zip, &packed));
                self.check_table(pair, zip, unpacked);
            }
        }
    }

    /// Compares a file with the index, and returns its bytes if they are intact.
    fn compared(&mut self, file: &FileInfo, found: FoundFile) -> Option<Vec<u8>> {
        let compared = match found {
            FoundFile::Bytes(bytes) => compare(file, &bytes).map(|()| bytes),
            FoundFile::Unreadable(reason) => Err(reason),
            FoundFile::Absent => return None,
        };
        let bytes = self.noted(file, compared)?;
        self.bytes += bytes.len() as u64;
        Some(bytes)
    }

    /// Unpacks a compressed file, and compares the result with the raw file's entry.
    fn unpacked(&mut self, pair: FilePair<'_>, zip: &FileInfo, packed: &[u8]) -> Option<Vec<u8>> {
        let mut raw = Vec::new();
        let unpack = self.shard.compression?.decompress(packed, pair.raw.bytes, &mut raw);
        let compared = unpack.map_err(|e| e.message().to_owned()).and_then(|()| compare(pair.raw, &raw));
        self.noted(zip, compared.map_err(|why| format!("unpacked, {why}"))).map(|()| raw)
    }

    /// Checks the offsets of the samples and the checksums of the format in the `raw` bytes of `file`, if it is the
    /// file with the offsets.
    fn check_table(&mut self, pair: FilePair<'_>, file: &FileInfo, raw: Option<Vec<u8>>) {
        if let Some(raw) = raw
            && std::ptr::eq(pair.raw, self.shard.table_file())
        {
            let checked = self.shard.offsets(&*raw).and_then(|places| self.shard.check(&raw, &places));
            self.noted(file, checked.map_err(|e| e.message().to_owned()));
        }
    }

    fn noted<T>(&mut self, file: &FileInfo, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|reason| self.damaged.push(DamagedFile::new(file, reason))).ok()
    }
}

/// Compares size and every recorded hash. The error is the first difference.
fn compare(file: &FileInfo, bytes: &[u8]) -> Result<(), String> {
    if bytes.len() as u64 != file.bytes {
        return Err(format!("it has {} bytes, and the index {}", bytes.len(), file.bytes));
    }
    for (algo, expected) in file.hashes.iter() {
        let found = algo.hex(bytes);
        if found != expected {
            return Err(format!("its {} is {found}, and in the index {expected}", algo.name()));
        }
    }
    Ok(())
}
