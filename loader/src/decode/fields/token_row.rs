//! Rows of token ids: their length, padding and type.

use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Form of a row of token ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRow {
    /// Ids in a row. Without it every row is an array of its own length.
    pub length: Option<usize>,
    pub dtype: DType,
    /// Id that fills a short row; without it a short row is an error.
    pub pad: Option<i64>,
    /// True if a longer sample is cut. Otherwise it is an error.
    pub truncate: bool,
}

impl TokenRow {
    /// Checks the arguments of the field `kind`.
    pub(super) fn check(&self, kind: &str) -> Result<()> {
        let &Self { length, dtype, pad, .. } = self;
        if let Some(length) = length
            && (length == 0 || length.checked_mul(8).is_none_or(|b| b > isize::MAX as usize))
        {
            return Err(Error::config(format!("`length` of {kind} must be at least 1")).with("length", length));
        }
        if dtype.is_float() {
            return Err(Error::config("tokens are integers").with("dtype", dtype));
        }
        if let Some(pad) = pad {
            numeric::fill(pad, &mut [0; 8][..dtype.size()], dtype)
                .map_err(|_| Error::config("`pad` does not fit the dtype").with("pad", pad).with("dtype", dtype))?;
        }
        Ok(())
    }

    /// Returns the shape of a row.
    pub(super) fn shape(&self) -> RowShape {
        self.length.map_or(RowShape::RaggedArray, |length| RowShape::Fixed(vec![length]))
    }

    /// Writes the ids of a sample, elements of type `from`, into a row of the field `kind`.
    pub(super) fn write(&self, mut values: &[u8], from: DType, row: &mut Row<'_>, kind: &str) -> Result<()> {
        let &Self { length, dtype, truncate, .. } = self;
        let Some(length) = length else {
            let Row::Var(out) = row else {
                return Err(Error::internal("tokens cannot be decoded into memory of this kind"));
            };
            return numeric::convert(values, from, start_ragged(out, dtype, &[values.len() / from.size()])?, dtype);
        };
        if truncate {
            values = &values[..values.len().min(length * from.size())];
        }
        self.write_padded(values, from, row.fixed(length * dtype.size())?, kind)
    }

    fn write_padded(&self, values: &[u8], from: DType, out: &mut [u8], kind: &str) -> Result<()> {
        let &Self { dtype, pad, .. } = self;
        let (have, want) = (values.len() / from.size(), out.len() / dtype.size());
        let wrong = |message: String| Error::decode(message).with("tokens", have).with("length", want);
        if have > want {
            return Err(wrong(format!(
                "the sample has more tokens than a row: raise `length` of {kind}, or set `truncate`"
            )));
        }
        let (head, tail) = out.split_at_mut(have * dtype.size());
        if !tail.is_empty() {
            let pad = pad.ok_or_else(|| {
                wrong(format!("the sample has fewer tokens than a row: lower `length` of {kind}, or set `pad`"))
            })?;
            numeric::fill(pad, tail, dtype)?;
        }
        numeric::convert(values, from, head, dtype)
    }
}
