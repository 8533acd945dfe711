//! Stores with transports in Python: the engine's end of their queue, and the exchanges for Python's threads.
//!
//! As in `fetches`, engine threads never call the interpreter: Python's threads wait in [`Exchanges::next`], without
//! the interpreter's lock, and reply to an [`Exchange`] piece by piece.

use crate::{enter, error};
use forebay_loader::error::{Error, ErrorKind};
use forebay_loader::store::{self, LibraryQueue};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

/// Returns true for a remote of a scheme that the engine has no transport for.
#[pyfunction]
pub(crate) fn needs_library(remote: &Bound<'_, PyString>) -> bool {
    store::needs_library(&remote.to_string_lossy())
}

/// Stores that a library serves. The queue of their exchanges closes when this object, and every engine that has it,
/// are gone.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct LibraryStores {
    queue: LibraryQueue,
    stores: store::LibraryStores,
}

impl LibraryStores {
    /// Returns the engine's end of the queue.
    pub(crate) fn stores(library: Option<&Py<Self>>) -> Option<store::LibraryStores> {
        library.map(|library| library.get().stores.clone())
    }
}

#[pymethods]
impl LibraryStores {
    #[new]
    fn new() -> Self {
        let queue = LibraryQueue::default();
        Self { stores: queue.stores(), queue }
    }

    /// Returns Python's end of the queue, which does not keep it open.
    fn exchanges(&self) -> Exchanges {
        Exchanges(self.queue.clone())
    }
}

/// Queue of the exchanges that Python makes.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Exchanges(LibraryQueue);

#[pymethods]
impl Exchanges {
    /// Waits for the next exchange. None: the queue is closed.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Exchange>> {
        Ok(enter::enter(py, || Ok(self.0.next()))?.map(Exchange))
    }

    /// Rejects further exchanges and ends every `next`.
    fn close(&self) {
        self.0.close();
    }
}

/// Exchange with a remote folder. If it is dropped without `done` or `failed`, the attempt fails. Replies raise
/// `ClosedError` when no thread of the engine waits for them any more.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Exchange(store::Exchange);

#[pymethods]
impl Exchange {
    /// Address of the remote folder, with its secrets.
    #[getter]
    fn remote(&self) -> &str {
        self.0.remote()
    }

    /// Key relative to the remote; the start of the keys for a listing.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// Name of the operation: "get", "put", "list", "size" or "delete".
    #[getter]
    fn operation(&self) -> &str {
        self.0.operation()
    }

    /// First byte that a "get" asks for.
    #[getter]
    fn start(&self) -> u64 {
        self.0.start()
    }

    /// Seconds within which the next reply must be made.
    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }

    /// Replies with the size of an object, and for "get" with its version.
    fn head(&self, py: Python<'_>, bytes: u64, version: Option<String>) -> PyResult<()> {
        enter::enter(py, || self.0.head(bytes, version))
    }

    /// Replies with the next bytes of an object.
    fn bytes(&self, py: Python<'_>, bytes: PyBackedBytes) -> PyResult<()> {
        enter::enter(py, || self.0.bytes(store::UploadBuffer::copy_from_slice(&bytes)))
    }

    /// Replies with a part of a listing.
    fn entries(&self, py: Python<'_>, entries: Vec<(String, u64)>) -> PyResult<()> {
        enter::enter(py, || self.0.entries(entries))
    }

    /// Returns the next bytes of the object to store, at most `bytes_max`; none at its end.
    fn take<'py>(&self, py: Python<'py>, bytes_max: usize) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &enter::enter(py, || self.0.take(bytes_max))?))
    }

    /// Ends the exchange successfully.
    fn done(&self, py: Python<'_>) {
        py.detach(|| self.0.done());
    }

    /// Ends the exchange with an error of the kind of this name; a further attempt is made if `is_retried`.
    fn failed(&self, py: Python<'_>, kind: &str, message: String, is_retried: bool) -> PyResult<()> {
        let unknown = || error::to_python(py, &Error::internal(format!("an error of kind {kind}")));
        let kind = ErrorKind::named(kind).ok_or_else(unknown)?;
        py.detach(|| self.0.failed(Error::new(kind, message), is_retried));
        Ok(())
    }
}
