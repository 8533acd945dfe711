//! Rows that are read from their shard right into the target's memory, and the threads that wait for these reads.
//! [`direct_rows`](super::direct_rows) has what they share with rows that are copied there.
//!
//! ```text
//! decode thread --sample--> storage thread --rows are at the target--> decode thread: what else is needed of the sample
//!                                 \---refused: the whole sample------> decode thread --> read thread (the usual way)
//! ```
//!
//! A read waits in the library's call, so there are some threads for nothing else. A row stays the sample's until the whole
//! sample is done, so whatever is refused is read by the host into the same batch. Where one thing after another is refused
//! nothing is asked any more; where the target has no memory nothing is until the next epoch.

use super::direct_rows::EarlyColumns;
use crate::delivery::{DirectBatch, DirectStorage};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::epoch::Shared;
use crate::pipeline::{Brought, Loaded, Miss};
use crate::stats::TimeKind;
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering};
use crossbeam::channel::{Receiver, Sender};

/// Shorter rows are read by the host: files are read by blocks of this many bytes, and one call for less costs more than a copy.
pub(crate) const ROW_BYTES_MIN: usize = 4_096;

/// Threads that wait for reads, of all crews together: the depth of the drive's queue. Not measured on hardware.
const THREADS: usize = 8;

/// Refusals in a row after which nothing is asked any more.
const REFUSALS_MAX: u32 = 16;

/// What reads files into the target's memory, and which columns it reads.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) reader: Arc<dyn DirectStorage>,
    /// By the catalogue's layouts.
    columns: Vec<Option<Arc<EarlyColumns>>>,
    /// Refusals since the last read that succeeded; [`REFUSALS_MAX`] for good.
    refusals: AtomicU32,
    /// There was no memory for rows in this epoch.
    is_full: AtomicBool,
}

impl Storage {
    /// With `columns` for each of the catalogue's layouts, in which some column can go this way.
    pub(crate) fn new(reader: Arc<dyn DirectStorage>, columns: Vec<Option<Arc<EarlyColumns>>>) -> Self {
        Self { reader, columns, refusals: AtomicU32::new(0), is_full: AtomicBool::new(false) }
    }

    /// The columns of a layout that go this way at the moment.
    pub(crate) fn columns(&self, layout: usize) -> Option<&Arc<EarlyColumns>> {
        let columns = self.columns[layout].as_ref();
        columns.filter(|_| self.refusals.load(Ordering::Relaxed) < REFUSALS_MAX && !self.is_full())
    }

    /// An epoch begins: there may be memory again.
    pub(crate) fn retry(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Threads of one of `crews`.
    pub(crate) fn threads(crews: usize) -> usize {
        (THREADS / crews).max(1)
    }

    /// Reads the rows of `miss`; how many.
    fn read(&self, shared: &Shared, miss: &Miss) -> Result<u64> {
        let Miss { batch, row, open, stored, .. } = miss;
        let Some(sample) = stored else {
            return Err(Error::internal("a sample without stored columns has come to a storage thread"));
        };
        let file = open.stored_file(&*self.reader, |error| self.give_up(shared, miss, "a shard", error))?;
        let memory = self.memory(shared, miss)?;
        for early in sample.rows() {
            let at = batch.place_of(early.fixed, *row);
            if let Err(error) = memory.read(&*file, early.offset, early.bytes, at) {
                // What one row of it is refused for holds for others, as a rule.
                if open.refuse_storage() {
                    self.give_up(shared, miss, "a shard", &error);
                }
                return Err(error);
            }
        }
        batch.put_at_target(sample.rows().map(|early| (early.fixed, *row)));
        Ok(sample.rows().count() as u64)
    }

    /// Where the rows of the batch of `miss` go.
    fn memory(&self, shared: &Shared, miss: &Miss) -> Result<Arc<dyn DirectBatch>> {
        let none = || Error::internal("a target that reads files sets no memory aside for them");
        let memory = shared.target.direct_rows().ok_or_else(none).and_then(|early| miss.batch.at_target(early, true));
        memory.and_then(|memory| memory.ok_or_else(none)).inspect_err(|error| match error.kind() {
            ErrorKind::Full => {
                if !self.is_full.swap(true, Ordering::Relaxed) {
                    self.say(shared, format!("rows are read by the host up to the end of the epoch: {error}"));
                }
            }
            _ => self.give_up(shared, miss, "a sample", error),
        })
    }

    /// Counts and says that the host reads `what` from now on.
    fn give_up(&self, shared: &Shared, miss: &Miss, what: &str, error: &Error) {
        shared.gpu_direct_storage_fallbacks.add(1);
        let error = shared.source.describe(error.duplicate(), miss.task.shard);
        log::warn!("{what} is read by the host instead of GPUDirect Storage: {error}");
    }

    /// Notes whether a sample's rows were read. Nothing is asked any more after too many refusals.
    fn learn(&self, shared: &Shared, is_read: bool) {
        if is_read {
            // A store for each read of all threads would be contended.
            if self.refusals.load(Ordering::Relaxed) != 0 {
                let _ = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |refusals| {
                    (refusals < REFUSALS_MAX).then_some(0)
                });
            }
        } else if self.refusals.fetch_add(1, Ordering::Relaxed) + 1 == REFUSALS_MAX {
            self.say(
                shared,
                format!("{REFUSALS_MAX} reads in a row were refused: the host reads all rows from now on"),
            );
        }
    }

    /// Says what holds for all rows.
    fn say(&self, shared: &Shared, sentence: String) {
        log::warn!("{sentence}");
        shared.stats.note(sentence);
        shared.gpu_direct_storage_fallbacks.add(1);
    }
}

/// Brings the rows of `requests` to the target until the run stops.
pub(crate) fn run(shared: &Shared, requests: &Receiver<Miss>, loaded: &Sender<Loaded>) -> Result<()> {
    let Some(storage) = &shared.storage else { return Ok(()) };
    let stage = shared.stats.stage("read");
    while let Ok(miss) = requests.recv() {
        if shared.run.is_stopped() {
            return Ok(());
        }
        let read = stage.timed(TimeKind::Input, || storage.read(shared, &miss));
        // Little memory says nothing about reads.
        if !storage.is_full() {
            storage.learn(shared, read.is_ok());
        }
        let brought = match read {
            Ok(rows) => {
                let bytes = miss.stored.iter().flat_map(|sample| sample.rows()).map(|early| early.bytes as u64);
                stage.done(1, bytes.sum());
                shared.rows_gpu_direct.add(rows);
                Brought::AtTarget
            }
            Err(error) => {
                log::debug!("a sample is read by the host: {error}");
                shared
                    .rows_gpu_direct_refused
                    .add(miss.stored.as_ref().map_or(0, |sample| sample.rows().count() as u64));
                Brought::Refused
            }
        };
        // An error means that the decode threads are gone, which only a stop brings about.
        let _ = loaded.send(Loaded { miss, brought: Ok(brought) });
    }
    Ok(())
}
