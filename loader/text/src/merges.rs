//! Merges of byte pairs: the ids of a word, and the words that are kept.
//!
//! Each pair of neighbouring tokens has a rank, or none. The pair with the least rank is merged first, and of equal
//! ones the leftmost. A file of ranks has the rank of a pair in the bytes of both tokens, whichever tokens they are; a
//! `tokenizer.json` has a list of pairs of tokens, in the order of their ranks.

mod character_tokens;
mod pairs;
mod vocabulary;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use serde_json::Value;
use tokenizers::pipeline::{PipelineToken, Span};

use crate::alphabet::bytes_of;
use crate::word_table::{IDS_MAX, KeptIds, Key, WordTable};
use character_tokens::CharacterTokens;
use pairs::{Merged, NONE, Pairs};
use vocabulary::Vocabulary;

/// Most tokens of a word that is merged by a search through all of its pairs for each merge.
pub(crate) const SEARCHED_MAX: usize = 64;

/// Ids that are collected before they are added to the ids of the text.
const COLLECTED: usize = 256;

/// A vocabulary with a token for each byte, and its merges.
pub(crate) struct Merges {
    /// Words that are one token, whatever their merges are.
    whole: Vocabulary,
    /// Id of each byte.
    bytes: [u32; 256],
    /// Tokens that characters always become.
    characters: CharacterTokens,
    pairs: Pairs,
}

/// Words that a thread has encoded, and its memory.
#[derive(Default)]
pub(crate) struct Words {
    table: WordTable,
    merge: Merge,
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

    /// Returns the merges of the byte-level model of a document of the newest version; `None` for a model with further
    /// properties, such as a prefix of tokens inside of a word, and for a damaged one.
    pub(crate) fn of_model(model: &Value) -> Option<Self> {
        let is_unset = |name: &str| match &model[name] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            value => value.as_f64() == Some(0.0),
        };
        let has_bytes = model["byte_level"] == true;
        if !has_bytes || !["dropout", "continuing_subword_prefix", "end_of_word_suffix"].into_iter().all(is_unset) {
            return None;
        }
        let vocab = model["vocab"].as_object()?;
        let id_of = |token: &str| vocab.get(token)?.as_u64().and_then(|id| u32::try_from(id).ok());
        let mut tokens = Vocabulary::default();
        for token in vocab.keys() {
            // A token in other characters is no part of a word.
            if let Some(bytes) = bytes_of(token) {
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
        let mut merges = Self::new(tokens, pairs)?;
        if model["ignore_merges"] != true {
            // A token that merges do not make of its bytes is never one.
            let mut merge = Merge::default();
            let mut whole = std::mem::take(&mut merges.whole);
            whole.retain(|token, id| {
                str::from_utf8(token).is_ok_and(|token| {
                    merges.encode_word(token, &mut merge);
                    merge.tokens == [*id]
                })
            });
            merges.whole = whole;
        }
        Some(merges)
    }

    fn new(whole: Vocabulary, pairs: Pairs) -> Option<Self> {
        let mut bytes = [0; 256];
        for (byte, id) in (0..=u8::MAX).zip(&mut bytes) {
            *id = *whole.get(&[byte][..])?;
        }
        let characters = CharacterTokens::new(&whole, &bytes, &pairs);
        Some(Self { whole, bytes, characters, pairs })
    }

    /// Adds the ids of the `words` of a text to `ids`.
    pub(crate) fn encode(&self, text: &str, words: &[Span], memory: &mut Words, ids: &mut Vec<PipelineToken>) {
        let Words { table, merge } = memory;
        let bytes = text.as_bytes();
        let mut collected = [PipelineToken::from(0); COLLECTED];
        let mut count = 0;
        for word in words {
            let word = word.start as usize..word.end as usize;
            let key = Key::of(bytes, word.clone());
            let kept = key.and_then(|key| table.get(key, &bytes[word.clone()]));
            if let Some(KeptIds::Few(kept, kept_count)) = kept {
                // All of them are copied, which needs no branch for their number.
                collected[count..count + IDS_MAX].copy_from_slice(&kept.map(PipelineToken::from));
                count += kept_count;
                if count <= COLLECTED - IDS_MAX {
                    continue;
                }
            }
            ids.extend_from_slice(&collected[..count]);
            count = 0;
            match kept {
                Some(KeptIds::Few(..)) => (),
                Some(KeptIds::Many(kept)) => {
                    ids.extend(kept.iter().map(|id| PipelineToken::from(u32::from_le_bytes(*id))))
                }
                None => {
                    self.encode_word(&text[word.clone()], merge);
                    ids.extend(merge.tokens.iter().map(|&id| PipelineToken::from(id)));
                    if let Some(key) = key {
                        table.keep(key, &bytes[word], &merge.tokens);
                    }
                }
            }
        }
        ids.extend_from_slice(&collected[..count]);
    }

    /// Encodes a word to the tokens of `merge`.
    fn encode_word(&self, word: &str, merge: &mut Merge) {
        merge.tokens.clear();
        if let Some(id) = self.whole.get(word.as_bytes()) {
            merge.tokens.push(*id);
            return;
        }
        self.begin(word, merge);
        if merge.tokens.len() <= SEARCHED_MAX {
            self.search(merge);
        } else {
            self.merge_long(merge);
        }
    }

    /// Begins with a token for each character, or for each of its bytes, and the ranks of their pairs.
    pub(crate) fn begin(&self, word: &str, merge: &mut Merge) {
        let Merge { tokens, ranks, .. } = merge;
        tokens.clear();
        for c in word.chars() {
            match self.characters.token(c) {
                Some(token) => tokens.push(token),
                None => {
                    tokens.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| self.bytes[usize::from(byte)]));
                }
            }
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
