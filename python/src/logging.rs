//! Transfer of the engine's log lines to Python's `logging`, logger `forebay`.
//!
//! Engine threads never call the interpreter: a thread that waits for its lock while `close` joins it would be a
//! deadlock. They put lines into a bounded queue, and threads that come from Python deliver them.

use forebay_loader::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use log::{LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use std::collections::VecDeque;

/// Capacity of the queue in lines; further lines are dropped and counted.
const LINES_MAX: usize = 1000;

/// Attempts to take the lock before a line is dropped. Its holder moves a few words and releases it.
const LOCK_TRIES: u32 = 1000;

struct Queue {
    /// Python's level number and the text. A forked child may inherit the lock in the locked state, so no thread waits
    /// for it without a limit.
    lines: Mutex<VecDeque<(u8, String)>>,
    dropped: AtomicU64,
    /// Exception of a handler during a delivery.
    raised: Mutex<Option<PyErr>>,
}

static QUEUE: Queue =
    Queue { lines: Mutex::new(VecDeque::new()), dropped: AtomicU64::new(0), raised: Mutex::new(None) };

impl Queue {
    fn lines(&self) -> Option<MutexGuard<'_, VecDeque<(u8, String)>>> {
        for _ in 0..LOCK_TRIES {
            if let Some(lines) = self.lines.try_lock() {
                return Some(lines);
            }
            std::thread::yield_now();
        }
        None
    }
}

impl Log for Queue {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("forebay")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            log::Level::Error => 40,
            log::Level::Warn => 30,
            log::Level::Info => 20,
            log::Level::Debug | log::Level::Trace => 10,
        };
        let text = record.args().to_string();
        match self.lines() {
            Some(mut lines) if lines.len() < LINES_MAX => lines.push_back((level, text)),
            _ => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn flush(&self) {}
}

/// Installs the logger. A second call, or a different logger in the process, changes nothing.
pub(crate) fn start() {
    if log::set_logger(&QUEUE).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Delivers the queued lines to Python. An exception of a handler is kept for [`raised`], because the delivering call
/// has a result to return.
pub(crate) fn deliver(py: Python<'_>) {
    let Some(lines) = QUEUE.lines().map(|mut lines| std::mem::take(&mut *lines)) else { return };
    if let Err(e) = give(py, lines) {
        *QUEUE.raised.lock() = Some(e);
    }
}

/// Takes the exception that a handler raised in an earlier call.
pub(crate) fn raised() -> Option<PyErr> {
    QUEUE.raised.lock().take()
}

fn give(py: Python<'_>, lines: VecDeque<(u8, String)>) -> PyResult<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("forebay",))?;
    for (level, text) in lines {
        logger.call_method1("log", (level, "%s", text))?;
    }
    let dropped = QUEUE.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        logger.call_method1("warning", ("%d lines were dropped", dropped))?;
    }
    Ok(())
}
