//! Row indexes of JPEGs for Python: the trailer of a shard, and copies of data sets with row indexes.

use crate::enter;
use crate::library::LibraryStores;
use forebay_loader::FileListing;
use forebay_loader::config::LoaderConfig;
use forebay_loader::decode::jpeg;
use forebay_loader::format::tar::encoding_of;
use forebay_loader::format::writer::{trailer_of, trailer_that_fits};
use forebay_loader::format::{Column, Encoding, Layout, Mds};
use forebay_loader::indexing;
use forebay_loader::objects::settings_from_json;
use forebay_loader::sources::shard_names;
use forebay_loader::store::StoreConfig;
use forebay_loader::sync::Arc;
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
        let layout = Layout::new(Mds, columns.into_iter().map(column).collect());
        let trailer = trailer_of(&indexing::JpegRows, &layout, samples.iter().map(|sample| &**sample))?;
        Ok(trailer_that_fits(trailer, samples_end))
    })?;
    Ok(PyBytes::new(py, &trailer))
}

/// Returns a progressive JPEG file as a baseline file with the same pixels; a file of any different kind unchanged.
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

/// Tars of a list, to make an index of them.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct TarSet(Arc<forebay_loader::TarSet>);

#[pymethods]
impl TarSet {
    /// Opens the tars of `list` with the stores' settings, as JSON.
    #[new]
    fn new(py: Python<'_>, list: String, settings: String, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        enter::enter(py, || {
            let config = StoreConfig { library, ..settings_from_json(&settings)? };
            forebay_loader::TarSet::of_list(&list, config).map(|set| Self(Arc::new(set)))
        })
    }

    /// Returns true if `list` is a folder of tars and of no further data set.
    #[staticmethod]
    fn is_folder(py: Python<'_>, list: String, settings: String, library: Option<Py<LibraryStores>>) -> PyResult<bool> {
        let library = LibraryStores::stores(library.as_ref());
        enter::enter(py, || {
            let config = StoreConfig { library, ..settings_from_json(&settings)? };
            forebay_loader::TarSet::is_folder(&list, config)
        })
    }

    /// Address of the folder of the tars.
    #[getter]
    fn root(&self) -> &str {
        self.0.root()
    }

    /// Number of tars.
    fn __len__(&self) -> usize {
        self.0.tars()
    }

    /// Removes the entries that are kept for a run that continues this one.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        enter::enter(py, || {
            self.0.end();
            Ok(())
        })
    }

    /// Returns an index of all tars as JSON, and the number of samples; at most `threads` are read at a time. Calls
    /// `progress` with the tars that were read and their samples from time to time.
    fn index(&self, py: Python<'_>, threads: usize, progress: Option<Py<PyAny>>) -> PyResult<(String, u64)> {
        let set = self.0.clone();
        let seen = |py: Python<'_>| match &progress {
            Some(progress) => progress.call1(py, self.0.progress()).map(drop),
            None => Ok(()),
        };
        // In a separate thread, so that Ctrl-C works.
        Ok((enter::apart_seen(py, seen, move || set.index(threads))?, self.0.progress().1))
    }
}

/// Lengths in tokens of a data set's samples.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct LengthIndex(Arc<forebay_loader::loader::LengthIndex>);

#[pymethods]
impl LengthIndex {
    /// Takes a loader's `config` with one field, which makes the tokens.
    #[new]
    fn new(py: Python<'_>, config: String, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        let new = || forebay_loader::loader::LengthIndex::new(LoaderConfig::from_json(&config)?, library);
        enter::enter(py, new).map(|index| Self(Arc::new(index)))
    }

    /// Returns the lengths of all streams, unsigned numbers of 32 bits, and their sum and the largest. Calls `progress`
    /// with the shards that were read and all shards from time to time.
    fn make<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<(Bound<'py, PyBytes>, u64, u32)> {
        let index = self.0.clone();
        let seen = |py: Python<'_>| match &progress {
            Some(progress) => progress.call1(py, self.0.progress()).map(drop),
            None => Ok(()),
        };
        // In a separate thread, so that Ctrl-C works.
        let lengths = enter::apart_seen(py, seen, move || index.make())?;
        let values = || lengths.iter().flat_map(|lengths| lengths.values());
        let samples: usize = lengths.iter().map(|lengths| lengths.values().len()).sum();
        let bytes = PyBytes::new_with(py, samples * size_of::<u32>(), |into| {
            let numbers = into.chunks_exact_mut(size_of::<u32>()).zip(values());
            numbers.for_each(|(into, value)| into.copy_from_slice(&value.to_ne_bytes()));
            Ok(())
        })?;
        let total = lengths.iter().map(|lengths| lengths.total()).sum();
        Ok((bytes, total, values().max().copied().unwrap_or(0)))
    }
}

/// Lists the files of the only stream of a loader's `config`. Returns the address of their folder, the name and the
/// content of the list there, and the number of samples.
#[pyfunction]
pub(crate) fn list_of_files(
    py: Python<'_>,
    config: String,
    library: Option<Py<LibraryStores>>,
) -> PyResult<(String, &'static str, Vec<u8>, u64)> {
    let library = LibraryStores::stores(library.as_ref());
    // In a separate thread, so that Ctrl-C works.
    let made = enter::apart(py, move || FileListing::of(&LoaderConfig::from_json(&config)?, library))?;
    Ok((made.root, made.basename, made.document, made.samples))
}

/// Returns the encoding of a field of tar files.
#[pyfunction]
pub(crate) fn tar_encoding(field: &str) -> String {
    encoding_of(field).to_string()
}

/// Returns true if a remote is a list of files, or was meant as one.
#[pyfunction]
pub(crate) fn is_file_list(remote: &str) -> bool {
    !matches!(shard_names(remote), Ok(None))
}

/// Returns true if a remote is a list of tars, or a list with a mistake.
#[pyfunction]
pub(crate) fn is_tar_list(remote: &str) -> bool {
    forebay_loader::TarSet::is_list(remote)
}

/// Returns true if a remote is a list of TFRecord or ArrayRecord files, where some records show the columns of all.
#[pyfunction]
pub(crate) fn is_record_list(remote: &str) -> bool {
    matches!(shard_names(remote), Ok(Some(list)) if list.kind.is_sampled)
}
