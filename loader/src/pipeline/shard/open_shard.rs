//! One open shard: its descriptors, offset table and index.

use super::loose_files::LooseFiles;
use super::stored_rows::{StoredSample, read_row};
use crate::cache;
use crate::catalog::Catalog;
use crate::decode::{Row, StoredColumn};
use crate::error::{Context, Error, Result};
use crate::format::trailer::TRAILER_BYTES_MAX;
use crate::format::{Layout, OffsetTable, ReadAt, Shard, Trailer};
use crate::io::{DirFeatures, ShardFile, read_exact_at};
use crate::order::ShardId;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::versions;
use std::any::Any;
use std::io::IoSliceMut;
use std::ops::Range;

/// An open shard, with everything that reading a sample needs.
#[derive(Debug)]
pub(crate) struct OpenShard {
    data: Data,
    table: OffsetTable,
    /// Index of its samples' values, where the shard has one and a field uses it.
    trailer: Option<Trailer>,
    /// Layout of its samples, and the layout's number in the catalogue.
    pub(crate) layout: Arc<Layout>,
    pub(crate) layout_number: usize,
    /// Small samples may be copied from a mapping.
    is_mapped: bool,
    /// A device's state of the shard, which only the device's own code knows.
    pub(crate) extension: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Bytes of the samples.
#[derive(Debug)]
enum Data {
    File {
        file: Arc<ShardFile>,
        /// The cache's descriptors: the shard's bytes count as used until this is dropped.
        resident: Arc<cache::OpenFiles>,
        /// Set if the file was changed in place; `None` for one that is not compared.
        is_changed: Option<AtomicBool>,
    },
    /// There is no data file.
    Loose(LooseFiles),
}

impl OpenShard {
    /// The data file, if there is one. Otherwise [`read_loose`](Self::read_loose) reads.
    pub(crate) fn file(&self) -> Option<&Arc<ShardFile>> {
        match &self.data {
            Data::File { file, .. } => Some(file),
            Data::Loose(_) => None,
        }
    }

    /// Reads the whole sample at `offset` of a shard without a data file, and waits for the disk.
    ///
    /// # Errors
    ///
    /// `Stale` for a file that is not as it was listed; errors of the file system.
    pub(crate) fn read_loose(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match (&self.data, self.table.sample_at(offset)) {
            (Data::Loose(files), Some(sample)) => files.read(sample, into),
            _ => Err(Error::internal("a range that is no sample of loose files")),
        }
    }

    /// Returns the range of the stored value of `column` in the sample at `offset`, of `bytes` bytes, and waits for the
    /// disk; `None` if the value is not a part of the sample as it is stored.
    ///
    /// # Errors
    ///
    /// Errors of the file system, and of the format for a damaged sample.
    pub(crate) fn value_range(&self, offset: u64, bytes: usize, column: usize) -> Result<Option<Range<usize>>> {
        let place = match (&self.data, self.table.sample_at(offset)) {
            (Data::File { file, .. }, _) => {
                self.layout.value_range(column, &StoredSample { file, offset, bytes: bytes as u64 })
            }
            (Data::Loose(files), Some(sample)) => self.layout.value_range(column, &files.sample(sample, bytes as u64)),
            (Data::Loose(_), None) => Ok(None),
        };
        Ok(place?.map(|place| place.start as usize..place.end as usize).filter(|place| place.end <= bytes))
    }

    /// Reads the sample at `offset` into `into`, and waits for the disk. The bytes at `value` are read into `row`
    /// instead, which has as many.
    ///
    /// # Errors
    ///
    /// As [`read_loose`](Self::read_loose).
    pub(crate) fn read_around(
        &self,
        offset: u64,
        into: &mut [u8],
        value: &Range<usize>,
        row: &mut Row<'_>,
    ) -> Result<()> {
        match (&self.data, self.table.sample_at(offset)) {
            (Data::File { file, .. }, _) => {
                read_exact_at(&**file, &mut into[..value.start], offset)?;
                read_row(file, row, offset + value.start as u64)?;
                read_exact_at(&**file, &mut into[value.end..], offset + value.end as u64)
            }
            (Data::Loose(files), Some(sample)) => files.read_around(sample, into, value, row),
            (Data::Loose(_), None) => Err(Error::internal("a range that is no sample of loose files")),
        }
    }

    /// Returns the shard index's entry for the value of sample `index` in `column`; empty where there is none.
    pub(crate) fn index_entry(&self, index: u32, column: usize) -> &[u8] {
        self.trailer.as_ref().map_or(&[], |trailer| trailer.entry(column, index as usize))
    }

    /// Notices a change of the file in place, for a file that belongs to the user. Costs a system call.
    pub(crate) fn look(&self) {
        if let Data::File { file, is_changed: Some(is_changed), .. } = &self.data
            && file.is_changed()
        {
            is_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns an error for a file with a noticed change.
    ///
    /// # Errors
    ///
    /// `Stale`.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        match &self.data {
            Data::File { file, is_changed: Some(is_changed), .. } if is_changed.load(Ordering::Relaxed) => {
                Err(versions::changed().with("file", file.path().display()))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of its tables in memory.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.memory_bytes() + self.trailer.as_ref().map_or(0, Trailer::memory_bytes)
    }

    /// Descriptors that it holds open.
    pub(super) fn descriptors(&self) -> usize {
        match &self.data {
            Data::File { resident, .. } => resident.descriptors(),
            Data::Loose(_) => 0,
        }
    }

    /// True if the shard was evicted since it was opened.
    pub(super) fn is_evicted(&self) -> bool {
        matches!(&self.data, Data::File { resident, .. } if resident.is_evicted())
    }

    /// Returns the offset of sample `index` in the data file, and its length.
    pub(crate) fn range(&self, index: u32) -> Result<(u64, usize)> {
        let (offset, bytes) = self.table.range(index as usize)?;
        Ok((offset, bytes as usize))
    }

    /// Prefetches the sample at `offset` into the CPU's caches.
    pub(crate) fn prefetch(&self, (offset, bytes): (u64, usize)) {
        if let Data::File { file, .. } = &self.data
            && self.is_mapped
        {
            file.prefetch(offset, bytes);
        }
    }

    /// Reads into `into` from the page cache. Returns false, with `into` unspecified, if the page cache does not have
    /// all of it.
    pub(crate) fn read_hot(&self, offset: u64, into: &mut [u8]) -> bool {
        match &self.data {
            Data::File { file, .. } => {
                self.is_mapped && file.read_mapped(offset, into) || file.read_cached(offset, into)
            }
            Data::Loose(files) => self.table.sample_at(offset).is_some_and(|sample| files.read_hot(sample, into)),
        }
    }

    /// As [`read_hot`](Self::read_hot), with the sample's `column` read into `row` and the bytes before and after it
    /// into `around`.
    pub(crate) fn read_hot_in_place(
        &self,
        offset: u64,
        column: &StoredColumn,
        around: &mut [u8],
        row: &mut Row<'_>,
    ) -> bool {
        let (before, after) = around.split_at_mut(column.before);
        // Loose files have columns of variable size side by side; none is read directly into its destination.
        let Some(file) = self.file() else { return false };
        match row {
            // The usual case for tokens. One part costs the kernel less than three.
            Row::Fixed(row) if before.is_empty() && after.is_empty() => self.read_hot(offset, row),
            Row::Fixed(row) => {
                let parts = &mut [IoSliceMut::new(before), IoSliceMut::new(row), IoSliceMut::new(after)];
                file.read_cached_parts(offset, parts)
            }
            Row::Sized(row) => file.read_cached_around(offset, before, row, after),
            Row::Var(_) | Row::Stored(_) | Row::Filled | Row::Encodable(..) => false,
        }
    }
}

impl ReadAt for cache::OpenFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&*self.file, into, offset)
    }
}

/// Reads the offsets of the samples of `shard`, which is open.
///
/// # Errors
///
/// `Format` when the table contradicts the index; errors of the file system.
pub(crate) fn read_offsets(shard: &Shard, open: &cache::OpenFiles) -> Result<OffsetTable> {
    // The data file is the first, the file with the table the last; for MDS they are the same.
    let Some(front) = open.files.last() else { return Err(Error::internal("a shard without files")) };
    shard.offsets(front).context("path", || front.path.display())
}

/// Opens shards of one catalogue.
#[derive(Debug)]
pub(super) struct ShardOpener {
    pub(super) catalog: Arc<Catalog>,
    /// By the catalogue's layouts: true if a field uses the trailers (indexes of values) of their shards.
    use_indexes: Vec<bool>,
    /// Small samples may be copied from mappings.
    use_mmap: bool,
    /// Of folders with files that are read where they are.
    loose_features: Arc<DirFeatures>,
    /// Trailers that were read, and those that could not be used.
    indexes_read: Arc<Counter>,
    indexes_refused: Arc<Counter>,
}

impl ShardOpener {
    /// Opens shards of `catalog`, with the indexes of the shards with a layout that is true in `use_indexes`.
    pub(super) fn new(catalog: Arc<Catalog>, use_indexes: Vec<bool>, use_mmap: bool, stats: &Stats) -> Self {
        let (indexes_read, indexes_refused) =
            (stats.counter("shard_indexes_read"), stats.counter("shard_indexes_refused"));
        let loose_features = DirFeatures::buffered_only();
        Self { catalog, use_indexes, use_mmap, loose_features, indexes_read, indexes_refused }
    }

    /// Opens shard `id`; `None` when it is not on disk.
    ///
    /// # Errors
    ///
    /// `Format` when its table contradicts the index; errors of the file system.
    pub(super) fn open(&self, id: ShardId) -> Result<Option<OpenShard>> {
        let (stream, local) = self.catalog.locate(id);
        let shard = self.catalog.shard(id);
        let layout_number = self.catalog.layout_of(id);
        if let Some(files) = LooseFiles::of(&self.catalog, id, &self.loose_features)? {
            return Ok(Some(OpenShard {
                table: files.offsets()?,
                data: Data::Loose(files),
                trailer: None,
                layout: self.catalog.layouts()[layout_number].clone(),
                layout_number,
                is_mapped: false,
                extension: OnceLock::new(),
            }));
        }
        let Some(resident) = stream.dir.open_shard(local)? else { return Ok(None) };
        let Some(data) = resident.files.first() else { return Err(Error::internal("a shard without files")) };
        let table = read_offsets(shard, &resident)?;
        let uses_index = self.use_indexes.get(layout_number) == Some(&true);
        let trailer = if uses_index { self.read_trailer(data, &table) } else { None };
        let is_changed = stream.dir.versions().map(|_| AtomicBool::new(false));
        Ok(Some(OpenShard {
            data: Data::File { file: data.file.clone(), resident: resident.clone(), is_changed },
            table,
            trailer,
            layout: self.catalog.layouts()[layout_number].clone(),
            layout_number,
            is_mapped: self.use_mmap,
            extension: OnceLock::new(),
        }))
    }

    /// Reads the trailer after the samples that `table` lists; `None` where there is no usable one.
    fn read_trailer(&self, data: &cache::OpenFile, table: &OffsetTable) -> Option<Trailer> {
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
                self.indexes_read.add(1);
                Some(trailer)
            }
            Err(error) => {
                self.indexes_refused.add(1);
                log::warn!("the index after the samples of {} is not used: {error}", data.path.display());
                None
            }
        }
    }
}
