//! Numbers of tokens that a field makes of stored values. No row is made.

use super::draw::FieldDraws;
use super::fields::{Columns, FieldSpec, OF_ROWS};
use super::step::{Decode, Memory, Work};
use crate::error::{Error, Result};
use crate::format::Column;

/// Counter of the tokens of a field, before it is compiled for a column.
#[derive(Clone, Debug)]
pub struct TokenCounter {
    /// The field, as fields of a loader with it alone. Its rows have any length.
    fields: [(String, FieldSpec); 1],
}

/// Counter of the tokens of the columns of a field.
#[derive(Debug)]
pub struct ColumnTokens {
    decoder: Box<dyn Decode>,
    /// Number of the field's own column.
    column: usize,
}

/// Memory of a counter, kept from value to value.
#[derive(Default)]
pub struct CountMemory(Memory);

impl std::fmt::Debug for CountMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CountMemory")
    }
}

impl TokenCounter {
    /// Makes a counter of the tokens of `field`.
    ///
    /// # Errors
    /// A field that makes no tokens.
    pub fn of(field: &FieldSpec) -> Result<Self> {
        let lists = field.token_lists()?.ok_or_else(|| {
            Error::config(
                "lengths in tokens are the lengths of a Tokenize, Tokens or Chat field, and of no further field",
            )
        })?;
        Ok(Self { fields: [("tokens".to_owned(), lists)] })
    }

    /// Names of the columns. The first one is the field's own.
    pub fn columns(&self) -> Vec<&str> {
        self.fields[0].1.columns().into_iter().map(|(name, _)| name).collect()
    }

    /// The field, as fields of a loader.
    pub fn fields(&self) -> &[(String, FieldSpec)] {
        &self.fields
    }

    /// Text that differs for different numbers of tokens: of the field's arguments, with the content of its tokenizer,
    /// and of the encoder.
    pub fn identity(&self) -> String {
        let mut field = serde_json::to_value(&self.fields[0].1).unwrap_or_default();
        if let Some(arguments) = field.as_object_mut() {
            arguments.retain(|name, _| !OF_ROWS.contains(&&**name));
        }
        format!("{} {field}", forebay_text::ENCODER)
    }

    /// Compiles the counter for `columns`.
    ///
    /// # Errors
    /// A missing column, or one that does not suit the field; a tokenizer that cannot be used.
    pub fn compile(&self, columns: &[Column]) -> Result<ColumnTokens> {
        let kind = self.fields[0].1.kind().ok_or_else(|| Error::internal("a counter of several fields"))?;
        let compiled = kind.compile(Columns(columns), FieldDraws::new(0, ""))?;
        match (compiled.work, compiled.column) {
            (Work::Value(decoder), Some(column)) => Ok(ColumnTokens { decoder, column }),
            _ => Err(Error::internal("a field of tokens has no decoder")),
        }
    }
}

impl ColumnTokens {
    /// Returns the number of tokens of a sample with these stored `values`, in the order of the columns that the
    /// counter was compiled for; `None` for a sample without the field's own value.
    ///
    /// # Errors
    /// A value that the field can make no tokens of.
    pub fn count(&self, values: &[Option<&[u8]>], memory: &mut CountMemory) -> Result<Option<u64>> {
        let value = |column: usize| values.get(column).copied().flatten();
        value(self.column).map(|stored| self.decoder.tokens(stored, &value, &mut memory.0)).transpose()
    }

    /// Returns the number of tokens of every stored value of `bytes` bytes, if it depends on nothing else.
    pub fn count_of_bytes(&self, bytes: usize) -> Option<u64> {
        self.decoder.tokens_of_bytes(bytes)
    }
}
