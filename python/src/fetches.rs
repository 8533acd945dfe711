//! Files that Python fetches: their scheme has a downloader class, and the engine has no transport for it.
//!
//! Engine threads never call the interpreter. They put requests into a queue of the engine. A Python thread of the
//! package takes the requests and starts a thread for each. The answer is an open file, so the engine reads the bytes
//! without the interpreter's lock, and the file can be removed at once.

use crate::{enter, error};
use forebay_loader::error::Error;
use forebay_loader::store::{self, FetchCommand, FetchQueue, FetchTask, Fetcher};
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::fs::File;
use std::path::PathBuf;

/// Returns a remote for messages, without the user name, password, parameters, query and fragment of its
/// address.
#[pyfunction]
pub(crate) fn redact(remote: &Bound<'_, PyString>) -> String {
    store::redact(&remote.to_string_lossy()).into_owned()
}

/// Returns true if a name is an address, or meant as one, rather than a path.
#[pyfunction]
pub(crate) fn is_url(name: &Bound<'_, PyString>) -> bool {
    store::is_url(&name.to_string_lossy())
}

/// Returns a text of a third-party library about `remote`, without the secrets of its address.
#[pyfunction]
pub(crate) fn redact_in(text: &Bound<'_, PyString>, remote: &Bound<'_, PyString>) -> String {
    store::redact_in(&text.to_string_lossy(), &remote.to_string_lossy()).into_owned()
}

/// Queue of a reader, and the streams with files that pass through it.
pub(crate) type DownloaderQueue = (Py<Fetches>, Vec<usize>);

/// Queue of requests for the threads that fetch files in Python.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetches {
    queue: FetchQueue,
    /// Function that starts the thread that serves the queue; it is called with this object.
    start: Py<PyAny>,
    started: AtomicBool,
}

impl Fetches {
    /// Starts the thread that serves the queue, if it is not running. Call this before any request for a file.
    ///
    /// # Errors
    ///
    /// The exception of the start of the thread.
    pub(crate) fn serve(queue: &Bound<'_, Self>) -> PyResult<()> {
        let inner = queue.get();
        if !inner.started.swap(true, Ordering::Relaxed) {
            let started = inner.start.call1(queue.py(), (queue,));
            // The next call tries again.
            started.inspect_err(|_| inner.started.store(false, Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Returns the fetchers by stream number. Their reader keeps the queue open as long as it lives.
    pub(crate) fn fetchers(&self, streams: &[usize]) -> Vec<Option<Arc<dyn Fetcher>>> {
        self.queue.fetchers(streams)
    }
}

#[pymethods]
impl Fetches {
    /// Makes the queue of one reader. `start` is called with it before the first request; it starts a thread that calls
    /// `next`.
    #[new]
    fn new(start: Py<PyAny>) -> Self {
        Self { queue: FetchQueue::default(), start, started: AtomicBool::new(false) }
    }

    /// Waits for the next request, which is fetched in parallel to those in flight, or for the number of a request to
    /// cancel. None: the queue is closed.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Next>> {
        let next = enter::enter(py, || Ok(self.queue.next()))?;
        Ok(next.map(|next| match next {
            FetchCommand::Fetch(task) => Next::Fetch(Fetch(task)),
            FetchCommand::Cancel(number) => Next::CallOff(number),
        }))
    }

    /// Rejects further requests and ends every `next`.
    fn close(&self) {
        self.queue.close();
    }
}

/// Next action of the thread that serves the queue.
#[derive(IntoPyObject)]
enum Next {
    Fetch(Fetch),
    CallOff(u64),
}

/// Request for a file. If it is dropped without a response, the waiting thread gets an error.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetch(FetchTask);

#[pymethods]
impl Fetch {
    /// Number of the request in its queue.
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

    /// Reports the folder that contains only the incomplete file. Growth of the folder counts as progress.
    fn begin(&self, folder: PathBuf) {
        self.0.set_folder(folder);
    }

    /// Reports the complete file `path`, which may be removed as soon as this returns.
    fn done(&self, path: PathBuf) {
        self.0.respond(File::open(path).map_err(|e| Error::from_io(e, "the downloader left no file")));
    }

    /// Reports that the file could not be fetched; the waiting thread gets `error`.
    fn failed(&self, error: Bound<'_, PyAny>) {
        self.0.respond(Err(error::from_python(error.py(), PyErr::from_value(error))));
    }
}
