//! Verification and repair of data sets for Python.

use crate::enter;
use crate::library::LibraryStores;
use forebay_loader::verify::{self, ShardState};
use pyo3::prelude::*;

/// Damaged files of a shard, each with the reason.
type Damage = Vec<(String, String)>;

/// Data set with shards that are compared with its index.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Verification(verify::Verification);

#[pymethods]
impl Verification {
    /// Opens the data set at `address`, a folder or URL, with shards that come from `remote`. `library` serves the
    /// stores of the schemes that the engine has no transport for.
    #[new]
    fn new(
        py: Python<'_>,
        address: String,
        remote: Option<String>,
        library: Option<Py<LibraryStores>>,
    ) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        enter::enter(py, || verify::Verification::with_library(&address, remote.as_deref(), library)).map(Self)
    }

    /// Shards of the data set.
    fn __len__(&self) -> usize {
        self.0.shards()
    }

    /// Checks shard `number`; callable on any thread. Returns the compared bytes (None: the shard is absent), and its
    /// damaged files.
    fn check(&self, py: Python<'_>, number: usize) -> PyResult<(Option<u64>, Damage)> {
        Ok(match enter::enter(py, || self.0.check(number))? {
            ShardState::Whole { bytes } => (Some(bytes), Vec::new()),
            ShardState::Absent => (None, Vec::new()),
            ShardState::Damaged(files) => (None, files.into_iter().map(|file| (file.name, file.reason)).collect()),
        })
    }

    /// Name of the stored file of shard `number`.
    fn name(&self, py: Python<'_>, number: usize) -> PyResult<String> {
        enter::enter(py, || self.0.name(number))
    }

    /// Replaces shard `number` with the shard of the remote; callable on any thread.
    fn repair(&self, py: Python<'_>, number: usize) -> PyResult<()> {
        enter::enter(py, || self.0.repair(number))
    }
}
