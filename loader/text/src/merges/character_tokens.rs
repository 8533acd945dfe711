//! Characters that are one token in every word before it is merged with its neighbours: all tokens of one character in
//! a vocabulary of characters, and some of a byte-level one.
//!
//! A word of Chinese has three bytes for each character. Most characters have a token, and its merges come before all
//! others: a word begins with these tokens, which saves most of its merges. This holds for a character if each merge
//! inside of it has a lower rank than every merge of its first part with a part before it, of its last part with a part
//! after it, and of its token with neighbours. Until it is whole, one of its own merges is next, so that no merge of a
//! higher rank is made anywhere in the word; and the merges of lower ranks do not touch it.

use std::collections::HashMap;

use super::pairs::{NONE, Pairs};
use crate::vocabulary::Vocabulary;

/// Number of characters with an entry, for the scripts in wide use.
const END: usize = 0x1_0000;

/// Tokens of characters.
pub(super) struct CharacterTokens {
    /// Token of each character below [`END`]; `u32::MAX` for none.
    first: Box<[u32]>,
    later: HashMap<char, u32>,
}

impl CharacterTokens {
    fn new() -> Self {
        Self { first: vec![u32::MAX; END].into_boxed_slice(), later: HashMap::new() }
    }

    /// Returns the characters of a byte-level vocabulary with bytes that are always merged to its token first. `bytes`
    /// has the id of each byte.
    pub(super) fn of_bytes(vocabulary: &Vocabulary, bytes: &[u32; 256], pairs: &Pairs) -> Self {
        let neighbours = Neighbours::new(vocabulary, pairs);
        let mut tokens = Self::new();
        tokens.first[..0x80].copy_from_slice(&bytes[..0x80]);
        for token in vocabulary.keys().filter(|token| (2..=3).contains(&token.len())) {
            if let Some(c) = character(token)
                && let Some(id) = neighbours.whole(token.iter().map(|&byte| bytes[usize::from(byte)]).collect(), pairs)
            {
                tokens.first[c as usize] = id;
            }
        }
        tokens
    }

    /// Returns the characters that are tokens of a vocabulary of characters.
    pub(super) fn of_characters(vocabulary: &Vocabulary) -> Self {
        let mut tokens = Self::new();
        for (token, id) in vocabulary {
            if let Some(c) = character(token) {
                match tokens.first.get_mut(c as usize) {
                    Some(entry) => *entry = *id,
                    None => _ = tokens.later.insert(c, *id),
                }
            }
        }
        tokens
    }

    pub(super) fn token(&self, c: char) -> Option<u32> {
        match self.first.get(c as usize) {
            Some(&token) => Some(token).filter(|&token| token != u32::MAX),
            None => self.later.get(&c).copied(),
        }
    }
}

/// Returns the only character of a token.
fn character(token: &[u8]) -> Option<char> {
    let mut characters = str::from_utf8(token).ok()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Least ranks of tokens with neighbours at the ends of a character.
struct Neighbours(HashMap<u32, Ranks>);

#[derive(Clone, Copy)]
struct Ranks {
    /// With a token before it that may be the end of a character.
    before: u32,
    /// With a token after it that may be the start of one.
    after: u32,
}

impl Neighbours {
    fn new(vocabulary: &Vocabulary, pairs: &Pairs) -> Self {
        let ends: HashMap<u32, (u8, u8)> =
            vocabulary.iter().filter_map(|(token, id)| Some((*id, (*token.first()?, *token.last()?)))).collect();
        let mut ranks = HashMap::new();
        for ([left, right], merged) in pairs.iter() {
            // A token in other characters is no part of a word.
            let (Some((_, last)), Some((first, _))) = (ends.get(&left), ends.get(&right)) else { continue };
            let mut least = |token, before, after| {
                let ranks: &mut Ranks = ranks.entry(token).or_insert(Ranks { before: u32::MAX, after: u32::MAX });
                *ranks = Ranks { before: ranks.before.min(before), after: ranks.after.min(after) };
            };
            if !(0x80..0xc0).contains(first) {
                least(left, u32::MAX, merged.rank());
            }
            if *last < 0xc0 {
                least(right, merged.rank(), u32::MAX);
            }
        }
        Self(ranks)
    }

    /// Returns the token that `parts` of a character are merged to whatever is around them, if there is one.
    fn whole(&self, mut parts: Vec<u32>, pairs: &Pairs) -> Option<u32> {
        let ranks = |token: u32| self.0.get(&token).copied().unwrap_or(Ranks { before: u32::MAX, after: u32::MAX });
        let mut highest = 0;
        while let [first, .., last] = parts[..] {
            let merged = parts.windows(2).map(|pair| pairs.merged(pair[0], pair[1])).enumerate();
            let (at, least) = merged.min_by_key(|(_, merged)| *merged).filter(|(_, merged)| *merged != NONE)?;
            if least.rank() >= ranks(first).before.min(ranks(last).after) {
                return None;
            }
            highest = highest.max(least.rank());
            parts[at] = least.id();
            parts.remove(at + 1);
        }
        let token = *parts.first()?;
        (highest < ranks(token).before.min(ranks(token).after)).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Merged;
    use super::*;

    /// Returns the token of é in a vocabulary of bytes with these merges.
    fn token(merges: &[[&str; 2]]) -> Option<u32> {
        let bytes_of = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
        let mut vocabulary: Vocabulary = (0..=u8::MAX).map(|byte| (vec![byte], byte.into())).collect();
        for (id, pair) in (256..).zip(merges) {
            vocabulary.insert(bytes_of(&pair.concat()), id);
        }
        let mut pairs = Pairs::default();
        for (rank, pair) in (0..).zip(merges) {
            pairs.insert(pair.map(|half| vocabulary[&bytes_of(half)]), Merged::new(rank, 256 + rank));
        }
        let bytes = std::array::from_fn(|byte| byte as u32);
        CharacterTokens::of_bytes(&vocabulary, &bytes, &pairs).token('é')
    }

    /// Characters are bytes here: \u{c3} and \u{a9} for é.
    #[test]
    fn a_character_is_whole_if_its_merges_come_before_all_others_around_it() {
        let own = ["\u{c3}", "\u{a9}"];
        assert_eq!(token(&[own]), Some(256));
        assert_eq!(token(&[own, [" ", "\u{c3}"], ["\u{a9}", "x"], ["\u{c3}\u{a9}", "x"]]), Some(256));
        // A token that begins inside of a character is never next to a whole one.
        assert_eq!(token(&[["\u{a9}", "\u{a9}"], own]), Some(257));
        for earlier in
            [[" ", "\u{c3}"], ["\u{a9}", "x"], ["\u{a9}", "\u{c3}"], ["\u{c3}\u{a9}", "x"], ["x", "\u{c3}\u{a9}"]]
        {
            assert_eq!(token(&[earlier, own]), None, "{earlier:?}");
        }
        assert_eq!(token(&[["\u{a9}", "x"]]), None);
    }
}
