//! Room for a shard: the bytes on disk, the limit, and the shards that are evicted.
//!
//! One thread of one process makes room at a time (the admission lock), from a fresh listing of names. Sizes come from
//! the index, because a file gets its name only when it is complete. The locks show two things that are not in a
//! listing: room that processes have reserved, and evicted shards that they still have open. So the limit holds at
//! every moment, and it is the strictest limit of all running jobs.
//!
//! * `usage` is the state of one directory while room is made;
//! * `choose` selects the shards to evict, from values alone;
//! * `remove` removes the files of one shard.

mod admission_lock;
mod choose;
mod remove;
mod usage;

#[cfg(test)]
pub(crate) use choose::Candidate;
pub(crate) use choose::choose;

use super::claim;
use super::listing::missing_bytes;
use super::shards::check_limit;
use super::shared_dir::SharedDir;
use super::stream_cache::StreamCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::INDEX_BASENAME;
use crate::sync::Arc;
use std::collections::HashSet;
use std::fmt;

/// Disk space that stays free for other programs.
pub(super) const DISK_RESERVE_BYTES: u64 = 16 << 20;

/// Result of an attempt to make room.
#[derive(Debug)]
pub(super) enum Room {
    /// The room is reserved.
    Reserved,
    /// There is no room yet, for this reason.
    Wait(String),
    /// There is room as soon as evicted shards are closed, by any process.
    Closing(String),
}

/// Reserves room for `shard` of `own`, which the caller has claimed.
///
/// Evicted shards that are still open will be free soon, so no further shards are evicted for the same room, unless
/// `is_late`: a process that has them open may be suspended.
pub(super) fn make_room(
    own: &Arc<StreamCache>,
    shard: u32,
    is_late: bool,
    next_use: &dyn Fn(u32) -> Option<u64>,
) -> Result<Room> {
    let dir = &own.dir;
    dir.check_process()?;
    let members = own.config.group.evictable(own);
    let _one_thread: Vec<_> = members.iter().map(|member| member.dir.admission.lock()).collect();
    let mut one_process = Vec::new();
    for member in &members {
        let Some(lock) = admission_lock::AdmissionLock::take(&member.dir) else {
            return Ok(Room::Wait("a different process is making room".to_owned()));
        };
        one_process.push(lock);
    }
    let mut usages: Vec<usage::DirUsage> = members.iter().map(usage::DirUsage::new).collect();
    // A member's directory may be used by a second job too; the smallest limit is right for all of them. Our own is
    // among the locks: `StreamCache` announces it.
    let limit = members.iter().filter_map(|member| member.dir.locks.lock().strictest_limit()).min();
    let is_own = |usage: &&usage::DirUsage| Arc::ptr_eq(&usage.member, own);
    let free = usages.iter().find(is_own).and_then(|usage| free_bytes(dir, &usage.reserved));
    let bytes = own.disk_bytes(shard);
    if limit.is_none() && free.is_none_or(|free| free >= bytes) {
        reserve(dir, shard);
        return Ok(Room::Reserved);
    }
    if let Some(limit) = limit {
        let index_bytes = std::fs::metadata(dir.path.join(INDEX_BASENAME)).map_or(0, |meta| meta.len());
        let index_bytes = dir.blocks.of_file(index_bytes) + dir.blocks.of_folder(&dir.path);
        check_limit(limit, index_bytes, dir.files(shard)?, bytes)?;
    }

    for usage in &mut usages {
        usage.measure()?;
    }
    let own_usage = usages.iter().find(is_own);
    let need = own_usage.map_or(0, |usage| missing_bytes(dir, &usage.listing, shard, own.config.keep_zip));
    let shortage = Shortage::new(&usages, need, limit, free);
    if shortage.over == 0 {
        reserve(dir, shard);
        return Ok(Room::Reserved);
    }
    let closing = if shortage.over_disk > 0 || is_late { 0 } else { shortage.evicted_open };
    let to_evict = shortage.over.saturating_sub(closing);
    // The remaining directories may be on different disks: evictions there help against the limit only.
    let evictable = usages.iter().enumerate().filter(|(_, usage)| shortage.over_disk == 0 || is_own(usage));
    let candidates =
        evictable.flat_map(|(i, usage)| usage.candidates(i, is_own(&usage).then_some(shard), next_use)).collect();
    let Some(victims) = choose(candidates, next_use(own.config.first_shard + shard), to_evict) else {
        if let Some(usage) = usages.iter().find(|usage| !usage.member.dir.unremovable.lock().is_empty()) {
            return Err(remove::not_removable(&usage.member.dir));
        }
        let is_empty = own_usage.is_none_or(|usage| usage.listing.files.iter().all(|files| *files == 0));
        return if is_empty && shortage.in_flight() == 0 && shortage.over_disk > 0 {
            Err(shortage.full(dir))
        } else {
            Ok(Room::Wait(shortage.to_string()))
        };
    };
    let freed =
        victims.into_iter().map(|v| remove::evict(&members[v.member], v.shard, v.bytes)).fold(0, u64::saturating_add);
    if freed < shortage.over {
        return Ok(Room::Closing(format!("{} bytes that are evicted and still open", shortage.over - freed)));
    }
    reserve(dir, shard);
    Ok(Room::Reserved)
}

/// Bytes that are missing for a shard.
struct Shortage {
    /// Bytes of the shard that are not on disk yet.
    need: u64,
    resident: u64,
    reserved: u64,
    /// Bytes that were evicted and are still open.
    evicted_open: u64,
    limit: Option<u64>,
    free: Option<u64>,
    over_disk: u64,
    /// Bytes to free, the larger one of those over the limit and over the disk.
    over: u64,
}

impl Shortage {
    fn new(usages: &[usage::DirUsage], need: u64, limit: Option<u64>, free: Option<u64>) -> Self {
        let resident: u64 = usages.iter().map(|usage| usage.listing.disk_bytes).sum();
        let reserved: u64 = usages.iter().map(|usage| usage.reserved_bytes).sum();
        let evicted_open: u64 = usages.iter().map(|usage| usage.evicted_open_bytes).sum();
        let over_disk = free.map_or(0, |free| need.saturating_sub(free));
        let used = resident + reserved + evicted_open;
        let over_limit = limit.map_or(0, |limit| used.saturating_add(need).saturating_sub(limit));
        Self { need, resident, reserved, evicted_open, limit, free, over_disk, over: over_limit.max(over_disk) }
    }

    fn in_flight(&self) -> u64 {
        self.reserved + self.evicted_open
    }

    /// Returns the error of a full disk without shards to evict.
    fn full(&self, dir: &SharedDir) -> Error {
        let why = "the disk of the cache directory is full: free space on it, or choose a `local` on a different disk";
        Error::new(ErrorKind::Full, why)
            .with("directory", dir.path.display())
            .with("bytes_needed", self.need)
            .with("bytes_free_for_shards", self.free.unwrap_or(0))
            .with("bytes_left_to_others", DISK_RESERVE_BYTES)
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes over ", self.over)?;
        match self.limit {
            Some(limit) if self.over_disk == 0 => write!(f, "cache_limit {limit}")?,
            _ => f.write_str("the disk's free space")?,
        }
        write!(
            f,
            "; {} bytes are on disk and {} in flight or evicted and still open, all being fetched, not read yet, \
             needed sooner, or of a data set without a remote",
            self.resident,
            self.in_flight()
        )
    }
}

/// Announces to all processes that the room of `shard` is reserved.
fn reserve(dir: &SharedDir, shard: u32) {
    // Never refused: the caller holds the shard's claim.
    dir.locks.lock().try_exclusive(claim::RESERVE + u64::from(shard));
}

/// Returns the bytes of the disk that are free for shards: without reserved room that has not been written yet, and
/// without [`DISK_RESERVE_BYTES`]. `None` if the file system does not report free space.
fn free_bytes(dir: &SharedDir, reserved: &HashSet<u32>) -> Option<u64> {
    let reserved = reserved.iter().map(|&shard| dir.disk_bytes(shard, true));
    let available = dir.disk_available_bytes()?;
    Some(available.saturating_sub(reserved.fold(0, u64::saturating_add)).saturating_sub(DISK_RESERVE_BYTES))
}
