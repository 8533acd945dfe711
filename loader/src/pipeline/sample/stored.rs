//! Rows that are read from their shard right into the target's memory, and the threads that wait for these reads.
//!
//! ```text
//! decode thread --sample--> storage thread --rows are at the target--> decode thread: what else is needed of the sample
//!                                 \---refused: the whole sample------> decode thread --> read thread (the usual way)
//! ```
//!
//! A read waits in the library's call, so there are some threads for nothing else. A row stays the sample's until the whole
//! sample is done, so whatever is refused is read by the host into the same batch. Where one thing after another is refused
//! nothing is asked any more.

use crate::decode::FieldPlan;
use crate::error::{Error, Result};
use crate::format::{Apart, Layout};
use crate::pipeline::epoch::Shared;
use crate::pipeline::{Brought, Loaded, Miss};
use crate::stats::Spent;
use crate::sync::{Arc, AtomicU32, Ordering};
use crate::target::StorageReader;
use crossbeam::channel::{Receiver, Sender};
use std::collections::VecDeque;

/// Shorter rows are read by the host: files are read by blocks of this many bytes, and one call for less costs more than a copy.
const ROW_BYTES_MIN: usize = 4_096;

/// Threads that wait for reads, of all crews together: the depth of the drive's queue. Not measured on hardware.
const THREADS: usize = 8;

/// Refusals in a row after which nothing is asked any more.
const REFUSALS_MAX: u32 = 16;

/// What reads files into the target's memory, and which columns it reads.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) reader: Arc<dyn StorageReader>,
    /// By the catalogue's layouts.
    columns: Vec<Option<Arc<StoredColumns>>>,
    /// Refusals since the last read that succeeded; [`REFUSALS_MAX`] for good.
    refusals: AtomicU32,
}

/// The columns of a layout whose rows go right to the target.
#[derive(Debug)]
pub(crate) struct StoredColumns {
    layout: Arc<Layout>,
    /// Ascending by column.
    columns: Vec<StoredColumn>,
    /// Their columns and sizes.
    apart: Vec<Apart>,
    /// Whether something else of a sample is needed, if only to see whether it is one.
    needs_rest: bool,
}

#[derive(Clone, Copy, Debug)]
struct StoredColumn {
    column: usize,
    /// Which of the outputs.
    output: usize,
    /// Which of those with fixed rows.
    fixed: usize,
}

/// A sample on this way.
#[derive(Debug)]
pub(crate) struct StoredSample {
    pub(crate) columns: Arc<StoredColumns>,
    /// Where in the shard each of the columns begins.
    offsets: Vec<u64>,
    /// What the host has yet to read: places in the shard, and lengths.
    pub(crate) rest: VecDeque<(u64, usize)>,
    /// What it has read of that.
    pub(crate) kept: Vec<u8>,
}

impl StoredColumns {
    /// For samples of `layout`, which `fields` decodes; `None` where no column can go this way.
    pub(crate) fn new(fields: &FieldPlan, layout: &Arc<Layout>) -> Option<Self> {
        let row_bytes = |output: usize| fields.outputs()[output].row_bytes();
        let is_long = |(output, column): &(usize, usize)| {
            let place = layout.fixed_place(*column, isize::MAX as usize);
            place.is_some_and(|place| row_bytes(*output) == Some(place.len()) && place.len() >= ROW_BYTES_MIN)
        };
        let column = |(output, column): (usize, usize)| {
            let fixed = (0..output).filter(|output| row_bytes(*output).is_some()).count();
            StoredColumn { column, output, fixed }
        };
        let mut columns: Vec<StoredColumn> = fields.stored().filter(is_long).map(column).collect();
        columns.sort_unstable_by_key(|column| column.column);
        let apart =
            columns.iter().map(|c| Apart { column: c.column, bytes: row_bytes(c.output).unwrap_or(0) }).collect();
        // The sizes in a sample say whether it is sound, and are compared with what else is there.
        let needs_rest = columns.len() < fields.outputs().len() || layout.sample_bytes().is_none();
        (!columns.is_empty()).then(|| Self { layout: layout.clone(), columns, apart, needs_rest })
    }

    /// The sample of `bytes` bytes at `offset`; `None` for one that cannot be sound, which the usual way says best.
    pub(crate) fn sample(self: &Arc<Self>, offset: u64, bytes: usize) -> Option<StoredSample> {
        if self.layout.sample_bytes().is_some_and(|all| all != bytes) {
            return None;
        }
        let (mut offsets, mut rest, mut done) = (Vec::with_capacity(self.columns.len()), VecDeque::new(), 0);
        for column in &self.columns {
            let place = self.layout.fixed_place(column.column, bytes).filter(|place| place.start >= done)?;
            offsets.push(offset + place.start as u64);
            if self.needs_rest && place.start > done {
                rest.push_back((offset + done as u64, place.start - done));
            }
            done = place.end;
        }
        if self.needs_rest && bytes > done {
            rest.push_back((offset + done as u64, bytes - done));
        }
        Some(StoredSample { columns: self.clone(), offsets, rest, kept: Vec::new() })
    }

    /// What is left out of a sample that the host has read.
    pub(crate) fn apart(&self) -> &[Apart] {
        &self.apart
    }

    /// Whether rows of this output go this way.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.columns.iter().any(|column| column.output == output)
    }

    /// Whether there is something to decode besides.
    pub(crate) fn needs_rest(&self) -> bool {
        self.needs_rest
    }
}

impl Storage {
    /// With `columns` for each of the catalogue's layouts, in which some column can go this way.
    pub(crate) fn new(reader: Arc<dyn StorageReader>, columns: Vec<Option<Arc<StoredColumns>>>) -> Self {
        Self { reader, columns, refusals: AtomicU32::new(0) }
    }

    /// The columns of a layout that go this way at the moment.
    pub(crate) fn columns(&self, layout: usize) -> Option<&Arc<StoredColumns>> {
        self.columns[layout].as_ref().filter(|_| self.refusals.load(Ordering::Relaxed) < REFUSALS_MAX)
    }

    /// Threads of one of `crews`.
    pub(crate) fn threads(crews: usize) -> usize {
        (THREADS / crews).max(1)
    }

    /// Reads the rows of `miss`; how many.
    fn read(&self, shared: &Shared, miss: &Miss) -> Result<u64> {
        let Miss { batch, row, open, stored, .. } = miss;
        let Some(StoredSample { columns, offsets, .. }) = stored else {
            return Err(Error::internal("a sample without stored columns has come to a storage thread"));
        };
        let file = open.stored_file(&*self.reader, |error| self.give_up(shared, miss, "a shard", error))?;
        let memory =
            batch.at_target(&*self.reader).inspect_err(|error| self.give_up(shared, miss, "a sample", error))?;
        for ((column, apart), offset) in columns.columns.iter().zip(&columns.apart).zip(offsets) {
            let at = batch.place_of(column.fixed, *row);
            if let Err(error) = memory.read(&*file, *offset, apart.bytes, at) {
                // What one row of it is refused for holds for others, as a rule.
                if open.refuse_storage() {
                    self.give_up(shared, miss, "a shard", &error);
                }
                return Err(error);
            }
        }
        batch.put_at_target(columns.columns.iter().map(|column| (column.fixed, *row)));
        Ok(columns.columns.len() as u64)
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
            let sentence = format!("{REFUSALS_MAX} reads in a row were refused: the host reads all rows from now on");
            log::warn!("{sentence}");
            shared.stats.note(sentence);
            shared.gpu_direct_storage_fallbacks.add(1);
        }
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
        let read = stage.timed(Spent::Input, || storage.read(shared, &miss));
        storage.learn(shared, read.is_ok());
        let brought = match read {
            Ok(rows) => {
                let bytes =
                    miss.stored.iter().flat_map(|stored| stored.columns.apart()).map(|apart| apart.bytes as u64);
                stage.done(1, bytes.sum());
                shared.rows_gpu_direct.add(rows);
                Brought::AtTarget
            }
            Err(error) => {
                log::debug!("a sample is read by the host: {error}");
                shared.rows_gpu_direct_refused.add(miss.stored.as_ref().map_or(0, |s| s.offsets.len() as u64));
                Brought::Refused
            }
        };
        // An error means that the decode threads are gone, which only a stop brings about.
        let _ = loaded.send(Loaded { miss, brought: Ok(brought) });
    }
    Ok(())
}
