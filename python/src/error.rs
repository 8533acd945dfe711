//! The engine's errors as Python's: `forebay.errors` holds the classes, found by the kind's name.

use forebay_loader::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    match build(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        // Only while the interpreter goes down can the module be missing; then this is the error that counts.
        Err(broken) => broken,
    }
}

fn build<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let maker =
        MAKER.get_or_try_init(py, || Ok::<_, PyErr>(py.import("forebay.errors")?.getattr("_from_engine")?.unbind()))?;
    let context: Vec<(&str, &str)> = error.context().iter().map(|(name, value)| (*name, value.as_str())).collect();
    maker.bind(py).call1((error.kind().name(), error.to_string(), context))
}
