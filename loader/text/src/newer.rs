//! The newer engine: the crate's normalizers and pre-tokenizers, with own models, added tokens and kept words.

use std::borrow::Cow;

use forebay_core::sync::Mutex;
use serde_json::{Value, json};
use tokenizers::Result;
use tokenizers::pipeline::{
    PipelineNormalizer, PipelineToken, PipelineTokenizer, PreTokenizer as _, PreTokenizerScratch, Segment, Span,
    SpecialSegmentIterator, normalize_all,
};

use crate::added_tokens::AddedTokens;
use crate::characters::Characters;
use crate::common_words::CommonWords;
use crate::document::Document;
use crate::models::Model;
use crate::words::Words;

/// First character of the planes without characters of scripts that are in wide use.
const LATER_PLANES: char = '\u{2_0000}';

/// Tokenizer of the newer engine.
pub(crate) struct Newer {
    /// Normalizers and pre-tokenizer. Its model is empty.
    parts: PipelineTokenizer,
    added: AddedTokens,
    /// Choice of the added tokens that are found in a text.
    found: Found,
    model: Model,
    common: CommonWords,
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

/// Memory of a thread that encodes, with its words.
#[derive(Default)]
struct Scratch {
    words: Words<Model>,
    split: PreTokenizerScratch,
    spans: Vec<Span>,
    cut: Vec<Span>,
}

impl Newer {
    /// Returns the tokenizer of a document; `None` for a document that the engine does not know. With `finds_special`
    /// special tokens in a text are found.
    pub(crate) fn new(document: &Document, finds_special: bool) -> Option<Self> {
        let is_found = |token: &Value| finds_special || token["special"] != true;
        let has_found = document.added().any(is_found);
        let found = match (has_found, finds_special) {
            (false, _) => Found::Nothing,
            (true, true) => Found::All,
            (true, false) => Found::Ordinary,
        };
        let added = AddedTokens::new(document)?;
        let mut document = document.newest().ok()?;
        let words = json!({"type": "WordLevel", "vocab": {}, "unk_token": ""});
        let model = std::mem::replace(document.get_mut("model")?, words);
        document["added_tokens"] = json!([]);
        let parts = tokenizers::from_json(&document.to_string()).ok()?;
        Some(Self {
            parts,
            added,
            found,
            model: Model::of(&model)?,
            common: CommonWords::default(),
            idle: Mutex::default(),
        })
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
    pub(crate) fn encode(&self, text: &str, is_normal: bool, ids: &mut Vec<PipelineToken>) -> Result<()> {
        let mut scratch = self.idle.lock().pop().unwrap_or_default();
        let encoded = self.encode_with(&mut scratch, text, is_normal, ids);
        self.idle.lock().push(scratch);
        encoded
    }

    fn encode_with(
        &self,
        scratch: &mut Scratch,
        text: &str,
        is_normal: bool,
        ids: &mut Vec<PipelineToken>,
    ) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
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

    fn encode_normalized(&self, scratch: &mut Scratch, text: &str, ids: &mut Vec<PipelineToken>) -> Result<()> {
        // A `Span` has offsets of 32 bits.
        if u32::try_from(text.len()).is_err() {
            return Err("it is longer than 4 GiB after its normalisation".into());
        }
        let Scratch { words, split, spans, cut } = scratch;
        spans.clear();
        self.parts.get_pre_tokenizer().pre_tokenize(text, split, spans)?;
        if let Model::Pairs(merges) = &self.model {
            merges.cut(text, spans, cut);
        }
        words.encode(&self.model, &self.common, text, spans, ids)
    }
}
