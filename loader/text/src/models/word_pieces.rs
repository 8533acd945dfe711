//! WordPiece: the longest token that a word begins with, then the longest one that its rest does.

use serde_json::Value;

use crate::vocabulary::{Vocabulary, read};

/// A vocabulary of pieces of words.
pub(crate) struct WordPieces {
    first: Vocabulary,
    /// Pieces inside of a word, without their prefix.
    later: Vocabulary,
    /// Bytes of the longest token.
    length_max: usize,
    /// Characters of the longest word that is not unknown.
    characters_max: usize,
    unknown: u32,
}

impl WordPieces {
    pub(super) fn of(model: &Value) -> Option<Self> {
        let first = read(&model["vocab"])?;
        let prefix = model["continuing_subword_prefix"].as_str()?.as_bytes();
        let later = first.iter().filter_map(|(token, id)| Some((token.strip_prefix(prefix)?.to_vec(), *id))).collect();
        Some(Self {
            later,
            length_max: first.keys().map(Vec::len).max()?,
            characters_max: model["max_input_chars_per_word"].as_u64()?.try_into().ok()?,
            unknown: *first.get(model["unk_token"].as_str()?.as_bytes())?,
            first,
        })
    }

    /// Adds the ids of a word to `ids`, which is empty.
    pub(super) fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        if word.chars().count() > self.characters_max {
            ids.push(self.unknown);
            return;
        }
        let mut start = 0;
        while start < word.len() {
            let vocabulary = if start == 0 { &self.first } else { &self.later };
            let ends = start + 1..=word.len().min(start + self.length_max);
            let mut ends = ends.rev().filter(|&end| word.is_char_boundary(end));
            let piece = |end| Some((end, *vocabulary.get(&word.as_bytes()[start..end])?));
            let Some((end, id)) = ends.find_map(piece) else {
                ids.clear();
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            start = end;
        }
    }
}
