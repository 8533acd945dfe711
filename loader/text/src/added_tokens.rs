//! Added tokens of a `tokenizer.json`: their places in a text.
//!
//! The crate's search compares the start of a token, and 32 bits of a hash for its rest. This one compares all bytes.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde_json::{Map, Value, json};
use tokenizers::pipeline::PipelinePatternMatcher;

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
    /// Returns the added tokens of a document of the newest version, whose model is `Null`. `vocab` is the model's, and
    /// may have a token's id. `None` for tokens that the newer engine does not know.
    pub(crate) fn new(document: &mut Value, vocab: &Value) -> Option<Self> {
        document["model"] = words(vocabulary(vocab)?);
        let added =
            tokenizers::from_json(&document.to_string()).ok()?.get_added_vocabulary().get_added_tokens_decoder();
        let is_named = |token: &&Value| token["content"].as_str().is_some_and(|content| !content.is_empty());
        let names: HashSet<String> = document["added_tokens"]
            .as_array()?
            .iter()
            .filter(is_named)
            .map(|token| token["content"].to_string())
            .collect();
        if added.len() < names.len() {
            return None;
        }
        document["model"] = words(Map::new());
        document["added_tokens"] = json!([]);
        let search = |is_normalized: bool| {
            let added = added.iter().filter(|(_, token)| token.normalized == is_normalized);
            let tokens = added.clone().map(|(&id, token)| Token { id, is_special: token.special }).collect();
            Search::new(added.map(|(_, token)| token.content.as_str()).collect(), tokens)
        };
        Some(Self { raw: search(false)?, normalized: search(true)? })
    }
}

impl Search {
    fn new(contents: Vec<&str>, tokens: Vec<Token>) -> Option<Self> {
        let distinct: HashSet<&str> = contents.iter().copied().filter(|content| !content.is_empty()).collect();
        if distinct.len() < contents.len() {
            return None;
        }
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

/// Returns the ids of a model's vocabulary; `None` for one with a piece twice.
fn vocabulary(vocab: &Value) -> Option<Map<String, Value>> {
    match vocab {
        Value::Object(vocab) => Some(vocab.clone()),
        Value::Array(pieces) => {
            let ids = pieces.iter().enumerate().map(|(id, piece)| Some((piece[0].as_str()?.to_owned(), id.into())));
            ids.collect::<Option<Map<_, _>>>().filter(|ids| ids.len() == pieces.len())
        }
        _ => None,
    }
}

/// Returns a model of whole words with this vocabulary.
fn words(vocab: Map<String, Value>) -> Value {
    json!({"type": "WordLevel", "vocab": vocab, "unk_token": ""})
}
