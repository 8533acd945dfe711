//! Shards for Python: indexes and samples as values. Files are opened in Python, the formats are the engine's.

use crate::enter;
use crate::rows::RowSlice;
use crate::values::Decoders;
use forebay_loader::error::{Context as _, Error, ErrorKind, Result};
use forebay_loader::format::index::INDEX_BYTES_MAX;
use forebay_loader::format::{self, Column, Encoding, FIELDS, FilePair, Layout, ReadAt as _, Scratch, Shard, Value};
use forebay_loader::io;
use forebay_loader::store::FetchMemory as _;
use forebay_loader::sync::Arc;
use forebay_loader::worker::{self, StoredSample};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::path::PathBuf;

/// Parsed index.json.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Index(Arc<format::Index>);

impl Index {
    /// The engine's index.
    pub(crate) fn inner(&self) -> &Arc<format::Index> {
        &self.0
    }

    fn shard(&self, number: usize) -> Result<&Shard> {
        self.0.shards.get(number).ok_or_else(|| Error::config(format!("there is no shard {number}")))
    }
}

#[pymethods]
impl Index {
    /// Parses the bytes of an index; `file` is its name in messages.
    #[new]
    fn new(py: Python<'_>, text: &[u8], file: &str) -> PyResult<Self> {
        enter::enter(py, || format::Index::parse(text, file)).map(|index| Self(Arc::new(index)))
    }

    /// Parses the index in the file at `path` piece by piece, without its text in memory.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        enter::enter(py, || {
            let file = std::fs::File::open(&path).map_err(|e| Error::from_io(e, "the index cannot be opened"))?;
            format::Index::read(file, &path.to_string_lossy()).map(|index| Self(Arc::new(index)))
        })
    }

    /// Parses the index in the file at `path`, for people: errors name the data sets that are near.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let there = format::index::describe_folder(path.parent().unwrap_or(&path));
                let name = path.file_name().unwrap_or_default().display();
                Error::new(ErrorKind::NotFound, format!("there is no {name}: {there}"))
            }
            std::io::ErrorKind::InvalidData => Error::format("the index cannot be read").caused_by(e),
            _ => Error::from_io(e, "the index cannot be read"),
        };
        enter::enter(py, || {
            let text = io::read_regular(&path, INDEX_BYTES_MAX).map_err(failed);
            format::Index::parse(&text.context("file", || path.display())?, &path.to_string_lossy())
        })
        .map(|index| Self(Arc::new(index)))
    }

    /// Number of samples in all shards.
    fn __len__(&self) -> usize {
        self.0.samples() as usize
    }

    /// Samples of each shard, as the bytes of int64.
    fn samples_per_shard<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let samples: Vec<u8> = self.0.shards.iter().flat_map(|shard| shard.samples.to_ne_bytes()).collect();
        PyBytes::new(py, &samples)
    }

    /// Bytes of the largest shard, raw and compressed together.
    fn shard_bytes_max(&self) -> u64 {
        let bytes = self.0.shards.iter().map(|shard| shard.raw_bytes() + shard.zip_bytes().unwrap_or(0));
        bytes.max().unwrap_or(0)
    }

    /// Column with Python pickles as values, if there is one.
    fn pickled_column(&self) -> Option<&str> {
        let mut columns = self.0.shards.iter().flat_map(|shard| &shard.layout.columns);
        columns.find(|column| !column.encoding.is_safe()).map(|column| column.name.as_str())
    }

    /// Returns the shards as JSON: samples, columns, compression and files of each.
    fn describe(&self) -> String {
        let shards = self.0.shards.iter().map(|shard| {
            let columns: Vec<(&str, String)> =
                shard.layout.columns.iter().map(|c| (c.name.as_str(), c.encoding.to_string())).collect();
            let file = |f: FilePair<'_>| {
                let zip = f.zip.map(|zip| &*zip.basename);
                serde_json::json!({"raw": *f.raw.basename, "raw_bytes": f.raw.bytes, "zip": zip})
            };
            let files: Vec<_> = shard.files().map(file).collect();
            serde_json::json!({
                "format": shard.layout.format.name(),
                "samples": shard.samples,
                "columns": columns,
                "compression": shard.compression.map(|c| c.to_string()),
                "files": files,
            })
        });
        serde_json::Value::from_iter(shards).to_string()
    }
}

/// Returns the kind of the values of an encoding that are their stored bytes.
fn stored_kind(encoding: &Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Bytes => Some("bytes"),
        Encoding::Jpeg => Some("jpeg"),
        Encoding::Png => Some("png"),
        Encoding::Pickle => Some("pickle"),
        _ => None,
    }
}

/// Adds the file and the position of a sample to an error.
pub(crate) type Locate<'a> = &'a (dyn Fn(Error) -> Error + Sync);

/// Returns the columns of `sample`: name, kind of value, value. Columns of bytes are read directly into their objects.
/// None for a sample that is split only in memory.
pub(crate) fn decoded_in_parts<'py>(
    py: Python<'py>,
    sample: &StoredSample,
    locate: Locate<'_>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let Some(ranges) = enter::enter(py, || sample.ranges().map_err(locate))? else { return Ok(None) };
    let out = PyList::empty(py);
    for (column, range) in sample.layout().columns.iter().zip(ranges) {
        let length = (range.end - range.start) as usize;
        if let Some(kind) = stored_kind(&column.encoding) {
            let row = enter::enter(py, || {
                let mut row = RowSlice::new(length)?;
                sample.read_at(row.bytes_mut(), range.start).map_err(locate)?;
                row.into_object()
            })?;
            out.append((&column.name, kind, row))?;
            continue;
        }
        let stored = enter::enter(py, || {
            let mut stored = vec![0; length];
            sample.read_at(&mut stored, range.start).map_err(locate).map(|()| stored)
        })?;
        out.append(converted(py, column, &stored, locate)?)?;
    }
    Ok(Some(out))
}

/// Returns name, kind and value of a stored value.
fn converted<'py>(
    py: Python<'py>,
    column: &Column,
    stored: &[u8],
    locate: Locate<'_>,
) -> PyResult<(String, &'static str, Bound<'py, PyAny>)> {
    let raise = |e: Error| crate::error::to_python(py, &locate(e.with("column", &column.name)));
    let value = column.encoding.decode(stored).map_err(raise)?;
    Ok((column.name.clone(), value.kind(), to_python(py, &value)?))
}

/// Returns the columns of one sample's bytes: name, kind of value, value. Of a row of a table the columns without a
/// value are null; otherwise they are left out.
pub(crate) fn decoded<'py>(
    py: Python<'py>,
    layout: &Layout,
    sample: &[u8],
    is_row: bool,
    locate: Locate<'_>,
) -> PyResult<Bound<'py, PyList>> {
    let mut scratch = Scratch::default();
    let split = layout.split(sample, &mut scratch);
    let columns = split.map_err(|e| crate::error::to_python(py, &locate(e)))?;
    let out = PyList::empty(py);
    for (number, column) in layout.columns.iter().enumerate() {
        match columns.find(number) {
            // The list of the columns that are not null.
            Some(_) if is_row && column.name == FIELDS => {}
            Some(bytes) => out.append(converted(py, column, bytes, locate)?)?,
            None if is_row => out.append((&column.name, "null", py.None()))?,
            None => {}
        }
    }
    Ok(out)
}

/// Samples of one shard; its files are opened for each read.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct SingleShard {
    shard: worker::SingleShard,
    decoders: Decoders,
}

#[pymethods]
impl SingleShard {
    /// Reads the only shard of `index`, with files below `folder`. `decoder_of` as for `Reader`.
    #[new]
    fn new(py: Python<'_>, index: &Index, folder: PathBuf, decoder_of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let shard = enter::enter(py, || Ok(worker::SingleShard::new(index.shard(0)?.clone(), &folder)))?;
        let decoders = Decoders::new(&[shard.layout().clone()], decoder_of)?;
        Ok(Self { shard, decoders })
    }

    /// Returns sample `index` as a dict of its columns.
    fn sample<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyDict>> {
        let mut buffer = Vec::new();
        let bytes = enter::enter(py, || self.shard.read(index, &mut buffer))?;
        self.decoders.sample(py, 0, &buffer[..bytes])
    }
}

/// Returns a value in Python's own types; a value that needs numpy or Pillow as a tuple of its parts.
fn to_python<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bytes(b) | Value::Jpeg(b) | Value::Png(b) | Value::Pickle(b) => PyBytes::new(py, b).into_any(),
        Value::Str(t) | Value::Json(t) | Value::Decimal(t) | Value::BigInt(t) => PyString::new(py, t).into_any(),
        Value::Int(i) => i.into_pyobject(py)?.into_any(),
        Value::Float(f) => f.into_pyobject(py)?.into_any(),
        Value::Scalar(scalar) => {
            let mut bytes = Vec::new();
            scalar.write(&mut bytes);
            PyBytes::new(py, &bytes).into_any()
        }
        Value::Array(a) => (a.dtype.name(), &a.shape, PyBytes::new(py, &a.data)).into_pyobject(py)?.into_any(),
        Value::Pixels(p) => (p.width, p.height, &*p.mode, PyBytes::new(py, &p.data)).into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let out = PyList::empty(py);
            for item in items {
                out.append((item.kind(), to_python(py, item)?))?;
            }
            out.into_any()
        }
    })
}
