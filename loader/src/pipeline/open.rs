//! Shards that are open for reading: descriptors, offset tables, and how many of them at a time.
//!
//! Opening costs two system calls and reading the table; a table of 10,000 samples is 40 kB. So shards stay open, and
//! the one opened first is closed when there are too many. Whoever still reads from it keeps it alive.

use super::shard::ShardSource;
use crate::cache;
use crate::catalog::Catalog;
use crate::error::{Context, Error, Result};
use crate::format::{Layout, OffsetTable, SampleColumns, Scratch};
use crate::io::{ShardFile, read_exact_at};
use crate::order::ShardId;
use crate::sync::{Arc, Mutex};
use std::collections::VecDeque;

/// Bytes of offset tables kept for shards nobody reads at the moment.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// An open shard: everything that reading a sample takes.
#[derive(Debug)]
pub(crate) struct OpenShard {
    file: Arc<ShardFile>,
    table: OffsetTable,
    layout: Arc<Layout>,
    layout_number: usize,
    /// Keeps the cache's books: its bytes count until this is dropped.
    resident: Arc<cache::OpenShard>,
}

impl OpenShard {
    fn open(catalog: &Catalog, id: ShardId, resident: Arc<cache::OpenShard>) -> Result<Self> {
        let shard = catalog.shard(id);
        // The data file stands first, the file with the table last; for MDS they are the same.
        let (Some(data), Some(front)) = (resident.files.first(), resident.files.last()) else {
            return Err(Error::internal("a shard without files"));
        };
        let bytes = usize::try_from(shard.table_bytes().min(front.bytes)).unwrap_or(usize::MAX);
        let mut table = vec![0; bytes];
        read_exact_at(&*front.file, &mut table, 0).context("file", || front.path.display())?;
        Ok(Self {
            file: data.file.clone(),
            table: shard.offsets(&table)?,
            layout: shard.layout.clone(),
            layout_number: catalog.layout_of(id),
            resident,
        })
    }

    /// Where sample `index` lies in the data file, and how long it is.
    pub(crate) fn range(&self, index: u32) -> Result<(u64, usize)> {
        let (offset, bytes) = self.table.range(index as usize)?;
        Ok((offset, bytes as usize))
    }

    /// Reads into `into` what the page cache has; false, with `into` unspecified, when it has not all of it.
    pub(crate) fn read_hot(&self, offset: u64, into: &mut [u8]) -> bool {
        self.file.read_cached(offset, into)
    }

    /// The data file.
    pub(crate) fn file(&self) -> &Arc<ShardFile> {
        &self.file
    }

    /// The columns of a sample.
    pub(crate) fn split<'a>(&self, sample: &'a [u8], scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        self.layout.split(sample, scratch)
    }

    /// Which of the catalogue's layouts its samples have.
    pub(crate) fn layout_number(&self) -> usize {
        self.layout_number
    }
}

/// The table of open shards.
#[derive(Debug)]
pub(crate) struct OpenShards {
    catalog: Arc<Catalog>,
    shards: Vec<Mutex<Option<Arc<OpenShard>>>>,
    /// In the order of opening, with the bytes of their tables.
    opened: Mutex<(VecDeque<ShardId>, usize)>,
    shards_max: usize,
    /// Whether shards may be evicted while we have them open, and must then be let go.
    may_be_evicted: bool,
}

impl OpenShards {
    /// A table for `catalog`. It takes half of the descriptors that the process may have, two for each shard.
    pub(crate) fn new(catalog: Arc<Catalog>, may_be_evicted: bool) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        Self {
            shards: (0..catalog.shape().num_shards()).map(|_| Mutex::new(None)).collect(),
            opened: Mutex::default(),
            shards_max: (limit / 4).clamp(16, 1 << 16) as usize,
            may_be_evicted,
            catalog,
        }
    }

    /// Shard `id`, opened if it is not; `None` when it is not on disk.
    ///
    /// # Errors
    ///
    /// `Format` when its table contradicts the index; what the file system says.
    pub(crate) fn get(&self, id: ShardId, source: &dyn ShardSource) -> Result<Option<Arc<OpenShard>>> {
        let mut slot = self.shards[id.index()].lock();
        if let Some(open) = &*slot {
            if !self.may_be_evicted || !open.resident.is_evicted() {
                return Ok(Some(open.clone()));
            }
            *slot = None;
        }
        let Some(resident) = source.open(id)? else { return Ok(None) };
        let open = Arc::new(OpenShard::open(&self.catalog, id, resident)?);
        *slot = Some(open.clone());
        drop(slot);
        self.close_oldest(id, open.table.memory_bytes());
        Ok(Some(open))
    }

    /// Lets go of shards that were evicted; their bytes are freed with the last reader.
    pub(crate) fn close_evicted(&self) {
        let opened: Vec<ShardId> = self.opened.lock().0.iter().copied().collect();
        for id in opened {
            let mut slot = self.shards[id.index()].lock();
            if slot.as_ref().is_some_and(|open| open.resident.is_evicted()) {
                let evicted = slot.take();
                drop(slot);
                drop(evicted);
            }
        }
    }

    fn close_oldest(&self, opened: ShardId, table_bytes: usize) {
        let mut closed = Vec::new();
        {
            let mut order = self.opened.lock();
            order.0.push_back(opened);
            order.1 += table_bytes;
            while order.0.len() > 1 && (order.0.len() > self.shards_max || order.1 > TABLE_BYTES_MAX) {
                let Some(oldest) = order.0.pop_front() else { break };
                // A lock that is taken is being opened right now: it is young whatever the order says.
                if let Some(open) = self.shards[oldest.index()].lock().take() {
                    order.1 = order.1.saturating_sub(open.table.memory_bytes());
                    closed.push(open);
                }
            }
        }
        // Closed outside of the lock: the last reader's drop talks to the cache.
        drop(closed);
    }
}
