//! Numbers that are drawn for one sample.

use crate::enter;
use forebay_loader::Error;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::{self, DrawKey, FieldSpec};
use pyo3::prelude::*;

/// Returns the key of the generator that a `Map` passes to its function for a sample, 128 bits.
#[pyfunction]
pub(crate) fn function_key(augment_seed: u64, epoch: u64, stream: u32, draw: u64) -> u128 {
    DrawKey { epoch, stream, draw }.of_function(augment_seed)
}

/// Returns the steps of a field, a JSON document, for a picture of `size` (columns, rows), as a JSON document. `key` is
/// the epoch, the stream, the draw and the view; `boxes` are the boxes of the picture, left, top, right and bottom.
#[pyfunction]
pub(crate) fn drawn_operations(
    py: Python<'_>,
    field: &str,
    name: &str,
    augment_seed: u64,
    key: (u64, u32, u64, u32),
    size: (u32, u32),
    boxes: Option<Vec<[f64; 4]>>,
) -> PyResult<String> {
    enter::enter(py, || {
        let spec: FieldSpec =
            serde_json::from_str(field).map_err(|e| Error::config("the field cannot be read").caused_by(e))?;
        let (epoch, stream, draw, view) = key;
        let (key, size) = (DrawKey { epoch, stream, draw }, Size { w: size.0, h: size.1 });
        let steps = decode::drawn(&spec, (name, view), augment_seed, key, (size, boxes.as_deref()))?;
        Ok(serde_json::Value::Array(steps).to_string())
    })
}
