//! Loader of the engine, one for each device.

use crate::outside::Outside;
use crate::own::Own;
use crate::rows::{Row, WithRows};
use crate::tensor::Tensor;
use crate::{enter, error};
use forebay_gpu::{Libraries, open_delivery};
use forebay_loader::KnownColumn;
use forebay_loader::batch::{Batch, Output, RowBytes};
use forebay_loader::config::LoaderConfig;
use forebay_loader::error::{Error, ErrorKind, Result};
use forebay_loader::loader::{self, Description, Held, Loader, Next};
use forebay_loader::state::LoaderState;
use forebay_loader::stats::{Snapshot, TimeKind};
use forebay_loader::sync::{Arc, Mutex, OnceLock, Weak};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Loader of the engine.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Engine {
    /// None after `close`.
    loader: Own<Mutex<Option<Arc<Loader>>>>,
    /// Figures that stay available after `close`.
    last: OnceLock<Last>,
    rank: u32,
}

/// Figures of a closed loader.
struct Last {
    epoch: u64,
    stats: Snapshot,
    trace: Option<String>,
}

impl Last {
    fn of(loader: &Loader) -> Result<Self> {
        Ok(Self { epoch: loader.epoch()?, stats: loader.stats()?, trace: loader.trace_json()? })
    }
}

impl Engine {
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

#[pymethods]
impl Engine {
    /// Opens the data set of the JSON document `config` for batches on `device`. `outside` has the stores of the
    /// schemes that the engine has no transport for.
    #[new]
    fn new(py: Python<'_>, config: &str, device: &str, outside: Option<Py<Outside>>) -> PyResult<Self> {
        let outside = Outside::stores(outside.as_ref());
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
            Loader::with_outside(config, Arc::new(WithRows::new(target)), outside)
        })?;
        let loader = Arc::new(loader);
        let rank = loader.config().world.rank;
        let elsewhere = "a loader belongs to the process that made it: make one in each process";
        Ok(Self { loader: Own::new(Mutex::new(Some(loader)), elsewhere), last: OnceLock::new(), rank })
    }

    /// Describes the data set of `config` as JSON: the number of its samples, their bytes, its columns, whether samples
    /// may have others, and a digest.
    #[staticmethod]
    fn describe(py: Python<'_>, config: String, outside: Option<Py<Outside>>) -> PyResult<String> {
        let outside = Outside::stores(outside.as_ref());
        // In a separate thread, so that Ctrl-C works: an index may have to be made.
        let found = enter::apart(py, move || Description::of(&LoaderConfig::from_json(&config)?, outside))?;
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
        enter::enter(py, || self.loader()?.batches())
    }

    /// Number of batches of an epoch that is resumed at `sample_in_epoch`.
    fn batches_from(&self, py: Python<'_>, sample_in_epoch: u64) -> PyResult<u64> {
        enter::enter(py, || self.loader()?.batches_from(sample_in_epoch))
    }

    /// Number of samples of an epoch, of all ranks together.
    fn epoch_samples(&self, py: Python<'_>) -> PyResult<u64> {
        enter::enter(py, || self.loader()?.epoch_samples())
    }

    /// Names of the classes of each stream.
    fn classes(&self, py: Python<'_>) -> PyResult<Vec<Option<Vec<String>>>> {
        enter::enter(py, || Ok(self.loader()?.classes()))
    }

    /// Epoch that the next `start` runs.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        enter::enter(py, || match self.last.get() {
            Some(last) => Ok(last.epoch),
            None => self.loader()?.epoch(),
        })
    }

    /// Returns the samples of `rank` in batch `batch` of `epoch` as JSON.
    fn samples_of(&self, py: Python<'_>, epoch: u64, batch: u64, rank: u32) -> PyResult<String> {
        enter::enter(py, || {
            let samples = self.loader()?.samples_of(epoch, batch, rank)?;
            Ok(serde_json::to_string(&samples).expect("plain numbers and text"))
        })
    }

    /// Returns the sample with an index in a shard of a stream as JSON.
    fn sample(&self, py: Python<'_>, stream: u32, shard: u32, index: u32) -> PyResult<String> {
        enter::enter(py, || {
            let sample = self.loader()?.sample(stream, shard, index)?;
            Ok(serde_json::to_string(&sample).expect("plain numbers and text"))
        })
    }

    /// Adds the seconds that the workers of a `Map` were busy, waited for samples and waited for the consumer, the
    /// number of samples, and the seconds that the consumer waited for them.
    fn add_map_times(&self, py: Python<'_>, seconds: (f64, f64, f64), samples: u64, waited: f64) -> PyResult<()> {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let (busy, input, output) = seconds;
        let times = [(TimeKind::Busy, busy), (TimeKind::Input, input), (TimeKind::Output, output)];
        let times = times.map(|(kind, seconds)| (kind, time(seconds)));
        enter::enter(py, || self.loader()?.add_map_times(times, samples, time(waited)))
    }

    /// Counts samples that a `Map` has left out.
    fn add_skipped(&self, py: Python<'_>, samples: u64) -> PyResult<()> {
        enter::enter(py, || self.loader()?.add_skipped(samples))
    }

    /// Starts the next epoch, or resumes the loaded position.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let loader = enter::enter(py, || self.loader())?;
        enter::apart(py, move || loader.start_epoch())
    }

    /// Returns the epoch that was started last, if it has not ended. It ends when the object is dropped.
    fn started_epoch(&self, py: Python<'_>) -> PyResult<Option<StartedEpoch>> {
        enter::enter(py, || {
            let loader = self.loader()?;
            let epoch = loader.started_epoch()?;
            Ok(epoch.map(|epoch| StartedEpoch { loader: Arc::downgrade(&loader), epoch, pid: std::process::id() }))
        })
    }

    /// Returns the next batch's outputs by name; None at the end of the epoch.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = enter::wait(py, || match self.loader()?.next_within(enter::SIGNALS_EVERY)? {
            Next::Batch(batch) => Ok(Some(Some(batch))),
            Next::End => Ok(Some(None)),
            Next::Pending => Ok(None),
        })?;
        next.map(|batch| outputs(py, batch)).transpose()
    }

    /// Returns the next batch in a list if it is ready, or None in a list at the end of the epoch, otherwise an empty
    /// list.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Vec<Option<Bound<'py, PyDict>>>> {
        Ok(match enter::enter(py, || self.loader()?.next_within(Duration::ZERO))? {
            Next::Batch(batch) => vec![Some(outputs(py, batch)?)],
            Next::End => vec![None],
            Next::Pending => Vec::new(),
        })
    }

    /// Returns the loader's position as JSON: before batch `pending`, counted from `start`, or after all batches.
    /// `held` is "in flight" or "failed" for a batch by itself, which is delivered later if it has failed, and "all"
    /// for that batch and all after it, which are delivered later.
    fn state_dict(&self, py: Python<'_>, pending: Option<u64>, held: &str) -> PyResult<String> {
        let held = match held {
            "in flight" => Held::InFlight,
            "failed" => Held::Failed,
            _ => Held::All,
        };
        enter::enter(py, || {
            let loader = self.loader()?;
            let state = pending.map_or_else(|| loader.state(), |number| loader.state_before(number, held))?;
            Ok(state.to_json())
        })
    }

    /// Makes the next `start` resume the position of the JSON document `state`.
    fn load_state_dict(&self, py: Python<'_>, state: &str, strict: bool) -> PyResult<()> {
        enter::enter(py, || self.loader()?.load_state(&LoaderState::from_json(state)?, strict))
    }

    /// Returns the figures of all stages as JSON, summed over the engines of a loader.
    #[staticmethod]
    fn stats(py: Python<'_>, engines: Vec<Py<Self>>) -> PyResult<String> {
        let all = || engines.iter().map(|engine| engine.get().snapshot()).collect::<Result<Vec<_>>>();
        enter::enter(py, || all().map(|all| Snapshot::sum(all).json().to_string()))
    }

    /// Returns the same figures as Prometheus text.
    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        enter::enter(py, || Ok(self.snapshot()?.prometheus(&format!("rank=\"{}\"", self.rank))))
    }

    /// Returns the trace, if tracing is on.
    fn trace_json(&self, py: Python<'_>) -> PyResult<Option<String>> {
        enter::enter(py, || match self.last.get() {
            Some(last) => Ok(last.trace.clone()),
            None => self.loader()?.trace_json(),
        })
    }

    /// Ends the loader: threads, files, locks and pools are gone, unless another thread is still in a call.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || {
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
        })
    }
}

/// An epoch that ends when this is dropped, unless it has ended before.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct StartedEpoch {
    loader: Weak<Loader>,
    epoch: loader::StartedEpoch,
    /// Process that started it.
    pid: u32,
}

impl Drop for StartedEpoch {
    fn drop(&mut self) {
        // A forked child has no threads to end.
        let Some(loader) = self.loader.upgrade().filter(|_| self.pid == std::process::id()) else { return };
        let stop = || {
            // The only error is that of a forked child.
            let _ = loader.stop_epoch(&self.epoch);
        };
        // Threads are joined without the interpreter's lock. While the interpreter ends there is no lock to release.
        let mut stop = Some(stop);
        let mut run = || stop.take().into_iter().for_each(|stop| stop());
        Python::try_attach(|py| py.detach(&mut run));
        run();
    }
}

/// Returns a batch as a dict in the order of the fields.
fn outputs(py: Python<'_>, batch: Batch) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, output) in batch.outputs {
        match output {
            Output::Tensor(tensor) => dict.set_item(&*name, Bound::new(py, Tensor::new(tensor))?)?,
            Output::Text(rows) => dict.set_item(&*name, rows)?,
            Output::Bytes(rows) => {
                let rows = rows.into_iter().map(|row| object(py, row)).collect::<PyResult<Vec<_>>>()?;
                dict.set_item(&*name, PyList::new(py, rows)?)?;
            }
            Output::Ragged(rows) => {
                let rows = bytes(py, &rows)?.unbind();
                dict.set_item(&*name, Bound::new(py, Ragged { rows })?)?;
            }
        }
    }
    Ok(dict)
}

/// Returns a row of bytes: the object that it was read into, or a copy.
fn object(py: Python<'_>, row: RowBytes) -> PyResult<Py<PyBytes>> {
    match row {
        RowBytes::Engine(bytes) => Ok(PyBytes::new(py, &bytes).unbind()),
        RowBytes::Consumer(row) => match row.into_any().downcast::<Row>() {
            Ok(row) => Ok(row.into_object()),
            Err(_) => Err(error::to_python(py, &Error::internal("a row in memory that is not Python's"))),
        },
    }
}

fn bytes<'py>(py: Python<'py>, rows: &[Vec<u8>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, rows.iter().map(|row| PyBytes::new(py, row)))
}

/// Arrays of different shapes, each in the MDS encoding of type, dimensions and values.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Ragged {
    rows: Py<PyList>,
}

#[pymethods]
impl Ragged {
    /// One encoded array per row.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> &Bound<'py, PyList> {
        self.rows.bind(py)
    }
}
