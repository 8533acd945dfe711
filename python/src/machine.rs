//! Facts about the machine for Python.

use forebay_loader::topology;
use pyo3::prelude::*;

/// Number of CPUs this process may use, at least 1.
#[pyfunction]
pub(crate) fn cpu_count() -> usize {
    topology::cpu_count()
}
