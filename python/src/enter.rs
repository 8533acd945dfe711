//! The only way from Python into the engine: releases the interpreter's lock, handles signals, converts errors.

use crate::{error, logging};
use forebay_loader::{Error, Result, sync};
use pyo3::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

/// Interval between two checks of Python's signals during a wait. Short enough for Ctrl-C; four wake-ups per second are
/// cheap even for thousands of waiting processes.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(250);

/// Runs `body` without the interpreter's lock, then passes its log lines to Python's loggers.
///
/// # Errors
///
/// The engine's error, as an exception of `forebay.errors`.
pub(crate) fn enter<T: Send>(py: Python<'_>, body: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let result = py.detach(body);
    logging::deliver(py);
    result.map_err(|e| error::to_python(py, &e))
}

/// Like [`enter`], for a wait of any length: calls `body`, which takes about [`SIGNALS_EVERY`], until it returns a
/// value. Python's signal handlers run between the calls.
///
/// # Errors
///
/// The engine's error; an exception of a signal handler, such as KeyboardInterrupt; or an exception that a log handler
/// raised in an earlier call. It is not raised in that call, because the batch of that call would be lost.
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

/// Like [`enter`], for a long call that cannot be split: `body` runs in a separate thread while Python's signal
/// handlers run here. After an interrupt the thread continues until `body` ends, and drops the result.
///
/// # Errors
///
/// The engine's error, an exception of a signal handler, or the system's refusal to start a thread.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    apart_seen(py, |_| Ok(()), body)
}

/// Like [`apart`]. `seen` is called from time to time meanwhile, and once after the end.
///
/// # Errors
///
/// As [`wait`], and the errors of `seen`.
pub(crate) fn apart_seen<T: Send + 'static>(
    py: Python<'_>,
    seen: impl Fn(Python<'_>) -> PyResult<()>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let call = Call::start(py, body)?;
    loop {
        if let Some(e) = logging::raised() {
            return Err(e);
        }
        let found = enter(py, || call.result()?.transpose())?;
        seen(py)?;
        if let Some(value) = found {
            return Ok(value);
        }
        py.check_signals()?;
    }
}

/// Like [`apart`], for a call that is not left alone: after an interrupt, `cancel` is called, and the interrupt is
/// raised once `body` has ended. A second interrupt ends this wait.
///
/// # Errors
///
/// As [`apart`].
pub(crate) fn apart_until<T: Send + 'static>(
    py: Python<'_>,
    cancel: impl Fn() + Send + Sync,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let call = Call::start(py, body)?;
    let mut interrupt = None;
    loop {
        if let Some(result) = enter(py, || call.result())? {
            return match interrupt {
                Some(interrupt) => Err(interrupt),
                None => result.map_err(|e| error::to_python(py, &e)),
            };
        }
        // A signal's handler may have run in a log handler.
        let raised = logging::raised().or_else(|| py.check_signals().err());
        if let Some(raised) = raised {
            if let Some(first) = interrupt {
                return Err(first);
            }
            py.detach(&cancel);
            interrupt = Some(raised);
        }
    }
}

/// Call into the engine on a different thread.
struct Call<T>(sync::Mutex<mpsc::Receiver<Result<T>>>);

impl<T: Send + 'static> Call<T> {
    fn start(py: Python<'_>, body: impl FnOnce() -> Result<T> + Send + 'static) -> PyResult<Self> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let refused = |e| error::to_python(py, &Error::from_io(e, "the system cannot start a thread"));
        sync::spawn("forebay-call", move || {
            // After an interrupt the receiver is gone.
            let _ = sender.send(body());
        })
        .map_err(refused)?;
        Ok(Self(sync::Mutex::new(receiver)))
    }

    /// Returns the call's result if it ends within [`SIGNALS_EVERY`].
    fn result(&self) -> Result<Option<Result<T>>> {
        match self.0.lock().recv_timeout(SIGNALS_EVERY) {
            Ok(result) => Ok(Some(result)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::internal("a call into the engine panicked")),
        }
    }
}

/// Drops a value that may join threads when dropped. Releases the interpreter's lock first, if there is an interpreter.
pub(crate) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    Python::try_attach(|py| py.detach(|| drop(value.take())));
    drop(value);
}
