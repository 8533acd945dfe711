//! Merges of pairs of tokens: the ids of a word.
//!
//! Each pair of neighbouring tokens has a rank, or none. The pair with the least rank is merged first, and of equal
//! ones the leftmost. A file of ranks has the rank of a pair in the bytes of both tokens, whichever tokens they are; a
//! `tokenizer.json` has a list of pairs of tokens, in the order of their ranks.
//!
//! A word begins with a token for each of its bytes in a byte-level vocabulary, and for each of its characters in one
//! of characters. A character without a token is the tokens of its bytes there, if the vocabulary has these, or else
//! unknown.
//!
//! A vocabulary of characters often has no splits: a text is one word, with `▁` for its spaces. If no token has a `▁`
//! after a different character, no merge makes a token across such a place, and the parts before and after it are
//! separate words.

mod character_tokens;
mod pairs;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use serde_json::Value;
use tokenizers::pipeline::Span;

use crate::alphabet::bytes_of;
use crate::vocabulary::Vocabulary;
use crate::words::WordModel;
use character_tokens::CharacterTokens;
use pairs::{Merged, NONE, Pairs};

/// Most tokens of a word that is merged by a search through all of its pairs for each merge.
pub(crate) const SEARCHED_MAX: usize = 64;

/// Character that vocabularies have in place of a space.
const SPACE: char = '\u{2581}';

/// A vocabulary and its merges.
pub(crate) struct Merges {
    /// Words that are one token, whatever their merges are.
    whole: Vocabulary,
    /// Tokens that characters always become.
    characters: CharacterTokens,
    rest: Rest,
    pairs: Pairs,
    /// True if no token has a [`SPACE`] after a different character.
    has_cuts: bool,
}

/// Tokens of a character without a token.
enum Rest {
    /// The token of each of its bytes.
    Bytes(Box<[u32; 256]>),
    /// A token for an unknown character, or for a run of them.
    Unknown { id: u32, is_for_runs: bool },
    /// None.
    Nothing,
}

impl Merges {
    /// Returns the merges of a file of ranks; `None` for a vocabulary without a token for each byte.
    pub(crate) fn of_ranks(tokens: &[(Vec<u8>, u32)]) -> Option<Self> {
        let whole: Vocabulary = tokens.iter().cloned().collect();
        let mut pairs = Pairs::default();
        for (token, id) in &whole {
            for at in 1..token.len() {
                if let (Some(left), Some(right)) = (whole.get(&token[..at]), whole.get(&token[at..])) {
                    pairs.insert([*left, *right], Merged::new(*id, *id));
                }
            }
        }
        Self::new(whole, pairs)
    }

    /// Returns the merges of the model of a document of the newest version; `None` for a model with further properties,
    /// such as a prefix of tokens inside of a word, and for a damaged one.
    pub(crate) fn of_model(model: &Value) -> Option<Self> {
        let is_unset = |name: &str| match &model[name] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            value => value.as_f64() == Some(0.0),
        };
        if !["dropout", "continuing_subword_prefix", "end_of_word_suffix"].into_iter().all(is_unset) {
            return None;
        }
        let vocab = model["vocab"].as_object()?;
        let id_of = |token: &str| vocab.get(token)?.as_u64().and_then(|id| u32::try_from(id).ok());
        let is_of_bytes = model["byte_level"] == true;
        let mut tokens = Vocabulary::default();
        for token in vocab.keys() {
            let bytes = if is_of_bytes { bytes_of(token) } else { Some(token.clone().into_bytes()) };
            // A token with a character that means no byte is no part of a word.
            if let Some(bytes) = bytes {
                tokens.insert(bytes, id_of(token)?);
            }
        }
        let ids: HashSet<u32> = tokens.values().copied().collect();
        if ids.len() < tokens.len() {
            return None;
        }
        let mut pairs = Pairs::default();
        for (rank, pair) in (0..).zip(model["merges"].as_array()?) {
            let [left, right] = pair.as_array()?.as_slice() else { return None };
            let (left, right) = (left.as_str()?, right.as_str()?);
            pairs.insert([id_of(left)?, id_of(right)?], Merged::new(rank, id_of(&[left, right].concat())?));
        }
        let mut merges =
            if is_of_bytes { Self::new(tokens, pairs)? } else { Self::of_characters(tokens, pairs, model)? };
        if model["ignore_merges"] == true {
            merges.has_cuts = false;
        } else {
            // A token that merges do not make of its text is never one.
            let mut merge = Merge::default();
            let mut whole = std::mem::take(&mut merges.whole);
            whole.retain(|token, id| str::from_utf8(token).is_ok_and(|token| merges.merge(token, &mut merge) == [*id]));
            merges.whole = whole;
        }
        Some(merges)
    }

    fn new(whole: Vocabulary, pairs: Pairs) -> Option<Self> {
        let mut bytes = [0; 256];
        for (byte, id) in (0..=u8::MAX).zip(&mut bytes) {
            *id = *whole.get(&[byte][..])?;
        }
        let characters = CharacterTokens::of_bytes(&whole, &bytes, &pairs);
        Some(Self { whole, characters, rest: Rest::Bytes(bytes.into()), pairs, has_cuts: false })
    }

    /// Returns the merges of a vocabulary of characters.
    fn of_characters(whole: Vocabulary, pairs: Pairs, model: &Value) -> Option<Self> {
        let id_of = |token: &str| whole.get(token.as_bytes()).copied();
        let unknown = model["unk_token"].as_str();
        let rest = match unknown {
            _ if model["byte_fallback"] == true => {
                let bytes: Option<Vec<u32>> = (0..=u8::MAX).map(|byte| id_of(&format!("<0x{byte:02X}>"))).collect();
                Rest::Bytes(bytes?.try_into().ok()?)
            }
            Some(token) => Rest::Unknown { id: id_of(token)?, is_for_runs: model["fuse_unk"] == true },
            None => Rest::Nothing,
        };
        let is_inside = |token: &[u8]| {
            let mut characters = str::from_utf8(token).unwrap_or_default().chars();
            characters.any(|c| c != SPACE) && characters.any(|c| c == SPACE)
        };
        // An unknown character before a space is merged as the text of its token would be, and as the character before
        // it if it has none.
        let has_cuts = !matches!(rest, Rest::Nothing)
            && id_of(SPACE.encode_utf8(&mut [0; 4])).is_some()
            && unknown.is_none_or(|token| !token.ends_with(SPACE))
            && !whole.keys().any(|token| is_inside(token));
        Some(Self { characters: CharacterTokens::of_characters(&whole), whole, rest, pairs, has_cuts })
    }

    /// Cuts `words` of a text where that does not change their ids. `cut` is memory.
    pub(crate) fn cut(&self, text: &str, words: &mut Vec<Span>, cut: &mut Vec<Span>) {
        if !self.has_cuts {
            return;
        }
        cut.clear();
        for word in words.iter() {
            let (mut start, first) = (word.start, word.start as usize);
            for (at, _) in text[first..word.end as usize].match_indices(SPACE) {
                let at = first + at;
                if at > start as usize && !text[first..at].ends_with(SPACE) {
                    cut.push(Span { start, end: at as u32 });
                    start = at as u32;
                }
            }
            cut.push(Span { start, end: word.end });
        }
        std::mem::swap(words, cut);
    }

    /// Returns the tokens of a word by its merges.
    fn merge<'a>(&self, word: &str, merge: &'a mut Merge) -> &'a [u32] {
        self.begin(word, merge);
        if merge.tokens.len() <= SEARCHED_MAX {
            self.search(merge);
        } else {
            self.merge_long(merge);
        }
        &merge.tokens
    }

    /// Begins with the tokens of each character, and the ranks of their pairs.
    pub(crate) fn begin(&self, word: &str, merge: &mut Merge) {
        let Merge { tokens, ranks, .. } = merge;
        tokens.clear();
        let mut is_unknown = false;
        for c in word.chars() {
            let token = self.characters.token(c);
            match (token, &self.rest) {
                (Some(token), _) => tokens.push(token),
                (None, Rest::Bytes(bytes)) => {
                    tokens.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| bytes[usize::from(byte)]));
                }
                (None, Rest::Unknown { is_for_runs: true, .. }) if is_unknown => (),
                (None, Rest::Unknown { id, .. }) => tokens.push(*id),
                (None, Rest::Nothing) => (),
            }
            is_unknown = token.is_none();
        }
        ranks.clear();
        ranks.extend(tokens.windows(2).map(|pair| self.pairs.merged(pair[0], pair[1])));
    }

    /// Merges a short word: each time the first pair of the least rank.
    pub(crate) fn search(&self, merge: &mut Merge) {
        let Merge { tokens, ranks, .. } = merge;
        while let Some((at, &least)) = ranks.iter().enumerate().min_by_key(|(_, rank)| **rank)
            && least != NONE
        {
            tokens[at] = least.id();
            tokens.remove(at + 1);
            ranks.remove(at);
            if at < ranks.len() {
                ranks[at] = self.pairs.merged(tokens[at], tokens[at + 1]);
            }
            if at > 0 {
                ranks[at - 1] = self.pairs.merged(tokens[at - 1], tokens[at]);
            }
        }
    }

    /// Merges a long word with a queue of its pairs, in the same order.
    pub(crate) fn merge_long(&self, merge: &mut Merge) {
        let Merge { ranks, tokens, before, after, queue } = merge;
        let count = tokens.len();
        ranks.push(NONE);
        before.clear();
        before.extend((0..count).map(|at| at.wrapping_sub(1)));
        after.clear();
        after.extend(1..=count);
        queue.clear();
        let known = ranks.iter().enumerate().filter(|(_, rank)| **rank != NONE);
        queue.extend(known.map(|(at, rank)| Reverse((*rank, at))));
        while let Some(Reverse((rank, at))) = queue.pop() {
            // A pair that has changed since is in the queue with its new rank.
            if ranks[at] != rank {
                continue;
            }
            let gone = after[at];
            tokens[at] = rank.id();
            (after[at], ranks[gone]) = (after[gone], NONE);
            ranks[at] = NONE;
            if let Some(previous) = before.get_mut(after[at]) {
                *previous = at;
                ranks[at] = self.pairs.merged(rank.id(), tokens[after[at]]);
            }
            let previous = before[at];
            if previous < count {
                ranks[previous] = self.pairs.merged(tokens[previous], rank.id());
            }
            for changed in [at, previous] {
                if changed < count && ranks[changed] != NONE {
                    queue.push(Reverse((ranks[changed], changed)));
                }
            }
        }
        let (mut at, mut kept) = (0, 0);
        while at < count {
            tokens[kept] = tokens[at];
            (at, kept) = (after[at], kept + 1);
        }
        tokens.truncate(kept);
    }
}

impl WordModel for Merges {
    type Memory = Merge;

    fn encode_word<'a>(&self, word: &str, merge: &'a mut Merge) -> tokenizers::Result<&'a [u32]> {
        if let Some(id) = self.whole.get(word.as_bytes()) {
            merge.tokens.clear();
            merge.tokens.push(*id);
            return Ok(&merge.tokens);
        }
        Ok(self.merge(word, merge))
    }
}

/// Memory of the merges of a word.
#[derive(Default)]
pub(crate) struct Merge {
    pub(crate) tokens: Vec<u32>,
    /// Rank of each token with the token after it.
    ranks: Vec<Merged>,
    /// Positions of the tokens before and after each one.
    before: Vec<usize>,
    after: Vec<usize>,
    queue: BinaryHeap<Reverse<(Merged, usize)>>,
}
