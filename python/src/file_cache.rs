//! Copies of files on local disk for Python.

use crate::enter;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// Folder of files with a limit, which can be pickled and used after a fork.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct FileCache {
    folder: PathBuf,
    limit: Option<u64>,
    cache: forebay_loader::FileCache,
}

#[pymethods]
impl FileCache {
    /// Cache of at most `limit` bytes on disk in `folder`.
    #[new]
    fn new(folder: PathBuf, limit: Option<u64>) -> Self {
        let cache = forebay_loader::FileCache::new(&folder, limit.unwrap_or(u64::MAX));
        Self { folder, limit, cache }
    }

    fn __getnewargs__(&self) -> (OsString, Option<u64>) {
        (self.folder.clone().into(), self.limit)
    }

    /// Path of the copy of the file with a digest; None if there is none. Notes the use of the copy.
    fn find(&self, py: Python<'_>, digest: &str) -> PyResult<Option<OsString>> {
        enter::enter(py, || Ok(self.cache.find(digest).map(PathBuf::into_os_string)))
    }

    /// Keeps `bytes` as `name`, a digest and a checksum, if the limit has room; returns false if it has none.
    fn add(&self, py: Python<'_>, name: &str, bytes: PyBackedBytes) -> PyResult<bool> {
        enter::enter(py, || self.cache.add(name, &bytes))
    }

    /// Removes a copy.
    fn discard(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        enter::enter(py, || self.cache.discard(&path))
    }
}
