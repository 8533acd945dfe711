//! Bytes and locks of one directory while room is made.

use super::choose::Candidate;
use crate::cache::access_time::accessed_ns;
use crate::cache::claim;
use crate::cache::listing::{Listing, clear_unfinished, file_bytes, list, missing_bytes};
use crate::cache::stream_cache::StreamCache;
use crate::error::Result;
use crate::sync::Arc;
use std::collections::HashSet;

/// State of one directory while room is made.
pub(super) struct DirUsage {
    pub(super) member: Arc<StreamCache>,
    /// Shards that have room reserved by any process.
    pub(super) reserved: HashSet<u32>,
    pub(super) listing: Listing,
    /// Shards that any process has open.
    opened: HashSet<u32>,
    /// Bytes of reserved room that are not in the listing.
    pub(super) reserved_bytes: u64,
    /// Bytes of evicted files that are still open.
    pub(super) evicted_open_bytes: u64,
}

impl DirUsage {
    pub(super) fn new(member: &Arc<StreamCache>) -> Self {
        // Taken before the listing: a shard that is published in between is then counted twice rather than not at all.
        // No shard is added in between, because we have the admission lock.
        let reserved = member.dir.locks.lock().shards(claim::RESERVE, member.dir.shards.len());
        let (listing, opened) = Default::default();
        Self { member: member.clone(), reserved, listing, opened, reserved_bytes: 0, evicted_open_bytes: 0 }
    }

    /// Lists the directory and reads the reservations and open shards of the remaining processes from the locks.
    pub(super) fn measure(&mut self) -> Result<()> {
        let dir = &self.member.dir;
        self.listing = list(dir)?;
        let mut locks = dir.locks.lock();
        for shard in std::mem::take(&mut self.listing.unfinished) {
            self.listing.disk_bytes -= clear_unfinished(dir, &mut locks, shard).min(self.listing.disk_bytes);
        }
        let copies = locks.open_copies(dir.shards.len());
        self.opened = copies.iter().map(|copy| claim::shard_of_copy(*copy)).collect();
        let with_zip = locks.is_shared(claim::KEEP_ZIP);
        drop(locks);
        let reserved = self.reserved.iter().map(|&shard| missing_bytes(dir, &self.listing, shard, with_zip));
        self.reserved_bytes = reserved.fold(0, u64::saturating_add);
        let copies = copies.into_iter().map(|copy| (claim::shard_of_copy(copy), copy));
        let evicted = copies.filter(|&(shard, copy)| dir.copy_on_disk(shard) != Some(copy));
        self.evicted_open_bytes = evicted.map(|(shard, _)| dir.disk_bytes(shard, false)).sum();
        Ok(())
    }

    /// Returns all shards here that may be evicted, whenever they are used next. `fetched` is the shard that room is
    /// made for, if it belongs to this directory.
    pub(super) fn candidates(
        &self,
        member: usize,
        fetched: Option<u32>,
        next_use: &dyn Fn(u32) -> Option<u64>,
    ) -> Vec<Candidate> {
        let dir = &self.member.dir;
        let mut locks = dir.locks.lock();
        if locks.is_shared(claim::LOCAL_ONLY) {
            return Vec::new();
        }
        if locks.request_exact_holds() {
            dir.wake_waiters();
        }
        let mut kept = locks.shards(claim::HOLD, dir.shards.len());
        kept.extend(locks.shards(claim::CLAIM, dir.shards.len()));
        kept.extend(fetched);
        kept.extend(dir.unremovable.lock().iter());
        drop(locks);
        let present = (0u32..).zip(&self.listing.files).filter(|(s, files)| **files != 0 && !kept.contains(s));
        present
            .map(|(s, &files)| {
                let next_use = next_use(self.member.config.first_shard + s);
                let bytes = (0..8).filter(|i| files & (1 << i) != 0).map(|i| file_bytes(dir, s, i)).sum();
                let accessed_ns = if next_use.is_none() { accessed_ns(dir.data_path(s)) } else { 0 };
                Candidate { member, shard: s, bytes, next_use, accessed_ns, open: self.opened.contains(&s) }
            })
            .collect()
    }
}
