//! The one way from Python into the engine: without the interpreter's lock, with Ctrl-C, with our errors.

use crate::{error, logging};
use forebay_loader::{Error, Result, sync};
use pyo3::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

/// How long the engine is waited for before Python gets a look at its signals: short for a person, and four wake-ups a
/// second, which thousands of waiting processes can afford.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(250);

/// Runs `body` without the interpreter's lock; what it logged reaches Python's loggers afterwards.
///
/// # Errors
///
/// The engine's, as an exception of `forebay.errors`.
pub(crate) fn enter<T: Send>(py: Python<'_>, body: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let result = py.detach(body);
    logging::deliver(py);
    result.map_err(|e| error::to_python(py, &e))
}

/// Like [`enter`] for a wait without end: `body` is called again and again, each time for about [`SIGNALS_EVERY`], until
/// it has something, and between the calls Python's signal handlers run.
///
/// # Errors
///
/// The engine's, what a signal handler raises, KeyboardInterrupt above all, and what a log handler raised before: in its own
/// call, what that call had taken would be lost.
pub(crate) fn wait<T: Send>(py: Python<'_>, mut body: impl FnMut() -> Result<Option<T>> + Send) -> PyResult<T> {
    loop {
        if let Some(e) = logging::raised() {
            return Err(e);
        }
        if let Some(value) = enter(py, &mut body)? {
            return Ok(value);
        }
        py.check_signals()?;
    }
}

/// Like [`enter`] for a call that may take long and cannot be asked in between: it runs in a thread of its own, and
/// Python's signal handlers run meanwhile. After an interrupt the thread goes on until `body` ends, and drops what it gives.
///
/// # Errors
///
/// The engine's, what a signal handler raises, and a thread that the system refuses.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let refused = |e| error::to_python(py, &Error::from_io(e, "the system refuses a thread"));
    sync::spawn("forebay-call", move || {
        // Nobody listens any more after an interrupt.
        let _ = sender.send(body());
    })
    .map_err(refused)?;
    let receiver = sync::Mutex::new(receiver);
    wait(py, || match receiver.lock().recv_timeout(SIGNALS_EVERY) {
        Ok(result) => result.map(Some),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::internal("a call into the engine panicked")),
    })
}
