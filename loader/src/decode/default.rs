//! Rows of samples that lack a field's value.

use serde_json::Value;

use super::json_value::{JsonForm, JsonScratch, JsonValue};
use super::plan::{Output, RowShape};
use super::row::Row;
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding::DType;

/// Returns the row of `output` with the value `default`, which has the `form` of a value of JSON if it is one.
pub(super) fn default_row(default: &Value, output: &Output, form: Option<&JsonForm>) -> Result<Vec<u8>> {
    let made = || match (&output.shape, default) {
        (RowShape::Text, default) if form == Some(&JsonForm::Json) => Ok(default.to_string().into_bytes()),
        (RowShape::Text, Value::String(text)) => Ok(text.clone().into_bytes()),
        (RowShape::Text, _) => Err(Error::config("`default` is not text")),
        (RowShape::Bytes, Value::Array(bytes)) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            let bytes = bytes.iter().map(byte).collect::<Option<_>>();
            bytes.ok_or_else(|| Error::config("the numbers of `default` are not bytes"))
        }
        (RowShape::Bytes, _) => Err(Error::config("`default` is not a list of bytes, each a number from 0 to 255")),
        (RowShape::Fixed(_), Value::Number(_) | Value::String(_)) => {
            let mut row = vec![0; output.row_bytes().unwrap_or(0)];
            let one = &mut [0; 8][..output.dtype.size()];
            write_value(default, JsonForm::Number(output.dtype), &mut Row::Fixed(one))?;
            row.chunks_exact_mut(one.len()).for_each(|element| element.copy_from_slice(one));
            Ok(row)
        }
        (RowShape::Fixed(shape), _) => {
            let mut row = vec![0; output.row_bytes().unwrap_or(0)];
            let form = JsonForm::Array(output.dtype, shape.iter().copied().map(Some).collect());
            write_value(default, form, &mut Row::Fixed(&mut row))?;
            Ok(row)
        }
        (RowShape::RaggedArray, _) => {
            let mut row = Vec::new();
            let axes = std::iter::successors(Some(default), |value| value.as_array()?.first());
            let axes = axes.filter(|value| value.is_array()).count();
            let form = form.cloned().unwrap_or_else(|| JsonForm::Array(output.dtype, vec![None; axes]));
            write_value(default, form, &mut Row::Var(&mut row))?;
            Ok(row)
        }
    };
    made().map_err(|e| e.of_kind(ErrorKind::Config).with("default", default))
}

fn write_value(default: &Value, form: JsonForm, row: &mut Row<'_>) -> Result<()> {
    let text = match default {
        // JSON has no words for these numbers.
        Value::String(word) if matches!(&**word, "nan" | "inf" | "-inf") => {
            word.replace("nan", "NaN").replace("inf", "Infinity")
        }
        value => value.to_string(),
    };
    JsonValue::new(Vec::new(), form)?.write(text.as_bytes(), row, &mut JsonScratch::default())
}

/// Type of a number without a given type: `int64` or `float64`.
pub(super) fn type_of(default: &Value) -> DType {
    if default.is_i64() { DType::Int64 } else { DType::Float64 }
}
