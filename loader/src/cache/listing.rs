//! What is in a directory: names, and with them sizes, since a name stands only for a whole file.

use super::dir::CacheDir;
use super::directory::{Directory, RAW, ZIP};
use super::publish::remove_quietly;
use super::table::Table;
use super::write::tmp_path;
use super::{INDEX_NAME, claim};
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::HashSet;

/// Holds about a thousand names, so that a large directory takes few calls.
const LIST_BUFFER_BYTES: usize = 32 << 10;

/// What a listing of the directory shows.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Per shard, one bit for each of its files: raw first, then compressed.
    pub(super) files: Vec<u8>,
    /// Bytes of everything of ours in it, by the index; left-over `.tmp` files as large as they are.
    pub(super) bytes: u64,
    /// Shards with left-over `.tmp` files.
    pub(super) unfinished: HashSet<u32>,
}

/// Lists `directory` and the folders below it that the index names. Names only: one stands for a whole file.
pub(super) fn list(directory: &Directory) -> Result<Listing> {
    let mut listing = Listing { files: vec![0; directory.shards.len()], ..Listing::default() };
    let mut buffer = Vec::with_capacity(LIST_BUFFER_BYTES);
    let mut below = String::new();
    for (folder, prefix) in &directory.folders {
        let failed = |errno: Errno| {
            Error::from_io(errno.into(), "the cache directory cannot be listed").with("directory", folder.display())
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(folder, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            other => other.map_err(failed)?,
        };
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
            let size = |name: &str| std::fs::metadata(directory.path.join(name)).map_or(0, |meta| meta.len());
            if let Some((shard, place)) = directory.shards.find(name) {
                listing.files[shard as usize] |= 1 << place;
                listing.bytes += file_bytes(directory, shard, place);
            } else if name == INDEX_NAME {
                listing.bytes += size(name);
            } else if let Some((shard, _)) = name.strip_suffix(".tmp").and_then(|name| directory.shards.find(name)) {
                listing.bytes += size(name);
                listing.unfinished.insert(shard);
            }
        }
    }
    Ok(listing)
}

pub(super) fn file_bytes(directory: &Directory, shard: u32, place: u8) -> u64 {
    let files = &directory.shards[shard as usize];
    files.raw.iter().chain(&files.zip).nth(place.into()).map_or(0, |f| f.bytes)
}

/// Bytes of `shard`'s files that `listing` lacks, of those that `with_zip` asks for.
pub(super) fn missing_bytes(directory: &Directory, listing: &Listing, shard: u32, with_zip: bool) -> u64 {
    let files = &directory.shards[shard as usize];
    let raw = files.raw.len();
    let wanted = files.raw.iter().chain(&files.zip).enumerate().filter(|(i, _)| *i < raw || with_zip);
    wanted.filter(|(i, _)| listing.files[shard as usize] & (1 << i) == 0).map(|(_, f)| f.bytes).sum()
}

/// Lists a directory once, when it is opened: which shards are absent, and what a crash left. Those that are there are
/// looked at when they are asked for, one by one: a process that reads from a few of a hundred thousand looks at a few.
/// Without a remote nothing is left behind and everything is expected to be there, so not even names are listed.
pub(super) fn survey(dir: &CacheDir) {
    let directory = &dir.directory;
    if !dir.has_remote {
        return;
    }
    let Ok(listing) = list(directory) else { return };
    for (shard, _) in (0u32..).zip(&listing.files).filter(|(_, files)| **files == 0) {
        directory.set_unlisted(shard);
    }
    let mut table = directory.table.lock();
    for &shard in &listing.unfinished {
        clear_unfinished(directory, &mut table, shard);
    }
    if !dir.keep_zip && !table.zips_stay(directory) && !table.nothing_may_go(directory) {
        let listed = (0u32..).zip(&listing.files).zip(&**directory.shards);
        let with_zips = listed.filter(|((_, listed), files)| u32::from(**listed) >> files.raw.len() != 0);
        for ((shard, _), _) in with_zips {
            if directory.present(shard) == RAW | ZIP && !table.claims.contains(&shard) {
                directory.shards[shard as usize].zip.iter().for_each(|zip| remove_quietly(&directory.path_of(zip)));
                directory.set_present(shard, RAW);
            }
        }
    }
}

/// Removes what a killed writer left, when nobody is writing it; what is freed.
pub(super) fn clear_unfinished(directory: &Directory, table: &mut Table, shard: u32) -> u64 {
    let byte = claim::CLAIM + u64::from(shard);
    if !table.locks_work(directory) || table.claims.contains(&shard) || !table.exclusive(directory, byte) {
        return 0;
    }
    let files = &directory.shards[shard as usize];
    let mut freed = 0;
    for file in files.raw.iter().chain(&files.zip) {
        let tmp = tmp_path(&directory.path_of(file));
        if let Ok(meta) = std::fs::symlink_metadata(&tmp) {
            freed += meta.len();
            remove_quietly(&tmp);
        }
    }
    table.release(directory, byte);
    freed
}
