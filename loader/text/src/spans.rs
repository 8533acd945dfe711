//! Tokens of parts of a text.
//!
//! A token of a byte-level vocabulary is a run of bytes. If the tokens of a text are its bytes, one after the other,
//! their positions are exact without a second encoding. Otherwise, as after a normaliser, the stable engine returns
//! the positions, at the price of its time.

use std::collections::HashMap;
use std::ops::Range;

use crate::alphabet::bytes_of;
use crate::document::Document;

/// Bytes of all tokens of a vocabulary.
#[derive(Debug)]
pub(crate) struct TokenBytes {
    /// Range of `bytes` by id.
    ranges: HashMap<u32, Range<usize>>,
    bytes: Vec<u8>,
}

impl TokenBytes {
    pub(crate) fn of<'a>(tokens: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let mut all = Self { ranges: HashMap::new(), bytes: Vec::new() };
        for (id, token) in tokens {
            let start = all.bytes.len();
            all.bytes.extend_from_slice(token);
            all.ranges.insert(id, start..all.bytes.len());
        }
        all
    }

    /// Reads the tokens of a `tokenizer.json`; `None` if its model has no bytes as tokens.
    pub(crate) fn of_json(json: &str) -> Option<Self> {
        let document = Document::read(json).ok()?;
        let mut tokens = Vec::new();
        for (token, id) in document.vocab().as_object()? {
            tokens.extend(bytes_of(token).zip(id.as_u64().and_then(|id| u32::try_from(id).ok())));
        }
        let of_model = tokens.iter().map(|(bytes, id)| (*id, bytes.as_slice()));
        Some(Self::of(of_model.chain(document.added_ids().map(|(content, id)| (id, content.as_bytes())))))
    }

    /// Adds to `mask` true for each of the tokens `ids` of `text` that has a byte of `parts`. Returns false if the
    /// tokens are not the bytes of the text; then `mask` has wrong elements.
    pub(crate) fn mask(&self, ids: &[u32], text: &str, parts: &[Range<usize>], mask: &mut Vec<bool>) -> bool {
        let (mut rest, mut parts, mut start) = (text.as_bytes(), parts, 0);
        for id in ids {
            let bytes = self.ranges.get(id).map(|range| &self.bytes[range.clone()]);
            let Some((bytes, later)) = bytes.and_then(|bytes| Some((bytes, rest.strip_prefix(bytes)?))) else {
                return false;
            };
            mask.push(is_part_of(start..start + bytes.len(), &mut parts));
            (rest, start) = (later, start + bytes.len());
        }
        rest.is_empty()
    }
}

/// Adds to `mask` true for each token that has a byte of `parts`, for tokens with these positions.
pub(crate) fn mask(tokens: Vec<Range<usize>>, mut parts: &[Range<usize>], mask: &mut Vec<bool>) {
    mask.extend(tokens.into_iter().map(|token| is_part_of(token, &mut parts)));
}

/// True if the token has a byte of the first of `parts` that ends after its start. Parts before it are removed.
fn is_part_of(token: Range<usize>, parts: &mut &[Range<usize>]) -> bool {
    while let Some((first, later)) = parts.split_first()
        && token.start >= first.end
    {
        *parts = later;
    }
    parts.first().is_some_and(|part| token.end > part.start)
}

#[cfg(test)]
mod tests {
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use crate::{Ids, Settings, Special, Tokenizer, settings::End};

    /// A byte-level vocabulary with the words " a" and "ab", and a special token. `normalizer` is JSON.
    fn tokenizer(normalizer: &str) -> String {
        let mut vocab: serde_json::Map<String, serde_json::Value> =
            ByteLevel::alphabet().into_iter().zip(0..).map(|(char, id)| (char.to_string(), id.into())).collect();
        vocab.insert("Ġa".to_owned(), 256.into());
        let vocab = serde_json::Value::Object(vocab);
        format!(
            r#"{{"version": "1.0", "added_tokens": [{{"id": 257, "content": "<|end|>", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true}}], "normalizer": {normalizer},
            "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}},
            "post_processor": null, "decoder": null, "model": {{"type": "BPE", "vocab": {vocab}, "merges": ["Ġ a"]}}}}"#
        )
    }

    #[test]
    fn a_token_is_trained_if_a_byte_of_it_is() {
        for normalizer in ["null", r#"{"type": "NFC"}"#, r#"{"type": "Lowercase"}"#] {
            let settings = Settings { bos: End::Nothing, allowed: Special::All, ..Settings::default() };
            let tokenizer = Tokenizer::load(&tokenizer(normalizer), &settings).unwrap();
            let (mut ids, mut mask) = (Ids::default(), Vec::new());
            let text = "x a<|end|>é aA";
            tokenizer.encode_parts(text, &[2..3, 10..12], &mut ids, &mut mask).unwrap();
            assert_eq!(ids.as_slice().len(), 7, "{normalizer}");
            assert_eq!(mask, [false, true, false, true, true, false, false], "{normalizer}");
            tokenizer.encode_parts(text, &[], &mut ids, &mut mask).unwrap();
            assert!(mask.iter().all(|is_part| !is_part));
        }
    }
}
