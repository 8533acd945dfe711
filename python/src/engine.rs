//! Loader of the engine, one for each device.

use crate::library::LibraryStores;
use crate::own::Own;
use crate::rows::{Row, WithRows, is_long, moved, text};
use crate::tensor::Tensor;
use crate::{enter, error};
use forebay_gpu::{Libraries, open_delivery};
use forebay_loader::KnownColumn;
use forebay_loader::batch::{Batch, Output, RowBytes};
use forebay_loader::config::LoaderConfig;
use forebay_loader::error::{Error, ErrorKind, Result};
use forebay_loader::loader::{Description, Held, Loader, Next, StartedEpoch};
use forebay_loader::session;
use forebay_loader::state::LoaderState;
use forebay_loader::stats::{Snapshot, TimeKind, interval};
use forebay_loader::sync::{Arc, Mutex, OnceLock};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Loader of the engine.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Engine(Arc<DeviceEngine>);

/// Loader of one device, which a session drives.
pub(crate) struct DeviceEngine {
    /// None after `close`.
    loader: Own<Mutex<Option<Arc<Loader>>>>,
    /// Figures that stay available after `close`.
    last: OnceLock<Last>,
    rank: u32,
    batch_size: u32,
}

/// Figures of a closed loader.
struct Last {
    stats: Snapshot,
    trace: Option<String>,
}

impl Last {
    fn of(loader: &Loader) -> Result<Self> {
        Ok(Self { stats: loader.stats()?, trace: loader.trace_json()? })
    }
}

impl DeviceEngine {
    fn loader(&self) -> Result<Arc<Loader>> {
        let loader = self.loader.get()?.lock().clone();
        loader.ok_or_else(|| Error::new(ErrorKind::Closed, "the loader is closed"))
    }

    fn snapshot(&self) -> Result<Snapshot> {
        match self.last.get() {
            Some(last) => Ok(last.stats.clone()),
            None => self.loader()?.stats(),
        }
    }
}

impl session::Engine for DeviceEngine {
    type Item = Batch;
    type Started = Option<StartedEpoch>;
    type Saved = LoaderState;

    fn start(&self) -> Result<Self::Started> {
        let loader = self.loader()?;
        loader.start_epoch()?;
        loader.started_epoch()
    }

    fn stop(&self, started: &Self::Started) {
        // After `close` there is nothing to stop.
        if let (Some(epoch), Ok(loader)) = (started, self.loader()) {
            let _ = loader.stop_epoch(epoch);
        }
    }

    fn next_within(&self, limit: Duration) -> Result<Next> {
        self.loader()?.next_within(limit)
    }

    fn state(&self, before: Option<(u64, Held)>) -> Result<LoaderState> {
        let loader = self.loader()?;
        before.map_or_else(|| loader.state(), |(number, held)| loader.state_before(number, held))
    }

    fn load(&self, state: &LoaderState, strict: bool) -> Result<()> {
        self.loader()?.load_state(state, strict)
    }

    fn batches(&self) -> Result<u64> {
        self.loader()?.batches()
    }

    fn batches_from(&self, sample: u64) -> Result<u64> {
        self.loader()?.batches_from(sample)
    }

    fn skipped(&self) -> Result<u64> {
        let counters = self.snapshot()?.counters;
        Ok(counters.into_iter().find(|(name, _)| *name == "samples_skipped").map_or(0, |(_, count)| count))
    }

    fn close(&self) -> Result<()> {
        if self.last.get().is_some() {
            return Ok(());
        }
        let loader = self.loader()?;
        loader.close()?;
        // In this order, so that a thread that finds no loader finds its last figures.
        let last = Last::of(&loader)?;
        self.last.get_or_init(|| last);
        self.loader.get()?.lock().take();
        Ok(())
    }
}

impl Engine {
    pub(crate) fn device(&self) -> Arc<DeviceEngine> {
        self.0.clone()
    }
}

#[pymethods]
impl Engine {
    /// Opens the data set of the JSON document `config` for batches on `device`. `library` serves the stores of the
    /// schemes that the engine has no transport for.
    #[new]
    fn new(py: Python<'_>, config: &str, device: &str, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        let (config, device) = (config.to_owned(), device.to_owned());
        // Wheels install NVIDIA's libraries in Python's package folders.
        let packages = py.import("sys")?.getattr("path")?.extract::<Vec<Bound<'_, PyAny>>>()?;
        let packages = packages.iter().filter_map(|folder| folder.extract::<PathBuf>().ok()).collect();
        let libraries = Libraries { packages, ..Libraries::default() };
        let loader = enter::apart(py, move || {
            let config = LoaderConfig::from_json(&config)?;
            // Before a device is opened.
            config.validate()?;
            let target = open_delivery(&device, config.world.local_rank, &libraries)?;
            Loader::with_library(config, Arc::new(WithRows::new(target)), library)
        })?;
        let loader = Arc::new(loader);
        let (rank, batch_size) = (loader.config().world.rank, loader.config().batch_size);
        let elsewhere = "a loader belongs to the process that made it: make one in each process";
        let loader = Own::new(Mutex::new(Some(loader)), elsewhere);
        Ok(Self(Arc::new(DeviceEngine { loader, last: OnceLock::new(), rank, batch_size })))
    }

    /// Describes the data set of `config` as JSON: the number of its samples, their bytes, its columns, whether samples
    /// may have more, and a digest.
    #[staticmethod]
    fn describe(py: Python<'_>, config: String, library: Option<Py<LibraryStores>>) -> PyResult<String> {
        let library = LibraryStores::stores(library.as_ref());
        // In a separate thread, so that Ctrl-C works: an index may have to be made.
        let found = enter::apart(py, move || Description::of(&LoaderConfig::from_json(&config)?, library))?;
        let column = |known: &KnownColumn| {
            let KnownColumn { column, is_optional } = known;
            let (name, encoding) = (&column.name, column.encoding.to_string());
            json!({"name": name, "encoding": encoding, "bytes": column.size, "is_optional": is_optional})
        };
        let Description { samples, bytes, columns, may_have_more, digest } = found;
        let columns: Vec<_> = columns.iter().map(column).collect();
        let described = json!({
            "samples": samples,
            "bytes": bytes,
            "columns": columns,
            "may_have_more": may_have_more,
            "digest": digest,
        });
        Ok(described.to_string())
    }

    /// Number of batches of a whole epoch.
    fn batches(&self, py: Python<'_>) -> PyResult<u64> {
        enter::enter(py, || self.0.loader()?.batches())
    }

    /// Number of batches of an epoch that is resumed at `sample_in_epoch`.
    fn batches_from(&self, py: Python<'_>, sample_in_epoch: u64) -> PyResult<u64> {
        enter::enter(py, || self.0.loader()?.batches_from(sample_in_epoch))
    }

    /// Returns the epoch of a step, counted through all epochs, and its batch there.
    fn place_of_step(&self, py: Python<'_>, step: u64) -> PyResult<(u64, u64)> {
        enter::enter(py, || self.0.loader()?.place_of_step(step))
    }

    /// Number of the first step of `epoch`.
    fn first_step_of(&self, py: Python<'_>, epoch: u64) -> PyResult<u64> {
        enter::enter(py, || self.0.loader()?.first_step_of(epoch))
    }

    /// Number of samples or packs of an epoch, of all ranks together.
    fn epoch_samples(&self, py: Python<'_>) -> PyResult<u64> {
        enter::enter(py, || self.0.loader()?.epoch_samples())
    }

    /// Names of the classes of each stream.
    fn classes(&self, py: Python<'_>) -> PyResult<Vec<Option<Vec<String>>>> {
        enter::enter(py, || Ok(self.0.loader()?.classes()))
    }

    /// Returns the samples of `rank` in batch `batch` of `epoch` as JSON.
    fn samples_of(&self, py: Python<'_>, epoch: u64, batch: u64, rank: u32) -> PyResult<String> {
        enter::enter(py, || {
            let samples = self.0.loader()?.samples_of(epoch, batch, rank)?;
            Ok(serde_json::to_string(&samples).expect("plain numbers and text"))
        })
    }

    /// Returns the sample with an index in a shard of a stream as JSON.
    fn sample(&self, py: Python<'_>, stream: u32, shard: u32, index: u32) -> PyResult<String> {
        enter::enter(py, || {
            let sample = self.0.loader()?.sample(stream, shard, index)?;
            Ok(serde_json::to_string(&sample).expect("plain numbers and text"))
        })
    }

    /// Adds the seconds that the workers of a `Map` were busy, waited for samples, waited for the consumer, had a CPU
    /// and waited for one, the number of samples, and the seconds that the consumer waited for them.
    fn add_map_times(
        &self,
        py: Python<'_>,
        seconds: (f64, f64, f64, f64, f64),
        samples: u64,
        waited: f64,
    ) -> PyResult<()> {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let (busy, input, output, cpu, delay) = seconds;
        let times = [(TimeKind::Busy, busy), (TimeKind::Input, input), (TimeKind::Output, output)];
        let times = times.map(|(kind, seconds)| (kind, time(seconds)));
        enter::enter(py, || self.0.loader()?.add_map_times((times, time(cpu), time(delay)), samples, time(waited)))
    }

    /// Counts samples that a `Map` has left out.
    fn add_skipped(&self, py: Python<'_>, samples: u64) -> PyResult<()> {
        enter::enter(py, || self.0.loader()?.add_skipped(samples))
    }

    /// Moves to the position of the JSON document `state`, for an engine without a session.
    fn load_state_dict(&self, py: Python<'_>, state: &str, strict: bool) -> PyResult<()> {
        enter::enter(py, || self.0.loader()?.load_state(&LoaderState::from_json(state)?, strict))
    }

    /// True if threads make batches.
    fn runs(&self, py: Python<'_>) -> PyResult<bool> {
        enter::enter(py, || Ok(self.0.loader()?.started_epoch()?.is_some()))
    }

    /// Returns the figures of all stages as JSON, summed over the engines of a loader.
    #[staticmethod]
    fn stats(py: Python<'_>, engines: Vec<Py<Self>>) -> PyResult<String> {
        let all = || engines.iter().map(|engine| engine.get().0.snapshot()).collect::<Result<Vec<_>>>();
        enter::enter(py, || all().map(|all| Snapshot::sum(all).json().to_string()))
    }

    /// Returns the figures of the interval since an `earlier` call as JSON, and the text for the next call.
    #[staticmethod]
    fn interval(py: Python<'_>, engines: Vec<Py<Self>>, earlier: Option<&str>) -> PyResult<(String, String)> {
        enter::enter(py, || {
            let all = engines.iter().map(|engine| engine.get().0.snapshot()).collect::<Result<Vec<_>>>();
            let now = Snapshot::sum(all?).observed(engines.first().map_or(0, |engine| engine.get().0.batch_size));
            let earlier = earlier.and_then(|text| serde_json::from_str(text).ok());
            Ok((interval(&now, earlier.as_ref()).to_string(), now.to_string()))
        })
    }

    /// Returns the same figures as Prometheus text.
    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        enter::enter(py, || Ok(self.0.snapshot()?.prometheus(&format!("rank=\"{}\"", self.0.rank))))
    }

    /// Returns the trace, if tracing is on.
    fn trace_json(&self, py: Python<'_>) -> PyResult<Option<String>> {
        enter::enter(py, || match self.0.last.get() {
            Some(last) => Ok(last.trace.clone()),
            None => self.0.loader()?.trace_json(),
        })
    }

    /// Ends the loader: threads, files, locks and pools are gone, unless a different thread is still in a call.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || session::Engine::close(&*self.0))
    }
}

/// Returns the outputs of a batch as a dict in the order of the fields. The batch stays as it is, for a call after an
/// error, unless it has [long](is_long) rows.
pub(crate) fn dict_of<'py>(py: Python<'py>, batch: &mut Batch) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, output) in &mut batch.outputs {
        match output {
            Output::Tensor(tensor) => dict.set_item(&**name, Bound::new(py, Tensor::new(tensor.clone()))?)?,
            Output::Text(rows) if rows.iter().any(|row| is_long(row.len())) => {
                let texts = std::mem::take(rows).into_iter().map(|row| text(py, row)).collect::<PyResult<Vec<_>>>()?;
                dict.set_item(&**name, PyList::new(py, texts)?)?;
            }
            Output::Text(rows) => dict.set_item(&**name, &*rows)?,
            Output::Bytes(rows) => {
                let rows = rows.iter().map(|row| object(py, row)).collect::<PyResult<Vec<_>>>()?;
                dict.set_item(&**name, PyList::new(py, rows)?)?;
            }
            Output::Ragged(rows) => {
                let rows = rows.iter_mut().map(|row| array(py, row)).collect::<PyResult<Vec<_>>>()?;
                let rows = PyList::new(py, rows)?.unbind();
                dict.set_item(&**name, Bound::new(py, Ragged { rows })?)?;
            }
        }
    }
    for (name, number) in &batch.numbers {
        dict.set_item(*name, *number)?;
    }
    Ok(dict)
}

/// Returns a row of bytes: the object that it was read into, or a copy.
fn object(py: Python<'_>, row: &RowBytes) -> PyResult<Py<PyBytes>> {
    match row {
        RowBytes::Engine(bytes) => copied(py, bytes),
        RowBytes::Consumer(row) => match row.as_any().downcast_ref::<Row>() {
            Some(row) => Ok(row.delivered(py)),
            None => Err(error::to_python(py, &Error::internal("a row in memory that is not Python's"))),
        },
    }
}

/// Returns true if [`dict_of`] leaves the batch as it is after an error.
pub(crate) fn stays_whole(batch: &Batch) -> bool {
    batch.outputs.iter().all(|(_, output)| match output {
        Output::Text(rows) => !rows.iter().any(|row| is_long(row.len())),
        Output::Ragged(rows) => !rows.iter().any(|row| is_long(row.len())),
        Output::Tensor(_) | Output::Bytes(_) => true,
    })
}

/// Returns an encoded array: a copy in `bytes`, or a `bytearray` that takes the place of a long one.
fn array(py: Python<'_>, row: &mut Vec<u8>) -> PyResult<Py<PyAny>> {
    if is_long(row.len()) { Ok(moved(py, row)?.unbind()) } else { Ok(copied(py, row)?.into_any()) }
}

/// Raises MemoryError without memory, where `PyBytes::new` panics.
fn copied(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyBytes>> {
    let copy = |to: &mut [u8]| {
        to.copy_from_slice(bytes);
        Ok(())
    };
    PyBytes::new_with(py, bytes.len(), copy).map(Bound::unbind)
}

/// Arrays of different shapes, each in an encoding of type, dimensions and values.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Ragged {
    rows: Py<PyList>,
}

#[pymethods]
impl Ragged {
    /// One encoded array per row, in a `bytearray` if it is long.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> &Bound<'py, PyList> {
        self.rows.bind(py)
    }
}
