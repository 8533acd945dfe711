//! The two engines of a `tokenizer.json`, and the choice for a text.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::error::{Error, Result};
use forebay_core::sync::OnceLock;
use tokenizers::pipeline::PipelineToken;
use tokenizers_stable::{AddedToken, NormalizedString, Normalizer as _, Tokenizer as Stable};

use crate::characters::Characters;
use crate::document::Document;
use crate::newer::Newer;
use crate::scope::Scope;
use crate::settings::Special;

/// Tokenizer of a `tokenizer.json`, without the ids at the ends of a text.
pub(crate) struct Engine {
    fast: Option<Fast>,
    /// Made for the first text that needs it.
    stable: OnceLock<Result<Stable, String>>,
    /// Text of the `tokenizer.json`.
    json: String,
    is_all_special: bool,
}

/// The newer engine, and the characters of texts that it may encode.
struct Fast {
    tokenizer: Newer,
    characters: &'static Characters,
    /// Characters that need no normalizer, if there is one.
    normal: Option<Characters>,
}

impl Engine {
    /// # Errors
    /// A document that neither engine can use.
    pub(crate) fn new(document: &Document, allowed: &Special) -> Result<Self> {
        let fast = Scope::of(document, allowed).and_then(|scope| Fast::new(document, scope, *allowed == Special::All));
        let is_all_special = *allowed == Special::All;
        let engine = Self { fast, stable: OnceLock::new(), json: document.text(), is_all_special };
        if engine.fast.is_none() {
            engine.stable()?;
        }
        Ok(engine)
    }

    /// Adds the ids of `text` to `ids`.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<PipelineToken>) -> Result<()> {
        let broken = |reason: String| Error::decode(format!("the text cannot be tokenised: {reason}"));
        if let Some(encoded) = self.fast.as_ref().and_then(|fast| fast.encode(text, ids)) {
            return encoded.map_err(|e| broken(e.to_string()));
        }
        let encoding = self.stable()?.encode_fast(text, false).map_err(|e| broken(e.to_string()))?;
        ids.extend(encoding.get_ids().iter().map(|&id| PipelineToken::from(id)));
        Ok(())
    }

    /// Text of the `tokenizer.json`.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// Returns the bytes of a text that each of its `ids` is for.
    pub(crate) fn offsets(&self, text: &str, ids: &[u32]) -> Result<Vec<Range<usize>>> {
        let encoding = self.stable()?.encode(text, false);
        let encoding = encoding.map_err(|e| Error::decode(format!("the text cannot be tokenised: {e}")))?;
        if encoding.get_ids() != ids {
            return Err(Error::internal("two engines of a tokenizer have different ids"));
        }
        Ok(encoding.get_offsets().iter().map(|&(start, end)| start..end).collect())
    }

    fn stable(&self) -> Result<&Stable> {
        let made = self.stable.get_or_init(|| {
            let invalid = |_| "a part of its tokenizer.json is not valid".to_owned();
            let mut stable =
                catch_unwind(|| Stable::from_bytes(&self.json)).map_err(invalid)?.map_err(|e| e.to_string())?;
            stable.with_padding(None);
            stable.with_truncation(None).map_err(|e| e.to_string())?;
            stable.set_encode_special_tokens(!self.is_all_special);
            check_added_tokens(&stable, self.is_all_special)?;
            Ok(stable)
        });
        made.as_ref().map_err(|reason| Error::config(format!("the tokenizer cannot be used: {reason}")))
    }
}

/// # Errors
/// An added token that the normalizer makes empty: the library never ends its search for it. Two that it makes equal:
/// each process finds one of them at random.
fn check_added_tokens(tokenizer: &Stable, is_all_special: bool) -> Result<(), String> {
    let Some(normalizer) = tokenizer.get_normalizer() else { return Ok(()) };
    let mut tokens: Vec<_> = tokenizer.get_added_tokens_decoder().into_iter().collect();
    tokens.sort_unstable_by_key(|(id, _)| *id);
    let mut found: HashMap<String, AddedToken> = HashMap::new();
    for (_, token) in tokens.into_iter().filter(|(_, token)| token.normalized) {
        let mut content = NormalizedString::from(token.content.as_str());
        normalizer.normalize(&mut content).map_err(|e| e.to_string())?;
        if content.is_empty() {
            return Err(format!("its normalizer removes the added token {:?}: remove this token", token.content));
        }
        if let Some(other) = found.insert(content.get().to_owned(), token.clone())
            && (is_all_special || !other.special || !token.special)
        {
            let (one, other) = (&other.content, &token.content);
            return Err(format!(
                "its normalizer makes the added tokens {one:?} and {other:?} equal: remove one of them"
            ));
        }
    }
    Ok(())
}

impl Fast {
    /// Returns the newer engine, unless it does not know a part of the document.
    fn new(document: &Document, scope: Scope, is_all_special: bool) -> Option<Self> {
        // The engine asserts some properties of a document.
        let tokenizer = catch_unwind(AssertUnwindSafe(|| Newer::new(document, is_all_special))).ok()??;
        let characters = scope.characters();
        let normal = tokenizer.normal(characters);
        Some(Self { tokenizer, characters, normal })
    }

    /// Adds the ids of `text` to `ids`; `None` for a text that it may not encode.
    fn encode(&self, text: &str, ids: &mut Vec<PipelineToken>) -> Option<tokenizers::Result<()>> {
        let is_normal = self.normal.as_ref().is_some_and(|normal| normal.have_all(text));
        if !is_normal && !self.characters.have_all(text) {
            return None;
        }
        Some(self.tokenizer.encode(text, is_normal, ids))
    }
}

#[cfg(test)]
mod tests;
