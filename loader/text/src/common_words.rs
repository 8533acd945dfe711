//! Ids of words that any thread has encoded.
//!
//! Texts go to any thread, and all of them have mostly the same words. So a thread looks for a word that is new to it
//! here before it encodes it: the process encodes a word once, instead of each thread.

use forebay_core::sync::Mutex;

use crate::word_table::{KeptIds, Key, WordTable};

/// Tables, so that threads rarely wait for each other. Each has the words of a part of the hashes.
const PARTS: usize = 64;

/// Most words of all parts: 10 MiB.
const WORDS_MAX: usize = 1 << 18;

/// Most bytes of the content of all parts.
const CONTENT_BYTES_MAX: usize = 8 << 20;

/// Tables of words that all threads use.
pub(crate) struct CommonWords([Mutex<WordTable>; PARTS]);

impl Default for CommonWords {
    fn default() -> Self {
        let part = || WordTable::new(WORDS_MAX / PARTS, CONTENT_BYTES_MAX / PARTS);
        Self(std::array::from_fn(|_| Mutex::new(part())))
    }
}

impl CommonWords {
    /// Replaces `ids` by the ids of a word, if a thread has encoded it. Returns whether one has.
    pub(crate) fn get(&self, key: Key, word: &[u8], ids: &mut Vec<u32>) -> bool {
        ids.clear();
        match self.part(key).lock().get(key, word) {
            Some(KeptIds::Few(kept, count)) => ids.extend_from_slice(&kept[..count]),
            Some(KeptIds::Many(kept)) => ids.extend(kept.iter().map(|id| u32::from_le_bytes(*id))),
            None => return false,
        }
        true
    }

    /// Keeps the ids of a word.
    pub(crate) fn keep(&self, key: Key, word: &[u8], ids: &[u32]) {
        let mut part = self.part(key).lock();
        // A second thread may have encoded it meanwhile.
        if part.get(key, word).is_none() {
            part.keep(key, word, ids);
        }
    }

    fn part(&self, key: Key) -> &Mutex<WordTable> {
        &self.0[key.part(PARTS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_one_thread_is_known_to_all() {
        let words: Vec<String> = (0..2000).map(|number| format!("{number} {}", "long ".repeat(number % 6))).collect();
        let key = |word: &str| Key::of(word.as_bytes(), 0..word.len()).unwrap();
        let (common, mut ids) = (CommonWords::default(), vec![7]);
        assert!(!common.get(key("0 "), b"0 ", &mut ids));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for (number, word) in (0..).zip(&words) {
                        common.keep(key(word), word.as_bytes(), &vec![number; number as usize % 7]);
                    }
                });
            }
        });
        for (number, word) in (0..).zip(&words) {
            assert!(common.get(key(word), word.as_bytes(), &mut ids));
            assert_eq!(ids, vec![number; number as usize % 7], "{word}");
        }
        let used = common.0.iter().filter(|part| !part.lock().is_empty()).count();
        assert_eq!(used, PARTS);
    }
}
