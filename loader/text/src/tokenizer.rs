//! Tokenizers, and those that the process has loaded.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::error::{Error, ErrorKind, Result};
use forebay_core::sync::{Arc, Mutex, OnceLock, Weak};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};
use xxhash_rust::xxh3::xxh3_128;

use crate::document::Document;
use crate::settings::{End, Settings, Special};

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
    engine: PipelineTokenizer,
    options: EncodeOptions,
    before: Vec<PipelineToken>,
    after: Vec<PipelineToken>,
    id_max: u32,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("id_max", &self.id_max).finish_non_exhaustive()
    }
}

/// A tokenizer's text by hash and length, and its settings.
type Key = (u128, usize, Settings);

/// Returns the table of the tokenizers in use.
fn loaded() -> &'static Mutex<HashMap<Key, Weak<Tokenizer>>> {
    static LOADED: OnceLock<Mutex<HashMap<Key, Weak<Tokenizer>>>> = OnceLock::new();
    LOADED.get_or_init(|| Mutex::new(HashMap::new()))
}

impl Tokenizer {
    /// Returns the tokenizer of the text of a `tokenizer.json`. The process loads it once, as long as it is in use.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: a text that is no `tokenizer.json`, or has a part that
    /// the engine does not know; settings that the tokenizer cannot satisfy.
    /// [`ErrorKind::Unsupported`]: a pattern that the engine does not have.
    pub fn load(json: &str, settings: &Settings) -> Result<Arc<Self>> {
        let key = (xxh3_128(json.as_bytes()), json.len(), settings.clone());
        // Held while it is loaded: a second thread waits for the same tokenizer instead of loading it again.
        let mut loaded = loaded().lock();
        loaded.retain(|_, tokenizer| tokenizer.strong_count() > 0);
        if let Some(tokenizer) = loaded.get(&key).and_then(Weak::upgrade) {
            return Ok(tokenizer);
        }
        let tokenizer = Arc::new(Self::read(json, settings)?);
        loaded.insert(key, Arc::downgrade(&tokenizer));
        Ok(tokenizer)
    }

    fn read(json: &str, settings: &Settings) -> Result<Self> {
        let mut document = Document::read(json)?;
        document.allow(&settings.allowed)?;
        let text = document.text();
        // The engine asserts some properties of a document.
        let engine = catch_unwind(AssertUnwindSafe(|| tokenizers::from_json(&text)));
        let broken = |reason: String| Error::config(format!("the tokenizer cannot be used: {reason}"));
        let engine = engine.map_err(|_| broken("a part of its tokenizer.json is not valid".to_owned()))?;
        let engine = engine.map_err(|e| broken(e.to_string()))?;
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: settings.allowed != Special::All,
            padding: Override::Off,
            truncation: Override::Off,
        };
        refuse_unknown_pattern(&engine, &options)?;
        let template = &engine.get_post_processor().single;
        let of = |run: &[(PipelineToken, u8)]| run.iter().map(|(id, _)| *id).collect();
        let before = end_ids("add_bos", &settings.bos, of(&template.prefix), &document)?;
        let after = end_ids("add_eos", &settings.eos, of(&template.suffix), &document)?;
        Ok(Self { options, before, after, id_max: document.id_max(), engine })
    }

    /// Replaces `ids` by the ids of `text`.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`]: a text that the tokenizer refuses, such as a word
    /// without an id in a vocabulary without a token for unknown words, or a text of more than 4 GiB.
    pub fn encode(&self, text: &str, ids: &mut Ids) -> Result<()> {
        ids.0.clear();
        ids.0.extend_from_slice(&self.before);
        let done = self.engine.encode_into(text, &self.options, &mut ids.0);
        done.map_err(|e| Error::decode(format!("the text cannot be tokenised: {e}")))?;
        ids.0.extend_from_slice(&self.after);
        Ok(())
    }

    /// Largest id.
    pub fn id_max(&self) -> u32 {
        self.id_max
    }
}

/// Refuses a tokenizer that splits texts by a pattern which the engine does not have. The engine reads such a tokenizer
/// and then fails for every text.
fn refuse_unknown_pattern(engine: &PipelineTokenizer, options: &EncodeOptions) -> Result<()> {
    match engine.encode_into("a", options, &mut Vec::new()) {
        Err(e) if e.to_string().contains("system-regex") => Err(Error::new(
            ErrorKind::Unsupported,
            "the tokenizer splits texts by an unknown regular expression. Patterns of GPT-2, Llama 3, o200k and Qwen 2 \
             are supported: tokenise the texts beforehand, and read them with a Tokens field",
        )),
        // A text may be refused for its words.
        _ => Ok(()),
    }
}

/// Returns the ids at an end of each text. `own` has the ids of the post-processor.
fn end_ids(name: &str, end: &End, own: Vec<PipelineToken>, document: &Document) -> Result<Vec<PipelineToken>> {
    match end {
        End::Own => Ok(own),
        End::Nothing => Ok(Vec::new()),
        End::Required if own.is_empty() => Err(Error::config(format!(
            "the tokenizer's post-processor adds no token there: pass the token's text as `{name}`, such as \"</s>\""
        ))),
        End::Required => Ok(own),
        End::Token(token) => {
            let missing = || Error::config(format!("the tokenizer has no such token: correct `{name}`"));
            let id = document.id_of(token).ok_or_else(|| missing().with("token", token))?;
            Ok(vec![id.into()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_pattern_that_the_engine_lacks_is_refused_before_the_first_text() {
        let split = r#"{"type": "Split", "pattern": {"Regex": "x+|y"}, "behavior": "Isolated", "invert": false}"#;
        let json = WORDS.replace(r#"{"type": "Whitespace"}"#, split);
        assert_eq!(Tokenizer::load(&json, &Settings::default()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_broken_document_is_an_error_of_the_configuration() {
        for json in ["", "{}", "[]", "{\"model\": 1}", &WORDS.replace("WordLevel", "Other"), &WORDS[..200]] {
            let e = Tokenizer::load(json, &Settings::default()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config, "{json}");
        }
    }
}
