//! Housekeeping of the shard plane.

use super::open_shards::OpenShards;
use super::source::ShardSource;
use crate::error::Result;
use crate::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Time between two rounds.
const ROUND_EVERY: Duration = Duration::from_millis(250);

/// Closes evicted shards, and gives up room that other loaders or processes need now.
///
/// It has a separate thread, which never waits for the shard plane: another process may wait for the room of an
/// evicted shard while every thread here waits for a shard that this process is to fetch.
pub(crate) struct Janitor {
    open_shards: Arc<OpenShards>,
    source: Arc<ShardSource>,
    is_closed: Mutex<bool>,
    closed: Condvar,
}

impl Janitor {
    /// Janitor of the shards of one epoch.
    pub(crate) fn new(open_shards: Arc<OpenShards>, source: Arc<ShardSource>) -> Self {
        Self { open_shards, source, is_closed: Mutex::new(false), closed: Condvar::new() }
    }

    /// Works until it is closed.
    pub(crate) fn run(&self) -> Result<()> {
        loop {
            let mut is_closed = self.is_closed.lock();
            if !*is_closed {
                (is_closed, _) = self.closed.wait_timeout(is_closed, ROUND_EVERY);
            }
            if *is_closed {
                return Ok(());
            }
            drop(is_closed);
            self.open_shards.sweep();
            self.source.share_room();
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
        self.closed.notify_all();
    }
}
