//! Fields of token ids.

use serde::{Deserialize, Serialize};

use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind, int64};
use super::token_row::TokenRow;
use crate::decode::draw::FieldDraws;
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
        let ids = TokenRow { length, dtype, pad, truncate };
        ids.check("Tokens")?;
        Ok(Compiled::new(index, TokensDecoder { source, ids }, dtype, ids.shape()))
    }
}

#[derive(Debug)]
struct TokensDecoder {
    source: ArraySource,
    ids: TokenRow,
}

impl Decode for TokensDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let (from, values) = self.source.read_list(stored.bytes, &mut memory.shape, &mut memory.values)?;
        self.ids.write(values, from, row, "Tokens")
    }

    fn tokens(&self, stored: &[u8], memory: &mut Memory) -> Result<u64> {
        let (from, values) = self.source.read_list(stored, &mut memory.shape, &mut memory.values)?;
        if !values.len().is_multiple_of(from.size()) {
            let error = Error::decode("the stored bytes are no whole number of tokens");
            return Err(error.with("bytes", values.len()).with("dtype", from));
        }
        Ok((values.len() / from.size()) as u64)
    }

    fn tokens_of_bytes(&self, bytes: usize) -> Option<u64> {
        self.source.elements_of_bytes(bytes).map(|elements| elements as u64)
    }

    fn is_copy(&self) -> bool {
        self.ids.length.is_some() && self.source.is_copy(Some(self.ids.dtype))
    }
}
