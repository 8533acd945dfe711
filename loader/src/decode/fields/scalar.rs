//! Fields of a number per sample.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind};
use super::number_source::NumberSource;
use crate::decode::default::type_of;
use crate::decode::draw::FieldDraws;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::Result;
use crate::format::encoding::DType;

/// A number per sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalar {
    /// Name of the column.
    pub column: String,
    /// Type of the output. Default: the column's.
    #[serde(default)]
    pub dtype: Option<DType>,
    /// Number of samples without the column; `"nan"`, `"inf"` and `"-inf"` as text. Without it they are errors.
    #[serde(default)]
    pub default: Option<Value>,
}

impl FieldKind for Scalar {
    fn column(&self) -> &str {
        &self.column
    }

    fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let (index, column) = columns.find(&self.column)?;
        let source =
            NumberSource::of(column).ok_or_else(|| unsuitable(column, "a Scalar field needs a column of numbers"))?;
        let dtype = self.dtype.or(source.dtype());
        let dtype =
            dtype.ok_or_else(|| unsuitable(column, "the arrays may have any type: name the `dtype` of the Scalar"))?;
        Ok(Compiled::new(index, ScalarDecoder { source, dtype }, dtype, RowShape::Fixed(Vec::new())))
    }

    fn compile_absent(&self, default: &Value) -> Option<Compiled> {
        Some(Compiled::absent(self.dtype.unwrap_or_else(|| type_of(default)), RowShape::Fixed(Vec::new())))
    }
}

#[derive(Debug)]
struct ScalarDecoder {
    source: NumberSource,
    dtype: DType,
}

impl Decode for ScalarDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, _memory: &mut Memory) -> Result<()> {
        self.source.read(stored.bytes, row.fixed(self.dtype.size())?, self.dtype)
    }
}
