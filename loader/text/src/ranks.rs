//! Vocabularies of tiktoken: a file of ranks, a pattern and special tokens.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forebay_core::error::{Error, Result};
use tiktoken_rs::CoreBPE;
use tokenizers::pipeline::PipelineToken;

use crate::characters::Characters;
use crate::encoding::Encoding;
use crate::rank_pairs::RankPairs;
use crate::settings::Special;

/// Tokenizer of a file of ranks.
pub(crate) struct Ranks {
    engine: CoreBPE,
    /// The newer engine, if it knows the pattern.
    pub(crate) fast: Option<RankPairs>,
    allowed: HashSet<String>,
    /// Text that all allowed tokens begin with.
    allowed_start: String,
    tokens: Vec<(Vec<u8>, u32)>,
}

impl Ranks {
    /// # Errors
    /// Text that is no file of ranks; a pattern that is not valid; an allowed token that is not a special one.
    pub(crate) fn new(text: &str, encoding: &Encoding, allowed: &Special) -> Result<Self> {
        let mut tokens = read(text)?;
        let special = encoding.special()?;
        let known: HashSet<&str> = special.iter().map(|(token, _)| token.as_str()).collect();
        let allowed: HashSet<String> = match allowed {
            Special::Nothing => HashSet::new(),
            Special::All => known.iter().map(|&token| token.to_owned()).collect(),
            Special::These(tokens) => tokens.iter().cloned().collect(),
        };
        if let Some(token) = allowed.iter().find(|token| !known.contains(token.as_str())) {
            let message = "the encoding has no such special token: correct `allowed_special`";
            return Err(Error::config(message).with("token", token));
        }
        let ranks = tokens.iter().cloned().collect();
        let engine = CoreBPE::new(ranks, special.iter().cloned().collect(), encoding.pattern()?);
        let engine = engine.map_err(|e| Error::config(format!("the pattern of `encoding` is not valid: {e}")))?;
        let (pattern, ends_whole) = encoding.newer_pattern()?;
        let fast = RankPairs::new(&tokens, pattern, ends_whole);
        tokens.extend(special.into_iter().map(|(token, id)| (token.into_bytes(), id)));
        Ok(Self { engine, fast, allowed_start: common_start(&allowed), allowed, tokens })
    }

    /// Returns the newer engine if it has the ids of `text`.
    fn fast_for(&self, text: &str) -> Option<&RankPairs> {
        let may_have_special = !self.allowed.is_empty() && text.contains(&self.allowed_start);
        let is_short = u32::try_from(text.len()).is_ok();
        self.fast.as_ref().filter(|_| is_short && !may_have_special && Characters::of_patterns().have_all(text))
    }

    /// Adds the ids of `text` to `ids`.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<PipelineToken>) -> Result<()> {
        let broken = |reason: String| Error::decode(format!("the text cannot be tokenised: {reason}"));
        if let Some(fast) = self.fast_for(text) {
            return fast.encode(text, ids).map_err(|e| broken(e.to_string()));
        }
        // The library asserts that a search does not exceed its limit of steps.
        let found = catch_unwind(AssertUnwindSafe(|| {
            if self.allowed.is_empty() {
                return Ok(self.engine.encode_ordinary(text));
            }
            let allowed = self.allowed.iter().map(String::as_str).collect();
            self.engine.encode(text, &allowed).map(|(ids, _)| ids).map_err(|e| e.to_string())
        }));
        let found = found.unwrap_or_else(|_| Err("the pattern has too many ways to match it".to_owned()));
        let found = found.map_err(broken)?;
        ids.extend(found.into_iter().map(PipelineToken::from));
        Ok(())
    }

    /// Returns the id of a token.
    pub(crate) fn id_of(&self, token: &str) -> Option<u32> {
        self.tokens.iter().rev().find(|(bytes, _)| bytes == token.as_bytes()).map(|(_, id)| *id)
    }

    /// Bytes and id of each token.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.tokens.iter().map(|(bytes, id)| (*id, bytes.as_slice()))
    }

    /// Returns the largest id.
    pub(crate) fn id_max(&self) -> u32 {
        self.tokens.iter().map(|(_, id)| *id).max().unwrap_or(0)
    }
}

/// Returns the text that all of `tokens` begin with.
fn common_start(tokens: &HashSet<String>) -> String {
    let mut tokens = tokens.iter();
    let mut start = tokens.next().cloned().unwrap_or_default();
    for token in tokens {
        let equal = start.char_indices().zip(token.chars()).find(|((_, one), other)| one != other);
        start.truncate(equal.map_or(start.len().min(token.len()), |((at, _), _)| at));
    }
    start
}

/// Returns the tokens of a file of ranks with their ids.
fn read(text: &str) -> Result<Vec<(Vec<u8>, u32)>> {
    let wrong = |line: usize| {
        let message = "the tokenizer is neither a tokenizer.json nor a file of ranks of tiktoken, \
                       which has a token in base64 and a number in each line";
        Error::config(message).with("line", line + 1)
    };
    let mut tokens = Vec::new();
    let (mut seen, mut ids) = (HashSet::new(), HashSet::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (token, id) = line.trim().split_once(' ').ok_or_else(|| wrong(number))?;
        let token = STANDARD.decode(token).map_err(|_| wrong(number))?;
        let id = id.parse().map_err(|_| wrong(number))?;
        if !seen.insert(token.clone()) || !ids.insert(id) {
            return Err(Error::config("a token or an id is twice in the file of ranks").with("line", number + 1));
        }
        tokens.push((token, id));
    }
    match (0..=u8::MAX).find(|&byte| !seen.contains(&[byte][..])) {
        Some(_) if tokens.is_empty() => Err(wrong(0)),
        Some(byte) => Err(Error::config("the file of ranks has no token of this byte").with("byte", byte)),
        None => Ok(tokens),
    }
}
