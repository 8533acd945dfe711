//! Files that Python fetches: where a scheme has a downloader class, and the engine has no transport.
//!
//! Engine threads never touch the interpreter. One that wants a file leaves a request here and waits; threads that the
//! package starts in Python take requests, fetch, and answer. What they answer with is an open file, so that the bytes
//! come into the engine without the interpreter's lock and the file's name may go at once.

use crate::{enter, error};
use forebay_loader::error::{Context, Error, ErrorKind, Result};
use forebay_loader::store::Fetcher;
use forebay_loader::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often whoever waits for a file looks how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Folders below the one for a file in which it may be put together.
const LEVELS_MAX: usize = 8;

/// Requests of one reader on their way to Python. Each belongs to a thread that waits, so there are never many.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Arc<Request>>,
    closed: bool,
}

impl Shared {
    /// Ends [`Fetches::next`]; who waits for a file hears that nobody will fetch it.
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.requests);
        drop(state);
        self.changed.notify_all();
        for request in left {
            request.answer(Err(closed()));
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the data set was closed, or its process ends")
}

/// One file that somebody waits for.
#[derive(Debug)]
struct Request {
    stream: usize,
    key: String,
    state: Mutex<Answering>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Answering {
    /// Where the file is being put together.
    folder: Option<PathBuf>,
    answer: Option<Result<File>>,
    /// Nobody waits any more.
    given_up: bool,
}

impl Request {
    fn answer(&self, answer: Result<File>) {
        self.state.lock().answer.get_or_insert(answer);
        self.changed.notify_all();
    }

    fn wait(&self, watch: &dyn Fn(u64) -> Result<()>) -> Result<File> {
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).0;
            if state.answer.is_none() {
                let folder = state.folder.clone();
                drop(state);
                let watched = watch(folder.map_or(0, |folder| bytes_in(&folder, LEVELS_MAX)));
                state = self.state.lock();
                if let Err(e) = watched {
                    state.given_up = true;
                    return Err(e);
                }
            }
        }
    }
}

/// Bytes of the files in `folder`, whatever they are called meanwhile, and in `levels` of folders below it: some downloaders
/// put files together in one of their own. Links are not followed.
fn bytes_in(folder: &Path, levels: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.metadata().ok()? {
        meta if meta.is_file() => Some(meta.len()),
        meta if meta.is_dir() && levels > 0 => Some(bytes_in(&entry.path(), levels - 1)),
        _ => None,
    };
    entries.filter_map(|entry| bytes_of(entry.ok()?)).sum()
}

/// Closes the queue when the last fetcher of its reader has gone.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A stream's files, as Python fetches them.
#[derive(Debug)]
struct FromPython {
    owner: Arc<Owner>,
    stream: usize,
}

impl Fetcher for FromPython {
    fn fetch(&self, key: &str, watch: &dyn Fn(u64) -> Result<()>) -> Result<Vec<u8>> {
        let shared = &self.owner.0;
        let request = Arc::new(Request {
            stream: self.stream,
            key: key.to_owned(),
            state: Mutex::default(),
            changed: Condvar::default(),
        });
        let mut state = shared.state.lock();
        if state.closed {
            return Err(closed());
        }
        state.requests.push_back(request.clone());
        drop(state);
        shared.changed.notify_one();
        let mut file = request.wait(watch)?;
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|e| Error::from_io(e, "what was downloaded cannot be read")).context("key", || key)?;
        Ok(bytes)
    }
}

/// What a reader is given besides its data: the queue, and the streams whose files come through it.
pub(crate) type Outside = (Py<Fetches>, Vec<usize>);

/// Requests for files, for the threads that fetch them in Python.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetches {
    shared: Arc<Shared>,
    /// Starts those threads; gets the queue.
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
        let owner = Arc::new(Owner(self.shared.clone()));
        let mut fetchers: Vec<Option<Arc<dyn Fetcher>>> = Vec::new();
        for &stream in streams {
            fetchers.resize_with(fetchers.len().max(stream + 1), || None);
            fetchers[stream] = Some(Arc::new(FromPython { owner: owner.clone(), stream }));
        }
        fetchers
    }
}

#[pymethods]
impl Fetches {
    /// A queue for one reader; `start` is called with it before the first request and starts threads that call `next`.
    #[new]
    fn new(start: Py<PyAny>) -> Self {
        Self { shared: Arc::default(), start, started: AtomicBool::new(false) }
    }

    /// Waits for the next request; None when there will be no more.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Fetch>> {
        enter::enter(py, || {
            let mut state = self.shared.state.lock();
            loop {
                if let Some(request) = state.requests.pop_front() {
                    return Ok(Some(Fetch(request)));
                }
                if state.closed {
                    return Ok(None);
                }
                state = self.shared.changed.wait(state);
            }
        })
    }

    /// Refuses further requests and ends every `next`.
    fn close(&self) {
        self.shared.close();
    }
}

/// A file that is wanted.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Fetch(Arc<Request>);

#[pymethods]
impl Fetch {
    /// Number of the stream.
    #[getter]
    fn stream(&self) -> usize {
        self.0.stream
    }

    /// The file's path relative to the stream's remote.
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    /// Whether somebody still waits for it.
    #[getter]
    fn is_wanted(&self) -> bool {
        !self.0.state.lock().given_up
    }

    /// Says in which folder the file is being put together, with nothing else in it: its growth is progress.
    fn begin(&self, folder: PathBuf) {
        self.0.state.lock().folder = Some(folder);
    }

    /// The file is whole and lies at `path`, which may be removed as soon as this returns.
    fn done(&self, path: PathBuf) {
        let opened = File::open(path).map_err(|e| Error::from_io(e, "the downloader left no file"));
        self.0.answer(opened);
    }

    /// The file could not be fetched: whoever waits gets `error`.
    fn failed(&self, error: Bound<'_, PyAny>) {
        self.0.answer(Err(error::from_python(error.py(), PyErr::from_value(error))));
    }
}
