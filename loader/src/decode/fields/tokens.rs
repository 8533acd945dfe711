//! Fields of token ids.

use serde::{Deserialize, Serialize};

use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind, int64};
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// A sequence of token ids of fixed length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// The column: an `ndarray`, or `bytes` together with `stored`.
    pub column: String,
    /// Tokens per row. Without it every row is an array of its own length.
    #[serde(default)]
    pub length: Option<usize>,
    /// Type of the output.
    #[serde(default = "int64")]
    pub dtype: DType,
    /// Padding at the end of shorter samples; without it a shorter sample is an error.
    #[serde(default)]
    pub pad: Option<i64>,
    /// Element type of a `bytes` column; an `ndarray` has its own.
    #[serde(default)]
    pub stored: Option<DType>,
    /// If true, only the first tokens of a longer sample are kept. Otherwise it is an error.
    #[serde(default)]
    pub truncate: bool,
}

impl FieldKind for Tokens {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let &Self { length, dtype, pad, stored, truncate, .. } = self;
        let (index, column) = columns.find(&self.column)?;
        let source = match &column.encoding {
            Encoding::Array(kind) => ArraySource::Array(kind.clone()),
            Encoding::Npy => ArraySource::Npy,
            Encoding::Bytes => ArraySource::Bytes(stored.ok_or_else(|| {
                unsuitable(column, "a bytes column has no element type: pass e.g. stored=\"uint16\"")
            })?),
            _ => return Err(unsuitable(column, "a Tokens field needs an ndarray or bytes column")),
        };
        if let Some(length) = length
            && (length == 0 || length.checked_mul(8).is_none_or(|b| b > isize::MAX as usize))
        {
            return Err(Error::config("`length` of Tokens must be at least 1").with("length", length));
        }
        if dtype.is_float() {
            return Err(Error::config("tokens are integers").with("dtype", dtype));
        }
        if let Some(pad) = pad {
            numeric::fill(pad, &mut [0; 8][..dtype.size()], dtype)
                .map_err(|_| Error::config("`pad` does not fit the dtype").with("pad", pad).with("dtype", dtype))?;
        }
        let shape = length.map_or(RowShape::RaggedArray, |length| RowShape::Fixed(vec![length]));
        Ok(Compiled::new(index, TokensDecoder { source, length, dtype, pad, truncate }, dtype, shape))
    }
}

#[derive(Debug)]
struct TokensDecoder {
    source: ArraySource,
    length: Option<usize>,
    dtype: DType,
    pad: Option<i64>,
    truncate: bool,
}

impl Decode for TokensDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let &Self { length, dtype, pad, truncate, .. } = self;
        let (from, mut values) = self.source.read_list(stored.bytes, &mut memory.shape, &mut memory.values)?;
        let Some(length) = length else {
            let Row::Var(out) = row else {
                return Err(Error::internal("tokens cannot be decoded into memory of this kind"));
            };
            return numeric::convert(values, from, start_ragged(out, dtype, &[values.len() / from.size()])?, dtype);
        };
        if truncate {
            values = &values[..values.len().min(length * from.size())];
        }
        write_padded(values, from, row.fixed(length * dtype.size())?, dtype, pad)
    }

    fn is_copy(&self) -> bool {
        self.length.is_some() && self.source.is_copy(Some(self.dtype))
    }
}

fn write_padded(values: &[u8], from: DType, out: &mut [u8], dtype: DType, pad: Option<i64>) -> Result<()> {
    let (have, want) = (values.len() / from.size(), out.len() / dtype.size());
    let wrong = |message: &str| Error::decode(message).with("tokens", have).with("length", want);
    if have > want {
        return Err(wrong("the sample has more tokens than a row: raise `length` of Tokens, or set `truncate`"));
    }
    let (head, tail) = out.split_at_mut(have * dtype.size());
    if !tail.is_empty() {
        let pad =
            pad.ok_or_else(|| wrong("the sample has fewer tokens than a row: lower `length` of Tokens, or set `pad`"))?;
        numeric::fill(pad, tail, dtype)?;
    }
    numeric::convert(values, from, head, dtype)
}
