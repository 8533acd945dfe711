//! Choices of the user of a tokenizer.

use crate::encoding::Encoding;

/// Choices that the file of a tokenizer leaves to its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Ids before each text.
    pub bos: End,
    /// Ids after each text.
    pub eos: End,
    /// Special tokens that a text may contain.
    pub allowed: Special,
    /// Pattern and special tokens of a file of ranks.
    pub encoding: Option<Encoding>,
}

/// Ids at an end of each text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum End {
    /// The ids that the tokenizer's post-processor adds there; none for a file of ranks.
    #[default]
    Own,
    /// None.
    Nothing,
    /// The ids that the post-processor adds there; at least one.
    Required,
    /// This token.
    Token(String),
}

/// Special tokens that are found in a text. The rest are ordinary text there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Special {
    /// None.
    #[default]
    Nothing,
    /// All special tokens, as Hugging Face's `encode` does by default.
    All,
    /// Tokens of this list.
    These(Vec<String>),
}
