//! Models of the newer engine's tokenizers: the ids of a word.
//!
//! The crate's own models know a token or a kept word by a part of its hash: 32 bits for the tokens of BPE and Unigram,
//! and 64 bits for kept words of more than 7 bytes. So one of billions of words has the ids of a different one. These
//! models compare bytes.

mod unigram;
mod word_pieces;

use serde_json::Value;
use tokenizers::Result;

use crate::merges::{Merge, Merges};
use crate::vocabulary::{Vocabulary, read};
use crate::words::WordModel;
use unigram::Unigram;
use word_pieces::WordPieces;

/// A model by its kind.
#[expect(clippy::large_enum_variant, reason = "a process has few tokenizers")]
pub(crate) enum Model {
    Pairs(Merges),
    Pieces(WordPieces),
    Unigram(Unigram),
    Whole(WholeWords),
}

impl Model {
    /// Returns the model of a document of the newest version; `None` for one that only the stable engine has.
    pub(crate) fn of(model: &Value) -> Option<Self> {
        match model["type"].as_str()? {
            "BPE" => Merges::of_model(model).map(Self::Pairs),
            "WordPiece" => WordPieces::of(model).map(Self::Pieces),
            "Unigram" => Unigram::of(model).map(Self::Unigram),
            "WordLevel" => WholeWords::of(model).map(Self::Whole),
            _ => None,
        }
    }
}

impl WordModel for Model {
    type Memory = Memory;

    fn encode_word<'a>(&self, word: &str, memory: &'a mut Memory) -> Result<&'a [u32]> {
        let Memory { merge, ids } = memory;
        ids.clear();
        match self {
            Self::Pairs(merges) => return merges.encode_word(word, merge),
            // A pre-tokenizer may make a word without a character.
            _ if word.is_empty() => (),
            Self::Pieces(pieces) => pieces.encode(word, ids),
            Self::Unigram(unigram) => unigram.encode(word, ids)?,
            Self::Whole(words) => ids.push(words.id(word)),
        }
        Ok(ids)
    }
}

/// Memory of a model.
#[derive(Default)]
pub(crate) struct Memory {
    merge: Merge,
    ids: Vec<u32>,
}

/// A vocabulary of whole words.
pub(crate) struct WholeWords {
    vocabulary: Vocabulary,
    unknown: u32,
}

impl WholeWords {
    fn of(model: &Value) -> Option<Self> {
        let vocabulary = read(&model["vocab"])?;
        let unknown = *vocabulary.get(model["unk_token"].as_str()?.as_bytes())?;
        Some(Self { vocabulary, unknown })
    }

    fn id(&self, word: &str) -> u32 {
        self.vocabulary.get(word.as_bytes()).copied().unwrap_or(self.unknown)
    }
}
