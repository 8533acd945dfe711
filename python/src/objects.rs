//! Objects of stores for Python: listed, read ahead, read by range, written, removed.

use crate::borrowed::{self, Borrowed, End};
use crate::contents::{ObjectLines, ObjectTarFiles};
use crate::library::LibraryStores;
use crate::own::{OPENED_ELSEWHERE, Own};
use crate::rows::RowSlice;
use crate::{enter, error};
use forebay_loader::contents::{self, ContentLimits};
use forebay_loader::error::{Error, ErrorKind, Result};
use forebay_loader::format::HashAlgo;
use forebay_loader::objects::{self, ObjectListing, ReadLimits};
use forebay_loader::store::{
    Expected, FetchMemory, FetchRequest, FetchTicket, Peek, StoreConfig, Upload, UploadBuffer, Version,
};
use forebay_loader::sync::{Arc, Mutex};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::time::{SystemTime, UNIX_EPOCH};

fn own<T: Send>(value: T) -> Own<T> {
    Own::new(value, OPENED_ELSEWHERE)
}

/// Takes a value that is used once.
fn take<T>(value: &Mutex<Option<T>>) -> Result<T> {
    value.lock().take().ok_or_else(closed)
}

/// Returns the seconds from 1970 to a time.
fn seconds(time: SystemTime) -> Option<f64> {
    time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs_f64())
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "this is closed")
}

/// Stores and their fetch threads.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectStores(Own<Arc<objects::Objects>>);

impl ObjectStores {
    fn get(&self) -> Result<Arc<objects::Objects>> {
        self.0.get().cloned()
    }
}

#[pymethods]
impl ObjectStores {
    /// Starts the fetch threads with settings in JSON, and with the stores that a library serves.
    #[new]
    fn new(py: Python<'_>, settings: String, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        enter::enter(py, || {
            let config = StoreConfig { library, ..objects::settings_from_json(&settings)? };
            Ok(Self(own(Arc::new(objects::Objects::new(config)?))))
        })
    }

    /// Pages of a listing; with `markers`, also of the empty objects that mark folders.
    fn list(&self, py: Python<'_>, prefix: &str, recursive: bool, markers: bool) -> PyResult<ObjectPages> {
        enter::enter(py, || {
            let listing = self.get()?.list(prefix, recursive)?;
            let listing = if markers { listing.with_markers() } else { listing };
            Ok(ObjectPages(own(Arc::new(Mutex::new(listing)))))
        })
    }

    /// Window of reads of at most `objects` objects and `bytes` bytes, each of at most `object_bytes`.
    fn reads(&self, py: Python<'_>, objects: usize, bytes: u64, object_bytes: Option<u64>) -> PyResult<ObjectReads> {
        enter::enter(py, || {
            let limits = ReadLimits { objects, bytes, object_bytes };
            let reads = objects::Reads::new(self.get()?, limits, RowSlice::new);
            Ok(ObjectReads(own(Mutex::new(reads))))
        })
    }

    /// Lines of objects, with at most `bytes` in flight or ready, and `window_bytes` for a window of zstd.
    fn lines(&self, py: Python<'_>, bytes: u64, window_bytes: Option<u64>) -> PyResult<ObjectLines> {
        let limits = ContentLimits { bytes, window_bytes };
        enter::enter(py, || Ok(ObjectLines::new(contents::lines(self.get()?, limits)?)))
    }

    /// Files of tars, with limits as for [`lines`](Self::lines).
    fn tar_files(&self, py: Python<'_>, bytes: u64, window_bytes: Option<u64>) -> PyResult<ObjectTarFiles> {
        let limits = ContentLimits { bytes, window_bytes };
        enter::enter(py, || Ok(ObjectTarFiles::new(contents::tar_files(self.get()?, limits)?)))
    }

    fn remove(&self, py: Python<'_>, urls: Vec<String>) -> PyResult<()> {
        let objects = enter::enter(py, || self.get())?;
        enter::apart(py, move || objects.remove(urls.iter().map(String::as_str)))
    }

    /// Stores an object if it has `version`, or if there is none for None; returns false otherwise.
    fn put_if(&self, py: Python<'_>, url: String, bytes: PyBackedBytes, version: Option<String>) -> PyResult<bool> {
        let objects = enter::enter(py, || self.get())?;
        let expected = version.map_or(Expected::Absent, Expected::Version);
        enter::apart(py, move || objects.put_if(&url, UploadBuffer::from_owner(bytes), expected))
    }

    /// Version of an object for `put_if`; None if it does not exist.
    fn version(&self, py: Python<'_>, url: String) -> PyResult<Option<String>> {
        let objects = enter::enter(py, || self.get())?;
        enter::apart(py, move || objects.version(&url))
    }

    /// Opens an object to read, and fetches its first `bytes` at once.
    fn open(&self, py: Python<'_>, url: String, bytes: usize) -> PyResult<ObjectRanges> {
        let objects = enter::enter(py, || self.get())?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        enter::enter(py, || objects.peek(&url, bytes.max(1), move |peek| drop(sender.send(peek))))?;
        let receiver = Mutex::new(receiver);
        let Peek { front, len, version, .. } =
            enter::wait(py, || match receiver.lock().recv_timeout(enter::SIGNALS_EVERY) {
                Ok(peek) => peek.map(Some),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Ok(None),
                Err(_) => Err(Error::internal("the first bytes of an object have no outcome")),
            })?;
        Ok(ObjectRanges { objects: own(objects), url, len, version, front: Mutex::new(front) })
    }

    /// Starts an object, of at most `len_max` bytes if that is known.
    fn upload(&self, py: Python<'_>, url: String, len_max: Option<u64>) -> PyResult<ObjectUpload> {
        let objects = enter::enter(py, || self.get())?;
        enter::enter(py, || Ok(ObjectUpload(own(Arc::new(Mutex::new(Some(objects.upload(&url, len_max)?)))))))
    }
}

/// Returns true for the address of a whole bucket, container, volume or server, rather than a folder in one.
#[pyfunction]
pub(crate) fn is_root(py: Python<'_>, url: &str) -> PyResult<bool> {
    enter::enter(py, || objects::is_root(url))
}

/// Number, bytes or exception, entity tag, and time of the last change in seconds since 1970.
type NextRead = (u64, Py<PyAny>, Option<String>, Option<f64>);

/// URL, size, entity tag, and time of the last change in seconds since 1970.
type ListedObject = (String, u64, Option<String>, Option<f64>);

/// Pages of a listing.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectPages(Own<Arc<Mutex<ObjectListing>>>);

#[pymethods]
impl ObjectPages {
    /// Next page, or None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Vec<ListedObject>>> {
        let pages = enter::enter(py, || self.0.get().cloned())?;
        let page = enter::apart(py, move || pages.lock().next_page())?;
        let entry = |entry: objects::ObjectEntry| (entry.url, entry.size, entry.etag, entry.modified.and_then(seconds));
        Ok(page.map(|page| page.into_iter().map(entry).collect()))
    }
}

/// Objects that are being read ahead.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectReads(Own<Mutex<objects::Reads<RowSlice>>>);

#[pymethods]
impl ObjectReads {
    /// True if one more object may be requested, of `size` bytes if that is known.
    fn has_room(&self, py: Python<'_>, size: Option<u64>) -> PyResult<bool> {
        enter::enter(py, || Ok(self.0.get()?.lock().has_room(size)))
    }

    /// Requests an object, with the size and the entity tag of a list if it has them.
    #[pyo3(signature = (url, size, etag=None))]
    fn push(&self, py: Python<'_>, url: String, size: Option<u64>, etag: Option<String>) -> PyResult<()> {
        enter::enter(py, || {
            let mut reads = self.0.get()?.lock();
            match (size, etag) {
                (Some(size), Some(etag)) => reads.push_listed(&url, size, etag),
                (size, _) => reads.push(&url, size),
            }
            Ok(())
        })
    }

    /// Waits for the next object. Returns its number among the requests, its bytes or its exception, and the version of
    /// the bytes: an entity tag, or a time in seconds since 1970. An object that is too large has None for its bytes.
    /// None if there is no request.
    fn next(&self, py: Python<'_>, any: bool) -> PyResult<Option<NextRead>> {
        let read = enter::wait(py, || {
            let mut reads = self.0.get()?.lock();
            match reads.next(any, enter::SIGNALS_EVERY) {
                None if reads.is_empty() => Ok(Some(None)),
                read => Ok(read.map(Some)),
            }
        })?;
        let Some(read) = read else { return Ok(None) };
        let bytes = match read.bytes.and_then(|bytes| bytes.map(RowSlice::into_object).transpose()) {
            Ok(bytes) => bytes.map_or_else(|| py.None(), Py::into_any),
            Err(error) => error::to_python(py, &error).into_value(py).into_any(),
        };
        let version = read.version.as_ref();
        let modified = version.and_then(Version::modified).and_then(seconds);
        Ok(Some((read.number, bytes, version.and_then(Version::etag).map(str::to_owned), modified)))
    }
}

/// Object that is read by ranges, all of one version.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectRanges {
    objects: Own<Arc<objects::Objects>>,
    url: String,
    len: u64,
    version: Option<Version>,
    front: Mutex<Vec<u8>>,
}

#[pymethods]
impl ObjectRanges {
    #[getter]
    fn size(&self) -> u64 {
        self.len
    }

    /// Takes the first bytes, which were fetched when the object was opened.
    fn front<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &std::mem::take(&mut *self.front.lock()))
    }

    /// Starts to fetch the bytes from `start` to `end`, within the object.
    fn fetch(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<ObjectRange> {
        enter::enter(py, || {
            let len = usize::try_from(end.saturating_sub(start));
            let memory = RowSlice::new(len.map_err(|_| Error::config("a range beyond this machine's memory"))?)?;
            Ok(ObjectRange(own(Mutex::new(Some(self.start(start, memory)?)))))
        })
    }

    /// Starts to fetch as many bytes from `start`, within the object, as `array` has, into its memory.
    fn fill(&self, py: Python<'_>, start: u64, array: &Bound<'_, PyAny>) -> PyResult<ObjectFill> {
        let (memory, end) = Borrowed::new(array).map_err(|e| error::to_python(py, &e))?;
        enter::enter(py, || Ok(ObjectFill { ticket: own(Mutex::new(Some(self.start(start, memory)?))), end }))
    }
}

impl ObjectRanges {
    fn start<M: FetchMemory>(&self, start: u64, memory: M) -> Result<FetchTicket<M>> {
        let mut request = FetchRequest::with_memory(String::new(), memory);
        request.start = start;
        request.object_len = Some(self.len);
        request.version = self.version.clone();
        self.objects.get()?.fetch(&self.url, request)
    }
}

/// Range in flight.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectRange(Own<Mutex<Option<FetchTicket<RowSlice>>>>);

#[pymethods]
impl ObjectRange {
    /// Waits for the bytes, once.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let slice = wait_for(py, &self.0)?;
        slice.into_object().map_err(|e| error::to_python(py, &e))
    }
}

/// Waits for the outcome of a fetch, once.
fn wait_for<M: FetchMemory>(py: Python<'_>, ticket: &Own<Mutex<Option<FetchTicket<M>>>>) -> PyResult<M> {
    enter::wait(py, || {
        let mut ticket = ticket.get()?.lock();
        match ticket.take().ok_or_else(closed)?.wait_timeout(enter::SIGNALS_EVERY) {
            Ok(outcome) => outcome.map(Some),
            Err(waiting) => {
                *ticket = Some(waiting);
                Ok(None)
            }
        }
    })
}

/// Range in flight into the memory of an array.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectFill {
    ticket: Own<Mutex<Option<FetchTicket<Borrowed>>>>,
    end: Arc<End>,
}

#[pymethods]
impl ObjectFill {
    /// Waits for the bytes, once, and returns their hash `name` in hexadecimal digits.
    fn digest(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let mut memory = wait_for(py, &self.ticket)?;
        enter::enter(py, || Ok(HashAlgo::parse(name)?.hex(memory.bytes_mut())))
    }

    /// Ends the fetch. After that nothing is written to the array any more.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || {
            drop(self.ticket.get()?.lock().take());
            Ok(())
        })?;
        enter::wait(py, || Ok(self.end.wait(enter::SIGNALS_EVERY).then_some(())))
    }
}

/// Object that is being written.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectUpload(Own<Arc<Mutex<Option<Upload>>>>);

#[pymethods]
impl ObjectUpload {
    /// Appends bytes; waits while too many are in flight.
    fn write(&self, py: Python<'_>, bytes: PyBackedBytes) -> PyResult<()> {
        self.append(py, UploadBuffer::from_owner(bytes))
    }

    /// Appends the memory of `array`, which may not change before the end of the upload, and returns its hash `name` in
    /// hexadecimal digits. Waits as `write` does.
    fn send(&self, py: Python<'_>, array: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
        let bytes = borrowed::to_send(array).map_err(|e| error::to_python(py, &e))?;
        let digest = enter::enter(py, || Ok(HashAlgo::parse(name)?.hex(&bytes)))?;
        self.append(py, bytes)?;
        Ok(digest)
    }

    /// Waits until the store has the object. Returns its entity tag, if the store has one.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let upload = enter::enter(py, || take(self.0.get()?))?;
        enter::apart(py, move || upload.finish())
    }

    /// Ends the upload without an object.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || {
            self.0.get()?.lock().take();
            Ok(())
        })
    }
}

impl ObjectUpload {
    fn append(&self, py: Python<'_>, bytes: UploadBuffer) -> PyResult<()> {
        let upload = enter::enter(py, || self.0.get().cloned())?;
        enter::apart(py, move || upload.lock().as_mut().ok_or_else(closed)?.write(bytes))
    }
}
