//! Listings of a directory: names, and with them sizes, because a file gets its name only when it is complete.

use super::claim;
use super::dir_locks::DirLocks;
use super::shards::{files_of, raw_files, zip_files};
use super::shared_dir::{RAW, SharedDir, ZIP};
use super::write::{remove_quietly, tmp_path};
use crate::error::{Error, Result};
use crate::format::index::INDEX_BASENAME;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::HashSet;

/// Space for about a thousand names, so that a large directory takes few calls.
const LIST_BUFFER_BYTES: usize = 32 << 10;

/// Content of a directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Per shard, one bit for each of its files: raw first, then compressed.
    pub(super) files: Vec<u8>,
    /// Lengths of all files of the cache: by the index, and remaining `.tmp` files by their size, as files with a
    /// size that the index estimates.
    pub(super) bytes: u64,
    /// Bytes that they occupy on disk, with their folders.
    pub(super) disk_bytes: u64,
    /// Shards with remaining `.tmp` files.
    pub(super) unfinished: HashSet<u32>,
}

/// Lists `dir` and the folders below it that the index names.
pub(super) fn list(dir: &SharedDir) -> Result<Listing> {
    let mut listing = Listing { files: vec![0; dir.shards.len()], ..Listing::default() };
    let mut buffer = Vec::with_capacity(LIST_BUFFER_BYTES);
    let mut below = String::new();
    for (folder, prefix) in &dir.folders {
        let failed = |errno: Errno| {
            Error::from_io(errno.into(), "the cache directory cannot be listed").with("directory", folder.display())
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(folder, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            other => other.map_err(failed)?,
        };
        listing.disk_bytes += dir.blocks.of_folder(folder);
        let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed)?;
            let Ok(mut name) = entry.file_name().to_str() else { continue };
            if !prefix.is_empty() {
                below.clear();
                below.push_str(prefix);
                below.push_str(name);
                name = &below;
            }
            let size = |name: &str| std::fs::metadata(dir.path.join(name)).map_or(0, |meta| meta.len());
            let bytes = if let Some((shard, place)) = dir.shards.find(name) {
                listing.files[shard as usize] |= 1 << place;
                length(dir, shard, place)
            } else if name == INDEX_BASENAME {
                size(name)
            } else if let Some((shard, _)) = name.strip_suffix(".tmp").and_then(|name| dir.shards.find(name)) {
                listing.unfinished.insert(shard);
                size(name)
            } else {
                continue;
            };
            listing.bytes += bytes;
            listing.disk_bytes += dir.blocks.of_file(bytes);
        }
    }
    Ok(listing)
}

/// Returns the bytes that the file at `place` of `shard`, which is there, occupies on disk.
pub(super) fn file_bytes(dir: &SharedDir, shard: u32, place: u8) -> u64 {
    dir.blocks.of_file(length(dir, shard, place))
}

fn length(dir: &SharedDir, shard: u32, place: u8) -> u64 {
    let files = &dir.shards[shard as usize];
    let Some(file) = files_of(files).nth(place.into()) else { return 0 };
    let found = || std::fs::metadata(dir.path_of(file)).map(|meta| meta.len()).ok();
    if files.is_estimated() { found().unwrap_or(file.bytes) } else { file.bytes }
}

/// Returns the bytes on disk of `shard`'s files that `listing` lacks; compressed files count only `with_zip`.
pub(super) fn missing_bytes(dir: &SharedDir, listing: &Listing, shard: u32, with_zip: bool) -> u64 {
    let files = &dir.shards[shard as usize];
    let raw = raw_files(files).count();
    let counted = files_of(files).enumerate().filter(|(i, _)| *i < raw || with_zip);
    counted
        .filter(|(i, _)| listing.files[shard as usize] & (1 << i) == 0)
        .map(|(_, f)| dir.blocks.of_file(f.bytes))
        .sum()
}

/// Notes which shards are absent, and removes the remains of a crash, when a data set with a remote opens the
/// directory.
///
/// Shards that are present are checked when they are first used: a process that reads a few of a hundred thousand
/// checks only those. Without a remote all shards are expected to be there, so not even names are listed.
pub(super) fn survey(dir: &SharedDir, keep_zip: bool) {
    let Ok(listing) = list(dir) else { return };
    for (shard, _) in (0u32..).zip(&listing.files).filter(|(_, files)| **files == 0) {
        dir.set_unlisted(shard);
    }
    let mut locks = dir.locks.lock();
    for &shard in &listing.unfinished {
        clear_unfinished(dir, &mut locks, shard);
    }
    if !keep_zip && !locks.is_shared(claim::KEEP_ZIP) && !locks.is_shared(claim::LOCAL_ONLY) {
        let listed = (0u32..).zip(&listing.files).zip(&**dir.shards);
        let with_zips = listed.filter(|((_, listed), shard)| u32::from(**listed) >> raw_files(shard).count() != 0);
        for ((shard, _), _) in with_zips {
            if dir.present(shard) == RAW | ZIP && !locks.is_claimed(shard) {
                remove_zips(dir, shard);
            }
        }
    }
}

/// Removes the compressed files of `shard`, which has complete raw files.
pub(super) fn remove_zips(dir: &SharedDir, shard: u32) {
    zip_files(&dir.shards[shard as usize]).for_each(|zip| remove_quietly(&dir.path_of(zip)));
    dir.set_present(shard, RAW);
}

/// Removes the `.tmp` files of a killed writer, unless a live writer writes them now. Returns the bytes that are freed
/// on disk.
pub(super) fn clear_unfinished(dir: &SharedDir, locks: &mut DirLocks, shard: u32) -> u64 {
    let claim = claim::CLAIM + u64::from(shard);
    if !locks.is_available() || !locks.try_exclusive(claim) {
        return 0;
    }
    let mut freed = 0;
    for file in files_of(&dir.shards[shard as usize]) {
        let tmp = tmp_path(&dir.path_of(file));
        if let Ok(meta) = std::fs::symlink_metadata(&tmp) {
            freed += dir.blocks.of_file(meta.len());
            remove_quietly(&tmp);
        }
    }
    locks.release(claim);
    freed
}
