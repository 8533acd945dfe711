//! Compilation of Json fields.

use crate::decode::field::{JsonPath, JsonText, JsonType};
use crate::decode::json_value::{JsonForm, JsonValue};
use crate::decode::plan::{RowShape, Work};
use crate::decode::ragged::elements;
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Compiles the arguments of a Json field.
pub(super) fn json_value(
    path: Option<&JsonPath>,
    dtype: Option<JsonType>,
    shape: Option<&[Option<usize>]>,
) -> Result<(Work, DType, RowShape)> {
    let parts = match path {
        None => Vec::new(),
        Some(path) => path.parts().ok_or_else(|| {
            Error::config(
                "`path` of Json has an empty part or a broken place in a list: write it as in meta.boxes[0].label, or as a list",
            )
            .with("path", serde_json::to_string(path).unwrap_or_default())
        })?,
    };
    let whole = if parts.is_empty() { JsonText::Json } else { JsonText::Str };
    let (form, dtype, row) = match (dtype.unwrap_or(JsonType::Other(whole)), shape) {
        (JsonType::Other(_), Some(_)) => {
            return Err(Error::config(
                "`shape` of Json is for lists of numbers: name their `dtype`, such as \"int64\"",
            ));
        }
        (JsonType::Other(JsonText::Str), None) => (JsonForm::Text, DType::UInt8, RowShape::Text),
        // The document as it is.
        (JsonType::Other(JsonText::Json), None) if parts.is_empty() => {
            return Ok((Work::Text, DType::UInt8, RowShape::Text));
        }
        (JsonType::Other(JsonText::Json), None) => (JsonForm::Json, DType::UInt8, RowShape::Text),
        (JsonType::Number(dtype), None) => (JsonForm::Number(dtype), dtype, RowShape::Fixed(Vec::new())),
        (JsonType::Number(dtype), Some(shape)) => {
            let row = match shape.iter().copied().collect::<Option<Vec<usize>>>() {
                Some(shape) => RowShape::Fixed(shape),
                None => RowShape::RaggedArray,
            };
            (JsonForm::Array(dtype, shape.to_vec()), dtype, row)
        }
    };
    if let RowShape::Fixed(shape) = &row
        && elements(shape).and_then(|n| n.checked_mul(8)).is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(Error::config("`shape` of Json is too large").with("shape", format!("{shape:?}")));
    }
    Ok((Work::Json(JsonValue::new(parts, form)?), dtype, row))
}
