//! Samples as Python dicts: the engine decodes the encodings that it supports, Python functions decode the rest.

use crate::error;
use forebay_loader::error::Error;
use forebay_loader::format::encoding::{Array, DType, Scalar};
use forebay_loader::format::{Encoding, Layout, Scratch, Value};
use forebay_loader::sync::{Arc, Mutex};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

/// Decoders of the columns of each layout.
pub(crate) struct Decoders {
    layouts: Vec<Columns>,
    scratch: Mutex<Scratch>,
}

struct Columns {
    layout: Arc<Layout>,
    /// Name, and the Python function that decodes the column; `None`: the engine decodes it.
    columns: Vec<(Py<PyString>, Option<Py<PyAny>>)>,
}

impl Decoders {
    /// `decoder_of` is called once for each column of a binary format, with the name of its encoding, and with whether
    /// it is a built-in one.
    pub(crate) fn new(layouts: &[Arc<Layout>], decoder_of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = decoder_of.py();
        let of_layout = |layout: &Arc<Layout>| {
            let columns = layout.columns.iter().map(|column| {
                let decoder = if layout.format.is_split() {
                    None
                } else {
                    let is_built_in = !matches!(column.encoding, Encoding::Custom(_));
                    decoder_of.call1((column.encoding.to_string(), is_built_in))?.extract::<Option<Py<PyAny>>>()?
                };
                Ok((PyString::intern(py, &column.name).unbind(), decoder))
            });
            Ok(Columns { layout: layout.clone(), columns: columns.collect::<PyResult<_>>()? })
        };
        let layouts = layouts.iter().map(of_layout).collect::<PyResult<_>>()?;
        Ok(Self { layouts, scratch: Mutex::default() })
    }

    /// Returns the columns of a sample of layout `layout` in their stored order.
    pub(crate) fn sample<'py>(&self, py: Python<'py>, layout: usize, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
        let raise = |e: Error| error::to_python(py, &e);
        let Columns { layout, columns } = &self.layouts[layout];
        // Taken rather than locked, because a decoder in Python may read a second sample during this call.
        let mut scratch = std::mem::take(&mut *self.scratch.lock());
        let dict = PyDict::new(py);
        let parts = layout.split(bytes, &mut scratch).map_err(raise)?;
        for (i, bytes) in parts.present() {
            let ((name, decoder), column) = (&columns[i], &layout.columns[i]);
            let value = match decoder {
                Some(decoder) => decoder.bind(py).call1((PyBytes::new(py, bytes),))?,
                None => value(py, &column.encoding, bytes, &column.name)?,
            };
            dict.set_item(name, value)?;
        }
        *self.scratch.lock() = scratch;
        Ok(dict)
    }
}

fn value<'py>(py: Python<'py>, encoding: &Encoding, bytes: &[u8], column: &str) -> PyResult<Bound<'py, PyAny>> {
    let raise = |e: Error| error::to_python(py, &e.with("column", column));
    Ok(match encoding.decode(bytes).map_err(raise)? {
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::Str(text) => PyString::new(py, &text).into_any(),
        Value::Int(int) => int.into_pyobject(py)?.into_any(),
        Value::BigInt(digits) => py.get_type::<PyInt>().call1((&*digits,))?,
        Value::Float(float) => PyFloat::new(py, float).into_any(),
        Value::Scalar(scalar) => Numpy::of(py)?.scalar(py, scalar)?,
        Value::Array(array) => Numpy::of(py)?.array(py, &array)?,
        value => return Err(raise(Error::internal(format!("a {} is decoded in Python", value.kind())))),
    })
}

/// Functions and types of numpy, looked up once.
struct Numpy {
    frombuffer: Py<PyAny>,
    /// In the order of [`DType::stored`].
    types: Vec<Py<PyAny>>,
    dtypes: Vec<Py<PyAny>>,
}

impl Numpy {
    fn of(py: Python<'_>) -> PyResult<&'static Self> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let types: Vec<_> = DType::stored().map(|d| numpy.getattr(d.name())).collect::<PyResult<_>>()?;
            let dtypes = types.iter().map(|t| Ok(numpy.getattr("dtype")?.call1((t,))?.unbind()));
            Ok(Self {
                frombuffer: numpy.getattr("frombuffer")?.unbind(),
                dtypes: dtypes.collect::<PyResult<_>>()?,
                types: types.into_iter().map(Bound::unbind).collect(),
            })
        })
    }

    fn scalar<'py>(&self, py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
        let of = self.types[position_of(scalar.dtype())].bind(py);
        match scalar {
            Scalar::U64(int) => of.call1((int,)),
            Scalar::F16(_) | Scalar::F32(_) | Scalar::F64(_) => of.call1((scalar.as_f64(),)),
            _ => of.call1((scalar.as_i64(),)),
        }
    }

    /// Returns a read-only array that owns its bytes.
    fn array<'py>(&self, py: Python<'py>, array: &Array<'_>) -> PyResult<Bound<'py, PyAny>> {
        let dtype = self.dtypes[position_of(array.dtype)].bind(py);
        let flat = self.frombuffer.bind(py).call1((PyBytes::new(py, &array.data), dtype))?;
        if array.shape.len() == 1 {
            return Ok(flat);
        }
        flat.call_method1("reshape", (PyTuple::new(py, &array.shape)?,))
    }
}

/// Index of `dtype` in [`DType::stored`].
fn position_of(dtype: DType) -> usize {
    DType::stored().position(|d| d == dtype).unwrap_or_default()
}
