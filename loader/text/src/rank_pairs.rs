//! Byte pairs by ranks, with tiktoken's ids, by the splits of the newer engine and words that are kept.
//!
//! The rank of a pair of neighbours is the id of the token that has the bytes of both, whichever tokens they are; the
//! least one is merged first, and of equal ones the leftmost. The newer engine's own model ranks pairs of tokens
//! instead, so that runs such as `=====` have different ids there.

use forebay_core::sync::Mutex;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pipeline::{PipelineToken, PreTokenizer as _, PreTokenizerScratch, Span};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use crate::common_words::CommonWords;
use crate::merges::Merges;
use crate::scope::is_known_pattern;
use crate::words::Words;

/// Tokenizer of a file of ranks with a known pattern, without special tokens.
pub(crate) struct RankPairs {
    /// Splits of a text.
    split: Split,
    /// True if white space at the end of a text is one word.
    ends_whole: bool,
    merges: Merges,
    common: CommonWords,
    /// Memory that no thread uses now.
    idle: Mutex<Vec<Scratch>>,
}

/// Memory of a thread that encodes, with its words.
#[derive(Default)]
struct Scratch {
    words: Words<Merges>,
    split: PreTokenizerScratch,
    spans: Vec<Span>,
}

impl RankPairs {
    /// Returns the tokenizer of a vocabulary with a token for each byte; `None` for a pattern that the newer engine
    /// does not know. With `ends_whole` white space at the end of a text is one word, whatever the pattern does with
    /// it.
    pub(crate) fn new(tokens: &[(Vec<u8>, u32)], pattern: &str, ends_whole: bool) -> Option<Self> {
        if !is_known_pattern(pattern) {
            return None;
        }
        let split = SplitPattern::Regex(pattern.to_owned());
        let split = Split::native(split, SplitDelimiterBehavior::Isolated, false).ok()?;
        let merges = Merges::of_ranks(tokens)?;
        Some(Self { split, ends_whole, merges, common: CommonWords::default(), idle: Mutex::default() })
    }

    /// Adds the ids of `text` to `ids`.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<PipelineToken>) -> tokenizers::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut scratch = self.idle.lock().pop().unwrap_or_default();
        let encoded = self.encode_with(&mut scratch, text, ids);
        self.idle.lock().push(scratch);
        encoded
    }

    fn encode_with(&self, scratch: &mut Scratch, text: &str, ids: &mut Vec<PipelineToken>) -> tokenizers::Result<()> {
        let Scratch { words, split, spans } = scratch;
        spans.clear();
        self.split.pre_tokenize(text, split, spans)?;
        if self.ends_whole {
            join_end(text, spans);
        }
        words.encode(&self.merges, &self.common, text, spans, ids)
    }
}

/// Joins the words of white space at the end of a text.
fn join_end(text: &str, words: &mut Vec<Span>) {
    let end = text.trim_end().len();
    while let [.., before, _] = words.as_slice()
        && before.start as usize >= end
    {
        words.pop();
    }
    if let Some(last) = words.last_mut().filter(|last| last.start as usize >= end) {
        last.end = text.len() as u32;
    }
}

#[cfg(test)]
mod tests;
