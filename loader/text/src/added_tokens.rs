//! Added tokens of a `tokenizer.json`: their places in a text.
//!
//! The crate's search compares the start of a token, and 32 bits of a hash for its rest. This one compares all bytes.

use std::collections::{HashMap, HashSet};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde_json::Value;
use tokenizers::pipeline::PipelinePatternMatcher;

use crate::document::Document;

/// Fields of an added token that it must have.
const FLAGS: [&str; 5] = ["single_word", "lstrip", "rstrip", "normalized", "special"];

/// Added tokens.
pub(crate) struct AddedTokens {
    /// Tokens that are searched before the normalizers, and after them.
    raw: Search,
    normalized: Search,
}

struct Search {
    /// `None` without tokens.
    matcher: Option<AhoCorasick>,
    tokens: Vec<Token>,
}

/// Token of a pattern of the same number.
struct Token {
    id: u32,
    is_special: bool,
}

impl AddedTokens {
    /// Returns the added tokens of a document without normalizers for them; `None` for damaged ones.
    pub(crate) fn new(document: &Document) -> Option<Self> {
        let is_whole = |token: &Value| {
            token["id"].is_u64() && token["content"].is_string() && FLAGS.iter().all(|flag| token[flag].is_boolean())
        };
        if !document.added().all(is_whole) {
            return None;
        }
        let special: HashSet<&str> = document
            .added()
            .filter(|token| token["special"] == true)
            .filter_map(|token| token["content"].as_str())
            .collect();
        // Of equal contents the last one has the flags.
        let is_normalized: HashMap<&str, bool> = document
            .added()
            .filter_map(|token| Some((token["content"].as_str()?, token["normalized"] == true)))
            .collect();
        let search = |normalized: bool| {
            let added = document.added_ids().filter(|(content, _)| is_normalized.get(content) == Some(&normalized));
            let tokens = added.map(|(content, id)| (content, Token { id, is_special: special.contains(content) }));
            Search::new(tokens.unzip())
        };
        Some(Self { raw: search(false)?, normalized: search(true)? })
    }
}

impl Search {
    fn new((contents, tokens): (Vec<&str>, Vec<Token>)) -> Option<Self> {
        let build = || AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&contents).ok();
        let matcher = if contents.is_empty() { None } else { Some(build()?) };
        Some(Self { matcher, tokens })
    }
}

impl PipelinePatternMatcher for AddedTokens {
    fn extract_next(
        &self,
        text: &[u8],
        start: usize,
        is_normalized: bool,
        skips_special: bool,
    ) -> Option<((usize, usize), u32)> {
        let Search { matcher, tokens } = if is_normalized { &self.normalized } else { &self.raw };
        let found = matcher.as_ref()?.find_iter(Input::new(text).span(start..text.len()));
        let mut found = found.map(|place| ((place.start(), place.end()), &tokens[place.pattern().as_usize()]));
        found.find(|(_, token)| !(skips_special && token.is_special)).map(|(place, token)| (place, token.id))
    }
}
