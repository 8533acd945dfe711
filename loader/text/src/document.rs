//! Parts of a `tokenizer.json` that the loader reads or changes itself.

use forebay_core::error::{Error, Result};
use serde_json::Value;

use crate::settings::Special;

/// A `tokenizer.json` of any version.
pub(crate) struct Document(Value);

impl Document {
    pub(crate) fn read(json: &str) -> Result<Self> {
        serde_json::from_str(json).map(Self).map_err(|e| broken(&e.to_string()))
    }

    /// Makes the allowed special tokens ordinary ones, which an engine finds in texts.
    ///
    /// # Errors
    /// An allowed token that the tokenizer does not have as an added token.
    pub(crate) fn allow(&mut self, allowed: &Special) -> Result<()> {
        let Special::These(names) = allowed else { return Ok(()) };
        for name in names {
            let tokens = self.0.get_mut("added_tokens").and_then(Value::as_array_mut);
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
        let mut value = self.0.clone();
        tokenizers::canonicalize_value(&mut value).map_err(|e| broken(&e.to_string()))?;
        Ok(value)
    }

    /// Returns the id of an added token or of a word of the vocabulary.
    pub(crate) fn id_of(&self, token: &str) -> Option<u32> {
        let added = self.added().filter(|added| added["content"] == token).find_map(|added| added["id"].as_u64());
        let in_model = || match self.0.get("model")?.get("vocab")? {
            Value::Object(vocab) => vocab.get(token)?.as_u64(),
            Value::Array(pieces) => Some(pieces.iter().position(|piece| piece[0] == token)? as u64),
            _ => None,
        };
        added.or_else(in_model).and_then(|id| u32::try_from(id).ok())
    }

    /// Returns the largest id.
    pub(crate) fn id_max(&self) -> u32 {
        let added = self.added().filter_map(|token| token["id"].as_u64()).max().unwrap_or(0);
        let in_model = match self.0.get("model").and_then(|model| model.get("vocab")) {
            Some(Value::Object(vocab)) => vocab.values().filter_map(Value::as_u64).max().unwrap_or(0),
            Some(Value::Array(pieces)) => pieces.len().saturating_sub(1) as u64,
            _ => 0,
        };
        u32::try_from(added.max(in_model)).unwrap_or(u32::MAX)
    }

    /// Returns the document as text.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Value {
        &self.0["model"]
    }

    /// Returns the normalizers; a sequence is replaced by its parts.
    pub(crate) fn normalizers(&self) -> Vec<&Value> {
        parts(&self.0["normalizer"], "normalizers")
    }

    /// Returns the pre-tokenizers; a sequence is replaced by its parts.
    pub(crate) fn pre_tokenizers(&self) -> Vec<&Value> {
        parts(&self.0["pre_tokenizer"], "pretokenizers")
    }

    /// Returns the added tokens that an engine finds in a text.
    pub(crate) fn found(&self, allowed: &Special) -> impl Iterator<Item = &Value> {
        let is_all = *allowed == Special::All;
        self.added().filter(move |token| is_all || token["special"] == false)
    }

    fn added(&self) -> impl Iterator<Item = &Value> {
        self.0.get("added_tokens").and_then(Value::as_array).into_iter().flatten()
    }
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
