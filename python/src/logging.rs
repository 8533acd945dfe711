//! The engine's log lines on their way to Python's `logging`, under the logger `forebay`.
//!
//! Engine threads never touch the interpreter: one that waited for its lock while `close` joins that thread would wait
//! for ever. They leave lines here, in a bounded queue, and whoever is inside Python anyway takes them along.

use forebay_loader::sync::{AtomicU64, Mutex, Ordering};
use log::{LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use std::collections::VecDeque;

/// Lines that wait; more are dropped and counted.
const LINES_MAX: usize = 1000;

struct Queue {
    /// Python's level number and the text.
    lines: Mutex<VecDeque<(u8, String)>>,
    dropped: AtomicU64,
}

static QUEUE: Queue = Queue { lines: Mutex::new(VecDeque::new()), dropped: AtomicU64::new(0) };

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
        let mut lines = self.lines.lock();
        if lines.len() == LINES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            lines.push_back((level, record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Takes the engine's lines from now on. A second call, or another logger in the process, changes nothing.
pub(crate) fn start() {
    if log::set_logger(&QUEUE).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Gives what waits to Python.
///
/// # Errors
///
/// What a Python log handler raises.
pub(crate) fn deliver(py: Python<'_>) -> PyResult<()> {
    let lines = std::mem::take(&mut *QUEUE.lines.lock());
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
