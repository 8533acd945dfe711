//! The one way from Python into the engine: without the interpreter's lock, with our errors.

use crate::{error, logging};
use forebay_loader::Result;
use pyo3::prelude::*;

/// Runs `body` without the interpreter's lock; what it logged reaches Python's loggers afterwards.
///
/// # Errors
///
/// The engine's, as an exception of `forebay.errors`.
pub(crate) fn enter<T: Send>(py: Python<'_>, body: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let result = py.detach(body);
    logging::deliver(py)?;
    result.map_err(|e| error::to_python(py, &e))
}
