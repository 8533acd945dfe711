//! Samples in the page cache, read by the thread that decodes them.
//!
//! A row that is the stored bytes of a column is read directly into its destination; everything else goes through a
//! buffer. For the smallest samples nothing may cost more than the read itself: no lock, no allocation, no counter that
//! threads share.

use super::batch_builder::BatchBuilder;
use super::large::{LargeOutputs, LargeValue};
use super::stored_columns::StoredColumns;
use crate::decode::{FieldPlan, Row, StoredColumn};
use crate::delivery::RowMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{OmittedColumn, SampleColumns, Scratch};
use crate::memory::RowMut;
use crate::order::ShardId;
use crate::pipeline::schedule::Task;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::shard::open_shards::OpenShards;
use crate::sync::Arc;

/// Largest buffer of a thread. A larger sample goes to the read thread, whose memory comes from a pool.
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// Stored bytes of a sample, for the decoder.
#[derive(Clone, Copy)]
pub(crate) struct SampleBytes<'a> {
    pub(crate) bytes: &'a [u8],
    /// Columns with rows that get to their destination without the decoder.
    pub(crate) stored: Option<&'a StoredColumns>,
    /// False if the bytes lack these columns.
    pub(crate) is_whole: bool,
}

impl<'a> SampleBytes<'a> {
    /// True if the row of this output gets to its destination without the decoder.
    pub(crate) fn has_stored(&self, output: usize) -> bool {
        self.stored.is_some_and(|stored| stored.outputs.contains(&output))
    }

    /// True if there is nothing to decode.
    pub(crate) fn is_done(&self) -> bool {
        self.stored.is_some_and(|stored| stored.are_all)
    }

    /// Splits the bytes into the sample's columns.
    pub(crate) fn split(self, open: &OpenShard, scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        match self.stored.filter(|_| !self.is_whole) {
            Some(stored) => open.layout.split_around(self.bytes, &stored.omitted, scratch),
            None => open.layout.split(self.bytes, scratch),
        }
    }
}

/// Memory of one sample's rows: the batch, memory of its fixed outputs that begins with the sample's rows, and the
/// consumer's memory for its row of bytes.
type SampleMemory<'a> = (&'a BatchBuilder, &'a mut [RowMut], Option<&'a mut (dyn RowMemory + 'static)>);

/// Output that samples of one layout are read directly into.
struct StoredOutput {
    column: StoredColumn,
    /// Number among the fixed outputs; `None` if its rows have no fixed size.
    fixed: Option<usize>,
    /// The column, with its length in the current sample.
    columns: StoredColumns,
}

impl StoredOutput {
    /// Output of samples that `fields` decodes. `around` returns the bytes before and after a column.
    fn new(fields: &FieldPlan, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<Self> {
        let column = fields.stored_column(around)?;
        let fixed = column.fixed_output(fields.outputs());
        let columns = StoredColumns {
            outputs: vec![column.output],
            omitted: vec![OmittedColumn { column: column.column, bytes: 0 }],
            are_all: fields.outputs().len() == 1 && fixed.is_some() && column.before + column.after == 0,
        };
        Some(Self { column, fixed, columns })
    }

    /// Bytes of a sample that are not the column's.
    fn around(&self) -> usize {
        self.column.before + self.column.after
    }

    /// Returns the memory for its row of `bytes` bytes, if there is such memory.
    fn row<'r>(&self, (batch, rows, consumer): SampleMemory<'r>, bytes: usize) -> Option<Row<'r>> {
        match self.fixed {
            None => consumer.map(|row| row.bytes_mut()).filter(|row| row.len() == bytes).map(Row::Sized),
            Some(number) => batch.first_rows(rows).nth(number).filter(|row| row.len() == bytes).map(Row::Fixed),
        }
    }
}

/// Result of looking for a sample in the page cache.
pub(crate) enum PageCacheRead<'a> {
    /// The sample, of `bytes` bytes, has been read.
    Hot { open: &'a OpenShard, sample: SampleBytes<'a>, bytes: usize },
    /// The sample was not read here: it is not in the page cache, is larger than the buffer, or is read elsewhere.
    Cold { open: Arc<OpenShard>, offset: u64, bytes: usize },
    /// The shard is no longer on disk.
    Evicted,
}

/// Reads samples from the page cache, for one thread.
pub(crate) struct PageCacheReader {
    open_shards: Arc<OpenShards>,
    sample_bytes_max: u64,
    /// For each layout, the output that is read directly into its destination.
    stored: Vec<Option<StoredOutput>>,
    /// For each layout, the outputs that the values of large samples are read directly into.
    large: Vec<LargeOutputs>,
    handles: ShardHandleCache,
    /// Offset and length of the current chunk's samples, as far as they are known.
    ranges: Vec<Option<(u64, usize)>>,
    /// Stored bytes of the current sample.
    buffer: Vec<u8>,
}

impl PageCacheReader {
    /// Reader of samples of up to `sample_bytes_max` bytes. `fields` has the plan for each layout.
    pub(crate) fn new(fields: &[Arc<FieldPlan>], open_shards: Arc<OpenShards>, sample_bytes_max: u64) -> Self {
        let layouts = fields.iter().zip(open_shards.layouts());
        let stored =
            layouts.map(|(fields, layout)| StoredOutput::new(fields, |column| layout.around(column))).collect();
        let large = fields.iter().map(|fields| LargeOutputs::new(fields)).collect();
        let (handles, ranges, buffer) = (ShardHandleCache::default(), Vec::new(), Vec::new());
        Self { open_shards, sample_bytes_max, stored, large, handles, ranges, buffer }
    }

    /// Returns the output without a fixed size that samples of layout number `layout` are read directly into.
    pub(crate) fn stored_list(&self, layout: usize) -> Option<usize> {
        self.stored[layout].as_ref().filter(|stored| stored.fixed.is_none()).map(|stored| stored.column.output)
    }

    /// Returns true if large values of layout number `layout` may be rows of bytes.
    pub(crate) fn has_large_bytes(&self, layout: usize) -> bool {
        self.large[layout].have_bytes()
    }

    /// Returns the value of a sample of `open` that is read directly into its row because it is large.
    pub(crate) fn large_value(&self, open: &OpenShard, offset: u64, bytes: usize) -> Option<LargeValue> {
        self.large[open.layout_number].large_value(open, offset, bytes)
    }

    /// Returns the lengths of the rows of bytes of the chunk that was [looked up](Self::find_ranges) last, if one of
    /// them is large: the rest have no length.
    pub(crate) fn large_lengths(&mut self, chunk: &[Task]) -> Option<Vec<Option<usize>>> {
        if !self.ranges.iter().flatten().any(|(_, bytes)| LargeOutputs::may_be_large(*bytes)) {
            return None;
        }
        let lengths: Vec<_> = chunk.iter().map(|task| self.length(task)).collect();
        lengths.iter().any(Option::is_some).then_some(lengths)
    }

    /// Drops all handles of shards, before a wait.
    pub(crate) fn release(&mut self) {
        self.handles.shards.clear();
    }

    /// Looks up the ranges of a chunk's samples. In a shuffle each lookup misses the CPU's caches: back to back
    /// they overlap, between two reads each would be waited for. Errors show up in [`read`](Self::read).
    pub(crate) fn find_ranges(&mut self, chunk: &[Task]) {
        let Self { open_shards, handles, ranges, .. } = self;
        handles.begin_chunk();
        let mut range = |task: &Task| {
            let open = handles.get_looked_at(task.shard, open_shards).ok()??;
            open.range(task.index).ok().inspect(|range| open.prefetch(*range))
        };
        ranges.clear();
        ranges.extend(chunk.iter().map(&mut range));
    }

    /// Reads sample `i` of the chunk that was [looked up](Self::look_up) last, if the page cache has it. Samples of
    /// shards for which `is_elsewhere` returns true are not read here.
    ///
    /// # Errors
    ///
    /// Errors of the shard or the sample.
    pub(crate) fn read(
        &mut self,
        i: usize,
        task: &Task,
        into: SampleMemory<'_>,
        is_elsewhere: impl Fn(&OpenShard) -> bool,
    ) -> Result<PageCacheRead<'_>> {
        let Self { open_shards, sample_bytes_max, stored, handles, ranges, buffer, .. } = self;
        let Some(open) = handles.get(task.shard, open_shards)? else { return Ok(PageCacheRead::Evicted) };
        open.check_unchanged()?;
        let (offset, bytes) = match ranges[i] {
            Some(range) => range,
            None => open.range(task.index)?,
        };
        if bytes as u64 > *sample_bytes_max {
            return Err(Error::new(ErrorKind::Unsupported, "a sample is larger than sample_bytes_max: raise it")
                .with("bytes", bytes)
                .with("sample_bytes_max", sample_bytes_max));
        }
        let stored = &mut stored[open.layout_number];
        let sample = if is_elsewhere(open) {
            None
        } else if let Some(stored) = stored
            && stored.around() <= BUFFER_BYTES_MAX
            && let Some(row_bytes) = bytes.checked_sub(stored.around())
            && let Some(mut row) = stored.row(into, row_bytes)
        {
            stored.columns.omitted[0].bytes = row_bytes;
            let around = first(buffer, stored.around());
            let is_hot = open.read_hot_in_place(offset, &stored.column, around, &mut row);
            is_hot.then_some(SampleBytes { bytes: around, stored: Some(&stored.columns), is_whole: false })
        } else if bytes <= BUFFER_BYTES_MAX {
            let whole = first(buffer, bytes);
            open.read_hot(offset, whole).then_some(SampleBytes { bytes: whole, stored: None, is_whole: true })
        } else {
            None
        };
        Ok(match sample {
            Some(sample) => PageCacheRead::Hot { open, sample, bytes },
            None => PageCacheRead::Cold { open: open.clone(), offset, bytes },
        })
    }

    /// Returns the length of the row of bytes of `task`, if it is known before the sample is read. Errors show up when
    /// it is.
    pub(crate) fn length(&mut self, task: &Task) -> Option<usize> {
        let open = self.handles.get(task.shard, &self.open_shards).ok()??;
        let (offset, bytes) = open.range(task.index).ok()?;
        if bytes as u64 > self.sample_bytes_max {
            return None;
        }
        match self.stored[open.layout_number].as_ref().filter(|stored| stored.fixed.is_none()) {
            Some(stored) => bytes.checked_sub(stored.around()),
            None => {
                let large = &self.large[open.layout_number];
                let value = if large.have_bytes() { large.large_value(open, offset, bytes)? } else { return None };
                value.is_bytes().then(|| value.bytes())
            }
        }
    }
}

/// Returns the first `bytes` bytes of `buffer`, which grows as needed. Callers ask for at most [`BUFFER_BYTES_MAX`].
fn first(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}

/// Handles of one [`ShardHandleCache`]: a block of a shuffle spans some dozens of shards.
const HANDLES_MAX: usize = 64;

/// One thread's handles of shards that it has just read from, so that a sample costs no lock and no reference count.
///
/// It keeps at most [`HANDLES_MAX`] shards open, and not for long: it drops its handles when the table closes any
/// shard, and its thread clears it before it waits.
#[derive(Debug, Default)]
struct ShardHandleCache {
    /// Each shard at its number modulo their count.
    shards: Vec<Option<ShardHandle>>,
    /// [`OpenShards::closings`] when the handles were taken.
    closings: u64,
    /// Number of the current chunk.
    chunk: u64,
}

#[derive(Clone, Debug)]
struct ShardHandle {
    id: ShardId,
    open: Arc<OpenShard>,
    /// Chunk for which its file was compared with the file that was opened; 0 for none.
    looked_at: u64,
}

impl ShardHandleCache {
    /// Begins a chunk, for which [`get_looked_at`](Self::get_looked_at) compares each file again.
    fn begin_chunk(&mut self) {
        self.chunk += 1;
    }

    /// As [`get`](Self::get). Compares the file once in a chunk: in a shuffle the samples of a shard are not in
    /// sequence, and the comparison of each would cost half as much as its read.
    fn get_looked_at(&mut self, id: ShardId, open_shards: &OpenShards) -> Result<Option<&Arc<OpenShard>>> {
        let chunk = self.chunk;
        Ok(self.handle(id, open_shards)?.map(|handle| {
            if handle.looked_at != chunk {
                handle.looked_at = chunk;
                handle.open.look();
            }
            &handle.open
        }))
    }

    /// As [`OpenShards::get`].
    fn get(&mut self, id: ShardId, open_shards: &OpenShards) -> Result<Option<&Arc<OpenShard>>> {
        Ok(self.handle(id, open_shards)?.map(|handle| &handle.open))
    }

    fn handle(&mut self, id: ShardId, open_shards: &OpenShards) -> Result<Option<&mut ShardHandle>> {
        let closings = open_shards.closings();
        if closings != self.closings {
            self.shards.clear();
            self.closings = closings;
        }
        self.shards.resize(HANDLES_MAX, None);
        let entry = &mut self.shards[id.index() % HANDLES_MAX];
        if entry.as_ref().is_none_or(|handle| handle.id != id) {
            *entry = open_shards.get(id)?.map(|open| ShardHandle { id, open, looked_at: 0 });
        }
        Ok(entry.as_mut())
    }
}
