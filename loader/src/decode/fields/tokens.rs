//! Fields of token ids.

use serde::{Deserialize, Serialize};

use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::fill_in_middle::{FillInMiddle, Rearrangement};
use super::kind::{Compiled, FieldKind, int64};
use super::masked_tokens::{MaskedTokens, labels_of};
use super::token_changes::TokenChanges;
use super::token_row::{SampleIds, TokenRow, token_field};
use crate::decode::draw::FieldDraws;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored, StoredColumn};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

token_field! {
    /// A sequence of token ids of fixed length.
    pub struct Tokens {
        /// The column: an `ndarray`, or `bytes` together with `stored`.
        pub column: String,
        /// Element type of a `bytes` column; an `ndarray` has its own.
        #[serde(default)]
        pub stored: Option<DType>,
    }
}

impl FieldKind for Tokens {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        let (index, column) = columns.find(&self.column)?;
        let source = match &column.encoding {
            Encoding::Array(kind) => ArraySource::Array(kind.clone()),
            Encoding::Npy => ArraySource::Npy,
            Encoding::Bytes => ArraySource::Bytes(self.stored.ok_or_else(|| {
                unsuitable(column, "a bytes column has no element type: pass e.g. stored=\"uint16\"")
            })?),
            _ => return Err(unsuitable(column, "a Tokens field needs an ndarray or bytes column")),
        };
        let ids = self.row();
        ids.check("Tokens")?;
        let changes = self.changes(draws)?;
        Ok(Compiled::new(index, TokensDecoder { source, ids, changes }, ids.dtype, ids.shape()))
    }

    fn compile_further(&self, columns: Columns<'_>) -> Result<Vec<(&'static str, Compiled)>> {
        let Some(_) = &self.mask else { return Ok(Vec::new()) };
        Ok(labels_of(columns.find(&self.column)?.0, self.row()))
    }
}

#[derive(Debug)]
struct TokensDecoder {
    source: ArraySource,
    ids: TokenRow,
    changes: TokenChanges,
}

impl Decode for TokensDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let Memory { shape, values, numbers, changed, labels, .. } = memory;
        let (from, values) = self.source.read_list(stored.bytes, shape, values)?;
        let ids = SampleIds::Stored(values, from);
        self.ids.write(self.changes.apply(ids, stored.key, (numbers, changed), labels)?, row, "Tokens")
    }

    fn tokens(&self, stored: &[u8], _column: StoredColumn<'_, '_>, memory: &mut Memory) -> Result<u64> {
        let (from, values) = self.source.read_list(stored, &mut memory.shape, &mut memory.values)?;
        if !values.len().is_multiple_of(from.size()) {
            let error = Error::decode("the stored bytes are not a whole number of tokens");
            return Err(error.with("bytes", values.len()).with("dtype", from));
        }
        Ok((values.len() / from.size()) as u64)
    }

    fn tokens_of_bytes(&self, bytes: usize) -> Option<u64> {
        self.source.elements_of_bytes(bytes).map(|elements| elements as u64)
    }

    fn is_copy(&self) -> bool {
        self.ids.length.is_some() && self.changes.is_none() && self.source.is_copy(Some(self.ids.dtype))
    }
}
