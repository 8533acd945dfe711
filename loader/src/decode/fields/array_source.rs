//! Stored arrays as the source of fields.

use crate::error::{Error, ErrorKind, Result};
use crate::format::Column;
use crate::format::encoding::{ArrayType, DType, Encoding, NpyArray};

/// Stored form of an array or of tokens.
#[derive(Debug)]
pub(super) enum ArraySource {
    /// An array.
    Array(ArrayType),
    /// A file of numpy.
    Npy,
    /// Elements of this type, without a header.
    Bytes(DType),
}

impl ArraySource {
    /// Returns the stored form of the column's arrays, if it has arrays. Bytes are files of numpy.
    pub(super) fn of(column: &Column) -> Option<Self> {
        match &column.encoding {
            Encoding::Array(kind) => Some(Self::Array(kind.clone())),
            Encoding::Npy | Encoding::Bytes => Some(Self::Npy),
            _ => None,
        }
    }

    /// Returns true if the stored bytes are the elements of type `to`, in the machine's byte order and with nothing
    /// else.
    pub(super) fn is_copy(&self, to: Option<DType>) -> bool {
        let stored = match self {
            Self::Array(kind) => kind.dtype().filter(|_| kind.shape().is_some()),
            Self::Npy => None,
            Self::Bytes(stored) => Some(*stored),
        };
        let is_in_order = |dtype: DType| cfg!(target_endian = "little") || dtype.size() == 1;
        stored.is_some_and(|stored| to.is_none_or(|to| stored == to) && is_in_order(stored))
    }

    /// Returns the number of elements of every stored array of `bytes` bytes, if it depends on nothing else and the
    /// bytes are whole elements.
    pub(super) fn elements_of_bytes(&self, bytes: usize) -> Option<usize> {
        let dtype = match self {
            Self::Array(kind) if kind.is_flat() || kind.fixed_size().is_some_and(|size| size as usize == bytes) => {
                kind.dtype()?
            }
            Self::Bytes(stored) => *stored,
            Self::Array(_) | Self::Npy => return None,
        };
        bytes.is_multiple_of(dtype.size()).then(|| bytes / dtype.size())
    }

    /// Reads a stored array of at least one dimension. Arrays of numpy have an element at least.
    pub(super) fn read_list<'a>(
        &self,
        bytes: &'a [u8],
        shape: &mut Vec<usize>,
        side: &'a mut Vec<u8>,
    ) -> Result<(DType, &'a [u8])> {
        let (dtype, values) = self.read(bytes, shape, side)?;
        let may_be_empty = match self {
            Self::Npy => false,
            // Lists of the remaining formats.
            Self::Array(_) | Self::Bytes(_) => true,
        };
        if shape.is_empty() || (values.is_empty() && !may_be_empty) {
            return Err(Error::decode("the array has no elements or no dimensions").with("shape", format!("{shape:?}")));
        }
        Ok((dtype, values))
    }

    /// Reads a stored array: type and elements. `side` is used for elements that are stored in a different order.
    pub(super) fn read<'a>(
        &self,
        bytes: &'a [u8],
        shape: &mut Vec<usize>,
        side: &'a mut Vec<u8>,
    ) -> Result<(DType, &'a [u8])> {
        // A value of a kind that is not supported stays an error of that kind.
        let of_sample = |e: Error| if e.kind() == ErrorKind::Format { e.of_kind(ErrorKind::Decode) } else { e };
        match self {
            Self::Array(kind) => kind.read(bytes, shape).map_err(of_sample),
            Self::Npy => {
                let array = NpyArray::read(bytes, shape).map_err(of_sample)?;
                Ok((array.dtype, array.into_values(shape, side)))
            }
            Self::Bytes(stored) => {
                shape.clear();
                shape.push(bytes.len() / stored.size());
                Ok((*stored, bytes))
            }
        }
    }
}
