//! Fields of arrays.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind};
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::ragged::{elements, move_ragged, start_ragged};
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// An `ndarray`, or numpy's file of one (`.npy`): a tensor per batch when the encoding or `shape` fixes the shape, else
/// a list of arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// The column; `bytes` are read as files of numpy.
    pub column: String,
    /// Type of the output. Default: the column's, or the file's.
    #[serde(default)]
    pub dtype: Option<DType>,
    /// Shape of every array; a different one is an error.
    #[serde(default)]
    pub shape: Option<Vec<usize>>,
    /// Array of samples without the column, as nested lists; one number fills a fixed shape.
    #[serde(default)]
    pub default: Option<Value>,
}

impl FieldKind for Array {
    fn column(&self) -> &str {
        &self.column
    }

    fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let Self { dtype, shape, default, .. } = self;
        let (index, column) = columns.find(&self.column)?;
        let message = "an Array field needs a column of arrays: ndarray, or files of numpy";
        let source = ArraySource::of(column).ok_or_else(|| unsuitable(column, message))?;
        let (own_dtype, own_shape) = match &column.encoding {
            Encoding::Array(kind) => (kind.dtype(), kind.shape()),
            _ => (None, None),
        };
        let known = dtype.or(own_dtype);
        if let (Some(own), Some(shape)) = (own_shape, shape.as_deref())
            && own != shape
        {
            return Err(unsuitable(column, "`shape` of an Array differs from the shape of the column"));
        }
        if known.is_none() && (shape.is_some() || default.is_some()) {
            return Err(Error::config("the arrays may have any type: name the `dtype` of the Array"));
        }
        let fixed = shape.as_deref().or(own_shape);
        if let Some(shape) = fixed
            && elements(shape).and_then(|n| n.checked_mul(8)).is_none_or(|bytes| bytes > isize::MAX as usize)
        {
            return Err(Error::config("`shape` of an Array is too large").with("shape", format!("{shape:?}")));
        }
        let row = fixed.map_or(RowShape::RaggedArray, |shape| RowShape::Fixed(shape.to_vec()));
        let decoder = ArrayDecoder { source, dtype: *dtype, shape: shape.clone() };
        Ok(Compiled::new(index, decoder, known.unwrap_or(DType::UInt8), row))
    }

    fn compile_absent(&self, _default: &Value) -> Option<Compiled> {
        Some(Compiled::absent(self.dtype?, self.shape.clone().map_or(RowShape::RaggedArray, RowShape::Fixed)))
    }
}

#[derive(Debug)]
struct ArrayDecoder {
    source: ArraySource,
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
}

impl ArrayDecoder {
    /// Reads a stored array: type and elements.
    fn read<'a>(&self, stored: &'a [u8], shape: &mut Vec<usize>, side: &'a mut Vec<u8>) -> Result<(DType, &'a [u8])> {
        match &self.source {
            source @ ArraySource::Array(_) => source.read_list(stored, shape, side),
            // numpy's files may have no dimensions or no elements.
            source => source.read(stored, shape, side),
        }
    }

    /// Decodes the array `stored` into `row`.
    fn decode_from(&self, stored: &[u8], row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let Memory { shape, values: side, .. } = memory;
        let (from, values) = self.read(stored, shape, side)?;
        if let Some(fixed) = &self.shape
            && fixed != shape
        {
            return Err(Error::decode(
                "the array and the field have different shapes: leave `shape` out for a list of arrays",
            )
            .with("shape", format!("{shape:?}"))
            .with("expected", format!("{fixed:?}")));
        }
        let to = self.dtype.unwrap_or(from);
        let out = match row {
            Row::Fixed(out) => &mut **out,
            Row::Var(out) => start_ragged(out, to, shape)?,
            _ => return Err(Error::internal("an array cannot be decoded into memory of this kind")),
        };
        numeric::convert(values, from, out, to)
    }
}

impl Decode for ArrayDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        self.decode_from(stored.bytes, row, memory)
    }

    fn is_copy(&self) -> bool {
        self.source.is_copy(self.dtype)
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn decode_in_place(&self, row: &mut Vec<u8>, memory: &mut Memory) -> Result<()> {
        let Memory { shape, values: side, .. } = memory;
        let (from, values) = self.read(row, shape, side)?;
        let start = row.len() - values.len().min(row.len());
        // Elements of a different order or type are made in a second memory.
        let are_in_row = std::ptr::eq(values, &raw const row[start..]);
        if are_in_row && cfg!(target_endian = "little") && self.dtype.is_none_or(|to| to == from) {
            return move_ragged(row, start, from, shape);
        }
        let stored = std::mem::take(row);
        self.decode_from(&stored, &mut Row::Var(row), memory)
    }
}
