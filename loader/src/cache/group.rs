//! Directories under one limit.

use super::shared_dir::SharedDir;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, Mutex, Weak};

/// Directories of a data set's streams, which share its `cache_limit`.
///
/// Their shards are numbered across all streams ([`StreamCacheConfig::first_shard`](super::StreamCacheConfig)), so one
/// plan covers them and a shard of one stream may be evicted for one of another. Streams without a remote neither count
/// nor lose anything.
#[derive(Debug, Default)]
pub(crate) struct CacheGroup {
    limit: Option<u64>,
    members: Mutex<Vec<Weak<GroupMember>>>,
}

/// One data set's view of a directory, as far as eviction needs it.
#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) dir: Arc<SharedDir>,
    pub(super) has_remote: bool,
    /// Number of the directory's shard 0 in the plan.
    pub(super) first_shard: u32,
    pub(super) evicted: Arc<Counter>,
    pub(super) evicted_bytes: Arc<Counter>,
}

impl GroupMember {
    pub(super) fn new(dir: Arc<SharedDir>, has_remote: bool, first_shard: u32, stats: &Stats) -> Self {
        let (evicted, evicted_bytes) = (stats.counter("cache_evicted"), stats.counter("cache_evicted_bytes"));
        Self { dir, has_remote, first_shard, evicted, evicted_bytes }
    }
}

impl CacheGroup {
    /// Creates a group whose directories may hold `cache_limit` bytes together; `None` for as many as the disk has.
    pub(crate) fn new(cache_limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self { limit: cache_limit, members: Mutex::default() })
    }

    /// Returns the limit in bytes.
    pub(crate) fn cache_limit(&self) -> Option<u64> {
        self.limit
    }

    pub(super) fn join(&self, member: &Arc<GroupMember>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(member));
    }

    /// Wakes the threads of this process that wait on any of the directories.
    pub(super) fn wake(&self) {
        let members: Vec<_> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(|member| member.dir.watch.wake());
    }

    /// Returns the members whose shards may be evicted, each directory once, in an order that is the same in every
    /// process: their locks are taken in it. `own` represents its directory.
    pub(super) fn evictable(&self, own: &Arc<GroupMember>) -> Vec<Arc<GroupMember>> {
        let mut members: Vec<Arc<GroupMember>> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        // `dedup_by` keeps the first of each directory.
        members.insert(0, own.clone());
        members.retain(|member| member.has_remote);
        members.sort_by(|a, b| a.dir.path.cmp(&b.dir.path));
        members.dedup_by(|a, b| Arc::ptr_eq(&a.dir, &b.dir));
        members
    }
}
