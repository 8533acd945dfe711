//! Documents of tokenizers for the words of a language.

use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Merges of a byte-level tokenizer.
const MERGES: usize = 300;

/// Returns a byte-level tokenizer with GPT-2's pattern, trained on `words`, the most frequent first.
pub(super) fn byte_pairs(words: &[String]) -> Value {
    let mut tokens: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    let mut ids: BTreeMap<Vec<u8>, u32> = tokens.iter().cloned().zip(0..).collect();
    let mut merges = Vec::new();
    let mut trained: Vec<(Vec<u32>, usize)> =
        (0..).zip(words).map(|(rank, word)| weighted(word, rank, words)).collect();
    while merges.len() < MERGES {
        let Some((first, second)) = most_frequent(&trained) else { break };
        let joined = [&tokens[first as usize][..], &tokens[second as usize]].concat();
        merges.push(format!("{} {}", shown(&tokens[first as usize]), shown(&tokens[second as usize])));
        let next = tokens.len() as u32;
        let id = *ids.entry(joined.clone()).or_insert(next);
        if id == next {
            tokens.push(joined);
        }
        trained.iter_mut().for_each(|(word, _)| join(word, (first, second), id));
    }
    let vocab: Map<String, Value> = tokens.iter().zip(0..).map(|(token, id)| (shown(token), id.into())).collect();
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
        "vocab": vocab, "merges": merges,
    });
    let split = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    document(Value::Null, split, model)
}

/// Returns a tokenizer of pieces with scores, as SentencePiece makes them.
pub(super) fn unigram(words: &[String]) -> Value {
    let starts = words.iter().take(words.len() / 2).map(|word| format!("\u{2581}{word}"));
    let pieces: BTreeSet<String> = starts.chain(parts(words)).chain(["\u{2581}".to_owned()]).collect();
    let score = |piece: &str| -12.0 + piece.chars().count() as f64;
    let vocab = pieces.iter().map(|piece| json!([piece, score(piece)]));
    let vocab: Vec<Value> = [json!(["<unk>", 0.0])].into_iter().chain(vocab).collect();
    let split = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    let model = json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": vocab});
    document(json!({"type": "NFKC"}), split, model)
}

/// Returns a tokenizer of BERT's kind.
pub(super) fn word_piece(words: &[String]) -> Value {
    let later = parts(words).map(|part| format!("##{part}"));
    let common = words.iter().take(words.len() / 2).cloned();
    let marks = ["[UNK]", ",", ".", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"].map(str::to_owned);
    let tokens: BTreeSet<String> = marks.into_iter().chain(common).chain(parts(words)).chain(later).collect();
    let vocab: Map<String, Value> = tokens.into_iter().zip(0..).map(|(token, id)| (token, id.into())).collect();
    let model = json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": vocab});
    let normalizer = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                            "strip_accents": null, "lowercase": true});
    document(normalizer, json!({"type": "BertPreTokenizer"}), model)
}

fn document(normalizer: Value, pre_tokenizer: Value, model: Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model,
    })
}

/// Returns the parts of up to three characters.
fn parts(words: &[String]) -> impl Iterator<Item = String> {
    let of_word = |word: &String| {
        let characters: Vec<char> = word.chars().collect();
        let windows = (1..=3).flat_map(|length| characters.windows(length).map(String::from_iter).collect::<Vec<_>>());
        windows.collect::<Vec<_>>()
    };
    words.iter().flat_map(of_word).collect::<BTreeSet<_>>().into_iter()
}

/// Returns the bytes of a word with the space before it, if it is of letters that have one, and its weight.
fn weighted(word: &str, rank: usize, words: &[String]) -> (Vec<u32>, usize) {
    let space = if word.is_ascii() { " " } else { "" };
    (space.bytes().chain(word.bytes()).map(u32::from).collect(), words.len() - rank)
}

/// Returns the most frequent pair, of equal ones the first.
fn most_frequent(words: &[(Vec<u32>, usize)]) -> Option<(u32, u32)> {
    let mut counts = BTreeMap::<(u32, u32), usize>::new();
    for (word, weight) in words {
        for pair in word.windows(2) {
            *counts.entry((pair[0], pair[1])).or_default() += weight;
        }
    }
    counts.into_iter().max_by_key(|&(pair, count)| (count, Reverse(pair))).map(|(pair, _)| pair)
}

fn join(word: &mut Vec<u32>, pair: (u32, u32), id: u32) {
    let mut at = 0;
    while at + 1 < word.len() {
        if (word[at], word[at + 1]) == pair {
            word[at] = id;
            word.remove(at + 1);
        }
        at += 1;
    }
}

/// Returns a token with a character for each byte, as GPT-2 writes it.
fn shown(token: &[u8]) -> String {
    let is_printed = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let character = |byte: u8| {
        if is_printed(byte) {
            return char::from(byte);
        }
        let number = (0..byte).filter(|before| !is_printed(*before)).count() as u32;
        char::from_u32(256 + number).unwrap_or_default()
    };
    token.iter().map(|byte| character(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::language::Language;
    use super::*;

    #[test]
    fn bytes_are_shown_as_in_vocabularies_of_gpt_2() {
        assert_eq!(shown(b" a\n\xe4\xb8\xad"), "\u{120}a\u{10a}\u{e4}\u{b8}\u{143}");
    }

    #[test]
    fn frequent_words_become_tokens() {
        let english = Language::english();
        let trained = byte_pairs(&english.words);
        assert_eq!(trained["model"]["merges"].as_array().map(Vec::len), Some(MERGES));
        assert!(trained["model"]["vocab"].get("\u{120}s").is_some());
    }
}
