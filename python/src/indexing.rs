//! Row indexes of JPEGs for Python: what stands behind a shard's samples, and copies of data sets that have it.

use crate::enter;
use forebay_loader::decode::jpeg;
use forebay_loader::format::writer::{trailer_of, trailer_that_fits};
use forebay_loader::format::{Column, Encoding, Layout, ShardFormat};
use forebay_loader::indexing;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::path::Path;

/// What stands behind the samples of a shard whose columns have these sizes (None: they vary) and hold JPEGs or not, and
/// whose samples end at `samples_end` in its file. Nothing where that would be more than readers take.
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

/// A progressive JPEG file as a baseline one of the same pixels; any other file as it is.
#[pyfunction]
pub(crate) fn jpeg_to_baseline<'py>(py: Python<'py>, file: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
    let baseline = enter::enter(py, || jpeg::to_baseline(&file))?;
    Ok(PyBytes::new(py, baseline.as_deref().unwrap_or(&file)))
}

/// A data set copied shard by shard, with row indexes.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct IndexedCopy(indexing::IndexedCopy);

#[pymethods]
impl IndexedCopy {
    /// Begins to copy the folder `source` to the folder `out`.
    #[new]
    fn new(py: Python<'_>, source: String, out: String, transcode: bool) -> PyResult<Self> {
        let begun = || indexing::IndexedCopy::begin(Path::new(&source), Path::new(&out), transcode);
        enter::enter(py, begun).map(Self)
    }

    /// Shards of the data set.
    fn __len__(&self) -> usize {
        self.0.shards()
    }

    /// Copies shard `number`; any thread may. Counts of JPEGs, of those indexed and of those rewritten, bytes of the samples
    /// and of their index.
    fn shard(&self, py: Python<'_>, number: usize) -> PyResult<(u64, u64, u64, u64, u64)> {
        let copied = enter::enter(py, || self.0.shard(number))?;
        Ok((copied.jpegs, copied.indexed, copied.transcoded, copied.sample_bytes, copied.index_bytes))
    }

    /// Writes the index, when all shards are copied.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || self.0.finish().map(drop))
    }
}
