//! GPUDirect Storage: rows that the device reads from their shards, and the threads that wait for these reads.
//! [`direct_rows`](super::direct_rows) has their common parts with rows that are copied to the device.
//!
//! ```text
//! decode thread --sample--> storage thread --rows are on the device--> decode thread: the rest of the sample
//!                                 \---refused: the whole sample------> read thread, as on the host
//! ```
//!
//! A read blocks in the library's call, so there are threads for nothing else. A row keeps its bytes in the batch slot
//! until the whole sample is done, so a refused row can be read by the host into the same batch. After too many
//! refusals in a row the device is not used any more; when it has no memory it is not used until the next epoch.

use super::direct_rows::{DirectColumns, DirectRow};
use super::part::DevicePart;
use crate::catalog::Catalog;
use crate::delivery::{Delivery, DirectBatch, DirectFile, DirectStorage};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::sample::miss::{LoadedSample, Miss};
use crate::pipeline::sample::read::ReadQueues;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::stats::{Counter, Stage, Stats, TimeKind};
use crate::sync::{Arc, AtomicBool, AtomicU32, OnceLock, Ordering};
use crossbeam::channel::Receiver;
use forebay_core::flow::Run;

/// Shorter rows are read by the host: files are read in blocks of this size, and a call for less costs more than a
/// copy.
pub(crate) const ROW_BYTES_MIN: usize = 4_096;

/// Threads that wait for reads: the depth of the drive's queue. Not measured on hardware.
pub(crate) const THREADS: usize = 8;

/// Refusals in a row after which the device is not used any more.
const REFUSALS_MAX: u32 = 16;

/// Device that reads files, and the columns that it reads. Kept for all epochs of a loader.
#[derive(Debug)]
pub(crate) struct StorageReader {
    storage: Arc<dyn DirectStorage>,
    /// By the catalogue's layouts.
    columns: Vec<Option<Arc<DirectColumns>>>,
    delivery: Arc<dyn Delivery>,
    catalog: Arc<Catalog>,
    stats: Arc<Stats>,
    /// Refusals since the last read that succeeded; stays at [`REFUSALS_MAX`].
    refusals: AtomicU32,
    /// The device had no memory for rows in this epoch.
    is_full: AtomicBool,
    /// Counts rows that the device has read.
    rows_read: Arc<Counter>,
    /// Counts rows that it did not read and the host did.
    rows_refused: Arc<Counter>,
    /// Counts how often the device was given up: for a file, or altogether.
    fallbacks: Arc<Counter>,
}

/// The device's state of an open shard.
#[derive(Debug, Default)]
struct DirectShard {
    /// The data file as the device reads it, from the first request on; `None` where the device cannot.
    file: OnceLock<Option<Arc<dyn DirectFile>>>,
    /// The device no longer reads this file.
    is_refused: AtomicBool,
}

impl DirectShard {
    fn of(open: &OpenShard) -> &Self {
        let extension = open.extension.get_or_init(|| Box::<Self>::default());
        extension.downcast_ref().expect("a loader has one reader of files")
    }
}

impl StorageReader {
    /// Reads rows of `columns`, given for each of the layouts of `catalog`.
    pub(crate) fn new(
        storage: Arc<dyn DirectStorage>,
        columns: Vec<Option<Arc<DirectColumns>>>,
        delivery: Arc<dyn Delivery>,
        catalog: Arc<Catalog>,
        stats: Arc<Stats>,
    ) -> Self {
        Self {
            storage,
            columns,
            delivery,
            catalog,
            refusals: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
            rows_read: stats.counter("rows_gpu_direct"),
            rows_refused: stats.counter("rows_gpu_direct_refused"),
            fallbacks: stats.counter("gpu_direct_storage_fallbacks"),
            stats,
        }
    }

    /// Begins an epoch, in which there may be memory again.
    pub(crate) fn retry(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// Returns the columns of `open` with rows that the device reads; `None` if the host reads the shard.
    pub(crate) fn columns(&self, open: &OpenShard) -> Option<&Arc<DirectColumns>> {
        let is_used = self.refusals.load(Ordering::Relaxed) < REFUSALS_MAX
            && !self.is_full()
            && open.file().is_some()
            && !DirectShard::of(open).is_refused.load(Ordering::Relaxed);
        self.columns[open.layout_number].as_ref().filter(|_| is_used)
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Reads direct `rows` of `miss`.
    fn read(&self, miss: &Miss, rows: &[DirectRow]) -> Result<()> {
        let Miss { batch, row, open, .. } = miss;
        let shard = DirectShard::of(open);
        let opened = || {
            let file = open.file().ok_or_else(|| Error::internal("a shard without a data file"))?;
            self.storage.open(file.open_direct_again()?)
        };
        let file = shard.file.get_or_init(|| opened().inspect_err(|error| self.refuse(miss, error)).ok());
        let Some(file) = file else {
            return Err(Error::new(ErrorKind::Unsupported, "the device does not read this file"));
        };
        let memory = self.memory(miss)?;
        for direct in rows {
            let at = batch.row_offset(direct.fixed_output, *row);
            if let Err(error) = memory.read(&**file, direct.offset, direct.bytes, at) {
                // The reason for one refused row of a file usually holds for its remaining rows.
                self.refuse(miss, &error);
                return Err(error);
            }
        }
        DevicePart::of(batch).add_direct_rows(rows.iter().map(|direct| (direct.fixed_output, *row)));
        Ok(())
    }

    /// Ends reads of the file of `miss` by the device because of `error`.
    fn refuse(&self, miss: &Miss, error: &Error) {
        if !DirectShard::of(&miss.open).is_refused.swap(true, Ordering::Relaxed) {
            self.give_up(miss, "a shard", error);
        }
    }

    /// Returns the memory on the device for the batch of `miss`.
    fn memory(&self, miss: &Miss) -> Result<Arc<dyn DirectBatch>> {
        let none = || Error::internal("a device that reads files allocates no memory for their rows");
        let memory = DevicePart::of(&miss.batch).direct_memory(&*self.delivery, miss.batch.layout.bytes(), true);
        let memory = memory.and_then(|memory| memory.ok_or_else(none));
        memory.inspect_err(|error| match error.kind() {
            ErrorKind::Full => {
                if !self.is_full.swap(true, Ordering::Relaxed) {
                    self.report(format!("rows are read by the host up to the end of the epoch: {error}"));
                }
            }
            _ => self.give_up(miss, "a sample", error),
        })
    }

    /// Counts and logs that the host reads `subject` from now on.
    fn give_up(&self, miss: &Miss, subject: &str, error: &Error) {
        self.fallbacks.add(1);
        let error = self.catalog.describe(error.duplicate(), miss.task.shard);
        log::warn!("{subject} is read by the host instead of GPUDirect Storage: {error}");
    }

    /// Records if a sample's rows were read.
    fn record(&self, is_read: bool) {
        if is_read {
            // Loaded first, since a store for each read of all threads would be contended.
            if self.refusals.load(Ordering::Relaxed) != 0 {
                let _ = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |refusals| {
                    (refusals < REFUSALS_MAX).then_some(0)
                });
            }
        } else if self.refusals.fetch_add(1, Ordering::Relaxed) + 1 == REFUSALS_MAX {
            self.report(format!("{REFUSALS_MAX} reads in a row were refused: the host reads all rows from now on"));
        }
    }

    /// Counts and reports a fallback that concerns all rows.
    fn report(&self, sentence: String) {
        log::warn!("{sentence}");
        self.stats.note(sentence);
        self.fallbacks.add(1);
    }
}

/// Sample with rows that the device reads.
pub(crate) struct StorageRequest {
    pub(crate) miss: Miss,
    pub(crate) columns: Arc<DirectColumns>,
    pub(crate) rows: Vec<DirectRow>,
    /// Queues through which the sample returns.
    pub(crate) queues: ReadQueues,
}

/// Storage stage: the threads that wait for the device's reads.
#[derive(Clone)]
pub(crate) struct StorageStage {
    pub(crate) reader: Arc<StorageReader>,
    pub(crate) run: Arc<Run>,
    pub(crate) stage: Arc<Stage>,
}

impl StorageStage {
    /// Reads the rows of `requests` until the run stops.
    pub(crate) fn run(&self, requests: &Receiver<StorageRequest>) -> Result<()> {
        let Self { reader, run, stage } = self;
        while let Ok(StorageRequest { mut miss, columns, rows, queues }) = requests.recv() {
            if run.is_stopped() {
                return Ok(());
            }
            let read = stage.timed(TimeKind::Input, || reader.read(&miss, &rows));
            // A lack of memory is not a refused read.
            if !reader.is_full() {
                reader.record(read.is_ok());
            }
            // Sending fails only when the receiving threads have returned, which they do after a stop.
            match read {
                Ok(()) => {
                    stage.done(1, rows.iter().map(|row| row.bytes as u64).sum());
                    reader.rows_read.add(rows.len() as u64);
                    miss.rest = Some(columns.rest(&rows, miss.offset, miss.bytes));
                    let _ = queues.loaded.send(LoadedSample { miss, slot: Ok(None) });
                }
                Err(error) => {
                    log::debug!("a sample is read by the host: {error}");
                    reader.rows_refused.add(rows.len() as u64);
                    let _ = queues.misses.send(miss);
                }
            }
        }
        Ok(())
    }
}
