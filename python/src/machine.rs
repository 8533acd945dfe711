//! Facts about the machine for Python.

use forebay_loader::topology;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Number of CPUs this process may use, at least 1.
#[pyfunction]
pub(crate) fn cpu_count() -> usize {
    topology::cpu_count()
}

/// Returns the bytes that a file of `length` bytes occupies on the disk of `folder`.
#[pyfunction]
pub(crate) fn bytes_on_disk(folder: PathBuf, length: u64) -> u64 {
    forebay_loader::bytes_on_disk(&folder, length)
}
