//! Ids of long texts that are encoded repeatedly.
//!
//! A document that is longer than a pack is in several packs, in batches that may be far apart. Each of them needs a
//! part of its ids, and a part alone cannot be encoded: so a document of 100 packs would be encoded 100 times. The ids
//! are kept from the second time on, because most loaders encode a text once in an epoch and would fill the memory in
//! vain.

use std::collections::{HashMap, VecDeque};

use forebay_core::sync::{Arc, Mutex};
use tokenizers::pipeline::PipelineToken;
use xxhash_rust::xxh3::xxh3_128;

/// Least bytes of a long text. A shorter one is in few packs.
pub(crate) const LONG_BYTES: usize = 8 << 10;

/// Most bytes of kept ids in a process and tokenizer.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Most texts with hashes that are known, 40 bytes each.
const KNOWN_MAX: usize = 1 << 16;

/// A text by hash and length.
type Key = (u128, usize);

/// Table of long texts.
pub(crate) struct LongTexts {
    table: Mutex<Table>,
    kept_bytes_max: usize,
}

#[derive(Default)]
struct Table {
    /// Ids of a text, none for one that was encoded once.
    texts: HashMap<Key, Option<Arc<[PipelineToken]>>>,
    /// Texts that were encoded once, in this order.
    known: VecDeque<Key>,
    /// Texts with ids, in the order in which they were kept.
    kept: VecDeque<Key>,
    kept_bytes: usize,
}

impl Default for LongTexts {
    fn default() -> Self {
        Self { table: Mutex::default(), kept_bytes_max: KEPT_BYTES_MAX }
    }
}

impl LongTexts {
    /// Adds the ids of `text` to `ids`: kept ones, or those that `encode` adds.
    pub(crate) fn encode<E>(
        &self,
        text: &str,
        ids: &mut Vec<PipelineToken>,
        encode: impl FnOnce(&mut Vec<PipelineToken>) -> Result<(), E>,
    ) -> Result<(), E> {
        let key = (xxh3_128(text.as_bytes()), text.len());
        let kept = self.table.lock().texts.get(&key).cloned();
        if let Some(Some(kept)) = kept {
            ids.extend_from_slice(&kept);
            return Ok(());
        }
        let before = ids.len();
        encode(ids)?;
        let mut table = self.table.lock();
        if kept.is_some() {
            table.keep(key, &ids[before..], self.kept_bytes_max);
        } else if !table.texts.contains_key(&key) {
            table.know(key);
        }
        Ok(())
    }
}

impl Table {
    /// Knows a text without ids, in place of the oldest such text.
    fn know(&mut self, key: Key) {
        if self.known.len() >= KNOWN_MAX
            && let Some(oldest) = self.known.pop_front()
            && matches!(self.texts.get(&oldest), Some(None))
        {
            self.texts.remove(&oldest);
        }
        self.known.push_back(key);
        self.texts.insert(key, None);
    }

    fn keep(&mut self, key: Key, ids: &[PipelineToken], bytes_max: usize) {
        let bytes = size_of_val(ids);
        // A second thread may have kept it meanwhile.
        if bytes > bytes_max || matches!(self.texts.get(&key), Some(Some(_))) {
            return;
        }
        while self.kept_bytes + bytes > bytes_max
            && let Some(oldest) = self.kept.pop_front()
        {
            if let Some(Some(ids)) = self.texts.remove(&oldest) {
                self.kept_bytes -= size_of_val(&*ids);
            }
            self.know(oldest);
        }
        self.texts.insert(key, Some(ids.into()));
        self.kept.push_back(key);
        self.kept_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a text to as many ids as it has bytes. Returns whether it was encoded.
    fn encodes(texts: &LongTexts, text: &str) -> bool {
        let (mut ids, mut is_encoded) = (vec![PipelineToken::from(7)], false);
        let encode = |ids: &mut Vec<PipelineToken>| {
            is_encoded = true;
            ids.extend(text.bytes().map(|byte| PipelineToken::from(u32::from(byte))));
            Ok::<(), ()>(())
        };
        texts.encode(text, &mut ids, encode).expect("it encodes every text");
        let bytes: Vec<u32> = ids.iter().map(|id| id.id()).collect();
        assert_eq!(bytes[0], 7);
        assert!(bytes[1..].iter().copied().eq(text.bytes().map(u32::from)));
        is_encoded
    }

    #[test]
    fn ids_are_kept_from_the_second_time_on() {
        let texts = LongTexts::default();
        assert!(encodes(&texts, "one"));
        assert!(encodes(&texts, "one"));
        assert!(!encodes(&texts, "one"));
        assert!(encodes(&texts, "two"));
    }

    #[test]
    fn the_oldest_ids_make_room() {
        let texts = LongTexts { kept_bytes_max: 24, ..LongTexts::default() };
        for text in ["one", "two", "six"] {
            assert!(encodes(&texts, text) && encodes(&texts, text));
        }
        assert!(!encodes(&texts, "two") && !encodes(&texts, "six"));
        // It is known, so its ids are kept again.
        assert!(encodes(&texts, "one"));
        assert!(!encodes(&texts, "one"));
        assert!(encodes(&texts, "more than 24 bytes") && encodes(&texts, "more than 24 bytes"));
        assert!(encodes(&texts, "more than 24 bytes"));
        assert_eq!(texts.table.lock().kept_bytes, 24);
    }

    #[test]
    fn a_text_that_is_not_encoded_is_not_known() {
        let texts = LongTexts::default();
        assert_eq!(texts.encode("one", &mut Vec::new(), |_| Err("no")), Err("no"));
        assert!(encodes(&texts, "one") && encodes(&texts, "one"));
    }
}
