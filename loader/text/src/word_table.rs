//! Ids of words that a thread has encoded, in a table of fixed size.

use std::ops::Range;

/// Slots, of 32 bytes each: 32 MiB. The system gives memory to the slots that are used alone.
const SLOTS: usize = 1 << 20;

/// Most ids of a kept word.
const IDS_MAX: usize = 4;

/// Longest kept word. Its bytes are its key, so that no two words are taken for each other.
const BYTES_MAX: usize = 15;

/// First of the four bits with the number of ids, above the bytes and the length of a word.
const COUNT_BIT: u32 = 124;

/// A word of at most 15 bytes: its bytes, and its length above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// Table of words.
pub(crate) struct WordTable {
    /// A pair of neighbours has the words of one hash.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Key with the number of ids; 0 for an empty slot.
    key: u128,
    ids: [u32; IDS_MAX],
}

impl Key {
    /// Returns the key of a word in `text`; `None` for a long one.
    pub(crate) fn of(text: &[u8], word: Range<usize>) -> Option<Self> {
        let length = word.len();
        if length > BYTES_MAX {
            return None;
        }
        // A copy of 16 bytes needs no call, as one of any length does.
        let bytes = match text[word.start..].first_chunk() {
            Some(bytes) => u128::from_le_bytes(*bytes) & !(u128::MAX << (8 * length)),
            None => {
                let mut bytes = [0; BYTES_MAX + 1];
                bytes[..length].copy_from_slice(&text[word]);
                u128::from_le_bytes(bytes)
            }
        };
        Some(Self(bytes | (length as u128) << (8 * BYTES_MAX)))
    }

    /// The first slot of the word.
    fn slot(self) -> usize {
        let folded = (self.0 as u64) ^ ((self.0 >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> (u64::BITS - SLOTS.trailing_zeros())
    }
}

impl Default for WordTable {
    fn default() -> Self {
        Self { slots: vec![Slot::default(); SLOTS] }
    }
}

impl WordTable {
    /// Returns the ids of a word that is kept.
    pub(crate) fn get(&self, key: Key) -> Option<&[u32]> {
        let first = key.slot();
        [first, first ^ 1].into_iter().find_map(|slot| {
            let Slot { key: kept, ids } = &self.slots[slot];
            let count = (kept >> COUNT_BIT) as usize;
            (count > 0 && kept & !(u128::MAX << COUNT_BIT) == key.0).then(|| &ids[..count])
        })
    }

    /// Keeps the ids of a word, unless it has too many. The word that was kept last in its slot moves to the second
    /// one.
    pub(crate) fn keep(&mut self, key: Key, ids: &[u32]) {
        if ids.is_empty() || ids.len() > IDS_MAX {
            return;
        }
        let slot = key.slot();
        self.slots[slot ^ 1] = self.slots[slot];
        let mut kept = Slot { key: key.0 | (ids.len() as u128) << COUNT_BIT, ids: [0; IDS_MAX] };
        kept.ids[..ids.len()].copy_from_slice(ids);
        self.slots[slot] = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_its_ids_until_two_words_take_its_slots() {
        let mut table = WordTable::default();
        let text = b"one, two, and a few more words than sixteen bytes";
        let key = |word: Range<usize>| Key::of(text, word);
        assert_eq!((key(0..16), key(9..25)), (None, None));
        let (one, two, last) = (key(0..3).unwrap(), key(5..8).unwrap(), key(44..49).unwrap());
        assert_eq!(last, Key::of(b"bytes", 0..5).unwrap());
        assert_ne!(Key::of(b"a\0", 0..1), Key::of(b"a\0", 0..2));
        table.keep(one, &[7]);
        table.keep(two, &[1, 2, 3, 4]);
        table.keep(last, &[1, 2, 3, 4, 5]);
        assert_eq!((table.get(one), table.get(two), table.get(last)), (Some(&[7][..]), Some(&[1, 2, 3, 4][..]), None));
        let same: Vec<Key> =
            (0..u128::MAX).map(|n| Key(n | 15 << 120)).filter(|key| key.slot() == one.slot()).take(2).collect();
        table.keep(same[0], &[8]);
        assert_eq!((table.get(one), table.get(same[0])), (Some(&[7][..]), Some(&[8][..])));
        table.keep(same[1], &[9]);
        assert_eq!((table.get(one), table.get(same[0]), table.get(same[1])), (None, Some(&[8][..]), Some(&[9][..])));
    }
}
