//! Typed access to the fields of a JSON object.

use std::fmt;

use serde_json::{Map, Value as Json};

use forebay_core::error::{Error, Result};

/// JSON object with fields that are read by name, with errors that name the field.
pub(crate) struct JsonObject<'a>(pub(crate) &'a Map<String, Json>);

impl<'a> JsonObject<'a> {
    pub(crate) fn get(&self, key: &str) -> Result<&'a Json> {
        self.0.get(key).ok_or_else(|| missing(key))
    }

    pub(crate) fn expected(&self, key: &str, subject: &str) -> Error {
        expected(key, subject, self.0.get(key).unwrap_or(&Json::Null))
    }

    pub(crate) fn only(&self, allowed: &[&[&str]]) -> Result<()> {
        match self.0.keys().find(|key| !allowed.iter().any(|keys| keys.contains(&key.as_str()))) {
            Some(key) => Err(Error::format("unknown field").with("field", Brief(&Json::from(key.as_str())))),
            None => Ok(()),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str> {
        self.get(key)?.as_str().ok_or_else(|| self.expected(key, "a text"))
    }

    pub(crate) fn uint(&self, key: &str) -> Result<u64> {
        self.get(key)?.as_u64().ok_or_else(|| self.expected(key, "a number that is not negative"))
    }

    pub(crate) fn list(&self, key: &str) -> Result<&'a Vec<Json>> {
        self.get(key)?.as_array().ok_or_else(|| self.expected(key, "a list"))
    }

    /// Returns copies of a list of texts.
    pub(crate) fn owned_texts(&self, key: &str) -> Result<Vec<String>> {
        Ok(self.texts(key)?.into_iter().map(str::to_owned).collect())
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        self.list(key)?.iter().map(|item| item.as_str().ok_or_else(|| expected(key, "a list of texts", item))).collect()
    }
}

pub(crate) fn missing(field: &str) -> Error {
    Error::format("the field is missing").with("field", field)
}

/// Error for a wrong value of `field`: `found` is that value, not the list or object around it.
pub(crate) fn expected(field: &str, subject: &str, found: &Json) -> Error {
    Error::format(format!("{subject} is expected, not {}", Brief(found))).with("field", field)
}

/// Prints enough of a value to recognise it in a message.
pub(crate) struct Brief<'a>(pub(crate) &'a Json);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Json::Object(_) => f.write_str("an object"),
            Json::Array(_) => f.write_str("a list"),
            value => {
                let text = value.to_string();
                match text.char_indices().nth(60) {
                    Some((end, _)) => write!(f, "{}...", &text[..end]),
                    None => f.write_str(&text),
                }
            }
        }
    }
}
