//! Byte pairs by ranks, with tiktoken's ids, by the splits of the newer engine and words that are kept.
//!
//! The rank of a pair of neighbours is the id of the token that has the bytes of both, whichever tokens they are; the
//! least one is merged first, and of equal ones the leftmost. The newer engine's own model ranks pairs of tokens
//! instead, so that runs such as `=====` have different ids there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use forebay_core::sync::Mutex;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pipeline::{PipelineToken, PreTokenizer as _, PreTokenizerScratch, Span};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::utils::{Grammar, recognize};

use crate::word_table::{Key, WordTable};

/// Rank of neighbours without a common token.
const NONE: u32 = u32::MAX;

/// Longest word that is merged by a search through all of its pairs for each merge.
const SEARCHED_BYTES_MAX: usize = 64;

/// Tokenizer of a file of ranks with a known pattern, without special tokens.
pub(crate) struct RankPairs {
    /// Splits of a text.
    split: Split,
    /// True if white space at the end of a text is one word.
    ends_whole: bool,
    tokens: HashMap<Vec<u8>, u32>,
    /// Id of each byte.
    bytes: [u32; 256],
    /// Id of the token with the bytes of two tokens.
    pairs: HashMap<(u32, u32), u32, BuildHasherDefault<PairHasher>>,
    /// Memory that no thread uses now.
    idle: Mutex<Vec<Scratch>>,
}

/// Memory of a thread that encodes, with its words.
#[derive(Default)]
struct Scratch {
    table: WordTable,
    split: PreTokenizerScratch,
    words: Vec<Span>,
    ids: Vec<u32>,
    merge: Merge,
}

impl RankPairs {
    /// Returns the tokenizer of a vocabulary with a token for each byte; `None` for a pattern that the newer engine
    /// does not know. With `ends_whole` white space at the end of a text is one word, whatever the pattern does with
    /// it.
    pub(crate) fn new(tokens: &[(Vec<u8>, u32)], pattern: &str, ends_whole: bool) -> Option<Self> {
        match recognize(pattern)? {
            // Kimi's pattern has classes of scripts, which the tables of characters do not cover.
            Grammar::Kimi => return None,
            // Every other number of digits is split as three are.
            Grammar::Cl100k { digit_cap } if !matches!(digit_cap, 1 | 3) => return None,
            _ => (),
        }
        let split = SplitPattern::Regex(pattern.to_owned());
        let split = Split::native(split, SplitDelimiterBehavior::Isolated, false).ok()?;
        let tokens: HashMap<Vec<u8>, u32> = tokens.iter().cloned().collect();
        let mut bytes = [0; 256];
        for (byte, id) in (0..=u8::MAX).zip(&mut bytes) {
            *id = *tokens.get(&[byte][..])?;
        }
        let mut pairs = HashMap::default();
        for (token, id) in &tokens {
            let halves =
                (1..token.len()).filter_map(|at| Some((*tokens.get(&token[..at])?, *tokens.get(&token[at..])?)));
            pairs.extend(halves.map(|pair| (pair, *id)));
        }
        Some(Self { split, ends_whole, tokens, bytes, pairs, idle: Mutex::new(Vec::new()) })
    }

    /// Adds the ids of `text` to `ids`.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<PipelineToken>) -> tokenizers::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut scratch = self.idle.lock().pop().unwrap_or_default();
        let encoded = self.encode_with(&mut scratch, text, ids);
        self.idle.lock().push(scratch);
        encoded
    }

    fn encode_with(&self, scratch: &mut Scratch, text: &str, ids: &mut Vec<PipelineToken>) -> tokenizers::Result<()> {
        let Scratch { table, split, words, ids: of_word, merge } = scratch;
        words.clear();
        self.split.pre_tokenize(text, split, words)?;
        if self.ends_whole {
            join_end(text, words);
        }
        let bytes = text.as_bytes();
        for word in &*words {
            let (start, end) = (word.start as usize, word.end as usize);
            let key = Key::of(bytes, start..end);
            if let Some(kept) = key.and_then(|key| table.get(key)) {
                ids.extend(kept.iter().map(|&id| PipelineToken::from(id)));
                continue;
            }
            of_word.clear();
            self.encode_word(&bytes[start..end], merge, of_word);
            ids.extend(of_word.iter().map(|&id| PipelineToken::from(id)));
            if let Some(key) = key {
                table.keep(key, of_word);
            }
        }
        Ok(())
    }

    /// Adds the ids of a word to `ids`.
    fn encode_word(&self, word: &[u8], merge: &mut Merge, ids: &mut Vec<u32>) {
        if let Some(id) = self.tokens.get(word) {
            ids.push(*id);
        } else if word.len() <= SEARCHED_BYTES_MAX {
            self.search(word, merge, ids);
        } else {
            self.merge_long(word, merge, ids);
        }
    }

    fn rank(&self, left: u32, right: u32) -> u32 {
        self.pairs.get(&(left, right)).copied().unwrap_or(NONE)
    }

    /// Merges a short word: each time the first pair of the least rank.
    fn search(&self, word: &[u8], merge: &mut Merge, ids: &mut Vec<u32>) {
        let first = ids.len();
        ids.extend(word.iter().map(|&byte| self.bytes[usize::from(byte)]));
        let ranks = &mut merge.ranks;
        ranks.clear();
        ranks.extend(ids[first..].windows(2).map(|pair| self.rank(pair[0], pair[1])));
        while let Some((at, &least)) = ranks.iter().enumerate().min_by_key(|(_, rank)| **rank)
            && least != NONE
        {
            let place = first + at;
            ids[place] = least;
            ids.remove(place + 1);
            ranks.remove(at);
            if at < ranks.len() {
                ranks[at] = self.rank(ids[place], ids[place + 1]);
            }
            if at > 0 {
                ranks[at - 1] = self.rank(ids[place - 1], ids[place]);
            }
        }
    }

    /// Merges a long word with a queue of its pairs, in the same order.
    fn merge_long(&self, word: &[u8], merge: &mut Merge, ids: &mut Vec<u32>) {
        let Merge { ranks, tokens, before, after, queue } = merge;
        let count = word.len();
        tokens.clear();
        tokens.extend(word.iter().map(|&byte| self.bytes[usize::from(byte)]));
        ranks.clear();
        ranks.extend(tokens.windows(2).map(|pair| self.rank(pair[0], pair[1])));
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
            tokens[at] = rank;
            (after[at], ranks[gone]) = (after[gone], NONE);
            ranks[at] = NONE;
            if let Some(previous) = before.get_mut(after[at]) {
                *previous = at;
                ranks[at] = self.rank(rank, tokens[after[at]]);
            }
            let previous = before[at];
            if previous < count {
                ranks[previous] = self.rank(tokens[previous], rank);
            }
            for changed in [at, previous] {
                if changed < count && ranks[changed] != NONE {
                    queue.push(Reverse((ranks[changed], changed)));
                }
            }
        }
        let mut at = 0;
        while at < count {
            ids.push(tokens[at]);
            at = after[at];
        }
    }
}

/// Memory of the merges of a word.
#[derive(Default)]
struct Merge {
    /// Rank of each token with the token after it.
    ranks: Vec<u32>,
    tokens: Vec<u32>,
    /// Places of the tokens before and after each one.
    before: Vec<usize>,
    after: Vec<usize>,
    queue: BinaryHeap<Reverse<(u32, usize)>>,
}

/// Joins the words of white space at the end of a text.
fn join_end(text: &str, words: &mut Vec<Span>) {
    let end = text.trim_end().len();
    while let [.., before, _] = words.as_slice()
        && before.start as usize >= end
    {
        words.pop();
    }
    if let Some(last) = words.last_mut().filter(|last| last.start as usize >= end) {
        last.end = text.len() as u32;
    }
}

/// Hasher of a pair of ids.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = self.0.rotate_left(32) ^ u64::from(id);
    }
}

#[cfg(test)]
mod tests;
