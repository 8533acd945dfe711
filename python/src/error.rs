//! Conversion of errors. The Python classes are in `forebay.errors` and are found by the name of the error's kind.

use forebay_loader::{Error, ErrorKind};
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::fmt;

/// Returns the exception for `error`. An exception that Python code raised for the engine stays the same, with a note.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let raised = std::iter::successors(std::error::Error::source(error), |e| e.source());
    if let Some(raised) = raised.filter_map(|e| e.downcast_ref::<Raised>()).next() {
        return raised.noted(py, error);
    }
    match build(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        // The module is missing only while the interpreter shuts down; then this is the relevant error.
        Err(broken) => broken,
    }
}

fn build<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let maker =
        MAKER.get_or_try_init(py, || Ok::<_, PyErr>(py.import("forebay.errors")?.getattr("from_engine")?.unbind()))?;
    let context: Vec<(&str, &str)> = error.context().iter().map(|(name, value)| (*name, value.as_str())).collect();
    maker.bind(py).call1((error.kind().name(), error.to_string(), context))
}

/// Returns the exception for error number `errno` of the system. `context` has a file, and its column if there is one.
#[pyfunction]
pub(crate) fn system_error<'py>(
    py: Python<'py>,
    errno: i32,
    message: &str,
    context: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyAny>> {
    let error = Error::from_io(std::io::Error::from_raw_os_error(errno), message);
    let name = |name: &str| if name == "column" { "column" } else { "file" };
    build(py, &context.iter().fold(error, |error, (key, value)| error.with(name(key), value)))
}

/// Exception of Python code that the engine called, while the error returns to Python.
#[derive(Debug)]
struct Raised {
    /// Class and message as text, because engine threads print errors without access to the interpreter.
    text: String,
    exception: PyErr,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Returns the exception with a note of its context (Python 3.11 and later).
    fn noted(&self, py: Python<'_>, error: &Error) -> PyErr {
        let facts: Vec<String> = error.context().iter().map(|(name, value)| format!("{name} {value}")).collect();
        let note = format!("{} ({})", error.message(), facts.join(", "));
        let value = self.exception.value(py);
        let has_it = |notes: Bound<'_, PyAny>| notes.contains(&note).unwrap_or(false);
        if !value.getattr("__notes__").is_ok_and(has_it) {
            // The exception is correct without the note too.
            let _ = value.call_method1("add_note", (&note,));
        }
        self.exception.clone_ref(py)
    }
}

/// Returns the engine's error for an exception that a downloader in Python raised.
pub(crate) fn from_python(py: Python<'_>, exception: PyErr) -> Error {
    let kind = if exception.is_instance_of::<PyFileNotFoundError>(py) {
        ErrorKind::NotFound
    } else if exception.is_instance_of::<PyPermissionError>(py) {
        ErrorKind::Permission
    } else if exception.is_instance_of::<PyTimeoutError>(py) {
        ErrorKind::Timeout
    } else {
        ErrorKind::Network
    };
    let text = exception.to_string();
    Error::new(kind, "a file could not be downloaded").caused_by(Raised { text, exception })
}
