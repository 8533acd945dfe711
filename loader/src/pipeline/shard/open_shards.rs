//! Shards that are open for reading: descriptors, offset tables, and how many of them at a time.
//!
//! Opening costs two system calls and reading the table; a table of 10,000 samples is 40 kB, an index of rows a few
//! thousandths of the shard. So shards stay open, and the one opened first is closed when there are too many. Whoever
//! still reads from it keeps it alive.

use super::ShardSource;
use crate::cache;
use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::decode::{DirectColumn, Row};
use crate::delivery::{DirectFile, DirectStorage};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::trailer::TRAILER_BYTES_MAX;
use crate::format::{Layout, OffsetTable, OmittedColumn, SampleColumns, Scratch, Shard, Trailer};
use crate::io::{ShardFile, read_exact_at};
use crate::order::ShardId;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, OnceLock, Ordering, Weak};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::ops::Range;

/// Bytes of offset tables and indexes kept for shards nobody reads at the moment.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// An open shard: everything that reading a sample takes.
#[derive(Debug)]
pub(crate) struct OpenShard {
    file: Arc<ShardFile>,
    table: OffsetTable,
    /// The index of its samples' values, where the shard has one and somebody can use it.
    trailer: Option<Trailer>,
    layout: Arc<Layout>,
    layout_number: usize,
    /// Small samples may be copied from a mapping.
    is_mapped: bool,
    /// The data file as the target reads it, once it has been asked; `None` where that is refused.
    stored: OnceLock<Option<Arc<dyn DirectFile>>>,
    /// A read of the target's was refused.
    refuses_storage: AtomicBool,
    /// Keeps the cache's books: its bytes count until this is dropped.
    resident: Arc<cache::OpenShard>,
}

impl OpenShard {
    fn open(table: &OpenShards, id: ShardId, resident: Arc<cache::OpenShard>) -> Result<Self> {
        let OpenShards { catalog, trailers, mmap, .. } = table;
        let shard = catalog.shard(id);
        let Some(data) = resident.files.first() else { return Err(Error::internal("a shard without files")) };
        let offsets = read_offsets(shard, &resident)?;
        let layout_number = catalog.layout_of(id);
        let trailer = match trailers.wanted.get(layout_number) {
            Some(true) => trailers.read(data, &offsets),
            _ => None,
        };
        Ok(Self {
            file: data.file.clone(),
            table: offsets,
            trailer,
            layout: shard.layout.clone(),
            layout_number,
            is_mapped: *mmap,
            stored: OnceLock::new(),
            refuses_storage: AtomicBool::new(false),
            resident,
        })
    }

    /// What the shard's index says about the value of sample `index` in `column`; nothing where there is none.
    pub(crate) fn index_entry(&self, index: u32, column: usize) -> &[u8] {
        self.trailer.as_ref().map_or(&[], |trailer| trailer.entry(column, index as usize))
    }

    /// Bytes of its tables in memory.
    fn table_bytes(&self) -> usize {
        self.table.memory_bytes() + self.trailer.as_ref().map_or(0, Trailer::memory_bytes)
    }

    /// Where sample `index` lies in the data file, and how long it is.
    pub(crate) fn range(&self, index: u32) -> Result<(u64, usize)> {
        let (offset, bytes) = self.table.range(index as usize)?;
        Ok((offset, bytes as usize))
    }

    /// Says that the sample at `offset` will soon be read.
    pub(crate) fn prefetch(&self, (offset, bytes): (u64, usize)) {
        if self.is_mapped {
            self.file.prefetch(offset, bytes);
        }
    }

    /// Reads into `into` what the page cache has; false, with `into` unspecified, when it has not all of it.
    pub(crate) fn read_hot(&self, offset: u64, into: &mut [u8]) -> bool {
        self.is_mapped && self.file.read_mapped(offset, into) || self.file.read_cached(offset, into)
    }

    /// The same for a sample whose column goes to `row`, and what stands around it to `around`.
    pub(crate) fn read_hot_direct(
        &self,
        offset: u64,
        direct: DirectColumn,
        around: &mut [u8],
        row: &mut Row<'_>,
    ) -> bool {
        let (before, after) = around.split_at_mut(direct.before);
        match row {
            // The usual case for tokens, and one part is cheaper to hand to the kernel than three.
            Row::Fixed(row) if before.is_empty() && after.is_empty() => self.read_hot(offset, row),
            Row::Fixed(row) => {
                let parts = &mut [IoSliceMut::new(before), IoSliceMut::new(row), IoSliceMut::new(after)];
                self.file.read_cached_parts(offset, parts)
            }
            Row::Sized(row) => self.file.read_cached_around(offset, before, row, after),
            Row::Var(_) | Row::Filled | Row::Encodable(..) => false,
        }
    }

    /// The data file for reads by the target, opened for `reader` with the first call; where that fails, `refused` hears why
    /// once.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the file cannot be read so.
    pub(crate) fn stored_file(
        &self,
        reader: &dyn DirectStorage,
        refused: impl FnOnce(&Error),
    ) -> Result<Arc<dyn DirectFile>> {
        let open = || match self.file.open_direct_again().and_then(|file| reader.open(file)) {
            Ok(file) => Some(file),
            Err(error) => {
                refused(&error);
                self.refuse_storage();
                None
            }
        };
        let file = self.stored.get_or_init(open).clone();
        file.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the target does not read this file"))
    }

    /// Notes that the target does not read this file any more; true for the first who does.
    pub(crate) fn refuse_storage(&self) -> bool {
        !self.refuses_storage.swap(true, Ordering::Relaxed)
    }

    /// Whether the target does not read this file any more.
    pub(crate) fn refuses_storage(&self) -> bool {
        self.refuses_storage.load(Ordering::Relaxed)
    }

    /// The data file.
    pub(crate) fn file(&self) -> &Arc<ShardFile> {
        &self.file
    }

    /// The columns of a sample.
    pub(crate) fn split<'a>(&self, sample: &'a [u8], scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        self.layout.split(sample, scratch)
    }

    /// The columns of a sample from which `apart` were left out.
    pub(crate) fn split_around<'a>(
        &self,
        around: &'a [u8],
        apart: &[OmittedColumn],
        scratch: &'a mut Scratch,
    ) -> Result<SampleColumns<'a>> {
        self.layout.split_around(around, apart, scratch)
    }

    /// Which of the catalogue's layouts its samples have.
    pub(crate) fn layout_number(&self) -> usize {
        self.layout_number
    }
}

/// Reads where the samples of `shard`, which is open, lie.
///
/// # Errors
///
/// `Format` when the table contradicts the index; what the file system says.
pub(crate) fn read_offsets(shard: &Shard, open: &cache::OpenShard) -> Result<OffsetTable> {
    // The data file stands first, the file with the table last; for MDS they are the same.
    let Some(front) = open.files.last() else { return Err(Error::internal("a shard without files")) };
    let bytes = usize::try_from(shard.table_bytes().min(front.bytes)).unwrap_or(usize::MAX);
    let mut table = vec![0; bytes];
    read_exact_at(&*front.file, &mut table, 0).context("file", || front.path.display())?;
    shard.offsets(&table)
}

/// Which shards' trailers are read, and what became of them.
#[derive(Debug)]
struct Trailers {
    /// By the catalogue's layouts.
    wanted: Vec<bool>,
    read: Arc<Counter>,
    refused: Arc<Counter>,
}

impl Trailers {
    /// The trailer behind the samples that `table` lists; `None` where there is none that is of use.
    fn read(&self, data: &cache::OpenFile, table: &OffsetTable) -> Option<Trailer> {
        let bytes = data.bytes.checked_sub(table.end()).filter(|bytes| *bytes > 0)?;
        let read = || {
            if bytes > TRAILER_BYTES_MAX {
                return Err(Error::format("the trailer is longer than any index").with("bytes", bytes));
            }
            let mut trailer = vec![0; bytes as usize];
            read_exact_at(&*data.file, &mut trailer, table.end())?;
            Trailer::parse(trailer.into(), table.len())
        };
        match read() {
            Ok(trailer) => {
                self.read.add(1);
                Some(trailer)
            }
            Err(error) => {
                self.refused.add(1);
                log::warn!("the index behind the samples of {} is not used: {error}", data.path.display());
                None
            }
        }
    }
}

/// What the table holds, in the order of opening: one entry for each opening, gone when that opening is let go.
#[derive(Debug, Default)]
struct Opened {
    order: VecDeque<Entry>,
    /// Bytes of all entries' tables.
    table_bytes: usize,
    /// Descriptors of all entries.
    descriptors: usize,
    /// Where the next sweep goes on.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    id: ShardId,
    /// Tells this opening from a later one of the same shard.
    open: Weak<OpenShard>,
    table_bytes: usize,
    descriptors: usize,
}

impl Entry {
    /// Lets go of the shard if it is still this opening that the table holds.
    fn take(&self, slot: &mut Option<Arc<OpenShard>>) -> Option<Arc<OpenShard>> {
        slot.take_if(|open| std::ptr::eq(Arc::as_ptr(open), self.open.as_ptr()))
    }
}

/// The table of open shards.
#[derive(Debug)]
pub(crate) struct OpenShards {
    catalog: Arc<Catalog>,
    shards: Vec<Mutex<Option<Arc<OpenShard>>>>,
    opened: Mutex<Opened>,
    descriptors_max: usize,
    trailers: Trailers,
    /// Whether small samples may be copied from mappings.
    mmap: bool,
    /// Whether the target may read files itself, for which each shard takes a descriptor more.
    has_storage: bool,
    /// Whether shards may be evicted while we have them open, by this job or another one, and must then be let go.
    may_be_evicted: bool,
    /// How often shards have been let go: whoever has noted some in a [`ShardHandleCache`] then lets go of its own.
    let_go: AtomicU64,
}

/// Entries that one [`OpenShards::sweep`] looks at: some 0.3 ms of system calls.
const SWEPT_AT_ONCE: usize = 1_024;

impl OpenShards {
    /// A table for `catalog`, with what indexes the shards have if `use_indexes` of their layout says so, and with small samples
    /// from mappings if `config` does. It takes half of the descriptors that the process may have: a shard has one to three.
    pub(crate) fn new(catalog: Arc<Catalog>, use_indexes: Vec<bool>, config: &LoaderConfig, stats: &Stats) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        Self {
            shards: (0..catalog.shape().num_shards()).map(|_| Mutex::new(None)).collect(),
            opened: Mutex::default(),
            descriptors_max: (limit / 2).clamp(32, 1 << 17) as usize,
            trailers: Trailers {
                wanted: use_indexes,
                read: stats.counter("shard_indexes_read"),
                refused: stats.counter("shard_indexes_refused"),
            },
            mmap: config.mmap,
            has_storage: config.gpu_direct_storage,
            may_be_evicted: catalog.streams().iter().any(|stream| stream.remote.is_some()),
            let_go: AtomicU64::new(0),
            catalog,
        }
    }

    /// Whether shards may leave the disk while an epoch uses them.
    pub(crate) fn may_be_evicted(&self) -> bool {
        self.may_be_evicted
    }

    /// The distinct layouts of the shards, by their number.
    pub(crate) fn layouts(&self) -> &[Arc<Layout>] {
        self.catalog.layouts()
    }

    /// Shard `id`, opened if it is not; `None` when it is not on disk.
    ///
    /// # Errors
    ///
    /// `Format` when its table contradicts the index; what the file system says.
    pub(crate) fn get(&self, id: ShardId, source: &dyn ShardSource) -> Result<Option<Arc<OpenShard>>> {
        let mut slot = self.shards[id.index()].lock();
        // Evicted or not: its bytes are whole, and a sweep lets go of it soon.
        if let Some(open) = &*slot {
            return Ok(Some(open.clone()));
        }
        let Some(resident) = source.open(id)? else { return Ok(None) };
        let open = Arc::new(OpenShard::open(self, id, resident)?);
        *slot = Some(open.clone());
        drop(slot);
        self.close_oldest(id, &open);
        Ok(Some(open))
    }

    /// Lets go of shards that were evicted; their bytes are freed with the last reader.
    pub(crate) fn close_evicted(&self) {
        let mut opened = self.opened.lock();
        let all = 0..opened.order.len();
        let closed = self.take_evicted(&mut opened, all);
        drop(opened);
        self.close(closed);
    }

    /// Lets go of evicted shards among some of the open ones, each call among the ones after those of the last: other
    /// processes evict without telling us, and may wait for the room.
    pub(crate) fn sweep(&self) {
        if !self.may_be_evicted {
            return;
        }
        let mut opened = self.opened.lock();
        let from = if opened.sweep_at < opened.order.len() { opened.sweep_at } else { 0 };
        let to = opened.order.len().min(from + SWEPT_AT_ONCE);
        let before = opened.order.len();
        let closed = self.take_evicted(&mut opened, from..to);
        opened.sweep_at = to - (before - opened.order.len());
        drop(opened);
        self.close(closed);
    }

    /// Takes the entries in `places` whose shards were evicted, or which hold nothing any more.
    fn take_evicted(&self, opened: &mut Opened, places: Range<usize>) -> Vec<Arc<OpenShard>> {
        let mut closed = Vec::new();
        let mut place = 0;
        let Opened { order, table_bytes, descriptors, .. } = opened;
        order.retain(|entry| {
            place += 1;
            if !places.contains(&(place - 1)) {
                return true;
            }
            let mut slot = self.shards[entry.id.index()].lock();
            let ours = slot.as_ref().filter(|open| std::ptr::eq(Arc::as_ptr(open), entry.open.as_ptr()));
            if ours.is_some_and(|open| !open.resident.is_evicted()) {
                return true;
            }
            closed.extend(entry.take(&mut slot));
            *table_bytes -= entry.table_bytes;
            *descriptors -= entry.descriptors;
            false
        });
        closed
    }

    /// Lets go of all shards if they can be evicted: nobody would notice between two epochs.
    pub(crate) fn rest(&self) {
        if !self.may_be_evicted {
            return;
        }
        let opened = std::mem::take(&mut *self.opened.lock());
        for entry in opened.order {
            let closed = entry.take(&mut self.shards[entry.id.index()].lock());
            drop(closed);
        }
    }

    fn close_oldest(&self, id: ShardId, open: &Arc<OpenShard>) {
        let table_bytes = open.table_bytes();
        let descriptors = open.resident.descriptors() + usize::from(self.has_storage);
        let mut closed = Vec::new();
        {
            let mut opened = self.opened.lock();
            opened.order.push_back(Entry { id, open: Arc::downgrade(open), table_bytes, descriptors });
            opened.table_bytes += table_bytes;
            opened.descriptors += descriptors;
            while opened.order.len() > 1
                && (opened.descriptors > self.descriptors_max || opened.table_bytes > TABLE_BYTES_MAX)
            {
                let Some(oldest) = opened.order.pop_front() else { break };
                opened.table_bytes -= oldest.table_bytes;
                opened.descriptors -= oldest.descriptors;
                closed.extend(oldest.take(&mut self.shards[oldest.id.index()].lock()));
            }
        }
        self.close(closed);
    }

    /// Lets go of shards that the table no longer holds. Called without its lock: the last reader's drop talks to the
    /// cache.
    fn close(&self, shards: Vec<Arc<OpenShard>>) {
        if !shards.is_empty() {
            self.let_go.fetch_add(1, Ordering::Release);
        }
    }
}

/// Shards that one thread has just read from, so that a sample costs no lock and no count of readers.
///
/// It keeps at most [`HANDLES_MAX`] shards open, and not for long: it forgets them when the table lets go of any shard, and its
/// thread has it forget them before it waits.
#[derive(Debug, Default)]
pub(crate) struct ShardHandleCache {
    /// Each at its number modulo their count.
    shards: Vec<Option<(ShardId, Arc<OpenShard>)>>,
    /// [`OpenShards::let_go`] when they were noted.
    let_go: u64,
}

/// Shards that a [`ShardHandleCache`] notes: a block of a shuffle spans some dozens of shards.
const HANDLES_MAX: usize = 64;

impl ShardHandleCache {
    /// As [`OpenShards::get`].
    ///
    /// # Errors
    ///
    /// As [`OpenShards::get`].
    pub(crate) fn get(
        &mut self,
        id: ShardId,
        open: &OpenShards,
        source: &dyn ShardSource,
    ) -> Result<Option<&Arc<OpenShard>>> {
        // Acquire: who sees the count sees the table without the shard.
        let let_go = open.let_go.load(Ordering::Acquire);
        if let_go != self.let_go {
            self.shards.clear();
            self.let_go = let_go;
        }
        self.shards.resize(HANDLES_MAX, None);
        let slot = &mut self.shards[id.index() % HANDLES_MAX];
        if slot.as_ref().is_none_or(|(noted, _)| *noted != id) {
            *slot = open.get(id, source)?.map(|shard| (id, shard));
        }
        Ok(slot.as_ref().map(|(_, shard)| shard))
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.shards.clear();
    }
}
