use serde_json::json;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::*;
use crate::test_inputs::{byte_level, draws};

const PATTERN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const PARTS: [&str; 34] = [
    "<|end|>",
    "<|",
    "the",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "'s",
    "'\u{17f}",
    "'LL",
    ".",
    "====",
    "aaa",
    "aa",
    "ba",
    "ab",
    "12345",
    "中文",
    "。",
    "ell",
    "e\u{301}",
    "\u{323}\u{301}",
    "\u{301}\u{323}",
    "\u{345}\u{35d}",
    "\u{a0}",
    "Привет",
    "\u{1100}\u{1161}",
    "\u{212b}",
    "\u{fb01}",
    "🤣",
    "한국",
    "aabthaabthaabth aabthaabthaabthaabthaabthaabthaabthaabthaabthaabthaabth",
    "é",
];

/// A byte-level tokenizer with merges of random tokens. Some tokens are made in several ways, and some pairs are in
/// the list twice.
fn document(draw: &mut impl FnMut(usize) -> usize, normalizer: &Value, ignores_merges: bool) -> Value {
    let mut tokens: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
    let spell = |text: &str| text.bytes().map(|byte| ByteLevel::alphabet()[usize::from(byte)]).collect::<String>();
    let common: Vec<String> = ["a", "b", "t", "h", "e", " ", "=", "é"].iter().map(|text| spell(text)).collect();
    let first: Vec<String> = common.iter().flat_map(|text| text.chars().map(String::from)).collect();
    let mut merges: Vec<[String; 2]> = Vec::new();
    for _ in 0..400 {
        let mut half = || match draw(2) {
            0 => first[draw(first.len())].clone(),
            _ => tokens[tokens.len() - 1 - draw(tokens.len().min(60))].clone(),
        };
        let pair = [half(), half()];
        let token = pair.concat();
        if token.chars().count() < 12 {
            if !tokens.contains(&token) {
                tokens.push(token);
            }
            merges.push(pair);
        }
    }
    // A token that no merges make.
    tokens.push(spell("the"));
    let vocab: serde_json::Map<String, Value> = tokens.into_iter().zip(0..).map(|(t, id)| (t, id.into())).collect();
    let id = vocab.len();
    let mut document = byte_level(PATTERN, &vocab, json!(merges));
    document["normalizer"] = normalizer.clone();
    document["added_tokens"] = json!([{"id": id, "content": "<|end|>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}]);
    document["model"]["ignore_merges"] = ignores_merges.into();
    document
}

#[test]
fn own_merges_have_the_ids_of_the_stable_engine() {
    let mut draw = draws();
    let forms = [Value::Null, json!({"type": "NFC"}), json!({"type": "NFKC"}), json!({"type": "NFD"})];
    for (number, form) in forms.iter().cycle().take(8).enumerate() {
        let document = Document::read(&document(&mut draw, form, number % 3 == 0).to_string()).unwrap();
        for allowed in [Special::Nothing, Special::All] {
            let engine = Engine::new(&document, &allowed).unwrap();
            let Some(Fast { tokenizer: FastKind::BytePairs(tokenizer), .. }) = &engine.fast else {
                panic!("it has no newer engine");
            };
            assert!(tokenizer.has_own_merges());
            for _ in 0..300 {
                let (count, few) = (draw(30), 1 + draw(PARTS.len()));
                let text: String = (0..count).map(|_| PARTS[draw(PARTS.len()) % few]).collect();
                let mut ids = Vec::new();
                engine.encode(&text, &mut ids).unwrap();
                let expected = engine.stable().unwrap().encode_fast(text.as_str(), false).unwrap();
                assert_eq!(PipelineToken::cast_slice(&ids), expected.get_ids(), "{form} {text:?}");
            }
        }
    }
}
