//! Table of open shards, limited in descriptors and memory.
//!
//! Opening a shard costs two system calls and reading its tables: the offsets of 10,000 samples are 40 kB, an index of
//! rows a few thousandths of the shard. So shards stay open, and the one that was opened first is closed when there are
//! too many. Readers of a closed shard keep it alive.

use super::open_shard::{OpenShard, ShardOpener};
use super::opening_order::{OpeningOrder, ShardCost};
use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::error::Result;
use crate::format::Layout;
use crate::order::ShardId;
use crate::stats::Stats;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};
use std::ops::Range;

/// Bytes of offset tables and indexes in the table.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// Entries that one [`OpenShards::sweep`] checks: about 0.3 ms of system calls.
const SWEEP_ENTRIES_MAX: usize = 1_024;

/// Open shards by number.
#[derive(Debug)]
pub(crate) struct OpenShards {
    opener: ShardOpener,
    shards: Vec<Mutex<Option<Arc<OpenShard>>>>,
    /// Locked before an entry of `shards`, never while one is held.
    opened: Mutex<Openings>,
    /// The device may read files itself, for which each shard takes one more descriptor.
    has_direct_storage: bool,
    /// Shards may be evicted while they are open, by this job or another one, and must be closed then.
    may_be_evicted: bool,
    /// Number of times that shards were closed: each [`ShardHandleCache`] then drops its own handles.
    closings: AtomicU64,
}

/// Openings of shards.
#[derive(Debug)]
struct Openings {
    /// One entry per opening, removed when that opening is closed.
    order: OpeningOrder<Opening>,
    /// Entry at which the next sweep continues.
    sweep_at: usize,
}

/// One opening of a shard.
#[derive(Debug)]
struct Opening {
    id: ShardId,
    /// Distinguishes this opening from a later one of the same shard.
    open: Weak<OpenShard>,
}

impl Opening {
    /// Takes the shard out of `entry` if it is still this opening.
    fn take(&self, entry: &mut Option<Arc<OpenShard>>) -> Option<Arc<OpenShard>> {
        entry.take_if(|open| std::ptr::eq(Arc::as_ptr(open), self.open.as_ptr()))
    }
}

impl OpenShards {
    /// A table for `catalog`; see [`ShardOpener::new`] for `use_indexes`. It takes at most half of the process's
    /// descriptors: a shard has one to three.
    pub(crate) fn new(catalog: Arc<Catalog>, use_indexes: Vec<bool>, config: &LoaderConfig, stats: &Stats) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        let cost_max = ShardCost { table_bytes: TABLE_BYTES_MAX, descriptors: (limit / 2).clamp(32, 1 << 17) as usize };
        let opened = Openings { order: OpeningOrder::new(cost_max, usize::MAX), sweep_at: 0 };
        Self {
            shards: (0..catalog.shape().num_shards()).map(|_| Mutex::new(None)).collect(),
            opened: Mutex::new(opened),
            has_direct_storage: config.gpu_direct_storage,
            may_be_evicted: catalog.streams().iter().any(|stream| stream.remote.is_some()),
            closings: AtomicU64::new(0),
            opener: ShardOpener::new(catalog, use_indexes, config.mmap, stats),
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

    /// Returns shard `id`, opened if it is not; `None` when it is not on disk.
    ///
    /// # Errors
    ///
    /// `Format` when its table contradicts the index; errors of the file system.
    pub(crate) fn get(&self, id: ShardId) -> Result<Option<Arc<OpenShard>>> {
        let mut entry = self.shards[id.index()].lock();
        // Even an evicted shard's bytes are whole; a sweep closes it soon.
        if let Some(open) = &*entry {
            return Ok(Some(open.clone()));
        }
        let Some(open) = self.opener.open(id)? else { return Ok(None) };
        let open = Arc::new(open);
        *entry = Some(open.clone());
        drop(entry);
        self.add(id, &open);
        Ok(Some(open))
    }

    /// Closes all shards that were evicted. Their bytes are freed with the last reader.
    pub(crate) fn close_evicted(&self) {
        let mut opened = self.opened.lock();
        let all = 0..opened.order.len();
        let closed = self.take_evicted(&mut opened, all);
        drop(opened);
        self.close(closed);
    }

    /// Closes evicted shards among the next [`SWEEP_ENTRIES_MAX`] entries. Other processes evict without notice, and
    /// may wait for the room.
    pub(crate) fn sweep(&self) {
        if !self.may_be_evicted {
            return;
        }
        let mut opened = self.opened.lock();
        let from = if opened.sweep_at < opened.order.len() { opened.sweep_at } else { 0 };
        let to = opened.order.len().min(from + SWEEP_ENTRIES_MAX);
        let before = opened.order.len();
        let closed = self.take_evicted(&mut opened, from..to);
        opened.sweep_at = to - (before - opened.order.len());
        drop(opened);
        self.close(closed);
    }

    /// Removes the entries in `range` whose shards were evicted or are no longer in the table.
    fn take_evicted(&self, opened: &mut Openings, range: Range<usize>) -> Vec<Arc<OpenShard>> {
        let mut closed = Vec::new();
        opened.order.retain_in(range, |opened| {
            let mut entry = self.shards[opened.id.index()].lock();
            let ours = entry.as_ref().filter(|open| std::ptr::eq(Arc::as_ptr(open), opened.open.as_ptr()));
            if ours.is_some_and(|open| !open.is_evicted()) {
                return true;
            }
            closed.extend(opened.take(&mut entry));
            false
        });
        closed
    }

    /// Closes all shards if they can be evicted: between two epochs no sweep would notice an eviction.
    pub(crate) fn close_all(&self) {
        if !self.may_be_evicted {
            return;
        }
        let all = self.opened.lock().order.take_all();
        for opened in all {
            let closed = opened.take(&mut self.shards[opened.id.index()].lock());
            drop(closed);
        }
    }

    /// Adds a shard that was just opened; closes the oldest while there are too many.
    fn add(&self, id: ShardId, open: &Arc<OpenShard>) {
        let descriptors = open.descriptors() + usize::from(self.has_direct_storage);
        let cost = ShardCost { table_bytes: open.table_bytes(), descriptors };
        let mut closed = Vec::new();
        {
            let mut opened = self.opened.lock();
            opened.order.push(Opening { id, open: Arc::downgrade(open) }, cost);
            while let Some(oldest) = opened.order.pop_excess() {
                closed.extend(oldest.take(&mut self.shards[oldest.id.index()].lock()));
            }
        }
        self.close(closed);
    }

    /// Drops shards that were removed from the table. Called without its lock, since the last reader's drop calls the
    /// cache.
    fn close(&self, shards: Vec<Arc<OpenShard>>) {
        if !shards.is_empty() {
            self.closings.fetch_add(1, Ordering::Release);
        }
    }
}

/// Handles of one [`ShardHandleCache`]: a block of a shuffle spans some dozens of shards.
const HANDLES_MAX: usize = 64;

/// One thread's handles of shards that it has just read from, so that a sample costs no lock and no reference count.
///
/// It keeps at most [`HANDLES_MAX`] shards open, and not for long: it drops its handles when the table closes any
/// shard, and its thread clears it before it waits.
#[derive(Debug, Default)]
pub(crate) struct ShardHandleCache {
    /// Each shard at its number modulo their count.
    shards: Vec<Option<(ShardId, Arc<OpenShard>)>>,
    /// [`OpenShards::closings`] when the handles were taken.
    closings: u64,
}

impl ShardHandleCache {
    /// As [`OpenShards::get`].
    ///
    /// # Errors
    ///
    /// As [`OpenShards::get`].
    pub(crate) fn get(&mut self, id: ShardId, open_shards: &OpenShards) -> Result<Option<&Arc<OpenShard>>> {
        // Acquire: a thread that sees the count also sees the table without the shard.
        let closings = open_shards.closings.load(Ordering::Acquire);
        if closings != self.closings {
            self.shards.clear();
            self.closings = closings;
        }
        self.shards.resize(HANDLES_MAX, None);
        let entry = &mut self.shards[id.index() % HANDLES_MAX];
        if entry.as_ref().is_none_or(|(cached, _)| *cached != id) {
            *entry = open_shards.get(id)?.map(|shard| (id, shard));
        }
        Ok(entry.as_ref().map(|(_, shard)| shard))
    }

    /// Drops all handles.
    pub(crate) fn clear(&mut self) {
        self.shards.clear();
    }
}
