//! Table of open shards, limited in descriptors and memory.
//!
//! Opening a shard costs two system calls and reading its tables: the offsets of 10,000 samples are 40 kB, an index of
//! rows a few thousandths of the shard. So shards stay open, and the one that was opened first is closed when there are
//! too many.

use super::open_shard::{OpenShard, ShardOpener};
use super::shard_table::{ShardCost, ShardTable};
use crate::catalog::Catalog;
use crate::config::EngineConfig;
use crate::error::{ErrorKind, Result};
use crate::format::Layout;
use crate::io::descriptors_max;
use crate::order::ShardId;
use crate::stats::{Counter, Stats};
use crate::sync::Arc;
use std::time::Instant;

/// Bytes of offset tables and indexes in the table.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// Shards that one [`OpenShards::sweep`] checks: about 0.3 ms of system calls.
const SWEEP_SHARDS_MAX: usize = 1_024;

/// Open shards by number.
#[derive(Debug)]
pub(crate) struct OpenShards {
    opener: ShardOpener,
    table: ShardTable<OpenShard>,
    /// The device may read files itself, for which each shard takes one more descriptor.
    has_direct_storage: bool,
    /// Shards may be evicted while they are open, by any job, and must be closed then.
    may_be_evicted: bool,
    /// Time of threads that opened a shard or waited while a different thread did, nearly all of it for the disk.
    opening_us: Arc<Counter>,
}

impl OpenShards {
    /// A table for `catalog`; see [`ShardOpener::new`] for `use_indexes`. It takes at most half of the descriptors that
    /// the process has left: a shard has one to three.
    pub(crate) fn new(catalog: Arc<Catalog>, use_indexes: Vec<bool>, engine: &EngineConfig, stats: &Stats) -> Self {
        let used = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        let descriptors = (descriptors_max().saturating_sub(used) / 2).clamp(8, 1 << 17) as usize;
        let cost_max = ShardCost { table_bytes: TABLE_BYTES_MAX, descriptors };
        Self {
            table: ShardTable::new(catalog.shape().num_shards(), cost_max, usize::MAX),
            has_direct_storage: engine.gpu_direct_storage,
            may_be_evicted: catalog.streams().iter().any(|stream| stream.remote.is_some()),
            opener: ShardOpener::new(catalog, use_indexes, engine.mmap, stats),
            opening_us: stats.counter("shards_opening_us"),
        }
    }

    /// True if shards may leave the disk while an epoch uses them.
    pub(crate) fn may_be_evicted(&self) -> bool {
        self.may_be_evicted
    }

    /// The distinct layouts of the shards, by their number.
    pub(crate) fn layouts(&self) -> &[Arc<Layout>] {
        self.opener.catalog.layouts()
    }

    /// Returns shard `id`, opened if it is not; `None` when it is not on disk. Even an evicted shard's bytes are whole;
    /// a sweep closes it soon.
    ///
    /// # Errors
    ///
    /// `Format` when its table contradicts the index; errors of the file system.
    pub(crate) fn get(&self, id: ShardId) -> Result<Option<Arc<OpenShard>>> {
        // The usual case, without a look at the clock.
        if let Some(open) = self.table.get_open(id) {
            return Ok(Some(open));
        }
        let begun = Instant::now();
        let opened = self.open(id);
        self.opening_us.add(begun.elapsed().as_micros() as u64);
        opened
    }

    fn open(&self, id: ShardId) -> Result<Option<Arc<OpenShard>>> {
        let open = || {
            let Some(open) = self.opener.open(id)? else { return Ok(None) };
            let descriptors = open.descriptors() + usize::from(self.has_direct_storage);
            let cost = ShardCost { table_bytes: open.table_bytes(), descriptors };
            Ok(Some((open, cost)))
        };
        match self.table.get(id, open) {
            // Different parts of the process have taken the descriptors, or the memory.
            Err(e) if e.kind() == ErrorKind::Full && self.table.close(usize::MAX, |_, _| true) => {
                self.table.get(id, open)
            }
            got => got,
        }
    }

    /// Returns the number of times that shards were closed: a thread's own handles are then dropped.
    pub(crate) fn closings(&self) -> u64 {
        self.table.closings()
    }

    /// Closes all shards that were evicted, and returns true if there were any. Their bytes are freed with the last
    /// reader.
    pub(crate) fn close_evicted(&self) -> bool {
        self.table.close(usize::MAX, |_, open| open.is_evicted())
    }

    /// Closes shards that were evicted or for which `is_used` is false, among the next [`SWEEP_SHARDS_MAX`]. All
    /// processes evict without notice, and may wait for the room.
    pub(crate) fn sweep(&self, is_used: impl Fn(ShardId) -> bool) {
        self.table.close(SWEEP_SHARDS_MAX, |id, open| !is_used(id) || open.is_evicted());
    }

    /// Closes all shards if they can be evicted: between two epochs no sweep would notice an eviction.
    pub(crate) fn close_all(&self) {
        if self.may_be_evicted {
            self.table.close(usize::MAX, |_, _| true);
        }
    }
}
