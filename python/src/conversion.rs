//! Conversions to MDS for Python.

use crate::enter;
use crate::library::LibraryStores;
use forebay_loader::config::{LoaderConfig, WriterConfig};
use forebay_loader::conversion::{self, ConvertedColumn, ConvertedColumns};
use pyo3::prelude::*;

/// Loader of a conversion, which writes ranges of its steps.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Conversion(conversion::Conversion);

#[pymethods]
impl Conversion {
    /// Opens the data set of a loader's `config`. Each column has its name, the output with its arrays, if it has
    /// arrays of any shape, and the bytes of the value of samples without it, if there are any. `absent` is the value
    /// of a column that a sample does not have. With `are_all` a sample with a further column is an error.
    #[new]
    fn new(
        py: Python<'_>,
        config: &str,
        columns: Vec<(String, Option<String>, Option<usize>)>,
        absent: Vec<u8>,
        are_all: bool,
        library: Option<Py<LibraryStores>>,
    ) -> PyResult<Self> {
        let column = |(name, array, absent_bytes)| ConvertedColumn { name, array, absent_bytes };
        let columns = ConvertedColumns { columns: columns.into_iter().map(column).collect(), absent, are_all };
        let library = LibraryStores::stores(library.as_ref());
        enter::enter(py, || conversion::Conversion::new(LoaderConfig::from_json(config)?, columns, library)).map(Self)
    }

    /// Writes `samples` samples from the start of `step` on with the options of `writer`; callable on any thread.
    fn write(&self, py: Python<'_>, writer: &str, step: u64, samples: u64) -> PyResult<()> {
        enter::enter(py, || self.0.write(&WriterConfig::from_json(writer)?, step, samples))
    }

    /// Ends a write in progress with an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || self.0.close())
    }
}
