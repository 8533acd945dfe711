//! What is known about shards that were read: where their samples lie, and descriptors.

use crate::cache::{OpenShard, Touched};
use crate::error::{Context, Result};
use crate::format::{OffsetTable, Shard};
use crate::io::read_exact_at;
use crate::order::ShardId;
use crate::sync::Arc;
use std::collections::{HashMap, VecDeque};

/// Bytes of offset tables kept at most: those of thousands of shards, in each of dozens of processes.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Shards kept open at most, within a quarter of the descriptors that the process may have.
const SHARDS_MAX: u64 = 4_096;

/// A shard that was read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) offsets: OffsetTable,
    /// Which of the catalogue's layouts its samples have.
    pub(super) layout: usize,
    /// Its descriptors, where they are kept.
    pub(super) open: Option<Arc<OpenShard>>,
    /// When its access time was set, where they are not.
    pub(super) touched: Touched,
}

impl Known {
    /// Reads the offsets of `shard`, which is open.
    pub(super) fn read(shard: &Shard, layout: usize, open: Arc<OpenShard>, keep_open: bool) -> Result<Self> {
        // The data file stands first, the file with the table last; for MDS they are the same.
        let front = &open.files[open.files.len() - 1];
        let bytes = usize::try_from(shard.table_bytes().min(front.bytes)).unwrap_or(usize::MAX);
        let mut table = vec![0; bytes];
        read_exact_at(&*front.file, &mut table, 0).context("file", || front.path.display())?;
        let offsets = shard.offsets(&table)?;
        Ok(Self { offsets, layout, open: keep_open.then_some(open), touched: Touched::default() })
    }
}

/// Shards by number; the one read first goes when there are too many.
#[derive(Debug)]
pub(super) struct Table {
    known: HashMap<ShardId, Arc<Known>>,
    order: VecDeque<ShardId>,
    table_bytes: usize,
    shards_max: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(SHARDS_MAX * 4);
        let shards_max = (limit / 4).clamp(16, SHARDS_MAX) as usize;
        Self { known: HashMap::new(), order: VecDeque::new(), table_bytes: 0, shards_max }
    }

    pub(super) fn get(&self, shard: ShardId) -> Option<Arc<Known>> {
        self.known.get(&shard).cloned()
    }

    /// Remembers `shard`; what had to go for it comes back, to be closed outside of the table's lock.
    pub(super) fn insert(&mut self, shard: ShardId, known: Arc<Known>) -> Vec<Arc<Known>> {
        let mut gone: Vec<_> = self.remove(shard).into_iter().collect();
        self.table_bytes += known.offsets.memory_bytes();
        self.known.insert(shard, known);
        self.order.push_back(shard);
        while self.order.len() > 1 && (self.order.len() > self.shards_max || self.table_bytes > TABLE_BYTES_MAX) {
            let Some(oldest) = self.order.front().copied() else { break };
            gone.extend(self.remove(oldest));
        }
        gone
    }

    /// Forgets `shard`.
    pub(super) fn remove(&mut self, shard: ShardId) -> Option<Arc<Known>> {
        let known = self.known.remove(&shard)?;
        self.table_bytes -= known.offsets.memory_bytes();
        // What goes is nearly always the oldest.
        if let Some(at) = self.order.iter().position(|s| *s == shard) {
            self.order.remove(at);
        }
        Some(known)
    }
}
