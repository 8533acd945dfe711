//! Byte-pair encoding by the newer engine, with a cache of more words.
//!
//! The crate's own tokenizer has a fixed cache of 65,536 words, which texts in several languages replace all the
//! time. The size is an argument of its model, so the model is made here, and its tokenizer has the remaining parts:
//! normalizers, pre-tokenizer and added tokens.

use forebay_core::sync::Mutex;
use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BpeConfig, BpeScratch, Merges, PipelineBPE, Vocab};
use tokenizers::pipeline::{
    Model as _, PipelineToken, PipelineTokenizer, PreTokenizer as _, PreTokenizerScratch, Segment, Span,
    SpecialSegmentIterator, normalize_all,
};
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

/// Words with kept ids, for each thread that encodes at the same time. A word needs 33 bytes, and up to 64 for more
/// than three ids: at most 49 MiB together.
const WORDS: usize = 1 << 19;

/// Tokenizer with a model of byte pairs.
pub(crate) struct BytePairs {
    /// Normalizers and pre-tokenizer. Its model is empty.
    parts: PipelineTokenizer,
    added: AddedVocabulary,
    model: PipelineBPE,
    /// Memory that no thread uses now. It has as many parts as threads have encoded at the same time.
    idle: Mutex<Vec<Scratch>>,
}

/// Memory of a thread that encodes, with its words.
struct Scratch {
    model: BpeScratch,
    split: PreTokenizerScratch,
    words: Vec<Span>,
}

impl BytePairs {
    /// Returns the tokenizer of a document of the newest version with a model of byte pairs; `None` for a document that
    /// the engine does not know.
    pub(crate) fn new(mut document: Value) -> Option<Self> {
        let model = std::mem::take(document.get_mut("model")?);
        let Value::Object(vocab) = model.get("vocab")? else { return None };
        // Ids of added tokens are the vocabulary's, or follow it.
        document["model"] = words(vocab.clone());
        let added = tokenizers::from_json(&document.to_string()).ok()?.get_added_vocabulary().clone();
        document["model"] = words(Map::new());
        document["added_tokens"] = json!([]);
        let parts = tokenizers::from_json(&document.to_string()).ok()?;
        let model = PipelineBPE::from_config(config(&model)?).ok()?;
        Some(Self { parts, added, model, idle: Mutex::new(Vec::new()) })
    }

    /// Adds the ids of `text` to `ids`. With `finds_special` special tokens in the text are found.
    pub(crate) fn encode(
        &self,
        text: &str,
        finds_special: bool,
        ids: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        let mut scratch = self.idle.lock().pop().unwrap_or_else(|| Scratch {
            model: self.model.init_scratch(),
            split: PreTokenizerScratch::default(),
            words: Vec::new(),
        });
        let encoded = self.encode_with(&mut scratch, text, finds_special, ids);
        self.idle.lock().push(scratch);
        encoded
    }

    fn encode_with(
        &self,
        scratch: &mut Scratch,
        text: &str,
        finds_special: bool,
        ids: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        for segment in SpecialSegmentIterator::new(text, &self.added, false, !finds_special) {
            let (text, offset) = match segment {
                Segment::SpecialToken(id) => {
                    ids.push(id.into());
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            let normalized = normalize_all(self.parts.get_normalizers(), text, offset)?;
            for segment in SpecialSegmentIterator::new(&normalized, &self.added, true, !finds_special) {
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
        let Scratch { model, split, words } = scratch;
        words.clear();
        self.parts.get_pre_tokenizer().pre_tokenize(text, split, words)?;
        self.model.tokenize_spans(text, words, model, ids)
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
        merges: merges.collect::<Option<Merges>>()?,
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
