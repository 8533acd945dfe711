use serde_json::{Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::*;
use crate::test_inputs::{byte_level, draws};

const PATTERN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const PARTS: [&str; 36] = [
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
    "\u{2581}",
    "a\u{2581}",
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

/// Tokens of one to four parts that texts have.
fn tokens(draw: &mut impl FnMut(usize) -> usize) -> Vec<String> {
    let parts = ["a", "b", "t", "h", "e", "l", "\u{2581}", "=", "é", "中", "🤣", "П"];
    let mut tokens: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    for _ in 0..150 {
        let token: String = (0..2 + draw(3)).map(|_| parts[draw(parts.len())]).collect();
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    tokens
}

/// A document with this model, and a pre-tokenizer as words of it have.
fn with_model(normalizer: Value, pre_tokenizer: Value, model: Value) -> Value {
    json!({"version": "1.0", "truncation": null, "padding": null, "normalizer": normalizer,
        "added_tokens": [
            {"id": 9000, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true},
            {"id": 9001, "content": "<|", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": false}],
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model})
}

/// Byte pairs of characters. Choices are the bits of `choice`.
fn of_characters(draw: &mut impl FnMut(usize) -> usize, choice: usize) -> Value {
    let is = |bit: usize| choice >> bit & 1 == 1;
    let mut tokens = tokens(draw);
    if is(0) {
        let is_cut = |token: &String| token.trim_start_matches('\u{2581}').contains('\u{2581}');
        tokens.retain(|token| !is_cut(token));
    }
    let mut merges = Vec::new();
    for token in &tokens {
        for (at, _) in token.char_indices().skip(1) {
            let halves = [&token[..at], &token[at..]];
            if halves.iter().all(|half| tokens.iter().any(|token| token == half)) {
                merges.push(halves.map(str::to_owned));
            }
        }
    }
    for at in (1..merges.len()).rev() {
        merges.swap(at, draw(at + 1));
    }
    tokens.push("<unk>".to_owned());
    tokens.extend((0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")));
    let vocab: serde_json::Map<String, Value> = tokens.into_iter().zip(0..).map(|(t, id)| (t, id.into())).collect();
    let spaces = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "first", "split": true});
    let (normalizer, pre_tokenizer) = if is(1) { (Value::Null, metaspace) } else { (spaces, Value::Null) };
    let unknown = if is(2) { json!("<unk>") } else { Value::Null };
    with_model(
        normalizer,
        pre_tokenizer,
        json!({"type": "BPE", "dropout": null, "unk_token": unknown,
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": is(3), "byte_fallback": is(4),
        "ignore_merges": is(5), "vocab": vocab, "merges": merges}),
    )
}

/// Pieces of words, with and without the characters of a text.
fn of_pieces(draw: &mut impl FnMut(usize) -> usize, characters_max: usize) -> Value {
    let tokens = tokens(draw);
    let later = tokens.iter().map(|token| format!("##{token}"));
    let vocab = tokens.iter().cloned().chain(later).filter(|_| draw(4) > 0).collect::<Vec<_>>();
    let all = ["[UNK]", "##", "aaa", "##aa"].map(str::to_owned).into_iter().chain(vocab);
    let vocab: serde_json::Map<String, Value> = all.zip(0..).map(|(token, id)| (token, id.into())).collect();
    with_model(
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true}),
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "WordPiece", "unk_token": "[UNK]",
        "continuing_subword_prefix": "##", "max_input_chars_per_word": characters_max, "vocab": vocab}),
    )
}

fn of_scores(draw: &mut impl FnMut(usize) -> usize, has_byte_fallback: bool) -> Value {
    let bytes = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    let tokens = ["<unk>".to_owned()].into_iter().chain(bytes).chain(tokens(draw));
    let vocab: Vec<Value> = tokens.map(|token| json!([token, -0.1 - draw(1000) as f64 / 97.0])).collect();
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    with_model(
        json!({"type": "NFKC"}),
        metaspace,
        json!({"type": "Unigram", "unk_id": 0,
        "byte_fallback": has_byte_fallback, "vocab": vocab}),
    )
}

fn of_words(draw: &mut impl FnMut(usize) -> usize) -> Value {
    let tokens = ["<unk>".to_owned(), "the".to_owned()].into_iter().chain(tokens(draw));
    let vocab: serde_json::Map<String, Value> = tokens.zip(0..).map(|(token, id)| (token, id.into())).collect();
    with_model(
        Value::Null,
        json!({"type": "Whitespace"}),
        json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": vocab}),
    )
}

/// Compares ids of `count` texts with the stable engine's.
fn compare(document: &Value, count: usize, draw: &mut impl FnMut(usize) -> usize) {
    let document = Document::read(&document.to_string()).unwrap();
    for allowed in [Special::Nothing, Special::All] {
        let engine = Engine::new(&document, &allowed).unwrap();
        let fast = engine.fast.as_ref().expect("it has a newer engine");
        for _ in 0..count {
            let (count, few) = (draw(30), 1 + draw(PARTS.len()));
            let text: String = (0..count).map(|_| PARTS[draw(PARTS.len()) % few]).collect();
            let mut ids = Vec::new();
            if fast.encode(&text, &mut ids).is_none() {
                continue;
            }
            let expected = engine.stable().unwrap().encode_fast(text.as_str(), false).unwrap();
            assert_eq!(PipelineToken::cast_slice(&ids), expected.get_ids(), "{text:?} {}", document.text());
        }
    }
}

#[test]
fn own_merges_have_the_ids_of_the_stable_engine() {
    let mut draw = draws();
    let forms = [Value::Null, json!({"type": "NFC"}), json!({"type": "NFKC"}), json!({"type": "NFD"})];
    for (number, form) in forms.iter().cycle().take(8).enumerate() {
        let document = document(&mut draw, form, number % 3 == 0);
        compare(&document, 300, &mut draw);
    }
    for choice in 0..64 {
        let document = of_characters(&mut draw, choice);
        compare(&document, 60, &mut draw);
    }
}

#[test]
fn own_models_have_the_ids_of_the_stable_engine() {
    let mut draw = draws();
    for number in 0..12 {
        let documents =
            [of_pieces(&mut draw, [100, 7][number % 2]), of_scores(&mut draw, number % 2 == 0), of_words(&mut draw)];
        documents.iter().for_each(|document| compare(document, 100, &mut draw));
    }
}

/// The newer engine has its `Metaspace` before the search for these tokens, and the stable engine after it.
#[test]
fn an_added_token_is_found_before_spaces_are_replaced() {
    let metaspace =
        |scheme| json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": true});
    let vocab = json!([["<unk>", 0.0], ["\u{2581}a", -1.0], ["a", -2.0], ["\u{2581}", -3.0]]);
    let model = json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": vocab});
    for (scheme, expected) in [("always", [1, 5, 1, 4]), ("never", [2, 5, 2, 4])] {
        let mut document = with_model(Value::Null, metaspace(scheme), model.clone());
        for (token, content) in ["a a", "<|"].into_iter().enumerate() {
            document["added_tokens"][token]["content"] = content.into();
            document["added_tokens"][token]["normalized"] = true.into();
            document["added_tokens"][token]["special"] = false.into();
        }
        let document = Document::read(&document.to_string()).unwrap();
        let mut ids = Vec::new();
        Engine::new(&document, &Special::Nothing).unwrap().encode("a<|aa a", &mut ids).unwrap();
        assert_eq!(PipelineToken::cast_slice(&ids), expected, "{scheme}");
    }
}

/// The newer engine has one code for the three patterns of DeepSeek together.
#[test]
fn a_pattern_of_deepseek_splits_alone_and_with_others() {
    let split = |pattern: &str| {
        json!({"type": "Split", "pattern": {"Regex": pattern},
        "behavior": "Isolated", "invert": false})
    };
    let byte_level = |use_regex: bool| {
        json!({"type": "ByteLevel", "add_prefix_space": false,
        "trim_offsets": true, "use_regex": use_regex})
    };
    let [numbers, chinese, rest] = tokenizers::utils::DEEPSEEK_PATTERNS.map(split);
    let mut draw = draws();
    for (parts, is_fast) in [
        (vec![numbers.clone(), byte_level(false)], false),
        (vec![numbers.clone(), chinese.clone(), rest.clone(), byte_level(true)], false),
        (
            vec![
                json!({"type": "Digits", "individual_digits": true}),
                numbers.clone(),
                chinese.clone(),
                rest.clone(),
                byte_level(false),
            ],
            false,
        ),
        (vec![numbers, chinese, rest, byte_level(false)], true),
    ] {
        let mut document = document(&mut draw, &Value::Null, false);
        document["pre_tokenizer"]["pretokenizers"] = parts.into();
        let read = Document::read(&document.to_string()).unwrap();
        let engine = Engine::new(&read, &Special::Nothing).unwrap();
        assert_eq!(engine.fast.is_some(), is_fast, "{}", document["pre_tokenizer"]);
        if is_fast {
            compare(&document, 300, &mut draw);
        }
        engine.encode("12345 中文 the'S", &mut Vec::new()).unwrap();
    }
}

/// `tokenizers` never ends its search for an empty token, and finds one of two equal ones at random.
#[test]
fn added_tokens_that_their_normalizer_makes_empty_or_equal_are_refused() {
    for (content, message) in [("", "removes the added token \"<|\""), ("<|END|>", "\"<|end|>\" and \"<|\" equal")] {
        let mut document = with_model(
            json!({"type": "Sequence", "normalizers": [
                {"type": "Replace", "pattern": {"Regex": r"^<\|$"}, "content": content}, {"type": "Lowercase"}]}),
            json!({"type": "Whitespace"}),
            json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0}}),
        );
        for token in 0..2 {
            document["added_tokens"][token]["normalized"] = true.into();
        }
        let document = Document::read(&document.to_string()).unwrap();
        let e = Engine::new(&document, &Special::All).err().expect("it is refused");
        assert!(e.to_string().contains(message), "{e}");
    }
}

/// The stable engine puts a space before a text if its first character is the first one of the text, too.
#[test]
fn a_text_that_loses_its_first_character_has_no_space_before_it() {
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "first", "split": true});
    let model = json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "\u{2581}ab": 1, "ab": 2}});
    let normalizer = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false,
        "strip_accents": null, "lowercase": false});
    let document = Document::read(&with_model(normalizer, metaspace, model).to_string()).unwrap();
    let engine = Engine::new(&document, &Special::All).unwrap();
    for (text, expected) in [("ab", 1), ("\u{200b}ab", 2)] {
        let mut ids = Vec::new();
        engine.encode(text, &mut ids).unwrap();
        assert_eq!(PipelineToken::cast_slice(&ids), [expected], "{text:?}");
    }
}

/// The crate's models, its added tokens and its kept words know a text only by its hash, which these two share.
#[test]
fn a_text_has_no_ids_of_a_different_one_with_its_hash() {
    let [known, other] =
        ["abcdefghijklmno\u{fc}<\u{874a}buk/c\u{537a}Fja", "abcdefghijklmno\u{fc}g\u{f}4\u{2}xe2/8\u{2}$2\\z8"];
    let (split, keys) = (json!({"type": "WhitespaceSplit"}), |tokens: &[&str]| {
        let ids = tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), Value::from(id)));
        Value::Object(ids.collect())
    });
    let models = [
        json!({"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false, "ignore_merges": true,
            "vocab": keys(&["<unk>", known]), "merges": []}),
        json!({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": keys(&["<unk>", known])}),
        json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], [known, -1.0]]}),
        json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": keys(&["<unk>", known])}),
    ];
    for model in models {
        let mut document = with_model(Value::Null, split.clone(), model);
        let ids = |document: &Value, text: &str| {
            let document = Document::read(&document.to_string()).unwrap();
            let fast = Engine::new(&document, &Special::All).unwrap().fast.expect("it has a newer engine");
            let mut ids = Vec::new();
            fast.encode(text, &mut ids).expect("both engines treat its characters alike").unwrap();
            PipelineToken::cast_slice(&ids).to_vec()
        };
        assert_eq!(ids(&document, &[known, other, known].join(" ")), [1, 0, 1], "{}", document["model"]["type"]);
        document["added_tokens"][0]["content"] = known.into();
        document["added_tokens"][1]["content"] = known[..3].into();
        let added = document["added_tokens"].clone();
        document["model"]["vocab"] = match &document["model"]["vocab"] {
            Value::Array(_) => json!([["<unk>", 0.0]]),
            _ => keys(&["<unk>"]),
        };
        let found = ids(&document, &[known, other].concat());
        assert_eq!(found, [1, 2, 0], "{added}");
    }
}
