//! Folder of whole files with a limit, for all processes of a node.
//!
//! The cache of shards does not serve here. It keeps the shards of one data set in a separate folder, with the names
//! and the sizes that `index.json` records, and its locks are bytes of that index. A list of files has no index: one
//! folder keeps files of any lists, stores and versions, with equal names among them, and the checksum of a file is
//! known only after its fetch.
//!
//! ```text
//! FOLDER/total             bytes on disk of the files and of those that are being written; its lock is held for every
//!                          change
//! FOLDER/new/ID-BYTES      file that is being written, of BYTES at its end. Its writer holds its lock
//! FOLDER/ab/abcd...-CRC    whole file, named by a digest of its address and version, and the checksum of its bytes
//! ```
//!
//! The number in `total` is never below the truth: it grows before a file begins and shrinks after a file is gone. A
//! process that is killed leaves it too high, or a file in `new` without a lock. Both are found by the next count,
//! which is made when the number has no room for a file.

use super::Blocks;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Part of the limit that is free after a count, so that not every file needs one.
const ROOM_PART: u64 = 10;

/// Length of the digests in names, and of the checksums.
const DIGEST_LEN: usize = 40;
const CRC_LEN: usize = 8;

/// Characters of the number in `total`.
const TOTAL_LEN: usize = 20;

/// Folder of files with a limit. It has no descriptors between calls, so that a fork may use it.
#[derive(Clone, Debug)]
pub struct FileCache {
    folder: PathBuf,
    limit: u64,
}

impl FileCache {
    /// Cache of at most `limit` bytes on disk in `folder`, which need not exist.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Self {
        Self { folder: folder.into(), limit }
    }

    /// Returns the path of the copy of the file with a digest, and notes its use. It may be evicted at any time, or be
    /// damaged.
    pub fn find(&self, digest: &str) -> Option<PathBuf> {
        let mut found = fs::read_dir(self.folder_of(digest)?).ok()?.filter_map(io::Result::ok);
        let is_copy = |name: OsString| name.as_encoded_bytes().starts_with(digest.as_bytes());
        let copy = found.find(|entry| is_copy(entry.file_name()))?.path();
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        // The time of the last use, for the eviction.
        let _ = rustix::fs::utimensat(
            CWD,
            &copy,
            &Timestamps { last_access: now, last_modification: now },
            AtFlags::empty(),
        );
        Some(copy)
    }

    /// Keeps `bytes` as `name`, a digest and a checksum, if the limit has room. Returns false if it has none.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or the disk is full.
    pub fn add(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let size = self.on_disk(bytes.len() as u64);
        if size > self.limit {
            return Ok(false);
        }
        let Some((path, file)) = self.begin(bytes.len(), size)? else { return Ok(false) };
        let written = (&file).write_all(bytes).and_then(|()| self.publish(&path, name, size));
        if let Err(error) = written {
            let total = Total::lock(&self.folder)?;
            if is_removed(&path) {
                total.shrink(size);
            }
            return Err(self.failed(error));
        }
        Ok(true)
    }

    /// Removes a copy.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn discard(&self, copy: &Path) -> Result<()> {
        let total = Total::lock(&self.folder)?;
        let size = fs::metadata(copy).map_or(0, |found| self.on_disk(found.len()));
        if is_removed(copy) {
            total.shrink(size);
        }
        Ok(())
    }

    fn on_disk(&self, bytes: u64) -> u64 {
        Blocks::of(&self.folder).of_file(bytes)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::from_io(error, "a file cannot be written").with("folder", self.folder.display())
    }

    fn folder_of(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name.get(..2)?))
    }

    /// Creates a file with room for `bytes` bytes, which occupy `size`. None: the limit has no room.
    fn begin(&self, bytes: usize, size: u64) -> Result<Option<(PathBuf, File)>> {
        let total = Total::lock(&self.folder)?;
        let has_room = |held: &u64| held.saturating_add(size) <= self.limit;
        let held = match total.read().filter(has_room) {
            Some(held) => held,
            None => {
                let counted = self.count(size).map_err(|e| self.failed(e))?;
                total.write(counted);
                if !has_room(&counted) {
                    return Ok(None);
                }
                counted
            }
        };
        let (path, file) = create_new(&self.folder.join("new"), bytes).map_err(|e| self.failed(e))?;
        file.lock().map_err(|e| self.failed(e))?;
        total.write(held.saturating_add(size));
        Ok(Some((path, file)))
    }

    fn publish(&self, path: &Path, name: &str, size: u64) -> io::Result<()> {
        let folder = self.folder_of(name).ok_or(ErrorKind::InvalidInput)?;
        let total = Total::lock(&self.folder).map_err(io::Error::other)?;
        fs::create_dir_all(&folder)?;
        let copy = folder.join(name);
        // Another process had the same file at the same time.
        let is_second = copy.exists();
        fs::rename(path, copy)?;
        if is_second {
            total.shrink(size);
        }
        Ok(())
    }

    /// Removes the files that killed processes left, and the files that were not used for longest until there is room
    /// for `size` bytes on disk. Returns the bytes of the rest.
    fn count(&self, size: u64) -> io::Result<u64> {
        let blocks = Blocks::of(&self.folder);
        let mut total = 0_u64;
        for entry in fs::read_dir(self.folder.join("new"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if has_writer(&path)? {
                let bytes = name.rsplit('-').next().and_then(|bytes| bytes.parse().ok());
                total = total.saturating_add(blocks.of_file(bytes.unwrap_or(0)));
            } else {
                is_removed(&path);
            }
        }
        let mut copies = self.copies(blocks)?;
        total = copies.iter().fold(total, |total, copy| total.saturating_add(copy.size));
        if total.saturating_add(size) > self.limit {
            let room = size.max(self.limit / ROOM_PART);
            copies.sort_unstable_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
            for copy in copies {
                if total.saturating_add(room) <= self.limit {
                    break;
                }
                is_removed(&copy.path);
                total -= copy.size;
            }
        }
        Ok(total)
    }

    /// Returns the whole files. Anything else in the folder is not the cache's to remove.
    fn copies(&self, blocks: Blocks) -> io::Result<Vec<CopyOnDisk>> {
        let mut copies = Vec::new();
        for folder in fs::read_dir(&self.folder)? {
            let folder = folder?;
            if folder.file_name().len() != 2 || !folder.file_type()?.is_dir() {
                continue;
            }
            for entry in fs::read_dir(folder.path())? {
                let entry = entry?;
                if entry.file_name().to_str().is_some_and(is_name) {
                    let found = entry.metadata()?;
                    let (used, size) = (found.modified()?, blocks.of_file(found.len()));
                    copies.push(CopyOnDisk { used, size, path: entry.path() });
                }
            }
        }
        Ok(copies)
    }
}

struct CopyOnDisk {
    used: SystemTime,
    /// Bytes on disk.
    size: u64,
    path: PathBuf,
}

/// Number of bytes in the file `total`, with its lock, which excludes changes by all processes and threads but this
/// one.
struct Total(File);

impl Total {
    fn lock(folder: &Path) -> Result<Self> {
        let open = || {
            fs::create_dir_all(folder.join("new"))?;
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("total"))?;
            file.lock()?;
            Ok(Self(file))
        };
        open().map_err(|error: io::Error| {
            Error::config(format!("cache must be a folder that can be written: {error}"))
                .with("folder", folder.display())
        })
    }

    /// Returns the number. None: it is absent, or was damaged by a loss of power, so that a count follows.
    fn read(&self) -> Option<u64> {
        let mut text = [0; TOTAL_LEN];
        self.0.read_exact_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text).ok()?.parse().ok()
    }

    fn write(&self, total: u64) {
        // A number that is too high is found by a count, as after a killed process.
        let _ = self.0.write_all_at(format!("{total:020}").as_bytes(), 0);
    }

    fn shrink(&self, size: u64) {
        if let Some(total) = self.read() {
            self.write(total.saturating_sub(size));
        }
    }
}

impl Drop for Total {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked meanwhile has the descriptor too.
        let _ = self.0.unlock();
    }
}

/// Creates a file for `bytes` bytes, with a name that no file has.
fn create_new(folder: &Path, bytes: usize) -> io::Result<(PathBuf, File)> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    loop {
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{nanos:x}-{:x}-{number:x}-{bytes}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
}

/// Returns true for the name of a whole file.
fn is_name(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    name.split_once('-').is_some_and(|(digest, crc)| {
        (digest.len(), crc.len()) == (DIGEST_LEN, CRC_LEN) && is_hex(digest) && is_hex(crc)
    })
}

fn has_writer(path: &Path) -> io::Result<bool> {
    match File::open(path)?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Removes a file. Returns false if it is gone already, or cannot be removed.
fn is_removed(path: &Path) -> bool {
    fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cache with files of whole blocks, so that sizes are the same on most disks.
    fn cache(limit: u64) -> (tempfile::TempDir, FileCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = FileCache::new(folder.path(), limit);
        (folder, cache)
    }

    fn name(number: u8) -> String {
        format!("{}-{number:08x}", hex(number))
    }

    fn hex(number: u8) -> String {
        format!("{number:02x}").repeat(20)
    }

    const BLOCK: usize = 64 << 10;

    #[test]
    fn the_files_that_were_not_used_for_longest_make_room() {
        let (_folder, cache) = cache(3 * BLOCK as u64);
        for number in [1, 2, 3] {
            assert!(cache.add(&name(number), &[number; BLOCK]).unwrap());
            let copy = File::open(cache.find(&hex(number)).unwrap()).unwrap();
            copy.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number.into())).unwrap();
        }
        cache.find(&hex(1)).unwrap();
        assert!(cache.add(&name(4), &[4; BLOCK]).unwrap());
        assert_eq!([1, 2, 3, 4].map(|number| cache.find(&hex(number)).is_some()), [true, false, true, true]);
        assert!(!cache.add(&name(5), &[5; 4 * BLOCK]).unwrap());
    }

    #[test]
    fn a_writer_keeps_its_room_until_it_is_gone() {
        let (folder, cache) = cache(BLOCK as u64);
        let (path, file) = cache.begin(BLOCK, BLOCK as u64).unwrap().unwrap();
        assert!(!cache.add(&name(1), &[1; BLOCK]).unwrap());
        drop(file);
        assert!(cache.add(&name(1), &[1; BLOCK]).unwrap() && !path.exists());
        for total in ["", "xxxxxxxxxxxxxxxxxxxx", "00000000000000065536"] {
            fs::write(folder.path().join("total"), total).unwrap();
            cache.discard(&cache.find(&hex(1)).unwrap()).unwrap();
            assert!(cache.add(&name(1), &[1; BLOCK]).unwrap(), "{total}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_published_leaves_its_room() {
        let (folder, cache) = cache(BLOCK as u64);
        fs::write(folder.path().join("01"), "a file where the folder of the copy would be").unwrap();
        cache.add(&name(1), &[1; BLOCK]).unwrap_err();
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 0);
        assert!(cache.add(&name(2), &[2; BLOCK]).unwrap());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_of_the_argument() {
        let (folder, _) = cache(1);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = FileCache::new(file, 1 << 20).add(&name(1), b"1").unwrap_err();
        assert!(error.to_string().contains("cache must be a folder that can be written"), "{error}");
    }
}
