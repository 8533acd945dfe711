//! Files that Python fetches: where a scheme has a downloader class, and the engine has no transport.
//!
//! Engine threads never touch the interpreter. They leave requests in a queue of the engine's; a thread that the package
//! starts in Python takes them, has each fetched by a thread of its own, and those answer. What they answer with is an
//! open file, so that the bytes come into the engine without the interpreter's lock and the file's name may go at once.

use crate::{enter, error};
use forebay_loader::error::Error;
use forebay_loader::store::{FetchCommand, FetchQueue, FetchTask, Fetcher};
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;

/// What a reader is given besides its data: the queue, and the streams whose files come through it.
pub(crate) type Outside = (Py<Fetches>, Vec<usize>);

/// Requests for files, for the threads that fetch them in Python.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetches {
    queue: FetchQueue,
    /// Starts the thread that takes from the queue; gets this.
    start: Py<PyAny>,
    started: AtomicBool,
}

impl Fetches {
    /// Sees to it that requests are answered. Whoever asks for a file, or lets an engine thread do so, calls this first.
    ///
    /// # Errors
    ///
    /// What starting a thread raises.
    pub(crate) fn serve(queue: &Bound<'_, Self>) -> PyResult<()> {
        let inner = queue.get();
        if !inner.started.swap(true, Ordering::Relaxed) {
            let started = inner.start.call1(queue.py(), (queue,));
            // The next one who asks may have more luck.
            started.inspect_err(|_| inner.started.store(false, Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Fetchers by the number of their stream, for a reader that keeps the queue open as long as it lives.
    pub(crate) fn fetchers(&self, streams: &[usize]) -> Vec<Option<Arc<dyn Fetcher>>> {
        self.queue.fetchers(streams)
    }
}

#[pymethods]
impl Fetches {
    /// A queue for one reader; `start` is called with it before the first request and starts a thread that calls `next`.
    #[new]
    fn new(start: Py<PyAny>) -> Self {
        Self { queue: FetchQueue::default(), start, started: AtomicBool::new(false) }
    }

    /// Waits for the next request, which is to be fetched beside those under way, or for the number of one that is to be
    /// called off; None when there will be no more.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Next>> {
        let next = enter::enter(py, || Ok(self.queue.next()))?;
        Ok(next.map(|next| match next {
            FetchCommand::Fetch(task) => Next::Fetch(Fetch(task)),
            FetchCommand::Cancel(number) => Next::CallOff(number),
        }))
    }

    /// Refuses further requests and ends every `next`.
    fn close(&self) {
        self.queue.close();
    }
}

/// What is to be done next.
#[derive(IntoPyObject)]
enum Next {
    Fetch(Fetch),
    CallOff(u64),
}

/// A file that is wanted. Whoever waits for it gets an error when this goes without an answer.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetch(FetchTask);

#[pymethods]
impl Fetch {
    /// Tells it from the others of its queue.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    /// Number of the stream.
    #[getter]
    fn stream(&self) -> usize {
        self.0.stream()
    }

    /// The file's path relative to the stream's remote.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// Says in which folder the file is being put together, with nothing else in it: its growth is progress.
    fn begin(&self, folder: PathBuf) {
        self.0.set_folder(folder);
    }

    /// The file is whole and lies at `path`, which may be removed as soon as this returns.
    fn done(&self, path: PathBuf) {
        self.0.answer(File::open(path).map_err(|e| Error::from_io(e, "the downloader left no file")));
    }

    /// The file could not be fetched: whoever waits gets `error`.
    fn failed(&self, error: Bound<'_, PyAny>) {
        self.0.answer(Err(error::from_python(error.py(), PyErr::from_value(error))));
    }
}
