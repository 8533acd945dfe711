//! Samples for `forebay.streaming`, read on the calling thread of any process.

use crate::enter;
use crate::fetches::{DownloaderQueue, Fetches};
use crate::library::LibraryStores;
use crate::order::PlanArguments;
use crate::own::Own;
use crate::shards::{Index, decoded, decoded_in_parts};
use crate::values::Decoders;
use forebay_loader::LoaderConfig;
use forebay_loader::error::{Error, Result};
use forebay_loader::order::{EpochPlan, Rank, SampleId, ShardId, Weight, WorkerOrder};
use forebay_loader::sync::{Arc, AtomicU64, Mutex, Ordering};
use forebay_loader::worker::{self, DataConfig, Epoch, SampleInfo, SampleReader, StreamLocation};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::VecDeque;

/// Bytes from which each column of a sample is read alone, so that it is in memory once.
const LARGE_BYTES: u32 = 16 << 20;

/// Downloads a stream's index.json into its local folder, if it is missing. With `fetches`, that queue fetches it, as a
/// file of stream 0.
#[pyfunction]
pub(crate) fn install_index(py: Python<'_>, stream: &str, fetches: Option<Bound<'_, Fetches>>) -> PyResult<()> {
    let stream = enter::enter(py, || StreamLocation::from_json(stream))?;
    let fetcher = match fetches {
        Some(fetches) => {
            Fetches::serve(&fetches)?;
            fetches.get().fetchers(&[0]).swap_remove(0)
        }
        None => None,
    };
    enter::apart(py, move || stream.install_index(fetcher.as_deref()))
}

/// Returns the samples of an epoch, and the samples and the share of each stream. A weight is its name and its value.
#[pyfunction]
pub(crate) fn epoch_shares(
    py: Python<'_>,
    weights: Vec<Option<(String, f64)>>,
    samples: Vec<u64>,
    epoch_size: Option<u64>,
    seed: u64,
) -> PyResult<(u64, Vec<u64>, Vec<f64>)> {
    let weight = |weight: &Option<(String, f64)>| match weight {
        None => Ok(Weight::Unset),
        Some((name, value)) => match name.as_str() {
            "proportion" => Ok(Weight::Proportion(*value)),
            "repeat" => Ok(Weight::Repeat(*value)),
            "choose" => Ok(Weight::Choose(*value as u64)),
            _ => Err(Error::config(format!("`{name}` is not a weight"))),
        },
    };
    enter::enter(py, || {
        let weights = weights.iter().map(weight).collect::<Result<Vec<_>>>()?;
        let shares = forebay_loader::order::epoch_shares(&weights, &samples, epoch_size, seed)?;
        Ok((shares.epoch_size, shares.choose, shares.proportion))
    })
}

/// Streams and their indexes. Plain memory, which a fork may copy.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct DataSet(Arc<worker::DataSet>);

#[pymethods]
impl DataSet {
    #[new]
    fn new(py: Python<'_>, config: &str, indexes: Vec<PyRef<'_, Index>>) -> PyResult<Self> {
        let indexes = indexes.iter().map(|index| index.inner().clone()).collect();
        enter::enter(py, || worker::DataSet::new(DataConfig::from_json(config)?, indexes)).map(|d| Self(Arc::new(d)))
    }

    /// Opens the streams of a loader's `config`, whatever their source, in the folders that the loader would use.
    /// `library` serves the remotes of schemes besides the engine's.
    #[staticmethod]
    fn of_loader(py: Python<'_>, config: String, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        // In a separate thread, so that Ctrl-C works: an index may have to be made.
        let opened = enter::apart(py, move || {
            let config = LoaderConfig::from_json(&config)?;
            config.validate()?;
            worker::DataSet::of_loader(&config, library)
        });
        opened.map(|data| Self(Arc::new(data)))
    }

    /// Number of samples in all streams.
    fn __len__(&self) -> usize {
        self.0.shape().num_samples() as usize
    }
}

/// Reader of a data set's samples in the process that makes it.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Reader {
    inner: Own<Arc<SampleReader>>,
    decoders: Arc<Decoders>,
    /// Queue for the files of streams that the engine does not fetch itself.
    fetches: Option<Py<Fetches>>,
}

impl Reader {
    fn inner(&self) -> Result<&Arc<SampleReader>> {
        self.inner.get()
    }
}

#[pymethods]
impl Reader {
    /// Opens the local folders. `decoder_of` returns the function that decodes an encoding, or None for the engine's;
    /// `downloader` is the queue for files, and the numbers of the streams that use it; `library` serves the remotes of
    /// schemes besides the engine's.
    #[new]
    #[pyo3(signature = (data, decoder_of, downloader, library=None))]
    fn new(
        py: Python<'_>,
        data: &DataSet,
        decoder_of: &Bound<'_, PyAny>,
        downloader: Option<DownloaderQueue>,
        library: Option<Py<LibraryStores>>,
    ) -> PyResult<Self> {
        let (data, library) = (data.0.clone(), LibraryStores::stores(library.as_ref()));
        let fetchers =
            downloader.as_ref().map(|(fetches, streams)| fetches.get().fetchers(streams)).unwrap_or_default();
        let reader = enter::enter(py, || Ok(SampleReader::open(data, fetchers)?.with_library(library)))?;
        let decoders = Arc::new(Decoders::new(reader.layouts(), decoder_of)?);
        let fetches = downloader.map(|(fetches, _)| fetches);
        let inner = Own::new(Arc::new(reader), "the reader belongs to the process that made it");
        Ok(Self { inner, decoders, fetches })
    }

    /// Returns sample `id` as a dict of its columns; fetches its shard if it is not resident, up to `attempts` times.
    fn sample<'py>(&self, py: Python<'py>, id: u64, attempts: u32) -> PyResult<Bound<'py, PyDict>> {
        let mut buffer = Vec::new();
        let found = enter::enter(py, || self.inner()?.read(SampleId(id), &mut buffer))?;
        let (buffer, found) = match found {
            Some(found) => (buffer, found),
            None => {
                let reader = enter::enter(py, || self.inner().cloned())?;
                serve(py, self.fetches.as_ref())?;
                fetch_and_read(py, reader, SampleId(id), buffer, attempts)?
            }
        };
        self.decoders.sample(py, found.layout, &buffer[..found.bytes])
    }

    /// Returns the columns of sample `id`: name, kind of value, value; fetches its shard if it is not resident. A null
    /// of a table has the kind "null".
    fn columns<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyList>> {
        let sample = SampleId(id);
        let reader = enter::enter(py, || self.inner().cloned())?;
        let locate = |e: Error| reader.located(e.with("sample", id), sample);
        if let Some(stored) = enter::enter(py, || reader.stored(sample, LARGE_BYTES))?
            && let Some(columns) = decoded_in_parts(py, &stored, &locate)?
        {
            return Ok(columns);
        }
        let mut buffer = Vec::new();
        let found = enter::enter(py, || reader.read(sample, &mut buffer))?;
        let (buffer, found) = match found {
            Some(found) => (buffer, found),
            None => fetch_and_read(py, reader.clone(), sample, buffer, worker::ATTEMPTS)?,
        };
        decoded(py, &reader.layouts()[found.layout], &buffer[..found.bytes], found.is_row, &locate)
    }

    /// Returns the stored file of sample `id` and its position there, for an error.
    fn facts(&self, py: Python<'_>, id: u64) -> PyResult<Vec<(&'static str, String)>> {
        enter::enter(py, || {
            let facts = self.inner()?.located(Error::config(""), SampleId(id));
            Ok(facts.context().to_vec())
        })
    }

    /// Returns sample `id` if its shard is resident, else None.
    fn sample_here<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut buffer = Vec::new();
        let found = enter::enter(py, || self.inner()?.read(SampleId(id), &mut buffer))?;
        found.map(|found| self.decoders.sample(py, found.layout, &buffer[..found.bytes])).transpose()
    }

    /// Fetches shard `shard` if it is not resident. Without `blocking`, skips a shard that a different process is
    /// fetching.
    fn fetch(&self, py: Python<'_>, shard: u32, blocking: bool) -> PyResult<()> {
        let reader = enter::enter(py, || self.inner().cloned())?;
        serve(py, self.fetches.as_ref())?;
        enter::apart(py, move || {
            if blocking { reader.fetch(ShardId(shard)) } else { reader.try_fetch(ShardId(shard)).map(|_| ()) }
        })
    }

    /// Evicts shard `shard`; returns False if it is not resident or in use.
    fn evict(&self, py: Python<'_>, shard: u32) -> PyResult<bool> {
        enter::enter(py, || self.inner()?.evict(ShardId(shard)))
    }

    /// Evicts the least recently used shard and returns its number; None if no shard can be fetched again.
    fn evict_coldest(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        enter::enter(py, || Ok(self.inner()?.evict_coldest()?.map(|shard| shard.0)))
    }

    /// Bytes of indexes and shards in the local folders.
    fn bytes_here(&self, py: Python<'_>) -> PyResult<u64> {
        enter::enter(py, || self.inner()?.bytes_here())
    }
}

/// Order of an epoch for all workers of a rank.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Plan(EpochPlan, Rank);

impl Plan {
    fn worker(&self, worker: u32) -> WorkerOrder {
        self.0.worker(self.1, worker)
    }
}

#[pymethods]
impl Plan {
    /// Plans the epoch of `arguments` for `rank`.
    #[new]
    fn new(py: Python<'_>, data: &DataSet, arguments: PlanArguments, rank: u32) -> PyResult<Self> {
        let plan = enter::enter(py, || {
            let (order, shares, start) = arguments.resolve()?;
            let world = arguments.world();
            Ok(EpochPlan::of_shares(data.0.shape(), &order, shares, world, start.epoch, Some(&start))?)
        })?;
        crate::order::warn(py, plan.warnings())?;
        Ok(Self(plan, Rank(rank)))
    }

    /// Returns the ids of `worker`, padded with -1, as the bytes of int64.
    fn ids<'py>(&self, py: Python<'py>, worker: u32) -> PyResult<Bound<'py, PyBytes>> {
        let ids = enter::enter(py, || Ok(self.worker(worker).flat_map(i64::to_ne_bytes).collect::<Vec<u8>>()))?;
        Ok(PyBytes::new(py, &ids))
    }
}

/// Samples of one worker in one epoch, as an iterator of dicts.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Samples {
    /// None after the end.
    state: Own<Mutex<Option<WorkerState>>>,
    decoders: Arc<Decoders>,
    /// The reader's queue.
    fetches: Option<Py<Fetches>>,
    /// Samples of the worker that were returned or left out.
    taken: AtomicU64,
}

struct WorkerState {
    epoch: Epoch,
    /// Samples that a call has taken but not returned, after Ctrl-C or an error; returned next. At most one per thread.
    owed: VecDeque<SampleId>,
    /// Buffer of one sample, reused for each sample.
    buffer: Vec<u8>,
}

impl WorkerState {
    fn next_sample(&mut self) -> Result<Option<SampleId>> {
        match self.owed.pop_front() {
            Some(sample) => Ok(Some(sample)),
            None => self.epoch.next_sample(),
        }
    }
}

/// Next step of an iteration.
enum Step {
    Read(Vec<u8>, SampleInfo),
    Fetch(Arc<SampleReader>, SampleId, Vec<u8>),
    End,
}

impl Samples {
    /// Runs `body` on the state; `None` after the end.
    fn with<T>(&self, body: impl FnOnce(&mut WorkerState) -> Result<Option<T>>) -> Result<Option<T>> {
        let mut state = self.state.get()?.lock();
        let Some(inner) = &mut *state else { return Ok(None) };
        let result = body(inner);
        if !matches!(result, Ok(Some(_))) {
            // At the end or after an error, the prefetch thread is dropped too.
            *state = None;
        }
        result
    }

    /// Runs `body` on the state, unless the iteration has ended.
    fn update(&self, body: impl FnOnce(&mut WorkerState)) {
        if let Ok(state) = self.state.get()
            && let Some(state) = &mut *state.lock()
        {
            body(state);
        }
    }
}

#[pymethods]
impl Samples {
    /// Starts `worker` of `plan` after its first `left_out` samples, with shards fetched `predownload` samples ahead.
    #[new]
    #[pyo3(signature = (reader, plan, worker, predownload, left_out=0))]
    fn new(
        py: Python<'_>,
        reader: &Reader,
        plan: &Plan,
        worker: u32,
        predownload: usize,
        left_out: usize,
    ) -> PyResult<Self> {
        let inner = enter::enter(py, || reader.inner().cloned())?;
        let epoch = enter::enter(py, || {
            let mut order = plan.worker(worker);
            // Padding is no sample.
            order.by_ref().filter(|id| *id >= 0).take(left_out).for_each(drop);
            Ok(Epoch::new(inner, order, predownload))
        })?;
        let state = Mutex::new(Some(WorkerState { epoch, owed: VecDeque::new(), buffer: Vec::new() }));
        let state =
            Own::new(state, "the iterator belongs to the process that made it: iterate over the data set again");
        let fetches = reader.fetches.as_ref().map(|fetches| fetches.clone_ref(py));
        Ok(Self { state, decoders: reader.decoders.clone(), fetches, taken: AtomicU64::new(left_out as u64) })
    }

    /// Samples of the worker that were returned, and those that were left out.
    #[getter]
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // This lock is never held together with the interpreter's: two threads with one each would deadlock.
        let mut fetches_ahead = false;
        let step = enter::enter(py, || {
            let step = self.with(|state| {
                let Some(sample) = state.next_sample()? else { return Ok(None) };
                fetches_ahead = state.epoch.fetches_ahead();
                let mut buffer = std::mem::take(&mut state.buffer);
                Ok(Some(match state.epoch.reader().read(sample, &mut buffer)? {
                    Some(found) => Step::Read(buffer, found),
                    None => Step::Fetch(state.epoch.reader().clone(), sample, buffer),
                }))
            })?;
            Ok(step.unwrap_or(Step::End))
        })?;
        if fetches_ahead || matches!(step, Step::Fetch(..)) {
            serve(py, self.fetches.as_ref())?;
        }
        let (buffer, found) = match step {
            Step::Read(buffer, found) => (buffer, found),
            Step::Fetch(reader, sample, buffer) => {
                let fetched = fetch_and_read(py, reader, sample, buffer, worker::ATTEMPTS);
                fetched.inspect_err(|_| self.update(|state| state.owed.push_back(sample)))?
            }
            Step::End => return Err(PyStopIteration::new_err(())),
        };
        let sample = self.decoders.sample(py, found.layout, &buffer[..found.bytes]);
        self.update(|state| state.buffer = buffer);
        self.taken.fetch_add(1, Ordering::Relaxed);
        sample
    }

    /// Returns the next sample's id without reading the sample; None at the end.
    fn next_id(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let mut fetches_ahead = false;
        let id = enter::enter(py, || {
            self.with(|state| {
                let sample = state.next_sample()?;
                fetches_ahead = state.epoch.fetches_ahead();
                Ok(sample.map(|sample| sample.0))
            })
        })?;
        if fetches_ahead {
            serve(py, self.fetches.as_ref())?;
        }
        self.taken.fetch_add(id.is_some().into(), Ordering::Relaxed);
        Ok(id)
    }

    /// Ends the iteration.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || self.with(|_| Ok(None::<()>)).map(|_| ()))
    }
}

/// Starts the thread that fetches the files of streams without an engine transport.
fn serve(py: Python<'_>, fetches: Option<&Py<Fetches>>) -> PyResult<()> {
    fetches.map_or(Ok(()), |fetches| Fetches::serve(fetches.bind(py)))
}

/// Fetches a sample's shard in a separate thread, so that Ctrl-C works, and reads the sample.
fn fetch_and_read(
    py: Python<'_>,
    reader: Arc<SampleReader>,
    sample: SampleId,
    mut buffer: Vec<u8>,
    attempts: u32,
) -> PyResult<(Vec<u8>, SampleInfo)> {
    enter::apart(py, move || {
        let found = reader.fetch_and_read(sample, &mut buffer, attempts)?;
        Ok((buffer, found))
    })
}
