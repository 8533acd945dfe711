//! Tokenizers, and those that the process has loaded.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::panic::catch_unwind;

use forebay_core::error::{Error, Result};
use forebay_core::sync::{Arc, Mutex, OnceLock, Weak};
use tokenizers::pipeline::PipelineToken;
use xxhash_rust::xxh3::xxh3_128;

use crate::document::Document;
use crate::engine::Engine;
use crate::long_texts::{LONG_BYTES, LongTexts};
use crate::pieces::{PIECE_BYTES, pieces};
use crate::ranks::Ranks;
use crate::scope::has_exact_cuts;
use crate::settings::{End, Settings};
use crate::spans::{self, TokenBytes};

/// Characters of a file that an error names.
const START_CHARACTERS: usize = 40;

/// Token ids of a text, in memory that is kept from text to text.
#[derive(Debug, Default)]
pub struct Ids(Vec<PipelineToken>);

impl Ids {
    /// Most ids with memory that is kept.
    const KEPT_MAX: usize = 1 << 20;

    /// The ids.
    pub fn as_slice(&self) -> &[u32] {
        PipelineToken::cast_slice(&self.0)
    }

    /// Returns the memory of a very long text.
    pub fn shrink(&mut self) {
        if self.0.capacity() > Self::KEPT_MAX {
            self.0 = Vec::new();
        }
    }
}

/// A tokenizer. All threads use one.
pub struct Tokenizer {
    vocabulary: VocabularyKind,
    /// True if a long text is encoded in pieces.
    has_exact_cuts: bool,
    before: Vec<PipelineToken>,
    after: Vec<PipelineToken>,
    id_max: u32,
    /// Bytes of each token, made for the first text with parts.
    token_bytes: OnceLock<Option<TokenBytes>>,
    long: LongTexts,
}

/// Vocabulary by the kind of its file.
#[expect(clippy::large_enum_variant, reason = "a process has few tokenizers")]
enum VocabularyKind {
    Json(Engine),
    Ranks(Ranks),
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("id_max", &self.id_max).finish_non_exhaustive()
    }
}

/// The file of a tokenizer by hash and length, and its settings.
type Key = (u128, usize, Settings);

/// Returns the table of the tokenizers in use.
fn loaded() -> &'static Mutex<HashMap<Key, Weak<Tokenizer>>> {
    static LOADED: OnceLock<Mutex<HashMap<Key, Weak<Tokenizer>>>> = OnceLock::new();
    LOADED.get_or_init(|| Mutex::new(HashMap::new()))
}

impl Tokenizer {
    /// Returns the tokenizer of the text of a `tokenizer.json`, or of a file of ranks if the settings have an encoding.
    /// The process loads it once, as long as it is in use.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](forebay_core::ErrorKind::Config): a text that is no such file, or has a part that the
    /// engines do not know; settings that the tokenizer cannot satisfy.
    pub fn load(file: &str, settings: &Settings) -> Result<Arc<Self>> {
        let key = (xxh3_128(file.as_bytes()), file.len(), settings.clone());
        // Held while it is loaded: a second thread waits for the same tokenizer instead of loading it again.
        let mut loaded = loaded().lock();
        loaded.retain(|_, tokenizer| tokenizer.strong_count() > 0);
        if let Some(tokenizer) = loaded.get(&key).and_then(Weak::upgrade) {
            return Ok(tokenizer);
        }
        let tokenizer = Arc::new(Self::read(file, settings)?);
        loaded.insert(key, Arc::downgrade(&tokenizer));
        Ok(tokenizer)
    }

    fn read(file: &str, settings: &Settings) -> Result<Self> {
        let Settings { bos, eos, allowed, encoding } = settings;
        if let Some(encoding) = encoding {
            let ranks = Ranks::new(file, encoding, allowed)?;
            let before = end_ids("add_bos", bos, Vec::new(), |token| ranks.id_of(token))?;
            let after = end_ids("add_eos", eos, Vec::new(), |token| ranks.id_of(token))?;
            let (id_max, has_exact_cuts) = (ranks.id_max(), encoding.has_exact_cuts());
            let (vocabulary, long) = (VocabularyKind::Ranks(ranks), LongTexts::default());
            return Ok(Self { vocabulary, has_exact_cuts, before, after, id_max, token_bytes: OnceLock::new(), long });
        }
        if !file.trim_start().starts_with('{') {
            let message = "the tokenizer is not a tokenizer.json, which begins with {: pass a different file, or with \
                           a file of ranks its `encoding`, such as \"cl100k_base\"";
            let start: String = file.chars().take(START_CHARACTERS).take_while(|c| !c.is_control()).collect();
            return Err(Error::config(message).with("start", start));
        }
        let mut document = Document::read(file)?;
        if !document.model().is_object() {
            return Err(Error::config(
                "the tokenizer is not a tokenizer.json, because it has no `model`: pass the file tokenizer.json of a \
                 model, which is next to its vocab.json and tokenizer_config.json",
            ));
        }
        if document.model()["dropout"].as_f64().is_some_and(|dropout| dropout > 0.0) {
            return Err(Error::config(
                "the model of the tokenizer has a `dropout`, so a text has different ids each time, and an epoch \
                 cannot be planned or resumed: set it to null in the tokenizer.json",
            ));
        }
        document.allow(allowed)?;
        let [own_before, own_after] = own_ends(&document)?;
        let before = end_ids("add_bos", bos, own_before, |token| document.id_of(token))?;
        let after = end_ids("add_eos", eos, own_after, |token| document.id_of(token))?;
        let engine = Engine::new(&document, allowed)?;
        let has_exact_cuts = has_exact_cuts(&document, allowed);
        let (vocabulary, id_max, long) = (VocabularyKind::Json(engine), document.id_max(), LongTexts::default());
        Ok(Self { vocabulary, has_exact_cuts, before, after, id_max, token_bytes: OnceLock::new(), long })
    }

    /// Replaces `ids` by the ids of `text`.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`](forebay_core::ErrorKind::Decode): a text that the tokenizer refuses, such as a word
    /// without an id in a vocabulary without a token for unknown words.
    pub fn encode(&self, text: &str, ids: &mut Ids) -> Result<()> {
        self.encode_head(text, usize::MAX, ids)
    }

    /// Replaces `ids` by the first ids of `text`: by `count` or more, unless the text has fewer. The rest of a long
    /// text is not encoded.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_head(&self, text: &str, count: usize, ids: &mut Ids) -> Result<()> {
        let bytes_min = if self.has_exact_cuts { PIECE_BYTES } else { usize::MAX };
        self.encode_pieces(text, bytes_min, count, ids)
    }

    /// Replaces `ids` by the ids of `text`, and `mask` by true for each id of a token that has a byte of one of
    /// `parts`, which are in order. Ids at the ends of each text have none.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_parts(&self, text: &str, parts: &[Range<usize>], ids: &mut Ids, mask: &mut Vec<bool>) -> Result<()> {
        self.encode(text, ids)?;
        mask.clear();
        mask.resize(self.before.len(), false);
        let own = &ids.as_slice()[self.before.len()..ids.0.len() - self.after.len()];
        let token_bytes = self.token_bytes.get_or_init(|| match &self.vocabulary {
            VocabularyKind::Json(engine) => TokenBytes::of_json(engine.json()),
            VocabularyKind::Ranks(ranks) => Some(TokenBytes::of(ranks.tokens())),
        });
        let is_known = token_bytes.as_ref().is_some_and(|bytes| bytes.mask(own, text, parts, mask));
        if !is_known {
            let VocabularyKind::Json(engine) = &self.vocabulary else {
                return Err(Error::internal("the tokens of a text are not its bytes"));
            };
            mask.truncate(self.before.len());
            spans::mask(engine.offsets(text, own)?, parts, mask);
        }
        mask.resize(ids.0.len(), false);
        Ok(())
    }

    /// Replaces `ids` by the ids of `text`, and keeps the ids of a long text that is encoded repeatedly: at most 64 MiB
    /// together.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_repeated(&self, text: &str, ids: &mut Ids) -> Result<()> {
        if text.len() < LONG_BYTES {
            return self.encode(text, ids);
        }
        ids.0.clear();
        self.long.encode(text, &mut ids.0, |kept| {
            let mut ids = Ids(std::mem::take(kept));
            let encoded = self.encode(text, &mut ids);
            *kept = ids.0;
            encoded
        })
    }

    fn encode_pieces(&self, text: &str, bytes_min: usize, count: usize, ids: &mut Ids) -> Result<()> {
        let ids = &mut ids.0;
        ids.clear();
        ids.extend_from_slice(&self.before);
        for piece in pieces(text, bytes_min) {
            match &self.vocabulary {
                VocabularyKind::Json(engine) => engine.encode(piece, ids)?,
                VocabularyKind::Ranks(ranks) => ranks.encode(piece, ids)?,
            }
            if ids.len() >= count {
                return Ok(());
            }
        }
        ids.extend_from_slice(&self.after);
        Ok(())
    }

    /// Largest id.
    pub fn id_max(&self) -> u32 {
        let ends = self.before.iter().chain(&self.after).map(|id| id.id());
        ends.fold(self.id_max, u32::max)
    }
}

/// Returns the ids that the post-processor adds before and after a text.
fn own_ends(document: &Document) -> Result<[Vec<PipelineToken>; 2]> {
    let post_processor = document.post_processor()?.to_string();
    let broken = |reason: String| Error::config(format!("the tokenizer cannot be used: {reason}"));
    // The engine asserts some properties of a document.
    let made = catch_unwind(|| tokenizers::post_processor_from_json(&post_processor));
    let made = made.map_err(|_| broken("its post-processor is not valid".to_owned()))?;
    let template = made.map_err(|e| broken(e.to_string()))?.single;
    Ok([template.prefix, template.suffix].map(|run| run.iter().map(|(id, _)| *id).collect()))
}

/// Returns the ids at an end of each text. `own` has the ids of the post-processor.
fn end_ids(
    name: &str,
    end: &End,
    own: Vec<PipelineToken>,
    id_of: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<PipelineToken>> {
    match end {
        End::Own => Ok(own),
        End::Nothing => Ok(Vec::new()),
        End::Required if own.is_empty() => Err(Error::config(format!(
            "the tokenizer adds no token there by itself: pass the token's text as `{name}`, such as \"</s>\""
        ))),
        End::Required => Ok(own),
        End::Token(token) => {
            let missing = || Error::config(format!("the tokenizer has no such token: correct `{name}`"));
            Ok(vec![id_of(token).ok_or_else(|| missing().with("token", token))?.into()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Special;
    use crate::test_inputs::{byte_level, draws};
    use forebay_core::error::ErrorKind;

    /// A vocabulary of words with a template, and a special token.
    const WORDS: &str = r#"{"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [
            {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 1, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "</s>": 1, "[UNK]": 2, "hello": 3, "s": 4}, "unk_token": "[UNK]"}}"#;

    fn ids(settings: Settings, text: &str) -> Vec<u32> {
        let mut ids = Ids::default();
        Tokenizer::load(WORDS, &settings).unwrap().encode(text, &mut ids).unwrap();
        ids.as_slice().to_vec()
    }

    #[test]
    fn the_ends_are_the_post_processors_or_as_given() {
        assert_eq!(ids(Settings::default(), "hello"), [0, 3]);
        assert_eq!(ids(Settings { bos: End::Nothing, ..Settings::default() }, "hello"), [3]);
        assert_eq!(ids(Settings { eos: End::Token("</s>".into()), ..Settings::default() }, ""), [0, 1]);
        let settings = Settings { eos: End::Required, ..Settings::default() };
        let e = Tokenizer::load(WORDS, &settings).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains("add_eos"), "{e}");
    }

    #[test]
    fn special_tokens_in_a_text_are_text_unless_they_are_allowed() {
        let allowed = |allowed| Settings { bos: End::Nothing, allowed, ..Settings::default() };
        assert_eq!(ids(allowed(Special::All), "</s><s>"), [1, 0]);
        assert_eq!(ids(allowed(Special::Nothing), "<s>"), [2, 4, 2]);
        assert_eq!(ids(allowed(Special::These(vec!["</s>".into()])), "</s><s>"), [1, 2, 4, 2]);
        let e = Tokenizer::load(WORDS, &allowed(Special::These(vec!["<x>".into()]))).unwrap_err();
        assert!(e.to_string().contains("<x>"), "{e}");
    }

    #[test]
    fn a_tokenizer_is_loaded_once_for_equal_settings() {
        let settings = Settings { bos: End::Token("hello".into()), ..Settings::default() };
        let first = Tokenizer::load(WORDS, &settings).unwrap();
        assert!(Arc::ptr_eq(&first, &Tokenizer::load(WORDS, &settings).unwrap()));
        assert!(!Arc::ptr_eq(&first, &Tokenizer::load(WORDS, &Settings::default()).unwrap()));
        assert_eq!(first.id_max(), 4);
    }

    #[test]
    fn any_pattern_splits_texts() {
        let split = r#"{"type": "Split", "pattern": {"Regex": "x+|y"}, "behavior": "Removed", "invert": false}"#;
        let json = WORDS.replace(r#"{"type": "Whitespace"}"#, split);
        let mut ids = Ids::default();
        Tokenizer::load(&json, &Settings::default()).unwrap().encode("helloxxsyhi", &mut ids).unwrap();
        assert_eq!(ids.as_slice(), [0, 3, 4, 2]);
    }

    /// A vocabulary of bytes and of some pairs, split by the pattern of Llama 3.
    fn bytes() -> String {
        let vocab = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let vocab = vocab.iter().enumerate().map(|(id, c)| (c.to_string(), id));
        let merges =
            ["e l", "l l", "t h", "\u{120} t", "\u{120} \u{120}", "\u{10a} \u{10a}", ". \u{10a}", "\u{120}t h"];
        let merged = merges.iter().enumerate().map(|(id, pair)| (pair.replace(' ', ""), 256 + id));
        let vocab: serde_json::Map<_, _> = vocab.chain(merged).map(|(token, id)| (token, id.into())).collect();
        let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        byte_level(pattern, &vocab, serde_json::json!(merges)).to_string()
    }

    /// The newer engine has the splits of three digits for any number of them but one.
    #[test]
    fn numbers_have_the_splits_of_the_pattern() {
        let two = [["1", "2"], ["12", "3"], ["123", "4"]];
        let mut document: serde_json::Value = serde_json::from_str(&bytes()).unwrap();
        for (id, pair) in (500..).zip(two) {
            document["model"]["vocab"][pair.concat()] = id.into();
            document["model"]["merges"].as_array_mut().unwrap().push(pair.join(" ").into());
        }
        let expected: [(&str, &[u32]); 4] =
            [("{1,3}", &[501, 52]), ("", &[49, 50, 51, 52]), ("{1,2}", &[500, 51, 52]), ("+", &[502])];
        for (digits, expected) in expected {
            let json = document.to_string().replace("{1,3}", digits);
            let mut ids = Ids::default();
            Tokenizer::load(&json, &Settings::default()).unwrap().encode("1234", &mut ids).unwrap();
            assert_eq!(ids.as_slice(), expected, "{digits}");
        }
    }

    /// The newer engine refuses the prefix, which the file is converted without.
    #[test]
    fn the_stable_engine_has_the_parts_that_the_newer_one_refuses() {
        let mut document: serde_json::Value = serde_json::from_str(&bytes()).unwrap();
        document["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true.into();
        document["post_processor"] = serde_json::json!({"type": "TemplateProcessing",
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "e", "type_id": 0}}],
            "special_tokens": {"e": {"id": "e", "ids": [68], "tokens": ["e"]}}});
        let mut ids = Ids::default();
        Tokenizer::load(&document.to_string(), &Settings::default()).unwrap().encode("the", &mut ids).unwrap();
        assert_eq!(ids.as_slice(), [32, 258, 101, 68]);
    }

    #[test]
    fn a_word_of_one_character_ends_with_the_suffix() {
        let json = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "end_of_word_suffix": "</w>", "merges": ["a b</w>"],
                "vocab": {"a": 0, "b": 1, "a</w>": 2, "b</w>": 3, "ab</w>": 4}}}"#;
        let mut ids = Ids::default();
        Tokenizer::load(json, &Settings::default()).unwrap().encode("a ab b", &mut ids).unwrap();
        assert_eq!(ids.as_slice(), [2, 4, 3]);
    }

    /// The newer engine's own model takes this word for the letter h, which has a hash with the same first 32 bits.
    #[test]
    fn a_word_has_no_ids_of_a_token_with_its_hash() {
        let mut ids = Ids::default();
        Tokenizer::load(&bytes(), &Settings::default()).unwrap().encode("bwuvmeu", &mut ids).unwrap();
        assert_eq!(ids.as_slice(), b"bwuvmeu".map(u32::from));
    }

    #[test]
    fn the_ids_of_pieces_are_the_ids_of_the_text() {
        let tokenizer = Tokenizer::load(&bytes(), &Settings::default()).unwrap();
        assert!(tokenizer.has_exact_cuts);
        let mut draw = draws();
        let parts = [
            "the",
            " ",
            "  ",
            "\n",
            "\r\n",
            "'s",
            "'S",
            ".",
            ",",
            "12345",
            "中文",
            "。",
            "ell",
            "\u{301}",
            "\u{a0}",
            "Привет",
            "x",
            "\u{32ef0}",
            "\t",
            "🤣",
            "한국",
            "カナ",
            "、",
        ];
        for _ in 0..3000 {
            let text: String = (0..draw(30)).map(|_| parts[draw(parts.len())]).collect();
            let (mut whole, mut cut) = (Ids::default(), Ids::default());
            tokenizer.encode(&text, &mut whole).unwrap();
            tokenizer.encode_pieces(&text, 1 + draw(20), usize::MAX, &mut cut).unwrap();
            assert_eq!(whole.as_slice(), cut.as_slice(), "{text:?}");
        }
    }

    /// A normalizer makes this token of a text with a cut inside.
    #[test]
    fn a_text_with_normalized_added_tokens_is_encoded_as_a_whole() {
        let mut document: serde_json::Value = serde_json::from_str(&bytes()).unwrap();
        document["normalizer"] = serde_json::json!({"type": "NFKC"});
        document["added_tokens"] = serde_json::json!([{"id": 264, "content": "l,l", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": true, "special": false}]);
        let tokenizer = Tokenizer::load(&document.to_string(), &Settings::default()).unwrap();
        let mut ids = Ids::default();
        tokenizer.encode(&format!("{}l\u{ff0c}l", "l".repeat(PIECE_BYTES - 1)), &mut ids).unwrap();
        assert_eq!(ids.as_slice().last(), Some(&264));
    }

    /// `tokenizers` ignores the ids of added tokens in a file.
    #[test]
    fn an_added_token_has_the_id_after_the_vocabulary() {
        let json = WORDS.replace(r#"{"id": 1, "content": "</s>""#, r#"{"id": 9, "content": "<end>""#);
        let settings = Settings {
            bos: End::Token("<end>".into()),
            eos: End::Token("</s>".into()),
            allowed: Special::All,
            encoding: None,
        };
        let tokenizer = Tokenizer::load(&json, &settings).unwrap();
        let (mut ids, mut mask) = (Ids::default(), Vec::new());
        tokenizer.encode_parts("<end>hello<s>", &[0..5, 10..13], &mut ids, &mut mask).unwrap();
        assert_eq!(ids.as_slice(), [5, 5, 3, 0, 1]);
        assert_eq!(mask, [false, true, false, true, false]);
        assert_eq!(tokenizer.id_max(), 5);
    }

    #[test]
    fn random_ids_are_refused() {
        for (dropout, is_refused) in [("0.1", true), ("0.0", false), ("null", false)] {
            let json = bytes().replace("\"dropout\":null", &format!("\"dropout\":{dropout}"));
            let loaded = Tokenizer::load(&json, &Settings::default());
            assert_eq!(loaded.is_err_and(|e| e.to_string().contains("`dropout`")), is_refused, "{dropout}");
        }
    }

    #[test]
    fn the_head_of_a_long_text_is_encoded_alone() {
        let tokenizer = Tokenizer::load(&bytes(), &Settings::default()).unwrap();
        let text = "the ell ".repeat(1 << 18);
        let (mut whole, mut head) = (Ids::default(), Ids::default());
        tokenizer.encode(&text, &mut whole).unwrap();
        tokenizer.encode_head(&text, 10, &mut head).unwrap();
        assert!((10..whole.as_slice().len() / 4).contains(&head.as_slice().len()));
        assert!(whole.as_slice().starts_with(head.as_slice()));
    }

    #[test]
    fn a_long_text_has_its_ids_each_time() {
        let settings = Settings { eos: End::Token("ll".into()), ..Settings::default() };
        let tokenizer = Tokenizer::load(&bytes(), &settings).unwrap();
        let (mut expected, mut found) = (Ids::default(), Ids::default());
        for text in ["the ell".to_owned(), "the ell ".repeat(LONG_BYTES), "ell the ".repeat(LONG_BYTES)] {
            tokenizer.encode(&text, &mut expected).unwrap();
            for _ in 0..4 {
                tokenizer.encode_repeated(&text, &mut found).unwrap();
                assert_eq!(found.as_slice(), expected.as_slice());
            }
        }
    }

    #[test]
    fn a_damaged_document_is_an_error_or_a_tokenizer() {
        let text = "hello </s> 12 中文'S\n";
        for json in [WORDS.to_owned(), bytes()] {
            // A vocabulary of bytes is long, and its parts after it are many.
            let positions =
                (0..json.len()).filter(|at| json.is_char_boundary(*at) && (json.len() < 2000 || at % 31 == 0));
            for at in positions {
                let mut end = at + 1;
                while !json.is_char_boundary(end) {
                    end += 1;
                }
                for changed in ["", "0", "{", "\""] {
                    let json = format!("{}{changed}{}", &json[..at], &json[end..]);
                    for allowed in [Special::Nothing, Special::All] {
                        let settings = Settings { allowed, ..Settings::default() };
                        if let Ok(tokenizer) = Tokenizer::load(&json, &settings) {
                            let _ = tokenizer.encode(text, &mut Ids::default());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_broken_document_is_an_error_of_the_configuration() {
        for json in ["", "{}", "[]", "{\"model\": 1}", &WORDS.replace("WordLevel", "Other"), &WORDS[..200]] {
            let e = Tokenizer::load(json, &Settings::default()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config, "{json}");
        }
        for json in [r#"{"tokenizer_class": "LlamaTokenizer"}"#, r#"{"a": 0, "b": 1}"#, "{}"] {
            let e = Tokenizer::load(json, &Settings::default()).unwrap_err();
            assert!(e.to_string().contains("next to its vocab.json"), "{e}");
        }
    }
}
