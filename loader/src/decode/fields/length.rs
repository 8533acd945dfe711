//! Fields of the lengths of arrays.

use serde::{Deserialize, Serialize};

use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind};
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// The number of elements of each sample's array along its first dimension, before any truncation or padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The column: an `ndarray`, or `bytes`.
    pub column: String,
    /// Element type of a `bytes` column. Default: bytes are counted.
    #[serde(default)]
    pub stored: Option<DType>,
}

impl FieldKind for Length {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let (index, column) = columns.find(&self.column)?;
        let source = match &column.encoding {
            Encoding::Array(kind) => ArraySource::Array(kind.clone()),
            Encoding::Npy => ArraySource::Npy,
            Encoding::Bytes => ArraySource::Bytes(self.stored.unwrap_or(DType::UInt8)),
            _ => return Err(unsuitable(column, "a Length field needs an ndarray or bytes column")),
        };
        Ok(Compiled::new(index, LengthDecoder { source }, DType::Int64, RowShape::Fixed(Vec::new())))
    }
}

#[derive(Debug)]
struct LengthDecoder {
    source: ArraySource,
}

impl Decode for LengthDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let bytes = stored.bytes;
        let length = match &self.source {
            ArraySource::Bytes(stored) => bytes.len() / stored.size(),
            source => {
                source.read(bytes, &mut memory.shape, &mut memory.values)?;
                let first = memory.shape.first();
                *first.ok_or_else(|| Error::decode("the array has no dimensions, so it has no length"))?
            }
        };
        numeric::fill(length as i64, row.fixed(size_of::<i64>())?, DType::Int64)
    }
}
