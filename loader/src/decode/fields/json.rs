//! Fields of values inside JSON documents.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Columns, is_text, unsuitable};
use super::json_path::{JsonPath, parts_of_path};
use super::kind::{Compiled, FieldKind};
use super::text::TextDecoder;
use crate::decode::default::default_row;
use crate::decode::draw::FieldDraws;
use crate::decode::json_value::{JsonForm, JsonValue};
use crate::decode::plan::{Output, RowShape};
use crate::decode::ragged::elements;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// A value inside a JSON document per sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Json {
    /// The column: `json`, text or `bytes`.
    pub column: String,
    /// Path to the value, such as `"meta.boxes[0].label"`, or a list of keys and positions in lists. Default: the
    /// document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Type of the value. Default: the whole document as JSON, a value inside it as text.
    #[serde(default)]
    pub dtype: Option<JsonType>,
    /// Lengths of nested lists of numbers, the outermost first; `null` for those that differ from sample to sample.
    #[serde(default)]
    pub shape: Option<Vec<Option<usize>>>,
    /// Value of samples without the column or the value. Without it they are errors.
    #[serde(default)]
    pub default: Option<Value>,
}

/// Type of a value of a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "the type of a value of JSON is \"str\", \"json\" or a type of number, such as \"int64\""
)]
pub enum JsonType {
    /// A number, or nested lists of numbers.
    Number(DType),
    /// Anything else.
    Other(JsonText),
}

/// Type of a value of a JSON document that is delivered as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonText {
    /// The text of a string.
    Str,
    /// Any value, as JSON.
    Json,
}

impl FieldKind for Json {
    fn column(&self) -> &str {
        &self.column
    }

    fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let (index, column) = columns.find(&self.column)?;
        if !is_text(column) && column.encoding != Encoding::Bytes {
            return Err(unsuitable(column, "a Json field needs a column of JSON documents, text or bytes"));
        }
        Ok(match self.value()? {
            (Some(value), dtype, shape) => Compiled::new(index, JsonDecoder(value), dtype, shape),
            (None, dtype, shape) => Compiled::new(index, TextDecoder, dtype, shape),
        })
    }

    fn compile_absent(&self, _default: &Value) -> Option<Compiled> {
        let (_, dtype, shape) = self.value().ok()?;
        Some(Compiled::absent(dtype, shape))
    }

    fn default_row(&self, default: &Value, output: &Output) -> Result<Vec<u8>> {
        let (value, ..) = self.value()?;
        default_row(default, output, Some(value.as_ref().map_or(&JsonForm::Json, JsonValue::form)))
    }
}

impl Json {
    /// Returns the value, or `None` for the document as it is, and type and kind of its rows.
    fn value(&self) -> Result<(Option<JsonValue>, DType, RowShape)> {
        let parts = parts_of_path("Json", self.path.as_ref())?;
        let whole = if parts.is_empty() { JsonText::Json } else { JsonText::Str };
        let (form, dtype, row) = match (self.dtype.unwrap_or(JsonType::Other(whole)), &self.shape) {
            (JsonType::Other(_), Some(_)) => {
                return Err(Error::config(
                    "`shape` of Json is for lists of numbers: name their `dtype`, such as \"int64\"",
                ));
            }
            (JsonType::Other(JsonText::Str), None) => (JsonForm::Text, DType::UInt8, RowShape::Text),
            (JsonType::Other(JsonText::Json), None) if parts.is_empty() => {
                return Ok((None, DType::UInt8, RowShape::Text));
            }
            (JsonType::Other(JsonText::Json), None) => (JsonForm::Json, DType::UInt8, RowShape::Text),
            (JsonType::Number(dtype), None) => (JsonForm::Number(dtype), dtype, RowShape::Fixed(Vec::new())),
            (JsonType::Number(dtype), Some(shape)) => {
                let row = match shape.iter().copied().collect::<Option<Vec<usize>>>() {
                    Some(shape) => RowShape::Fixed(shape),
                    None => RowShape::RaggedArray,
                };
                (JsonForm::Array(dtype, shape.clone()), dtype, row)
            }
        };
        if let RowShape::Fixed(shape) = &row
            && elements(shape).and_then(|n| n.checked_mul(8)).is_none_or(|bytes| bytes > isize::MAX as usize)
        {
            return Err(Error::config("`shape` of Json is too large").with("shape", format!("{shape:?}")));
        }
        Ok((Some(JsonValue::new(parts, form)?), dtype, row))
    }
}

#[derive(Debug)]
struct JsonDecoder(JsonValue);

impl Decode for JsonDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        match self.0.find(stored.bytes)? {
            Some(value) => self.0.write(value, row, &mut memory.json),
            None => stored.step.write_default(row),
        }
    }
}
