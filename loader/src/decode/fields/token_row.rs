//! Rows of token ids: their length, padding and type.

use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Names of the arguments of rows, on which the number of tokens does not depend.
pub(in crate::decode) const OF_ROWS: [&str; 6] = ["length", "dtype", "pad", "truncate", "fim", "mask"];

/// Declares the arguments of a field of token ids: its own, and after them the arguments of its rows.
macro_rules! token_field {
    ($(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Tokens per row. Without it every row is an array of its own length.
            #[serde(default)]
            pub length: Option<usize>,
            /// Type of the output.
            #[serde(default = "int64")]
            pub dtype: DType,
            /// Padding at the end of shorter samples; without it a shorter sample is an error.
            #[serde(default)]
            pub pad: Option<i64>,
            /// If true, only the first tokens of a longer sample are kept. Otherwise it is an error.
            #[serde(default)]
            pub truncate: bool,
            /// Fill-in-the-middle. Without it documents stay as they are.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub fim: Option<FillInMiddle>,
            /// Masked language modelling, which adds the output `labels`. Without it tokens stay as they are.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mask: Option<MaskedTokens>,
        }

        impl $name {
            /// Returns the form of a row.
            fn row(&self) -> TokenRow {
                let &Self { length, dtype, pad, truncate, .. } = self;
                TokenRow { length, dtype, pad, truncate }
            }

            /// Returns the rearrangement of the documents, if there is one.
            pub(super) fn rearrangement(&self, draws: FieldDraws) -> Result<Option<Rearrangement>> {
                self.fim.map(|fim| fim.compile(self.dtype, draws)).transpose()
            }

            /// Returns the changes of the documents.
            fn changes(&self, draws: FieldDraws) -> Result<TokenChanges> {
                let masks = self.mask.as_ref().map(|mask| mask.compile(self.dtype, draws)).transpose()?;
                TokenChanges::new(self.rearrangement(draws)?, masks)
            }

            /// Returns the field with lists of any length as its rows.
            pub(super) fn lists(&self) -> Self {
                Self { length: None, pad: None, truncate: false, ..self.clone() }
            }
        }
    };
}
pub(super) use token_field;

/// Token ids of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum SampleIds<'a> {
    /// Stored elements of this type.
    Stored(&'a [u8], DType),
    /// Ids of a text.
    Encoded(&'a [u32]),
}

impl<'a> SampleIds<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Stored(values, dtype) => values.len() / dtype.size(),
            Self::Encoded(ids) => ids.len(),
        }
    }

    /// The ids as numbers, in `room` if they are stored in a different form.
    pub(super) fn numbers<'m>(self, room: &'m mut Vec<u32>) -> Result<&'m [u32]>
    where
        'a: 'm,
    {
        match self {
            Self::Encoded(ids) => Ok(ids),
            Self::Stored(values, from) => {
                let mut bytes = vec![0; values.len() / from.size() * 4];
                numeric::convert(values, from, &mut bytes, DType::UInt32)?;
                room.clear();
                room.extend(bytes.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)));
                Ok(room)
            }
        }
    }

    /// The first `count` ids, or all.
    fn head(self, count: usize) -> Self {
        match self {
            Self::Stored(values, dtype) => {
                Self::Stored(&values[..values.len().min(count.saturating_mul(dtype.size()))], dtype)
            }
            Self::Encoded(ids) => Self::Encoded(&ids[..ids.len().min(count)]),
        }
    }

    fn convert(self, out: &mut [u8], dtype: DType) -> Result<()> {
        match self {
            Self::Stored(values, from) => numeric::convert(values, from, out, dtype),
            Self::Encoded(ids) => numeric::convert_ids(ids, out, dtype),
        }
    }
}

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

    /// Checks that the type holds the ids of a tokenizer, for the field `kind`.
    pub(super) fn check_ids(&self, id_max: u32, kind: &str) -> Result<()> {
        let dtype = self.dtype;
        let is_signed = matches!(dtype, DType::Int8 | DType::Int16);
        let largest = (dtype.size() < 4).then(|| (1_u32 << (8 * dtype.size() - usize::from(is_signed))) - 1);
        if largest.is_some_and(|largest| id_max > largest) {
            let message = format!("the tokenizer has ids that do not fit the dtype: pass a wider `dtype` to {kind}");
            return Err(Error::config(message).with("largest id", id_max).with("dtype", dtype));
        }
        Ok(())
    }

    /// Returns the shape of a row.
    pub(super) fn shape(&self) -> RowShape {
        self.length.map_or(RowShape::RaggedArray, |length| RowShape::Fixed(vec![length]))
    }

    /// Writes the ids of a sample into a row of the field `kind`.
    pub(super) fn write(&self, ids: SampleIds<'_>, row: &mut Row<'_>, kind: &str) -> Result<()> {
        let &Self { length, dtype, truncate, .. } = self;
        let Some(length) = length else {
            let Row::Var(out) = row else {
                return Err(Error::internal("tokens cannot be decoded into memory of this kind"));
            };
            return ids.convert(start_ragged(out, dtype, &[ids.len()])?, dtype);
        };
        let ids = if truncate { ids.head(length) } else { ids };
        self.write_padded(ids, row.fixed(length * dtype.size())?, kind)
    }

    fn write_padded(&self, ids: SampleIds<'_>, out: &mut [u8], kind: &str) -> Result<()> {
        let &Self { dtype, pad, .. } = self;
        let (have, want) = (ids.len(), out.len() / dtype.size());
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
        ids.convert(head, dtype)
    }
}
