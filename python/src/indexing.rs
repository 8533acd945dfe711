//! Row indexes of JPEGs for Python: the trailer of a shard, and copies of data sets with row indexes.

use crate::enter;
use forebay_loader::decode::jpeg;
use forebay_loader::format::writer::{trailer_of, trailer_that_fits};
use forebay_loader::format::{Column, Encoding, Layout, ShardFormat};
use forebay_loader::indexing;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::path::Path;

/// Returns the trailer after the samples of a shard, which end at `samples_end` in its file. Each column has a size
/// (None: it varies) and a flag for JPEGs. The trailer is empty if it would exceed the limit of readers.
#[pyfunction]
pub(crate) fn row_index_trailer<'py>(
    py: Python<'py>,
    columns: Vec<(Option<u32>, bool)>,
    samples: Vec<PyBackedBytes>,
    samples_end: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let trailer = enter::enter(py, || {
        let column = |(size, is_jpeg): (Option<u32>, bool)| {
            let encoding = if is_jpeg { Encoding::Jpeg } else { Encoding::Bytes };
            Column { name: String::new(), encoding, size }
        };
        let layout = Layout { format: ShardFormat::Mds, columns: columns.into_iter().map(column).collect() };
        let trailer = trailer_of(&indexing::JpegRows, &layout, samples.iter().map(|sample| &**sample))?;
        Ok(trailer_that_fits(trailer, samples_end))
    })?;
    Ok(PyBytes::new(py, &trailer))
}

/// Returns a progressive JPEG file as a baseline file with the same pixels; any other file unchanged.
#[pyfunction]
pub(crate) fn jpeg_to_baseline<'py>(py: Python<'py>, file: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
    let baseline = enter::enter(py, || jpeg::to_baseline(&file))?;
    Ok(PyBytes::new(py, baseline.as_deref().unwrap_or(&file)))
}

/// Copy of a data set with row indexes, made shard by shard.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct IndexedCopy(indexing::IndexedCopy);

#[pymethods]
impl IndexedCopy {
    /// Starts the copy of the folder `source` in the folder `out`.
    #[new]
    fn new(py: Python<'_>, source: String, out: String, transcode: bool) -> PyResult<Self> {
        let begun = || indexing::IndexedCopy::begin(Path::new(&source), Path::new(&out), transcode);
        enter::enter(py, begun).map(Self)
    }

    /// Shards of the data set.
    fn __len__(&self) -> usize {
        self.0.shards()
    }

    /// Copies shard `number`; callable on any thread. Returns the counts of JPEGs, of indexed and of rewritten ones,
    /// and the bytes of the samples and of their index.
    fn shard(&self, py: Python<'_>, number: usize) -> PyResult<(u64, u64, u64, u64, u64)> {
        let copied = enter::enter(py, || self.0.shard(number))?;
        Ok((copied.jpegs, copied.indexed, copied.transcoded, copied.sample_bytes, copied.index_bytes))
    }

    /// Writes the index after all shards are copied.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || self.0.finish().map(drop))
    }
}
