//! Compression, hashes and offset tables for Python: bytes in, bytes out, without the interpreter's lock.

use crate::enter;
use forebay_loader::format::compression::Levels;
use forebay_loader::format::{self, Compression, HashAlgo};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Upper bound of the unpacked size of a stream of unknown size: more than any shard has, and still a valid allocation
/// size.
const RAW_BYTES_MAX: u64 = 1 << 40;

/// Returns the compression families: name, which is also the file extension, and levels if it has any.
#[pyfunction]
pub(crate) fn compressions() -> Vec<(&'static str, Option<Levels>)> {
    Compression::written().collect()
}

/// Compresses `data` with the algorithm and level in `name`, such as "zstd:3".
#[pyfunction]
pub(crate) fn compress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let packed = enter::enter(py, || Compression::parse(name)?.compress(data))?;
    Ok(PyBytes::new(py, &packed))
}

/// Unpacks `data`, which is compressed with `name`.
#[pyfunction]
pub(crate) fn decompress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let raw = enter::enter(py, || Compression::parse(name)?.decompress_all(data, RAW_BYTES_MAX))?;
    Ok(PyBytes::new(py, &raw))
}

/// Returns the names of the hashes.
#[pyfunction]
pub(crate) fn hashes() -> Vec<&'static str> {
    HashAlgo::ALL.into_iter().map(HashAlgo::name).collect()
}

/// Returns the hash `name` of `data` in hexadecimal digits.
#[pyfunction]
pub(crate) fn hex_digest(py: Python<'_>, name: &str, data: &[u8]) -> PyResult<String> {
    enter::enter(py, || Ok(HashAlgo::parse(name)?.hex(data)))
}

/// Returns the offset table of a shard with samples that have these sizes and start at `first`, followed by `config`.
#[pyfunction]
pub(crate) fn offset_table<'py>(
    py: Python<'py>,
    sizes: Vec<u32>,
    first: u64,
    config: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let table = enter::enter(py, || format::offset_table(&sizes, first, config))?;
    Ok(PyBytes::new(py, &table))
}
