//! Paths to values inside JSON documents.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::json::PathPart;

/// Path to a value of a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a path is text such as \"meta.boxes[0].label\", or a list of keys and positions in lists"
)]
pub enum JsonPath {
    /// Keys with dots between them, and in brackets positions in lists, and keys in double quotes, which may have dots
    /// in them.
    Text(String),
    /// Keys, which may have dots in them, and positions in lists.
    Parts(Vec<JsonPart>),
}

/// Part of a [`JsonPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a part of a path is a key, or a position in a list from 0")]
pub enum JsonPart {
    /// Position in a list, from 0.
    Index(usize),
    /// Key of an object.
    Key(String),
}

impl JsonPath {
    /// Returns the parts; `None` for text that is no path.
    pub(crate) fn parts(&self) -> Option<Vec<PathPart>> {
        let Self::Text(text) = self else {
            let Self::Parts(parts) = self else { return None };
            let part = |part: &JsonPart| match part {
                JsonPart::Index(index) => PathPart::Index(*index),
                JsonPart::Key(key) => PathPart::Key(key.clone()),
            };
            return Some(parts.iter().map(part).collect());
        };
        if text.is_empty() { None } else { parts_of(text) }
    }
}

/// Returns the parts of the argument `path` of a field; none without it, for the document. `kind` names the field in
/// the error.
///
/// # Errors
/// Text that is no path.
pub(super) fn parts_of_path(kind: &str, path: Option<&JsonPath>) -> Result<Vec<PathPart>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    path.parts().ok_or_else(|| {
        Error::config(format!(
            "`path` of {kind} has an empty part or a broken position in a list: write it as in meta.boxes[0].label, or \
             as a list"
        ))
        .with("path", serde_json::to_string(path).unwrap_or_default())
    })
}

/// Returns the parts of a path such as `a.b[0]["key.with.dots"]`.
fn parts_of(text: &str) -> Option<Vec<PathPart>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let part;
        (part, rest) = match rest.strip_prefix('[') {
            Some(quoted) if quoted.starts_with('"') => {
                let mut keys = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
                let key = keys.next()?.ok()?;
                (PathPart::Key(key), quoted[keys.byte_offset()..].strip_prefix(']')?)
            }
            Some(place) => {
                let (place, rest) = place.split_once(']')?;
                (PathPart::Index(place.parse().ok()?), rest)
            }
            None => {
                let key = if parts.is_empty() { rest } else { rest.strip_prefix('.')? };
                let (key, rest) = key.split_at(key.find(['.', '[']).unwrap_or(key.len()));
                (PathPart::Key(Some(key).filter(|key| !key.is_empty())?.to_owned()), rest)
            }
        };
        parts.push(part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_keys_and_positions() {
        let (key, place) = (|key: &str| PathPart::Key(key.to_owned()), PathPart::Index);
        for (json, parts) in [
            (r#""caption""#, Some(vec![key("caption")])),
            (r#""meta.boxes[0][1].label""#, Some(vec![key("meta"), key("boxes"), place(0), place(1), key("label")])),
            (r#""[2].0""#, Some(vec![place(2), key("0")])),
            (r#"["a.b", 0, "c[1]"]"#, Some(vec![key("a.b"), place(0), key("c[1]")])),
            (r#""""#, None),
            (r#""a..b""#, None),
            (r#""a.[0]""#, None),
            (r#""a[0""#, None),
            (r#""a[-1]""#, None),
            (r#""a[0]b""#, None),
        ] {
            assert_eq!(serde_json::from_str::<JsonPath>(json).unwrap().parts(), parts, "{json}");
        }
    }
}
