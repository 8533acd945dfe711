//! Unigram: the pieces of a word with the highest score together, by the crate's search.

use serde_json::Value;
use tokenizers::Result;
use tokenizers::models::unigram;

use crate::vocabulary::Vocabulary;

/// A vocabulary of pieces with scores.
pub(crate) struct Unigram {
    search: unigram::Unigram,
    pieces: Vocabulary,
    unknown: Option<u32>,
    /// True if an unknown piece is the tokens of its bytes.
    has_byte_fallback: bool,
}

impl Unigram {
    pub(super) fn of(model: &Value) -> Option<Self> {
        let vocab = model["vocab"].as_array()?.iter();
        let vocab = vocab.map(|piece| Some((piece[0].as_str()?.to_owned(), piece[1].as_f64()?)));
        let vocab = vocab.collect::<Option<Vec<_>>>()?;
        let pieces: Vocabulary = vocab.iter().map(|(piece, _)| piece.clone().into_bytes()).zip(0..).collect();
        if pieces.len() < vocab.len() {
            return None;
        }
        let unknown = match &model["unk_id"] {
            Value::Null => None,
            id => Some(u32::try_from(id.as_u64()?).ok()?),
        };
        let has_byte_fallback = model["byte_fallback"] == true;
        let mut search = unigram::Unigram::from(vocab, unknown.map(|id| id as usize), has_byte_fallback).ok()?;
        // Words are kept already.
        search.resize_cache(0);
        Some(Self { search, pieces, unknown, has_byte_fallback })
    }

    /// Adds the ids of a word to `ids`.
    pub(super) fn encode(&self, word: &str, ids: &mut Vec<u32>) -> Result<()> {
        let id_of = |piece: &str| self.pieces.get(piece.as_bytes()).copied();
        for piece in self.search.encode(word)? {
            if let Some(id) = id_of(&piece) {
                ids.push(id);
                continue;
            }
            let bytes = piece.bytes().filter(|_| self.has_byte_fallback).map(|byte| id_of(&format!("<0x{byte:02X}>")));
            match bytes.collect::<Option<Vec<_>>>() {
                Some(bytes) if !bytes.is_empty() => ids.extend(bytes),
                _ => ids.push(self.unknown.ok_or("it has an unknown piece, and the tokenizer has no token for these")?),
            }
        }
        Ok(())
    }
}
