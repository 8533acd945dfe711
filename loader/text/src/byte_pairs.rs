//! Byte-pair encoding by the parts of the newer engine, with own merges and words that are kept.
//!
//! The crate's own model knows a token of its vocabulary by 32 bits of a hash, and a kept word of more than 7 bytes by
//! 64 bits, so that one of billions of words has the ids of a different one. So a byte-level model has own merges, and
//! of the crate's tokenizer the remaining parts: normalizers, pre-tokenizer and added tokens. Models of characters,
//! and models with a prefix, have the crate's merges, and more kept words than the 65,536 of its own tokenizer: these
//! are few for texts in several languages. Models with a suffix have the stable engine alone.

use std::borrow::Cow;

use forebay_core::sync::Mutex;
use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BpeConfig, BpeScratch, Merges as MergeList, PipelineBPE, Vocab};
use tokenizers::pipeline::{
    Model as _, PipelineNormalizer, PipelineToken, PipelineTokenizer, PreTokenizer as _, PreTokenizerScratch, Segment,
    Span, SpecialSegmentIterator, normalize_all,
};
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

use crate::characters::Characters;
use crate::merges::{Merges, Words};

/// Words with kept ids of the crate's merges, for each thread that encodes at the same time. A word needs 33 bytes, and
/// up to 64 for more than three ids: at most 49 MiB together.
const WORDS: usize = 1 << 19;

/// First character of the planes without characters of scripts that are in wide use.
const LATER_PLANES: char = '\u{2_0000}';

/// Tokenizer with a model of byte pairs.
pub(crate) struct BytePairs {
    /// Normalizers and pre-tokenizer. Its model is empty.
    parts: PipelineTokenizer,
    added: AddedVocabulary,
    /// Choice of the added tokens that are found in a text.
    found: Found,
    model: Model,
    /// Memory that no thread uses now. It has as many parts as threads have encoded at the same time.
    idle: Mutex<Vec<Scratch>>,
}

/// Added tokens that are found in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Those that are not special.
    Ordinary,
    All,
}

/// Model by its merges.
#[expect(clippy::large_enum_variant, reason = "a process has few tokenizers")]
enum Model {
    Own(Merges),
    Crate(PipelineBPE),
}

/// Memory of a thread that encodes, with its words.
struct Scratch {
    words: WordsOf,
    split: PreTokenizerScratch,
    spans: Vec<Span>,
}

/// Words of a model.
enum WordsOf {
    Own(Words),
    Crate(BpeScratch),
}

impl Scratch {
    fn new(model: &Model) -> Self {
        let words = match model {
            Model::Own(_) => WordsOf::Own(Words::default()),
            Model::Crate(model) => WordsOf::Crate(model.init_scratch()),
        };
        Self { words, split: PreTokenizerScratch::default(), spans: Vec::new() }
    }
}

impl BytePairs {
    /// Returns the tokenizer of a document of the newest version with a model of byte pairs; `None` for a document that
    /// the engine does not know. With `finds_special` special tokens in a text are found.
    pub(crate) fn new(mut document: Value, finds_special: bool) -> Option<Self> {
        let is_found = |token: &Value| finds_special || token["special"] != true;
        let has_found = document["added_tokens"].as_array()?.iter().any(is_found);
        let found = match (has_found, finds_special) {
            (false, _) => Found::Nothing,
            (true, true) => Found::All,
            (true, false) => Found::Ordinary,
        };
        let model = std::mem::take(document.get_mut("model")?);
        let Value::Object(vocab) = model.get("vocab")? else { return None };
        // The crate's model has the token without the suffix for a word of one character.
        if model["end_of_word_suffix"].as_str().is_some_and(|suffix| !suffix.is_empty()) {
            return None;
        }
        // Ids of added tokens are the vocabulary's, or follow it.
        document["model"] = words(vocab.clone());
        let added = tokenizers::from_json(&document.to_string()).ok()?.get_added_vocabulary().clone();
        document["model"] = words(Map::new());
        document["added_tokens"] = json!([]);
        let parts = tokenizers::from_json(&document.to_string()).ok()?;
        let model = match Merges::of_model(&model) {
            Some(merges) => Model::Own(merges),
            None => Model::Crate(PipelineBPE::from_config(config(&model)?).ok()?),
        };
        Some(Self { parts, added, found, model, idle: Mutex::new(Vec::new()) })
    }

    /// Returns the characters of `set` that make normal texts; `None` if there is no normalizer, or another one than
    /// Unicode's.
    pub(crate) fn normal(&self, set: &Characters) -> Option<Characters> {
        use PipelineNormalizer::{NFC, NFD, NFKC, NFKD};
        let normalizers = self.parts.get_normalizers();
        if normalizers.is_empty() || !normalizers.iter().all(|one| matches!(one, NFC(_) | NFD(_) | NFKC(_) | NFKD(_))) {
            return None;
        }
        // A text is normal if each of its characters is, and if no mark is after one of a higher class. The mark U+035D
        // has the class 234; only U+0345 has a higher one.
        let is_normal = |text: &str| matches!(normalize_all(normalizers, text, 0), Ok(Cow::Borrowed(_)));
        let is_in_any_order =
            |c: char| [format!("{c}\u{35d}"), format!("\u{35d}{c}")].iter().all(|text| is_normal(text));
        Some(set.filter(|c| c < LATER_PLANES && is_normal(c.encode_utf8(&mut [0; 4])) && is_in_any_order(c)))
    }

    /// Adds the ids of `text` to `ids`. A text that is normal needs no normalizer.
    pub(crate) fn encode(&self, text: &str, is_normal: bool, ids: &mut Vec<PipelineToken>) -> tokenizers::Result<()> {
        let mut scratch = self.idle.lock().pop().unwrap_or_else(|| Scratch::new(&self.model));
        let encoded = self.encode_with(&mut scratch, text, is_normal, ids);
        self.idle.lock().push(scratch);
        encoded
    }

    #[cfg(test)]
    pub(crate) fn has_own_merges(&self) -> bool {
        matches!(self.model, Model::Own(_))
    }

    fn encode_with(
        &self,
        scratch: &mut Scratch,
        text: &str,
        is_normal: bool,
        ids: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        let normalizers = if is_normal { &[] } else { self.parts.get_normalizers() };
        let normalize = |text, offset| normalize_all(normalizers, text, offset);
        if self.found == Found::Nothing {
            return self.encode_normalized(scratch, &normalize(text, 0)?, ids);
        }
        let skips_special = self.found == Found::Ordinary;
        for segment in SpecialSegmentIterator::new(text, &self.added, false, skips_special) {
            let (text, offset) = match segment {
                Segment::SpecialToken(id) => {
                    ids.push(id.into());
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            let normalized = normalize(text, offset)?;
            for segment in SpecialSegmentIterator::new(&normalized, &self.added, true, skips_special) {
                match segment {
                    Segment::SpecialToken(id) => ids.push(id.into()),
                    Segment::Text { text, .. } => self.encode_normalized(scratch, text, ids)?,
                }
            }
        }
        Ok(())
    }

    fn encode_normalized(
        &self,
        scratch: &mut Scratch,
        text: &str,
        ids: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        // A `Span` has offsets of 32 bits.
        if u32::try_from(text.len()).is_err() {
            return Err("it is longer than 4 GiB after its normalisation".into());
        }
        let Scratch { words, split, spans } = scratch;
        spans.clear();
        self.parts.get_pre_tokenizer().pre_tokenize(text, split, spans)?;
        match (&self.model, words) {
            (Model::Own(merges), WordsOf::Own(words)) => merges.encode(text, spans, words, ids),
            (Model::Crate(model), WordsOf::Crate(words)) => model.tokenize_spans(text, spans, words, ids)?,
            _ => return Err("the words are of a different model".into()),
        }
        Ok(())
    }
}

/// Returns a model of whole words with this vocabulary.
fn words(vocab: Map<String, Value>) -> Value {
    json!({"type": "WordLevel", "vocab": vocab, "unk_token": ""})
}

/// Returns the configuration of the model, with the defaults of the crate's own reader.
fn config(model: &Value) -> Option<BpeConfig> {
    let text = |name: &str| model[name].as_str().map(str::to_owned);
    let is_set = |name: &str| model[name].as_bool().unwrap_or_default();
    let vocab = model["vocab"].as_object()?.iter();
    let vocab = vocab.map(|(token, id)| Some((token.clone(), u32::try_from(id.as_u64()?).ok()?)));
    let merges = model["merges"].as_array()?.iter().map(|pair| match pair.as_array()?.as_slice() {
        [left, right] => Some((left.as_str()?.to_owned(), right.as_str()?.to_owned())),
        _ => None,
    });
    #[expect(clippy::cast_possible_truncation, reason = "a probability, of which zero alone can be used")]
    let dropout = model["dropout"].as_f64().map(|dropout| dropout as f32);
    Some(BpeConfig {
        vocab: vocab.collect::<Option<Vocab>>()?,
        merges: merges.collect::<Option<MergeList>>()?,
        byte_level: model["byte_level"].as_bool()?,
        unk_token: text("unk_token"),
        continuing_subword_prefix: text("continuing_subword_prefix"),
        end_of_word_suffix: text("end_of_word_suffix"),
        fuse_unk: is_set("fuse_unk"),
        byte_fallback: is_set("byte_fallback"),
        ignore_merges: is_set("ignore_merges"),
        dropout,
        cache_capacity: WORDS,
    })
}
