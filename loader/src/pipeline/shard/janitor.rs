//! Housekeeping of the shard plane.

use super::open_shards::OpenShards;
use super::residency::Residency;
use super::source::ShardSource;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::pipeline::schedule::Chunk;
use crate::sync::{Arc, AtomicBool, Ordering};

/// Closes evicted shards, and gives up room that other loaders or processes need now.
///
/// It is a separate thread, which never waits for the shard plane: another process may wait for the room of an
/// evicted shard while every thread here waits for a shard that this process is to fetch. It works when something
/// changes in the directories, and every quarter of a second.
pub(crate) struct Janitor {
    catalog: Arc<Catalog>,
    open_shards: Arc<OpenShards>,
    residency: Arc<Residency<Chunk>>,
    source: Arc<ShardSource>,
    is_closed: AtomicBool,
}

impl Janitor {
    /// Janitor of the shards of one epoch.
    pub(crate) fn new(
        (catalog, open_shards): (Arc<Catalog>, Arc<OpenShards>),
        residency: Arc<Residency<Chunk>>,
        source: Arc<ShardSource>,
    ) -> Self {
        Self { catalog, open_shards, residency, source, is_closed: AtomicBool::new(false) }
    }

    /// Works until it is closed; returns at once if shards cannot be evicted.
    pub(crate) fn run(&self) -> Result<()> {
        let Some(any) = self.catalog.streams().iter().find(|stream| stream.dir.has_remote()) else { return Ok(()) };
        self.catalog.streams().iter().for_each(|stream| stream.dir.watch_folders());
        loop {
            // Before the checks, so that a change during them ends the wait.
            let changes = any.dir.changes();
            if self.is_closed.load(Ordering::Acquire) {
                return Ok(());
            }
            // Under a limit, a shard stays open only while announced samples need it: others evict open shards last.
            let is_limited = any.dir.is_limited();
            self.open_shards.sweep(|shard| !is_limited || self.residency.next_read(shard).is_some());
            self.source.share_room();
            self.residency.notify_release();
            any.dir.wait_for_change(changes);
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.catalog.streams().iter().for_each(|stream| stream.dir.wake());
    }
}
