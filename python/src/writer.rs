//! MDS writer for Python: converts values from their kind and plain parts to the engine's type.

use crate::library::LibraryStores;
use crate::{enter, error};
use forebay_loader::config::WriterConfig;
use forebay_loader::error::Error;
use forebay_loader::format::Value;
use forebay_loader::format::encoding::{Array, DType, Pixels, Scalar};
use forebay_loader::format::writer::Writer;
use forebay_loader::indexing::JpegRows;
use forebay_loader::sync::{Arc, Mutex};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Writer of shards and an index in a directory or a store.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct MdsWriter(Mutex<Option<Writer>>);

#[pymethods]
impl MdsWriter {
    /// Starts a writer with the options in `config`, as JSON.
    #[new]
    fn new(py: Python<'_>, config: &str, library: Option<Py<LibraryStores>>) -> PyResult<Self> {
        let library = LibraryStores::stores(library.as_ref());
        let open = || WriterConfig::from_json(config)?.open(Arc::new(JpegRows), library);
        enter::enter(py, open).map(|writer| Self(Mutex::new(Some(writer))))
    }

    /// Adds a sample: for each column, in the order of their names, the kind of value and its parts.
    fn write(&self, py: Python<'_>, values: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let mut sample = Vec::with_capacity(values.len());
        for (kind, parts) in &values {
            sample.push(from_python(kind, parts)?);
        }
        let mut is_added = false;
        enter::wait(py, || {
            let mut writer = self.0.lock();
            let writer = writer.as_mut().ok_or_else(finished)?;
            if !is_added {
                // After an interrupt, an earlier sample's shard may still wait for room.
                if !writer.drain(enter::SIGNALS_EVERY)? {
                    return Ok(None);
                }
                writer.add(&sample)?;
                is_added = true;
            }
            Ok(writer.drain(enter::SIGNALS_EVERY)?.then_some(()))
        })
    }

    /// Writes the last shard and the index. An interrupt ends uploads, and there is no index.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let writer = enter::enter(py, || self.0.lock().take().ok_or_else(finished))?;
        let canceller = writer.canceller();
        enter::apart_until(py, move || canceller.cancel(), move || writer.finish().map(drop))
    }

    /// Stops without an index.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let Some(writer) = enter::enter(py, || Ok(self.0.lock().take()))? else { return Ok(()) };
        enter::apart(py, move || {
            drop(writer);
            Ok(())
        })
    }
}

impl Drop for MdsWriter {
    fn drop(&mut self) {
        enter::drop_detached(self.0.get_mut().take());
    }
}

fn finished() -> Error {
    Error::config("this writer is finished: make a new one, for a different folder")
}

/// Returns the engine's value. All parts are copied, so that the interpreter's lock can be released.
fn from_python(kind: &str, parts: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    Ok(match kind {
        "bytes" => Value::Bytes(parts.extract::<Vec<u8>>()?.into()),
        "str" => Value::Str(parts.extract::<String>()?.into()),
        "json" => Value::Json(parts.extract::<String>()?.into()),
        "decimal" => Value::Decimal(parts.extract::<String>()?.into()),
        "float" => Value::Float(parts.extract()?),
        "int" => {
            let digits: String = parts.extract()?;
            digits.parse().map_or_else(|_| Value::BigInt(digits.into()), Value::Int)
        }
        "array" => {
            let (dtype, shape, data): (String, Vec<usize>, Vec<u8>) = parts.extract()?;
            let unknown = || Error::config(format!("arrays of {dtype} cannot be stored"));
            let dtype = DType::from_name(&dtype).ok_or_else(unknown).map_err(|e| error::to_python(parts.py(), &e))?;
            Value::Array(Array { dtype, shape, data: data.into() })
        }
        "scalar" => {
            let (dtype, bytes): (String, Vec<u8>) = parts.extract()?;
            let unknown = || Error::config(format!("numbers of type {dtype} cannot be stored"));
            let scalar = DType::from_name(&dtype).and_then(|d| Scalar::read(d, &bytes)).ok_or_else(unknown);
            Value::Scalar(scalar.map_err(|e| error::to_python(parts.py(), &e))?)
        }
        "pixels" => {
            let (width, height, mode, data): (u32, u32, String, Vec<u8>) = parts.extract()?;
            Value::Pixels(Pixels { width, height, mode: mode.into(), data: data.into() })
        }
        "list" => {
            let mut items = Vec::new();
            for item in parts.try_iter()? {
                let item = item?.cast_into::<PyTuple>()?;
                items.push(from_python(&item.get_item(0)?.extract::<String>()?, &item.get_item(1)?)?);
            }
            Value::List(items)
        }
        _ => return Err(error::to_python(parts.py(), &Error::internal(format!("a value of kind {kind}")))),
    })
}
