//! Fields of token ids that are made of text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_text::{Encoding as TokenEncoding, End, Settings, Special, Tokenizer};
use serde::{Deserialize, Serialize};

use super::column::{Columns, is_text, unsuitable};
use super::fill_in_middle::{FillInMiddle, Rearrangement};
use super::json_path::JsonPath;
use super::kind::{Compiled, FieldKind, int64};
use super::masked_tokens::{MaskedTokens, labels_of};
use super::token_changes::TokenChanges;
use super::token_row::{SampleIds, TokenRow, token_field};
use crate::decode::draw::FieldDraws;
use crate::decode::json_value::{JsonForm, JsonValue};
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored, StoredColumn};
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};

/// Most bytes of a text or of its ids with memory that is kept for the next sample.
const KEPT_MAX: usize = 4 << 20;

token_field! {
    /// The token ids of a text per sample.
    pub struct Tokenize {
        /// The column: text or `bytes`; with `path`, a JSON document.
        pub column: String,
        /// The text of a `tokenizer.json` of Hugging Face; with `encoding`, of a file of ranks of tiktoken.
        pub tokenizer: String,
        /// Pattern and special tokens of a file of ranks: the name of tiktoken's encoding, such as `"cl100k_base"`, or
        /// both.
        #[serde(default)]
        pub encoding: Option<RanksEncoding>,
        /// Path to the text in a JSON document, such as `"meta.text"`. Default: the column is the text.
        #[serde(default)]
        pub path: Option<JsonPath>,
        /// Tokens before each text.
        #[serde(default)]
        pub add_bos: AddedEnd,
        /// Tokens after each text.
        #[serde(default)]
        pub add_eos: AddedEnd,
        /// Special tokens that a text may contain: `"all"` or a list. All the rest are text.
        #[serde(default)]
        pub allowed_special: AllowedSpecial,
        /// Treatment of bytes that are not UTF-8.
        #[serde(default)]
        pub errors: TextErrors,
    }
}

/// Pattern and special tokens of a file of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "an encoding is a name or an object with `pattern` and `special_tokens`")]
pub enum RanksEncoding {
    /// An encoding of tiktoken.
    Named(String),
    /// An own encoding.
    Own {
        /// Regular expression of the words.
        pattern: String,
        /// Ids of special tokens.
        #[serde(default)]
        special_tokens: BTreeMap<String, u32>,
    },
}

impl RanksEncoding {
    fn setting(&self) -> TokenEncoding {
        match self {
            Self::Named(name) => TokenEncoding::Named(name.clone()),
            Self::Own { pattern, special_tokens } => TokenEncoding::Own(pattern.clone(), special_tokens.clone()),
        }
    }
}

/// Tokens at an end of each text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "tokens at an end of a text are null (as the tokenizer's), true, false or a token's text"
)]
pub enum AddedEnd {
    /// The tokens that the tokenizer's post-processor adds.
    #[default]
    Own,
    /// The tokens that the post-processor adds, at least one; or none.
    Flag(bool),
    /// This token.
    Token(String),
}

impl AddedEnd {
    fn setting(&self) -> End {
        match self {
            Self::Own => End::Own,
            Self::Flag(true) => End::Required,
            Self::Flag(false) => End::Nothing,
            Self::Token(token) => End::Token(token.clone()),
        }
    }
}

/// Special tokens that a text may contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "allowed special tokens are \"all\" or a list of their texts")]
pub enum AllowedSpecial {
    /// All.
    All(AllSpecial),
    /// These.
    These(Vec<String>),
}

/// The text `"all"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AllSpecial {
    /// All special tokens.
    All,
}

impl Default for AllowedSpecial {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

/// Treatment of bytes that are not UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextErrors {
    /// Such a sample is an error.
    #[default]
    Strict,
    /// They become U+FFFD, as in Python's `bytes.decode`.
    Replace,
}

impl FieldKind for Tokenize {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        let &Self { dtype, errors, .. } = self;
        let (index, column) = columns.find(&self.column)?;
        if !is_text(column) && column.encoding != Encoding::Bytes {
            return Err(unsuitable(column, "a Tokenize field needs a column of text, or of bytes that are UTF-8"));
        }
        let ids = self.row();
        ids.check("Tokenize")?;
        let path = match &self.path {
            None => None,
            Some(path) => {
                let wrong = || Error::config("`path` of Tokenize has an empty part or a broken index of a list");
                Some(JsonValue::new(path.parts().ok_or_else(wrong)?, JsonForm::Text)?)
            }
        };
        let allowed = match &self.allowed_special {
            AllowedSpecial::All(_) => Special::All,
            AllowedSpecial::These(tokens) if tokens.is_empty() => Special::Nothing,
            AllowedSpecial::These(tokens) => Special::These(tokens.clone()),
        };
        let encoding = self.encoding.as_ref().map(RanksEncoding::setting);
        let settings = Settings { bos: self.add_bos.setting(), eos: self.add_eos.setting(), allowed, encoding };
        let tokenizer = Tokenizer::load(&self.tokenizer, &settings)?;
        ids.check_ids(tokenizer.id_max(), "Tokenize")?;
        let changes = self.changes(draws)?;
        Ok(Compiled::new(index, TokenizeDecoder { tokenizer, path, errors, ids, changes }, dtype, ids.shape()))
    }

    fn compile_further(&self, columns: Columns<'_>) -> Result<Vec<(&'static str, Compiled)>> {
        let Some(_) = &self.mask else { return Ok(Vec::new()) };
        Ok(labels_of(columns.find(&self.column)?.0, self.row()))
    }
}

#[derive(Debug)]
struct TokenizeDecoder {
    tokenizer: Arc<Tokenizer>,
    path: Option<JsonValue>,
    errors: TextErrors,
    ids: TokenRow,
    changes: TokenChanges,
}

impl Decode for TokenizeDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        // The rest of a text that is longer than its row is not encoded, unless it moves to a different position.
        let is_head = self.ids.truncate && !self.changes.moves();
        let count = self.ids.length.filter(|_| is_head).unwrap_or(usize::MAX);
        self.encode(stored.bytes, count, memory)?;
        let Memory { ids, numbers, changed, labels, .. } = &mut *memory;
        let ids = SampleIds::Encoded(ids.as_slice());
        let ids = self.changes.apply(ids, stored.key, (numbers, changed), labels)?;
        let written = self.ids.write(ids, row, "Tokenize");
        shrink(memory);
        written
    }

    fn tokens(&self, stored: &[u8], _column: StoredColumn<'_, '_>, memory: &mut Memory) -> Result<u64> {
        self.encode(stored, usize::MAX, memory)?;
        let tokens = memory.ids.as_slice().len() as u64;
        shrink(memory);
        Ok(tokens)
    }
}

/// Returns the memory of a very long text.
fn shrink(memory: &mut Memory) {
    memory.ids.shrink();
    if memory.values.capacity() > KEPT_MAX {
        memory.values = Vec::new();
    }
    if memory.changed.capacity() > KEPT_MAX / size_of::<u32>() {
        memory.changed = Vec::new();
    }
}

impl TokenizeDecoder {
    /// Replaces the ids in `memory` by the first ids of the text in a stored value, at least `count` if it has them.
    fn encode(&self, stored: &[u8], count: usize, memory: &mut Memory) -> Result<()> {
        let Memory { values, json, ids, .. } = memory;
        let bytes = match &self.path {
            None => stored,
            Some(path) => {
                let absent =
                    || Error::decode("the document has no text at `path` of Tokenize: skip.errors leaves it out");
                let value = path.find(stored)?.ok_or_else(absent)?;
                path.write(value, &mut Row::Var(&mut *values), json)?;
                values.as_slice()
            }
        };
        let text = self.text(bytes)?;
        // A row of any length may be a document of several packs.
        if self.ids.length.is_none() && count == usize::MAX {
            return self.tokenizer.encode_repeated(&text, ids);
        }
        self.tokenizer.encode_head(&text, count, ids)
    }

    fn text<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, str>> {
        match (simdutf8::compat::from_utf8(bytes), self.errors) {
            (Ok(text), _) => Ok(Cow::Borrowed(text)),
            (Err(_), TextErrors::Replace) => Ok(String::from_utf8_lossy(bytes)),
            (Err(e), TextErrors::Strict) => {
                let message = "the text is not UTF-8: errors=\"replace\" of Tokenize makes U+FFFD of such bytes";
                Err(Error::decode(message).with("byte", e.valid_up_to()))
            }
        }
    }
}
