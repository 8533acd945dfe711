//! Fields of text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Columns, is_text, unsuitable};
use super::kind::{Compiled, FieldKind};
use crate::decode::draw::FieldDraws;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// A string per sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Name of the column.
    pub column: String,
    /// Text of samples without the column. Without it they are errors.
    #[serde(default)]
    pub default: Option<Value>,
}

impl FieldKind for Text {
    fn column(&self) -> &str {
        &self.column
    }

    fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let (index, column) = columns.find(&self.column)?;
        if !is_text(column) && column.encoding != Encoding::Bytes {
            let message = "a Text field needs a column of strings, or of bytes that are UTF-8; Bytes takes any";
            return Err(unsuitable(column, message));
        }
        Ok(Compiled::new(index, TextDecoder, DType::UInt8, RowShape::Text))
    }

    fn compile_absent(&self, _default: &Value) -> Option<Compiled> {
        Some(Compiled::absent(DType::UInt8, RowShape::Text))
    }
}

fn check(text: &[u8]) -> Result<()> {
    let refused = |e: simdutf8::compat::Utf8Error| Error::decode("the text is not UTF-8").with("byte", e.valid_up_to());
    simdutf8::compat::from_utf8(text).map(|_| ()).map_err(refused)
}

/// Decoder that copies UTF-8.
#[derive(Debug)]
pub(super) struct TextDecoder;

impl Decode for TextDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, _memory: &mut Memory) -> Result<()> {
        check(stored.bytes)?;
        row.copy_from(stored.bytes)
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn decode_in_place(&self, row: &mut Vec<u8>, _memory: &mut Memory) -> Result<()> {
        check(row)
    }
}
