//! The iteration of a loader: its epochs, its iterators, and the batches between the engines and the loop.
//!
//! [`forebay_loader::session`] has the states. Python's objects are items there, so that an interrupt loses none.

use crate::engine::{DeviceEngine, Engine, dict_of, stays_whole};
use crate::own::Own;
use crate::{enter, error};
use forebay_loader::batch::Batch;
use forebay_loader::error::{Error, ErrorKind, Result};
use forebay_loader::session::{self, Ahead, Setup, SkipLimit, Step, Take, TrainerPosition};
use forebay_loader::state::LoaderState;
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use serde_json::Value;
use std::time::Duration;

/// Keys of a state, in addition to the engine's. They are absent where the epoch of the trainer is the loader's.
const TRAINER_EPOCH: &str = "trainer_epoch";
const IS_OVER: &str = "trainer_epoch_is_over";

/// Returns the trainer's epoch in a state.
///
/// # Errors
///
/// `State` for a value of a different type.
fn trainer_position(state: &str) -> Result<TrainerPosition> {
    let document: Value = serde_json::from_str(state).unwrap_or_default();
    let value = |key: &str| document.get(key).filter(|value| !value.is_null());
    let bad = |key: &str, expected: &str| {
        Error::new(ErrorKind::State, format!("the checkpoint of the loader: {key} is {expected}"))
    };
    let epoch = value(TRAINER_EPOCH).map(|epoch| epoch.as_u64().ok_or_else(|| bad(TRAINER_EPOCH, "a whole number")));
    let is_over = value(IS_OVER).map_or(Some(false), Value::as_bool).ok_or_else(|| bad(IS_OVER, "true or false"))?;
    Ok(TrainerPosition { epoch: epoch.transpose()?, is_over })
}

const ELSEWHERE: &str = "a loader belongs to the process that made it: make one in each process";

/// Item of a batch of one engine.
pub(crate) enum Item {
    Batch(Batch),
    /// The outputs as a dict, or the object that the package has put instead. None while it is dropped.
    Object(Option<Py<PyAny>>),
    /// A batch that was lost when there was no memory for a long row.
    Lost,
}

impl Drop for Item {
    /// Drops an object at once, also in a thread without the interpreter's lock: a batch has memory that the loader
    /// waits for. No item is dropped under a lock.
    fn drop(&mut self) {
        if let Self::Object(object @ Some(_)) = self {
            Python::try_attach(|_| drop(object.take()));
        }
    }
}

impl From<Batch> for Item {
    fn from(batch: Batch) -> Self {
        Self::Batch(batch)
    }
}

impl Item {
    /// Returns the object, which replaces the engine's batch once it is complete: until then, such as without
    /// memory for it, the batch remains.
    fn object(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = match self {
            Self::Batch(batch) => {
                let stays_whole = stays_whole(batch);
                match dict_of(py, batch).and_then(|dict| dict.into_py_any(py)) {
                    Err(error) if !stays_whole => {
                        *self = Self::Lost;
                        return Err(error);
                    }
                    made => made?,
                }
            }
            Self::Lost => {
                let message = "a batch was lost because there was no memory for a long row: resume from a checkpoint";
                return Err(error::to_python(py, &Error::new(ErrorKind::Full, message)));
            }
            Self::Object(object) => {
                return Ok(object.as_ref().map_or_else(|| py.None(), |object| object.clone_ref(py)));
            }
        };
        *self = Self::Object(Some(made.clone_ref(py)));
        Ok(made)
    }
}

/// The items of a batch, taken out of it while objects are made of them: the interpreter may run any code meanwhile,
/// so they are not locked. The batch has them again afterwards, also if PyO3 panics because there is no memory.
struct Lent<'a> {
    batch: &'a session::HeldBatch<Item>,
    items: Vec<Item>,
}

impl<'a> Lent<'a> {
    fn of(batch: &'a session::HeldBatch<Item>) -> Self {
        Self { batch, items: batch.with_items(std::mem::take) }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.batch.with_items(|items| std::mem::swap(items, &mut self.items));
    }
}

type Iteration = session::Session<DeviceEngine, Item>;

/// The iteration of a loader over its engines.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Session(Own<Arc<Iteration>>);

impl Session {
    fn get(&self, py: Python<'_>) -> PyResult<&Arc<Iteration>> {
        self.0.get().map_err(|e| error::to_python(py, &e))
    }

    /// Waits for the turn, then moves the engines in a separate thread, so that Ctrl-C works. After an interrupt the
    /// move is completed there, and later calls wait for it.
    fn moving<T: Send + 'static>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(session::MoveTurn<DeviceEngine, Item>) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let session = self.get(py)?;
        let turn = enter::wait(py, || session.turn_within(enter::SIGNALS_EVERY))?;
        enter::apart(py, move || body(turn))
    }
}

#[pymethods]
impl Session {
    /// `skips` has the number of samples that an epoch may leave out, the rows of a full batch, and true if there are
    /// no further ranks.
    #[new]
    fn new(
        engines: Vec<Py<Engine>>,
        samples_per_step: u64,
        takes_ahead: bool,
        skips: Option<(u64, u64, bool)>,
    ) -> Self {
        let engines = engines.iter().map(|engine| engine.get().device()).collect();
        let skips = skips.map(|(errors_max, rows, is_alone)| SkipLimit { errors_max, rows, is_alone });
        let setup = Setup { samples_per_step, takes_ahead, skips };
        Self(Own::new(Arc::new(Iteration::new(engines, setup)), ELSEWHERE))
    }

    /// Epoch that the next pass runs.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.epoch())
    }

    /// Sample at which the next pass begins its epoch.
    #[getter]
    fn first_sample(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.first_sample())
    }

    /// True if the program has chosen the position of the next pass, or has started it.
    #[getter]
    fn is_placed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.is_placed())
    }

    /// Epoch and sample of a loaded position that the next batch will drop.
    #[getter]
    fn dropped_position(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        Ok(self.get(py)?.dropped_position())
    }

    /// Number of the batch that the next pass begins with.
    fn first_batch(&self, py: Python<'_>) -> PyResult<u64> {
        let session = self.get(py)?;
        enter::enter(py, || session.first_batch())
    }

    /// Returns the position after the delivered batches as JSON, with the trainer's epoch if it is not the loader's.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let session = self.get(py)?;
        enter::enter(py, || {
            let (state, trainer) = session.state()?;
            let Some(TrainerPosition { epoch: Some(epoch), is_over }) = trainer else { return Ok(state.to_json()) };
            let mut document = serde_json::to_value(&state).expect("plain maps and numbers");
            document[TRAINER_EPOCH] = epoch.into();
            if is_over {
                document[IS_OVER] = true.into();
            }
            Ok(document.to_string())
        })
    }

    /// Returns the state before a batch of an epoch as JSON.
    fn state_at(&self, py: Python<'_>, epoch: u64, batch: u64) -> PyResult<String> {
        let session = self.get(py)?;
        enter::enter(py, || Ok(session.state_at(epoch, batch)?.to_json()))
    }

    /// Makes the next pass resume the position of the JSON document `state`.
    fn load(&self, py: Python<'_>, state: &str, strict: bool) -> PyResult<()> {
        let trainer = trainer_position(state).map_err(|e| error::to_python(py, &e))?;
        let state = LoaderState::from_json(state).map_err(|e| error::to_python(py, &e))?;
        self.moving(py, move |turn| turn.load(&state, trainer, strict))
    }

    /// Makes the next pass begin with batch number `batch` of its epoch.
    fn seek(&self, py: Python<'_>, batch: u64) -> PyResult<()> {
        self.moving(py, move |turn| turn.seek(batch))
    }

    /// Makes the next pass run `epoch`.
    fn set_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<()> {
        self.moving(py, move |turn| turn.set_epoch(epoch))
    }

    /// Like `set_epoch`, for a trainer that may iterate the loader more or less than once in its epoch.
    fn follow_trainer(&self, py: Python<'_>, epoch: u64, repeats: bool) -> PyResult<()> {
        self.moving(py, move |turn| turn.follow_trainer(epoch, repeats))
    }

    /// Returns the batches in `epoch` of the trainer from the loaded position on. None: no state was loaded.
    fn rest_of_trainer_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<Option<u64>> {
        let session = self.get(py)?;
        enter::enter(py, || session.rest_of_trainer_epoch(epoch))
    }

    /// Makes the next pass deliver no batch.
    fn end_trainer_epoch(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.end_trainer_epoch();
        Ok(())
    }

    /// Begins a pass of the next epoch. An earlier one ends.
    fn begin(&self, py: Python<'_>) -> PyResult<Pass> {
        let handle = self.moving(py, |turn| turn.begin())?;
        Ok(Pass { handle: Own::new(handle, ELSEWHERE), has_no_batch: AtomicBool::new(false) })
    }

    /// Notes the rows of a batch of an engine, after the engine has left out samples.
    fn note_rows(&self, py: Python<'_>, engine: usize, number: u64, rows: u64) -> PyResult<()> {
        self.get(py)?.note_rows(engine, number, rows);
        Ok(())
    }

    /// Notes samples of a batch that the package has left out.
    fn note_failures(&self, py: Python<'_>, engine: usize, number: u64, failures: u64) -> PyResult<()> {
        self.get(py)?.note_failures(engine, number, failures);
        Ok(())
    }

    /// Returns the number of `failures` more in a batch that the package may leave out. Negative: the engine's samples
    /// have exceeded the bound already.
    fn skips_left(&self, py: Python<'_>, engine: usize, number: u64, failures: u64) -> PyResult<i64> {
        let session = self.get(py)?;
        enter::enter(py, || session.skips_left(engine, number, failures))
    }

    /// Ends the session and its engines.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.get(py)?;
        enter::enter(py, || session.close())
    }
}

/// One iterator. It ends when this is dropped: no more batches are made.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Pass {
    handle: Own<session::PassHandle<DeviceEngine, Item>>,
    /// The end of an epoch without a batch was found, and not reported yet.
    has_no_batch: AtomicBool,
}

impl Pass {
    /// Notes the end of the pass.
    fn end(&self, is_empty: bool) -> Option<Taken> {
        self.has_no_batch.fetch_or(is_empty, Ordering::Relaxed);
        None
    }

    fn get(&self, py: Python<'_>) -> PyResult<&session::PassHandle<DeviceEngine, Item>> {
        self.handle.get().map_err(|e| error::to_python(py, &e))
    }
}

#[pymethods]
impl Pass {
    /// True if a newer pass, a load or the end of the session has ended this one.
    #[getter]
    fn is_abandoned(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.is_abandoned())
    }

    /// Waits for the first batch that waits for a call, or a new one. None: the pass is over. With `shows` the caller
    /// releases it by `show`.
    fn take(&self, py: Python<'_>, shows: bool) -> PyResult<Option<Taken>> {
        let handle = self.get(py)?;
        // Usually this takes no time.
        let begun = match handle.take(shows, Duration::ZERO).map_err(|e| error::to_python(py, &e))? {
            Some(begun) => begun,
            None => enter::wait(py, || handle.take(shows, enter::SIGNALS_EVERY))?,
        };
        let taken = match begun {
            Take::Batch(taken) => taken,
            Take::End { is_empty } => return Ok(self.end(is_empty)),
        };
        // Dropped by an error or an interrupt, it releases its batch.
        let step = enter::wait(py, || match taken.wait(enter::SIGNALS_EVERY)? {
            Step::Pending => Ok(None),
            step => Ok(Some(step)),
        })?;
        Ok(match step {
            Step::End { is_empty } => self.end(is_empty),
            Step::Complete | Step::Pending => Some(Taken(Own::new(taken, ELSEWHERE))),
        })
    }

    /// Takes a batch that is ready, if at most `bound` wait or are in flight. Does not wait: None if none is ready,
    /// "full" or "ended" if there will be none for now.
    fn take_ahead(&self, py: Python<'_>, bound: usize) -> PyResult<Py<PyAny>> {
        let handle = self.get(py)?;
        match enter::enter(py, || Ok(handle.take_ahead(bound)))? {
            Ahead::Batch(batch) => HeldBatch(Own::new(batch, ELSEWHERE)).into_py_any(py),
            Ahead::NotReady => Ok(py.None()),
            Ahead::Full => "full".into_py_any(py),
            Ahead::Ended => "ended".into_py_any(py),
        }
    }

    /// True once after `take` has found the end of an epoch that had no batch.
    fn had_no_batch(&self) -> bool {
        self.has_no_batch.swap(false, Ordering::Relaxed)
    }

    /// Raises ClosedError if this pass or the session was closed.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.check().map_err(|e| error::to_python(py, &e))
    }

    /// Ends the pass: its threads stop, and batches that wait are dropped.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // A forked child has no threads to stop.
        let Ok(handle) = self.handle.get() else { return Ok(()) };
        enter::enter(py, || handle.close())
    }
}

/// Base of the package's iterator. Its methods make a batch for the loop.
///
/// `next` is one call for the interpreter: from the moment when a batch counts as delivered to its arrival in the loop
/// no Python runs, so no signal handler and no tracer can come between. The batch is released here, and not when it is
/// dropped, since the traceback of an error may keep it.
#[pyclass(frozen, subclass, module = "forebay._forebay")]
pub(crate) struct Steps {
    taking: Py<Pass>,
}

#[pymethods]
impl Steps {
    /// `parts` and `maker` are the derived class's.
    #[new]
    fn new(taking: Py<Pass>, parts: Py<PyAny>, maker: Py<PyAny>) -> Self {
        drop((parts, maker));
        Self { taking }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let mut taken = None;
        step(slf, &mut taken, false).map_err(|raised| {
            let py = slf.py();
            let released = taken.map_or(Ok(()), |taken| taken.get().release(py));
            let left = slf.call_method1(intern!(py, "_leave"), (raised.traceback(py),));
            released.and(left.map(|_| ())).err().unwrap_or(raised)
        })
    }

    /// Returns the next batch, which `next` returns again. Until then it does not count, and this epoch has not begun.
    /// Raises StopIteration at the end of the epoch.
    fn peek(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, mut taken) = (slf.py(), None);
        match step(slf, &mut taken, true) {
            Ok(batch) => batch.ok_or_else(|| PyStopIteration::new_err(())),
            Err(raised) => {
                // The next `iter` makes it again.
                let released = taken.map_or(Ok(()), |taken| taken.get().release(py));
                Err(released.and_then(|()| Self::close(slf.get(), py)).err().unwrap_or(raised))
            }
        }
    }

    /// Waits for the next batch, which `next` converts and returns. False at the end of the epoch.
    fn has_next(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        slf.call_method0(intern!(py, "_check_group"))?;
        let Some(taken) = slf.get().taking.get().take(py, false)? else {
            slf.call_method0(intern!(py, "_end"))?;
            return Ok(false);
        };
        let taken = Py::new(py, taken)?;
        let begun = slf.call_method1(intern!(py, "_begin_map"), (taken.clone_ref(py),));
        taken.get().release(py)?;
        begun.map(|_| true)
    }

    /// Ends the iterator: its threads stop, and the batches made ahead are dropped. `break` out of a `for` does that
    /// too.
    ///
    /// The loader's state stays; its next `iter` starts the next epoch, or this one if no batch was taken. A `next`
    /// that waits in a different thread raises ClosedError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.taking.get().close(py)
    }

    /// True if a newer iterator, `load_state_dict` or `close` of the loader has ended this one.
    #[getter]
    fn is_abandoned(&self, py: Python<'_>) -> PyResult<bool> {
        self.taking.get().is_abandoned(py)
    }
}

/// Returns the next batch, which counts as delivered, unless it is only shown. None: the epoch is over. After an error
/// the caller releases `taken`.
fn step(steps: &Bound<'_, Steps>, taken: &mut Option<Py<Taken>>, shows: bool) -> PyResult<Option<Py<PyAny>>> {
    let py = steps.py();
    loop {
        steps.call_method0(if shows { intern!(py, "_check_group") } else { intern!(py, "_check") })?;
        let Some(new) = steps.get().taking.get().take(py, shows)? else {
            steps.call_method0(intern!(py, "_end"))?;
            return Ok(None);
        };
        let new = taken.insert(Py::new(py, new)?);
        // A tuple with the batch, which may be any object. None: all its samples were left out.
        let made = steps.call_method1(intern!(py, "_made"), (new.clone_ref(py),))?;
        if !made.is_none() {
            let batch = made.get_item(0)?.unbind();
            if shows {
                new.get().show(py)?
            } else {
                new.get().deliver(py)?
            }
            return Ok(Some(batch));
        }
        let lost = new.get().items(py)?;
        new.get().leave_out(py)?;
        // It counts for the state, but is not delivered.
        *taken = None;
        steps.call_method1(intern!(py, "_check_lost"), (lost,))?;
    }
}

/// A batch that a call works on. It waits for the next call if this is dropped before its delivery.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Taken(Own<session::Taken<DeviceEngine, Item>, false>);

impl Taken {
    fn get(&self, py: Python<'_>) -> PyResult<&session::Taken<DeviceEngine, Item>> {
        self.0.get().map_err(|e| error::to_python(py, &e))
    }
}

#[pymethods]
impl Taken {
    /// Number of the batch since the start of the pass.
    #[getter]
    fn number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.batch().number())
    }

    /// Returns the outputs of each engine as dicts by name, or the objects that replace them.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        items(py, self.get(py)?.batch())
    }

    /// Replaces the outputs of engine number `engine` by an object.
    fn replace(&self, py: Python<'_>, engine: usize, object: Py<PyAny>) -> PyResult<()> {
        replace(py, self.get(py)?.batch(), engine, object)
    }

    /// Counts the batch as delivered.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.deliver();
        Ok(())
    }

    /// Counts the batch without delivering it.
    fn leave_out(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.leave_out();
        Ok(())
    }

    /// Makes the batch the next one to be taken, also after a delivery that did not arrive.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.release();
        Ok(())
    }

    /// Releases the batch, and keeps its pass for the next `begin`.
    fn show(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.show();
        Ok(())
    }
}

/// A batch that was taken ahead and waits for its call.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct HeldBatch(Own<session::HeldBatch<Item>, false>);

#[pymethods]
impl HeldBatch {
    /// Number of the batch since the start of the pass.
    #[getter]
    fn number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.number())
    }

    /// As `Taken.items`.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        items(py, self.get(py)?)
    }

    /// As `Taken.replace`.
    fn replace(&self, py: Python<'_>, engine: usize, object: Py<PyAny>) -> PyResult<()> {
        replace(py, self.get(py)?, engine, object)
    }
}

impl HeldBatch {
    fn get(&self, py: Python<'_>) -> PyResult<&session::HeldBatch<Item>> {
        self.0.get().map_err(|e| error::to_python(py, &e))
    }
}

fn items<'py>(py: Python<'py>, batch: &session::HeldBatch<Item>) -> PyResult<Bound<'py, PyList>> {
    let mut lent = Lent::of(batch);
    let objects = lent.items.iter_mut().map(|item| item.object(py)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, objects)
}

fn replace(py: Python<'_>, batch: &session::HeldBatch<Item>, engine: usize, object: Py<PyAny>) -> PyResult<()> {
    let put =
        |items: &mut Vec<Item>| items.get_mut(engine).map(|item| std::mem::replace(item, Item::Object(Some(object))));
    let before = batch.with_items(put);
    match before {
        // Dropped without the lock.
        Some(_) => Ok(()),
        None => Err(error::to_python(py, &Error::internal("an object that replaces no item"))),
    }
}
