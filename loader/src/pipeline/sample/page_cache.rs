//! Samples in the page cache, read by the thread that decodes them.
//!
//! A row that is the stored bytes of a column is read directly into its place; everything else goes through a buffer.
//! For the smallest samples nothing may cost more than the read itself: no lock, no allocation, no counter that threads
//! share.

use super::sample_bytes::{PlacedRows, SampleBytes};
use crate::decode::{DirectColumn, FieldPlan, Output, Row};
use crate::delivery::RowMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::RowMut;
use crate::pipeline::device::direct_rows::DirectSample;
use crate::pipeline::device::direct_storage::StorageReader;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::shard::open_shards::{OpenShards, ShardHandleCache};
use crate::pipeline::task::Task;
use crate::sync::Arc;

/// Largest buffer of a thread. A larger sample goes to the read thread, whose memory comes from a pool.
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// Memory of one sample's rows, borrowed from a chunk or a miss.
pub(crate) struct SampleRows<'a> {
    /// For each fixed output, memory that begins with the sample's row.
    pub(crate) fixed: &'a mut [RowMut],
    /// Bytes of a row of each.
    pub(crate) row_bytes: &'a [usize],
    /// The consumer's memory for its row of bytes.
    pub(crate) consumer: Option<&'a mut (dyn RowMemory + 'static)>,
}

impl SampleRows<'_> {
    /// The row of each fixed output.
    pub(crate) fn fixed(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.fixed.iter_mut().zip(self.row_bytes).map(|(row, bytes)| &mut row[..*bytes])
    }
}

/// Output that samples of one layout are read directly into.
#[derive(Clone, Copy)]
pub(crate) struct DirectOutput {
    pub(crate) column: DirectColumn,
    /// Number among the fixed outputs, or else among the lists.
    pub(crate) number: usize,
    /// Its rows have no fixed size.
    pub(crate) is_list: bool,
    /// It is the only output, and a sample has no other bytes: nothing remains to be decoded.
    pub(crate) is_all: bool,
}

impl DirectOutput {
    /// Output of samples that `fields` decodes. `around` returns the bytes before and after a column.
    fn new(fields: &FieldPlan, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<Self> {
        let column = fields.direct_column(around)?;
        let is_list = |output: &Output| output.row_bytes().is_none();
        let is_list_here = is_list(&fields.outputs()[column.output]);
        let number = fields.outputs()[..column.output].iter().filter(|o| is_list(o) == is_list_here).count();
        let is_all = fields.outputs().len() == 1 && !is_list_here && column.before + column.after == 0;
        Some(Self { column, number, is_list: is_list_here, is_all })
    }

    /// Returns the memory for its row of `bytes` bytes, if there is such memory.
    fn row<'r>(&self, rows: &'r mut SampleRows<'_>, bytes: usize) -> Option<Row<'r>> {
        match self.is_list {
            true => {
                let consumer = rows.consumer.as_mut().map(|row| row.bytes_mut());
                consumer.filter(|row| row.len() == bytes).map(Row::Sized)
            }
            false => rows.fixed().nth(self.number).filter(|row| row.len() == bytes).map(Row::Fixed),
        }
    }
}

/// Result of looking for a sample in the page cache.
pub(crate) enum PageCacheLookup<'a> {
    /// The sample has been read. The output is the one into whose rows samples of its layout are read directly.
    Hot(&'a OpenShard, SampleBytes<'a>, Option<DirectOutput>),
    /// The sample was not read here: it is not in the page cache, is larger than the buffer, or the device reads it.
    Cold { open: Arc<OpenShard>, offset: u64, bytes: usize, direct: Option<DirectSample> },
    /// The shard is no longer on disk.
    Evicted,
}

/// Reads samples from the page cache, for one thread.
pub(crate) struct PageCacheReader {
    open_shards: Arc<OpenShards>,
    sample_bytes_max: u64,
    /// For each layout, the output that is read directly into place.
    direct: Vec<Option<DirectOutput>>,
    handles: ShardHandleCache,
    /// Offset and length of the current chunk's samples, as far as they are known.
    ranges: Vec<Option<(u64, usize)>>,
    /// Stored bytes of the current sample.
    buffer: Vec<u8>,
    /// Device that reads rows of samples itself.
    storage: Option<Arc<StorageReader>>,
}

impl PageCacheReader {
    /// Reader of samples of up to `sample_bytes_max` bytes. `fields` has the plan for each layout.
    pub(crate) fn new(
        fields: &[Arc<FieldPlan>],
        open_shards: Arc<OpenShards>,
        sample_bytes_max: u64,
        storage: Option<Arc<StorageReader>>,
    ) -> Self {
        let layouts = fields.iter().zip(open_shards.layouts());
        let direct =
            layouts.map(|(fields, layout)| DirectOutput::new(fields, |column| layout.around(column))).collect();
        let (handles, ranges, buffer) = (ShardHandleCache::default(), Vec::new(), Vec::new());
        Self { open_shards, sample_bytes_max, direct, handles, ranges, buffer, storage }
    }

    /// Returns the output that samples of layout number `layout` are read directly into.
    pub(crate) fn direct(&self, layout: usize) -> Option<DirectOutput> {
        self.direct[layout]
    }

    /// True if rows of bytes can be read directly into the consumer's memory.
    pub(crate) fn has_lists(&self) -> bool {
        self.direct.iter().flatten().any(|direct| direct.is_list)
    }

    /// Drops all handles of shards, before a wait.
    pub(crate) fn release(&mut self) {
        self.handles.clear();
    }

    /// Looks up the ranges of a chunk's samples. In a shuffle each lookup misses the CPU's caches: one after another
    /// they overlap, between two reads each would be waited for. Errors show up in [`read`](Self::read).
    pub(crate) fn look_up(&mut self, chunk: &[Task]) {
        let Self { open_shards, handles, ranges, .. } = self;
        let mut range = |task: &Task| {
            let open = handles.get(task.shard, open_shards).ok()??;
            open.range(task.index).ok().inspect(|range| open.prefetch(*range))
        };
        ranges.clear();
        ranges.extend(chunk.iter().map(&mut range));
    }

    /// Reads sample `i` of the chunk that was [looked up](Self::look_up) last, if the page cache has it.
    ///
    /// # Errors
    ///
    /// Errors of the shard or the sample.
    pub(crate) fn read(&mut self, i: usize, task: &Task, rows: &mut SampleRows<'_>) -> Result<PageCacheLookup<'_>> {
        let Self { open_shards, sample_bytes_max, direct, handles, ranges, buffer, storage } = self;
        let Some(open) = handles.get(task.shard, open_shards)? else { return Ok(PageCacheLookup::Evicted) };
        let (offset, bytes) = match ranges[i] {
            Some(range) => range,
            None => open.range(task.index)?,
        };
        if bytes as u64 > *sample_bytes_max {
            return Err(Error::new(ErrorKind::Unsupported, "a sample is larger than sample_bytes_max: raise it")
                .with("bytes", bytes)
                .with("sample_bytes_max", sample_bytes_max));
        }
        if let Some(storage) = storage
            && let Some(sample) = storage.sample(open, offset, bytes)
        {
            return Ok(PageCacheLookup::Cold { open: open.clone(), offset, bytes, direct: Some(sample) });
        }
        let direct = direct[open.layout_number()];
        let read = if let Some(direct) = direct
            && let around = direct.column.before + direct.column.after
            && around <= BUFFER_BYTES_MAX
            && let Some(placed) = bytes.checked_sub(around)
            && let Some(mut row) = direct.row(rows, placed)
        {
            let around = first(buffer, around);
            let is_hot = open.read_hot_direct(offset, direct.column, around, &mut row);
            is_hot.then_some(SampleBytes { bytes: around, placed: PlacedRows::Direct(direct.column, placed) })
        } else if bytes <= BUFFER_BYTES_MAX {
            let whole = first(buffer, bytes);
            open.read_hot(offset, whole).then_some(SampleBytes::whole(whole))
        } else {
            None
        };
        Ok(match read {
            Some(sample) => PageCacheLookup::Hot(open, sample, direct),
            None => PageCacheLookup::Cold { open: open.clone(), offset, bytes, direct: None },
        })
    }

    /// Returns the length of the row of bytes of `task`, if it is known before the sample is read. Errors show up when
    /// it is.
    pub(crate) fn length(&mut self, task: &Task) -> Option<usize> {
        let open = self.handles.get(task.shard, &self.open_shards).ok()??;
        let (_, bytes) = open.range(task.index).ok()?;
        let direct = self.direct[open.layout_number()].filter(|d| d.is_list)?;
        if bytes as u64 > self.sample_bytes_max {
            return None;
        }
        bytes.checked_sub(direct.column.before + direct.column.after)
    }
}

/// Returns the first `bytes` bytes of `buffer`, which grows as needed. Callers ask for at most [`BUFFER_BYTES_MAX`].
fn first(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}
