//! Ids of words that were encoded, in a table of bounded size.
//!
//! Words are in the order in which they were kept, and an index of four bytes a slot finds them. Frequent words are
//! among the first ones of a text, so they are close together in the processor's caches, whatever their hashes are.
//! Bytes are compared with bytes: a word never has the ids of a different one with its hash.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// Most words of a thread, of 32 bytes each, with 8 in the index: 40 MiB. A full table is emptied.
const WORDS_MAX: usize = 1 << 20;

/// Most bytes of long words, and of ids of words with many, of a thread: 6 MiB.
const CONTENT_BYTES_MAX: usize = 6 << 20;

/// Least slots of the index. It has at least two for each word.
const SLOTS_MIN: usize = 1 << 12;

/// Most ids of a word that are next to its key.
pub(crate) const IDS_MAX: usize = 4;

/// Longest word that is its own key.
const SHORT_MAX: usize = 15;

/// Longest word that is kept. Longer ones are rarely in a text twice.
const LENGTH_MAX: usize = 1 << 10;

/// First of the four bits with the number of ids next to a key, above the bytes and the length of a word.
const COUNT_BIT: u32 = 124;

/// Bits of an entry of the index with the number of a word, from 1 on. The bits above them are some of the word's hash.
const NUMBER: u32 = (1 << 21) - 1;

/// Bits of the first bytes, for each number of them.
const MASKS: [u128; SHORT_MAX + 1] = {
    let mut masks = [0; SHORT_MAX + 1];
    let mut length = 1;
    while length <= SHORT_MAX {
        masks[length] = masks[length - 1] << 8 | 0xff;
        length += 1;
    }
    masks
};

/// The bytes of a word of at most 15 bytes, and its length above them; or the hash and the length of a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// Table of words.
pub(crate) struct WordTable {
    /// Entries of words from the slot of each one on; 0 in an empty slot.
    index: Vec<u32>,
    words: Vec<Word>,
    /// Bytes and ids of words without ids next to their keys, with four bytes for an id.
    content: Vec<u8>,
    words_max: usize,
    content_bytes_max: usize,
}

#[derive(Clone, Copy)]
struct Word {
    /// Key with the number of ids. It is 0 for a word with content, and the start and number of ids are next to it.
    key: u128,
    ids: [u32; IDS_MAX],
}

/// Ids of a kept word.
pub(crate) enum KeptIds<'a> {
    /// The first ones of these, and their number.
    Few([u32; IDS_MAX], usize),
    /// Bytes of each id, the lowest one first.
    Many(&'a [[u8; 4]]),
}

impl Key {
    /// Returns the key of a word in `text`; `None` for a very long one.
    pub(crate) fn of(text: &[u8], word: Range<usize>) -> Option<Self> {
        let length = word.len();
        if length > SHORT_MAX {
            return (length <= LENGTH_MAX).then(|| Self::hashed(xxh3_64(&text[word]), length));
        }
        // A copy of 16 bytes needs no call, as one of any length does.
        let bytes = match text[word.start..].first_chunk() {
            Some(bytes) => u128::from_le_bytes(*bytes) & MASKS[length],
            None => {
                let mut bytes = [0; SHORT_MAX + 1];
                bytes[..length].copy_from_slice(&text[word]);
                u128::from_le_bytes(bytes)
            }
        };
        Some(Self(bytes | (length as u128) << (8 * SHORT_MAX)))
    }

    fn hashed(hash: u64, length: usize) -> Self {
        Self(u128::from(hash) | (length as u128) << u64::BITS)
    }

    fn is_short(self) -> bool {
        self.0 >> (8 * SHORT_MAX) != 0
    }

    /// Returns the part of a word in `count` parts, which is a power of two of at most 64.
    pub(crate) fn part(self, count: usize) -> usize {
        // The bits above are the slots of a table, and those below are in the entries of its index.
        (self.hash() >> 43) as usize & (count - 1)
    }

    /// Returns a hash. Its high bits depend on all bits of both halves, and no product waits for the other one.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn hash(self) -> u64 {
        let (low, high) = (self.0 as u64, (self.0 >> u64::BITS) as u64);
        low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ high.wrapping_mul(0xc4ce_b9fe_1a85_ec53)
    }
}

impl Word {
    fn key(&self) -> Key {
        Key(self.key & !(u128::MAX << COUNT_BIT))
    }
}

impl Default for WordTable {
    /// Returns the table of a thread.
    fn default() -> Self {
        Self::new(WORDS_MAX, CONTENT_BYTES_MAX)
    }
}

impl WordTable {
    /// Returns a table of at most `words_max` words, with at most `content_bytes_max` bytes of content.
    pub(crate) fn new(words_max: usize, content_bytes_max: usize) -> Self {
        Self { index: vec![0; SLOTS_MIN], words: Vec::new(), content: Vec::new(), words_max, content_bytes_max }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the ids of a word that is kept.
    pub(crate) fn get(&self, key: Key, word: &[u8]) -> Option<KeptIds<'_>> {
        let (mut slot, tag) = self.slot(key);
        loop {
            let entry = self.index[slot];
            if entry == 0 {
                return None;
            }
            if entry & !NUMBER == tag {
                let found = &self.words[(entry & NUMBER) as usize - 1];
                if found.key() == key {
                    let count = (found.key >> COUNT_BIT) as usize;
                    if count > 0 {
                        return Some(KeptIds::Few(found.ids, count));
                    }
                    let [start, count, ..] = found.ids.map(|part| part as usize);
                    let (bytes, ids) = self.content[start..].split_at(word.len());
                    if bytes == word {
                        return Some(KeptIds::Many(&ids.as_chunks().0[..count]));
                    }
                }
            }
            slot = (slot + 1) & (self.index.len() - 1);
        }
    }

    /// Keeps the ids of a word that is not in the table.
    pub(crate) fn keep(&mut self, key: Key, word: &[u8], ids: &[u32]) {
        let content = word.len() + size_of_val(ids);
        if self.words.len() == self.words_max || self.content.len() + content > self.content_bytes_max {
            *self = Self::new(self.words_max, self.content_bytes_max);
        }
        let mut kept = Word { key: key.0, ids: [0; IDS_MAX] };
        if key.is_short() && (1..=IDS_MAX).contains(&ids.len()) {
            kept.key |= (ids.len() as u128) << COUNT_BIT;
            kept.ids[..ids.len()].copy_from_slice(ids);
        } else {
            [kept.ids[0], kept.ids[1]] = [self.content.len(), ids.len()].map(|count| count as u32);
            self.content.extend_from_slice(word);
            self.content.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        self.words.push(kept);
        if 2 * self.words.len() > self.index.len() {
            self.index = vec![0; 2 * self.index.len()];
            (0..self.words.len()).for_each(|number| self.enter(number));
        } else {
            self.enter(self.words.len() - 1);
        }
    }

    /// Enters a word in the index.
    fn enter(&mut self, number: usize) {
        let (mut slot, tag) = self.slot(self.words[number].key());
        while self.index[slot] != 0 {
            slot = (slot + 1) & (self.index.len() - 1);
        }
        self.index[slot] = tag | (number as u32 + 1);
    }

    /// Returns the first slot of a word, and the bits of its hash in an entry.
    #[expect(clippy::cast_possible_truncation, reason = "the other bits are the slot")]
    fn slot(&self, key: Key) -> (usize, u32) {
        let hash = key.hash();
        let slot = hash >> (u64::BITS - self.index.len().trailing_zeros());
        (slot as usize, (hash >> 11) as u32 & !NUMBER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &WordTable, key: Key, word: &[u8]) -> Option<Vec<u32>> {
        table.get(key, word).map(|kept| match kept {
            KeptIds::Few(ids, count) => ids[..count].to_vec(),
            KeptIds::Many(ids) => ids.iter().map(|id| u32::from_le_bytes(*id)).collect(),
        })
    }

    #[test]
    fn each_word_has_its_own_ids() {
        let mut table = WordTable::default();
        let text = b"one, two, and a few more words than sixteen bytes";
        let words = [(0..3, 1), (5..8, 4), (44..49, 5), (9..25, 1), (0..49, 300)];
        assert_eq!(Key::of(text, 44..49), Key::of(b"bytes", 0..5));
        assert_ne!(Key::of(b"a\0", 0..1), Key::of(b"a\0", 0..2));
        assert_eq!(Key::of(&[b'a'; 2000], 0..LENGTH_MAX + 1), None);
        for (word, count) in &words {
            let (key, bytes) = (Key::of(text, word.clone()).unwrap(), &text[word.clone()]);
            assert_eq!(ids(&table, key, bytes), None);
            table.keep(key, bytes, &(0..*count).collect::<Vec<_>>());
        }
        for (word, count) in words {
            let key = Key::of(text, word.clone()).unwrap();
            assert_eq!(ids(&table, key, &text[word]), Some((0..count).collect()));
        }
    }

    #[test]
    fn a_word_with_the_hash_of_a_different_one_is_a_different_word() {
        let (mut table, key) = (WordTable::default(), Key::hashed(7, 16));
        table.keep(key, b"one long word ..", &[1]);
        assert_eq!(ids(&table, key, b"two long words !"), None);
        table.keep(key, b"two long words !", &[2, 3]);
        assert_eq!(ids(&table, key, b"one long word .."), Some(vec![1]));
        assert_eq!(ids(&table, key, b"two long words !"), Some(vec![2, 3]));
    }

    #[test]
    fn a_full_table_is_emptied() {
        let mut table = WordTable::default();
        let key = |number: usize| Key(number as u128 | 15 << 120);
        for number in 0..WORDS_MAX {
            table.keep(key(number), b"", &[number as u32]);
        }
        assert!((0..WORDS_MAX).all(|number| ids(&table, key(number), b"") == Some(vec![number as u32])));
        table.keep(key(WORDS_MAX), b"", &[1]);
        assert_eq!((ids(&table, key(0), b""), ids(&table, key(WORDS_MAX), b"")), (None, Some(vec![1])));
        let (word, many) = ([b'a'; LENGTH_MAX], [2; LENGTH_MAX]);
        let count = CONTENT_BYTES_MAX / (5 * LENGTH_MAX);
        for number in 0..=count {
            table.keep(Key::hashed(number as u64, LENGTH_MAX), &word, &many);
        }
        assert_eq!(table.words.len(), 1);
        assert_eq!(ids(&table, Key::hashed(count as u64, LENGTH_MAX), &word), Some(many.to_vec()));
    }
}
