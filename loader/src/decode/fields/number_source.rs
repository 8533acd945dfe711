//! Stored numbers, one per sample, as the source of fields.

use super::array_source::ArraySource;
use crate::decode::numeric;
use crate::error::{Error, Result};
use crate::format::Column;
use crate::format::encoding::{DType, Encoding};

/// Stored form of a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum NumberSource {
    /// A stored element.
    Binary(DType),
    /// Text of an int64 or a float64.
    Text(DType),
    /// A file of numpy with one number.
    Npy,
}

impl NumberSource {
    /// Returns the stored form of the column's numbers, if it has numbers.
    pub(super) fn of(column: &Column) -> Option<Self> {
        match column.encoding {
            Encoding::Int => Some(Self::Binary(DType::Int64)),
            Encoding::Scalar(dtype) => Some(Self::Binary(dtype)),
            Encoding::StrInt => Some(Self::Text(DType::Int64)),
            Encoding::StrFloat | Encoding::StrDecimal => Some(Self::Text(DType::Float64)),
            Encoding::Npy => Some(Self::Npy),
            _ => None,
        }
    }

    /// Type of the numbers; `None` if each file has its own.
    pub(super) fn dtype(self) -> Option<DType> {
        match self {
            Self::Binary(dtype) | Self::Text(dtype) => Some(dtype),
            Self::Npy => None,
        }
    }

    /// Reads a number into one element of `out`.
    pub(super) fn read(self, bytes: &[u8], out: &mut [u8], dtype: DType) -> Result<()> {
        match self {
            Self::Binary(from) => numeric::convert(bytes, from, out, dtype),
            Self::Text(of) => numeric::parse(bytes, of, out, dtype),
            Self::Npy => {
                let (mut shape, mut side) = (Vec::new(), Vec::new());
                let (from, values) = ArraySource::Npy.read(bytes, &mut shape, &mut side)?;
                if values.len() != from.size() {
                    let e = Error::decode("the array does not have exactly one number: read it with an Array field");
                    return Err(e.with("shape", format!("{shape:?}")));
                }
                numeric::convert(values, from, out, dtype)
            }
        }
    }
}
