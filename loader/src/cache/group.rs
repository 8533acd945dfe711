//! Directories under one limit.

use super::dir::CacheDir;
use crate::sync::{Arc, Mutex, Weak};

/// The directories of a data set's streams, which share its `cache_limit`.
///
/// Their shards are numbered through ([`CacheDirConfig::first_shard`](super::CacheDirConfig::first_shard)), so that one
/// plan covers them, and a shard of one stream may make room for one of another. Streams without a remote neither count
/// nor lose anything.
#[derive(Debug)]
pub struct CacheGroup {
    limit: Option<u64>,
    members: Mutex<Vec<Weak<CacheDir>>>,
}

impl CacheGroup {
    /// A group that may hold `cache_limit` bytes together; its members are opened with it.
    pub fn new(cache_limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self { limit: cache_limit, members: Mutex::new(Vec::new()) })
    }

    /// The limit in bytes.
    pub fn cache_limit(&self) -> Option<u64> {
        self.limit
    }

    pub(super) fn join(&self, dir: &Arc<CacheDir>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(dir));
    }

    /// Wakes whoever waits on any of the directories.
    pub(super) fn wake(&self) {
        let members: Vec<_> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(|member| member.directory.watch.wake());
    }

    /// The members whose shards may go, each directory once, in an order that is the same in every process: their locks
    /// are taken in it.
    pub(super) fn members(&self, with: &Arc<CacheDir>) -> Vec<Arc<CacheDir>> {
        let mut members: Vec<Arc<CacheDir>> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        // First of its directory, so that it is the one that stays.
        members.insert(0, with.clone());
        members.retain(|member| member.has_remote);
        members.sort_by(|a, b| a.path().cmp(b.path()));
        members.dedup_by(|a, b| Arc::ptr_eq(&a.directory, &b.directory));
        members
    }
}
