//! Compression, hashes and offset tables for Python: bytes in, bytes out, without the interpreter's lock.

use crate::enter;
use forebay_loader::format::compress::CompressionAlgo;
use forebay_loader::format::{self, Compression, HashAlgo};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Most that a stream of unknown size may unpack to: more than any shard, and less than what would be taken for a wrong
/// address.
const RAW_BYTES_MAX: u64 = 1 << 40;

/// Lowest, highest and default level.
type Levels = (u8, u8, u8);

/// Families of compression by name, which is the file's extension too, each with its levels if it has any.
#[pyfunction]
pub(crate) fn compressions() -> Vec<(&'static str, Option<Levels>)> {
    CompressionAlgo::ALL.into_iter().map(|algo| (algo.name(), algo.levels())).collect()
}

/// `data` compressed as `name` says, such as "zstd:3".
#[pyfunction]
pub(crate) fn compress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let packed = enter::enter(py, || Compression::parse(name)?.compress(data))?;
    Ok(PyBytes::new(py, &packed))
}

/// What `data`, compressed as `name` says, holds.
#[pyfunction]
pub(crate) fn decompress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let raw = enter::enter(py, || Compression::parse(name)?.decompress_all(data, RAW_BYTES_MAX))?;
    Ok(PyBytes::new(py, &raw))
}

/// Names of the hashes.
#[pyfunction]
pub(crate) fn hashes() -> Vec<&'static str> {
    HashAlgo::ALL.into_iter().map(HashAlgo::name).collect()
}

/// The hash called `name` of `data`, in hexadecimal digits.
#[pyfunction]
pub(crate) fn hex_digest(py: Python<'_>, name: &str, data: &[u8]) -> PyResult<String> {
    enter::enter(py, || Ok(HashAlgo::parse(name)?.hex(data)))
}

/// The offset table of a shard whose samples have these sizes and start at `first`, with `config` behind it.
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
