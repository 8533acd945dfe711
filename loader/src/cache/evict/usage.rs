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
    /// Shards that other processes have open.
    opened: HashSet<u32>,
    /// Bytes that count towards the limit and are not in the listing: reserved room, and evicted files that are still
    /// open.
    pub(super) in_flight: u64,
}

impl DirUsage {
    pub(super) fn new(member: &Arc<StreamCache>) -> Self {
        // Taken before the listing: a shard that is published in between is then counted twice rather than not at all.
        // No shard is added in between, because we have the admission lock.
        let reserved = member.dir.locks.lock().all_shards(claim::RESERVE, member.dir.shards.len());
        let (listing, opened) = Default::default();
        Self { member: member.clone(), reserved, listing, opened, in_flight: 0 }
    }

    /// Lists the directory and reads the reservations and open shards of other processes from the locks.
    pub(super) fn measure(&mut self) -> Result<()> {
        let dir = &self.member.dir;
        self.listing = list(dir)?;
        let mut locks = dir.locks.lock();
        for shard in std::mem::take(&mut self.listing.unfinished) {
            self.listing.bytes -= clear_unfinished(dir, &mut locks, shard).min(self.listing.bytes);
        }
        self.opened = locks.others_shards(claim::OPEN, dir.shards.len());
        let with_zip = locks.is_zip_kept();
        let reserved = self.reserved.iter().map(|&shard| missing_bytes(dir, &self.listing, shard, with_zip));
        // Evicted shards that other processes have open: they are locked and not listed.
        let evicted = self.opened.iter().filter(|&&shard| self.listing.files[shard as usize] == 0);
        let evicted = evicted.map(|&shard| dir.shards[shard as usize].raw_bytes());
        self.in_flight = reserved.chain(evicted).fold(locks.evicted_open_bytes, u64::saturating_add);
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
        if locks.is_eviction_forbidden() {
            return Vec::new();
        }
        let mut kept = locks.all_shards(claim::HOLD, dir.shards.len());
        kept.extend(locks.all_shards(claim::CLAIM, dir.shards.len()));
        kept.extend(fetched);
        let opened: HashSet<u32> = self.opened.iter().copied().chain(locks.own_shards(claim::OPEN)).collect();
        drop(locks);
        let present = (0u32..).zip(&self.listing.files).filter(|(s, files)| **files != 0 && !kept.contains(s));
        present
            .map(|(s, &files)| {
                let next_use = next_use(self.member.config.first_shard + s);
                let bytes = (0..8).filter(|i| files & (1 << i) != 0).map(|i| file_bytes(dir, s, i)).sum();
                let accessed_ns = if next_use.is_none() { accessed_ns(dir.data_path(s)) } else { 0 };
                Candidate { member, shard: s, bytes, next_use, accessed_ns, open: opened.contains(&s) }
            })
            .collect()
    }
}
