//! Stored numbers, one per sample.

use crate::decode::numeric;
use crate::error::Result;
use crate::format::Column;
use crate::format::encoding::{DType, Encoding};

/// Stored form of a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum NumberSource {
    /// A stored element.
    Binary(DType),
    /// Text of an int64 or a float64.
    Text(DType),
}

impl NumberSource {
    /// Returns the stored form of the column's numbers, if it has numbers.
    pub(super) fn of(column: &Column) -> Option<Self> {
        match column.encoding {
            Encoding::Int => Some(Self::Binary(DType::Int64)),
            Encoding::Scalar(dtype) => Some(Self::Binary(dtype)),
            Encoding::StrInt => Some(Self::Text(DType::Int64)),
            Encoding::StrFloat | Encoding::StrDecimal => Some(Self::Text(DType::Float64)),
            _ => None,
        }
    }

    /// Type of the numbers.
    pub(super) fn dtype(self) -> DType {
        let (Self::Binary(dtype) | Self::Text(dtype)) = self;
        dtype
    }

    /// Reads a number into one element of `out`.
    pub(super) fn read(self, bytes: &[u8], out: &mut [u8], dtype: DType) -> Result<()> {
        match self {
            Self::Binary(from) => numeric::convert(bytes, from, out, dtype),
            Self::Text(of) => numeric::parse(bytes, of, out, dtype),
        }
    }
}
