//! Fields of stored bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::Columns;
use super::kind::{Compiled, FieldKind};
use crate::decode::draw::FieldDraws;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::Result;
use crate::format::encoding::DType;

/// The stored bytes per sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// Name of the column.
    pub column: String,
    /// Bytes of samples without the column, as a list of numbers. Without it they are errors.
    #[serde(default)]
    pub default: Option<Value>,
}

impl FieldKind for Bytes {
    fn column(&self) -> &str {
        &self.column
    }

    fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Ok(Compiled::new(columns.find(&self.column)?.0, BytesDecoder, DType::UInt8, RowShape::Bytes))
    }

    fn compile_absent(&self, _default: &Value) -> Option<Compiled> {
        Some(Compiled::absent(DType::UInt8, RowShape::Bytes))
    }
}

#[derive(Debug)]
struct BytesDecoder;

impl Decode for BytesDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, _memory: &mut Memory) -> Result<()> {
        row.copy_from(stored.bytes)
    }

    fn is_copy(&self) -> bool {
        true
    }
}
