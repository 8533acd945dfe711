//! Parts of a `tokenizer.json` that the loader reads or changes itself.

use std::collections::HashMap;

use forebay_core::error::{Error, Result};
use serde_json::Value;

use crate::settings::Special;

/// A `tokenizer.json` of any version.
pub(crate) struct Document {
    value: Value,
    /// The file, unless the document is changed. A score of a piece in a copy may have a different last digit.
    file: Option<String>,
    /// Ids of the added tokens.
    added_ids: HashMap<String, u32>,
}

impl Document {
    pub(crate) fn read(json: &str) -> Result<Self> {
        let value = serde_json::from_str(json).map_err(|e| broken(&e.to_string()))?;
        Ok(Self { added_ids: added_ids(&value), value, file: Some(json.to_owned()) })
    }

    /// Makes the allowed special tokens ordinary ones, which an engine finds in texts.
    ///
    /// # Errors
    /// An allowed token that the tokenizer does not have as an added token.
    pub(crate) fn allow(&mut self, allowed: &Special) -> Result<()> {
        let Special::These(names) = allowed else { return Ok(()) };
        self.file = None;
        for name in names {
            let tokens = self.value.get_mut("added_tokens").and_then(Value::as_array_mut);
            let token = tokens.and_then(|tokens| tokens.iter_mut().find(|token| token["content"] == name.as_str()));
            let Some(token) = token.and_then(Value::as_object_mut) else {
                let message = "the tokenizer has no such special token: correct `allowed_special`";
                return Err(Error::config(message).with("token", name));
            };
            token.insert("special".to_owned(), Value::Bool(false));
        }
        Ok(())
    }

    /// Returns the document of the newest version.
    pub(crate) fn newest(&self) -> Result<Value> {
        let mut value = self.value.clone();
        tokenizers::canonicalize_value(&mut value).map_err(|e| broken(&e.to_string()))?;
        Ok(value)
    }

    /// Returns the post-processor of the newest version.
    pub(crate) fn post_processor(&self) -> Result<Value> {
        let mut value = self.value.get("post_processor").cloned().unwrap_or_default();
        tokenizers::canonicalize_post_processor(&mut value).map_err(|e| broken(&e.to_string()))?;
        Ok(value)
    }

    /// Returns the id of an added token or of a word of the vocabulary.
    pub(crate) fn id_of(&self, token: &str) -> Option<u32> {
        let in_model = || match self.vocab() {
            Value::Object(vocab) => vocab.get(token)?.as_u64(),
            Value::Array(pieces) => Some(pieces.iter().rposition(|piece| piece[0] == token)? as u64),
            _ => None,
        };
        self.added_ids.get(token).copied().or_else(|| u32::try_from(in_model()?).ok())
    }

    /// Returns the largest id.
    pub(crate) fn id_max(&self) -> u32 {
        let in_model = match self.vocab() {
            Value::Object(vocab) => vocab.values().filter_map(Value::as_u64).max().unwrap_or(0),
            Value::Array(pieces) => pieces.len().saturating_sub(1) as u64,
            _ => 0,
        };
        let in_model = u32::try_from(in_model).unwrap_or(u32::MAX);
        self.added_ids.values().copied().fold(in_model, u32::max)
    }

    /// Returns the added tokens and their ids.
    pub(crate) fn added_ids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.added_ids.iter().map(|(content, id)| (content.as_str(), *id))
    }

    /// Returns the words of the vocabulary, or its pieces with their scores.
    pub(crate) fn vocab(&self) -> &Value {
        &self.value["model"]["vocab"]
    }

    /// Returns the document as text.
    pub(crate) fn text(&self) -> String {
        self.file.clone().unwrap_or_else(|| self.value.to_string())
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Value {
        &self.value["model"]
    }

    /// Returns the normalizers; a sequence is replaced by its parts.
    pub(crate) fn normalizers(&self) -> Vec<&Value> {
        parts(&self.value["normalizer"], "normalizers")
    }

    /// Returns the pre-tokenizers; a sequence is replaced by its parts.
    pub(crate) fn pre_tokenizers(&self) -> Vec<&Value> {
        parts(&self.value["pre_tokenizer"], "pretokenizers")
    }

    /// Returns the added tokens that an engine finds in a text.
    pub(crate) fn found(&self, allowed: &Special) -> impl Iterator<Item = &Value> {
        let is_all = *allowed == Special::All;
        self.added().filter(move |token| is_all || token["special"] == false)
    }

    /// Returns the added tokens.
    pub(crate) fn added(&self) -> impl Iterator<Item = &Value> {
        self.value.get("added_tokens").and_then(Value::as_array).into_iter().flatten()
    }
}

/// Returns the ids of the added tokens of a document. `tokenizers` ignores the ids in the file: a token has its id of
/// the vocabulary, or the next one after the vocabulary's number of tokens.
fn added_ids(document: &Value) -> HashMap<String, u32> {
    let vocab = &document["model"]["vocab"];
    let pieces = vocab.as_array().into_iter().flatten();
    let pieces: HashMap<&str, u64> = pieces.zip(0..).filter_map(|(piece, id)| Some((piece[0].as_str()?, id))).collect();
    let in_model =
        |token: &str| vocab.as_object().map_or_else(|| pieces.get(token).copied(), |vocab| vocab.get(token)?.as_u64());
    let mut next = vocab.as_object().map_or_else(|| vocab.as_array().map_or(0, Vec::len), serde_json::Map::len) as u64;
    let mut ids = HashMap::new();
    let added = document["added_tokens"].as_array().into_iter().flatten();
    for content in added.filter_map(|token| token["content"].as_str()).filter(|content| !content.is_empty()) {
        if !ids.contains_key(content) {
            let id = in_model(content).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            ids.insert(content.to_owned(), u32::try_from(id).unwrap_or(u32::MAX));
        }
    }
    ids
}

fn broken(message: &str) -> Error {
    Error::config(format!("the tokenizer is not a tokenizer.json: {message}"))
}

/// Returns `part`, or the parts of a sequence of them, which are in its field `of_sequence`.
fn parts<'a>(part: &'a Value, of_sequence: &str) -> Vec<&'a Value> {
    match part {
        Value::Null => Vec::new(),
        part if part["type"] == "Sequence" => {
            let inner = part[of_sequence].as_array().into_iter().flatten();
            inner.flat_map(|part| parts(part, of_sequence)).collect()
        }
        part => vec![part],
    }
}
