//! Parts of a `tokenizer.json` that the loader reads or changes itself.

use forebay_core::error::{Error, Result};
use serde_json::Value;

use crate::settings::Special;

/// A `tokenizer.json` of any version.
pub(crate) struct Document {
    value: Value,
    /// The file, unless the document is changed. A score of a piece in a copy may have a different last digit.
    file: Option<String>,
}

impl Document {
    pub(crate) fn read(json: &str) -> Result<Self> {
        let value = serde_json::from_str(json).map_err(|e| broken(&e.to_string()))?;
        Ok(Self { value, file: Some(json.to_owned()) })
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
        let added = self.added().filter(|added| added["content"] == token).find_map(|added| added["id"].as_u64());
        let in_model = || match self.value.get("model")?.get("vocab")? {
            Value::Object(vocab) => vocab.get(token)?.as_u64(),
            Value::Array(pieces) => Some(pieces.iter().position(|piece| piece[0] == token)? as u64),
            _ => None,
        };
        added.or_else(in_model).and_then(|id| u32::try_from(id).ok())
    }

    /// Returns the largest id.
    pub(crate) fn id_max(&self) -> u32 {
        let added = self.added().filter_map(|token| token["id"].as_u64()).max().unwrap_or(0);
        let in_model = match self.value.get("model").and_then(|model| model.get("vocab")) {
            Some(Value::Object(vocab)) => vocab.values().filter_map(Value::as_u64).max().unwrap_or(0),
            Some(Value::Array(pieces)) => pieces.len().saturating_sub(1) as u64,
            _ => 0,
        };
        u32::try_from(added.max(in_model)).unwrap_or(u32::MAX)
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

    fn added(&self) -> impl Iterator<Item = &Value> {
        self.value.get("added_tokens").and_then(Value::as_array).into_iter().flatten()
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
