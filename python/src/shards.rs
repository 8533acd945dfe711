//! Shards for Python: indexes and samples as values. Files are opened in Python, the formats are the engine's.

use crate::enter;
use crate::rows::RowSlice;
use crate::values::Decoders;
use forebay_loader::error::{Error, Result};
use forebay_loader::format::{self, Encoding, FIELDS, FilePair, Layout, ReadAt, Scratch, Shard, Value};
use forebay_loader::io::{self, ShardFile};
use forebay_loader::store::FetchMemory as _;
use forebay_loader::sync::Arc;
use forebay_loader::worker::{self, SampleInfo};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::ops::Range;
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

    /// Returns a clause for an error about a folder without an index.
    #[staticmethod]
    fn describe_folder(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
        enter::enter(py, || Ok(format::index::describe_folder(&folder)))
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
                "table_bytes": shard.table_bytes(),
            })
        });
        serde_json::Value::from_iter(shards).to_string()
    }

    /// Parses the offset table of shard `shard`, which is at the front of its first file.
    fn offsets(&self, py: Python<'_>, shard: usize, front: &[u8]) -> PyResult<Offsets> {
        enter::enter(py, || self.shard(shard)?.offsets(front)).map(Offsets)
    }

    /// Unpacks file `file` of shard `shard`.
    fn unpack<'py>(&self, py: Python<'py>, shard: usize, file: usize, packed: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let raw = enter::enter(py, || {
            let shard = self.shard(shard)?;
            let pair = shard.files().nth(file).ok_or_else(|| Error::config(format!("a shard has no file {file}")))?;
            let mut raw = Vec::new();
            match shard.compression {
                Some(compression) => compression.decompress(packed, pair.raw.bytes, &mut raw)?,
                None => raw.extend_from_slice(packed),
            }
            Ok(raw)
        })?;
        Ok(PyBytes::new(py, &raw))
    }

    /// Returns the columns of one sample's bytes: name, kind of value, value.
    fn decode<'py>(&self, py: Python<'py>, shard: usize, sample: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let layout = &self.shard(shard).map_err(|e| crate::error::to_python(py, &e))?.layout;
        decoded(py, layout, sample, None)
    }

    /// Returns the columns of the sample at `offset` of the file at `path`, of `bytes` bytes, as
    /// [`decode`](Self::decode) does. Columns of bytes are read directly into their objects. None for a sample that is
    /// split in memory alone.
    fn decode_file<'py>(
        &self,
        py: Python<'py>,
        shard: usize,
        path: PathBuf,
        offset: u64,
        bytes: u64,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let raise = |e: Error| crate::error::to_python(py, &e);
        let layout = &self.shard(shard).map_err(raise)?.layout;
        let (file, ranges) = enter::enter(py, || {
            let file = io::open(&path)?;
            let ranges = ranges(layout, &StoredSample { file: &file, offset, bytes })?;
            Ok((file, ranges))
        })?;
        let Some(ranges) = ranges else { return Ok(None) };
        let out = PyList::empty(py);
        for (column, range) in layout.columns.iter().zip(ranges) {
            let (at, length) = (offset + range.start, (range.end - range.start) as usize);
            if let Some(kind) = stored_kind(&column.encoding) {
                let row = enter::enter(py, || {
                    let mut row = RowSlice::new(length)?;
                    io::read_exact_at(&file, row.bytes_mut(), at)?;
                    row.into_object()
                })?;
                out.append((&column.name, kind, row))?;
                continue;
            }
            let stored = enter::enter(py, || {
                let mut stored = vec![0; length];
                io::read_exact_at(&file, &mut stored, at).map(|()| stored)
            })?;
            let value = column.encoding.decode(&stored).map_err(|e| raise(e.with("column", &column.name)))?;
            out.append((&column.name, value.kind(), to_python(py, &value)?))?;
        }
        Ok(Some(out))
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

/// Sample in a file, as a file.
struct StoredSample<'a> {
    file: &'a ShardFile,
    offset: u64,
    bytes: u64,
}

impl ReadAt for StoredSample<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        io::read_exact_at(self.file, into, self.offset.saturating_add(offset))
    }
}

/// Returns the range of each column in `sample`; `None` unless the columns are all of it.
fn ranges(layout: &Layout, sample: &StoredSample<'_>) -> Result<Option<Vec<Range<u64>>>> {
    // A sample may lack columns then.
    if layout.column(FIELDS).is_some() {
        return Ok(None);
    }
    let mut ranges = Vec::with_capacity(layout.columns.len());
    for column in 0..layout.columns.len() {
        let Some(range) = layout.value_range(column, sample)? else { return Ok(None) };
        ranges.push(range);
    }
    Ok(Some(ranges).filter(|ranges| ranges.last().is_some_and(|last| last.end == sample.bytes)))
}

/// Returns the columns of one sample's bytes, with the known `info`: name, kind of value, value. Of a row of a
/// table the columns without a value are null; otherwise they are left out.
pub(crate) fn decoded<'py>(
    py: Python<'py>,
    layout: &Layout,
    sample: &[u8],
    info: Option<&SampleInfo>,
) -> PyResult<Bound<'py, PyList>> {
    let is_row = info.is_some_and(|info| info.is_row);
    let raise = |e: Error| {
        let e = match info {
            Some(info) => info.describe(e),
            None => e,
        };
        crate::error::to_python(py, &e)
    };
    let mut scratch = Scratch::default();
    let columns = layout.split(sample, &mut scratch).map_err(raise)?;
    let out = PyList::empty(py);
    for (number, column) in layout.columns.iter().enumerate() {
        match columns.find(number) {
            // The list of the columns that are not null.
            Some(_) if is_row && column.name == FIELDS => {}
            Some(bytes) => {
                let value = column.encoding.decode(bytes).map_err(|e| raise(e.with("column", &column.name)))?;
                out.append((&column.name, value.kind(), to_python(py, &value)?))?;
            }
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

/// Offset table of one shard.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Offsets(format::OffsetTable);

#[pymethods]
impl Offsets {
    /// Returns offset in the data file and length of sample `i`, in bytes.
    fn range(&self, py: Python<'_>, i: usize) -> PyResult<(u64, u32)> {
        enter::enter(py, || self.0.range(i))
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
