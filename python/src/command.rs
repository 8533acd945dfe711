//! The command `forebay` for Python, which has some of its commands in the package.

use crate::enter;
use crate::library::LibraryStores;
use forebay_command::{Exit, Request, Run, Stop};
use forebay_gpu::{Libraries, device_count};
use forebay_loader::Error;
use forebay_loader::sync::Mutex;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Reads the arguments of a command line. Returns a `Command` of the engine, the name and the JSON arguments of a
/// command of the package, or the exit code if nothing is left to do.
#[pyfunction]
pub(crate) fn parse_command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Py<PyAny>> {
    match py.detach(|| forebay_command::parse(arguments)) {
        Request::Run(run) => Command(Mutex::new(Some(run))).into_py_any(py),
        Request::Package { command, arguments } => {
            (command, serde_json::Value::Object(arguments).to_string()).into_py_any(py)
        }
        Request::Done(exit) => (exit as u8).into_py_any(py),
    }
}

/// Returns a text in one line without characters that control a terminal.
#[pyfunction]
pub(crate) fn one_line(text: &str) -> String {
    forebay_command::one_line(text)
}

/// Returns a length in bytes with its unit.
#[pyfunction]
pub(crate) fn size_text(bytes: u64) -> String {
    forebay_command::size_text(bytes)
}

/// Command of the engine. It runs once.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Command(Mutex<Option<Run>>);

#[pymethods]
impl Command {
    /// Addresses that the command opens.
    fn addresses(&self) -> Vec<String> {
        self.0.lock().as_ref().map(Run::addresses).unwrap_or_default()
    }

    /// Runs it, and returns the exit code. `library` serves the remotes of schemes besides the engine's. `facts`
    /// returns names and values about Python, for a command that shows them.
    fn run(&self, py: Python<'_>, library: Option<Py<LibraryStores>>, facts: Py<PyAny>) -> PyResult<u8> {
        let library = LibraryStores::stores(library.as_ref());
        let run = self.0.lock().take();
        let facts = match &run {
            Some(run) if run.shows_facts() => with_cuda(facts.call0(py)?.extract(py)?),
            _ => Vec::new(),
        };
        let stop = run.as_ref().map(Run::stop);
        let cancel = move || stop.iter().for_each(Stop::set);
        let exit: PyResult<Exit> = enter::apart_until(py, cancel, move || {
            let run = run.ok_or_else(|| Error::internal("a command runs once"))?;
            Ok(run.run(library, facts))
        });
        exit.map(|exit| exit as u8)
    }
}

/// Adds the devices to the facts of Python.
fn with_cuda(facts: Vec<(String, String)>) -> Vec<(String, String)> {
    let devices = match device_count(Libraries::default().driver.as_deref()) {
        Ok(devices) => format!("{devices} devices"),
        Err(error) => error.to_string(),
    };
    std::iter::once(("CUDA".to_owned(), devices)).chain(facts).collect()
}
