//! Documents in YAML, which includes JSON: cards of the hub's data sets, and files of Megatron Energon.

use crate::error::{Error, Result};
use saphyr_parser::{Event, Parser};

/// Deepest nesting of a document.
const DEPTH_MAX: usize = 32;

/// Value of the document. Everything but lists and maps is text.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// Returns the value of `key` in a map.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns a text.
    pub(super) fn text(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        Some(text)
    }

    /// Returns the entries of a map.
    pub(super) fn entries(&self) -> Option<&[(String, Self)]> {
        let Self::Map(entries) = self else { return None };
        Some(entries)
    }

    /// Returns the texts of a list.
    pub(super) fn list(&self) -> Option<Vec<&str>> {
        let Self::List(items) = self else { return None };
        items.iter().map(Self::text).collect()
    }
}

/// Collection that is being read, and the key of its next value in a map.
enum Open {
    List(Vec<Value>),
    Map(Vec<(String, Value)>, Option<String>),
}

/// Parses a document without references, which could make it larger than memory.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for text that is no such document.
pub(super) fn parse(text: &str) -> Result<Value> {
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|e| Error::format("it is not a YAML document").caused_by(e))?;
        let value = match event {
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Vec::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::List(items),
                Some(Open::Map(entries, _)) => Value::Map(entries),
                None => return Err(Error::format("it is not a YAML document")),
            },
            Event::Alias(_) => return Err(Error::format("it has references")),
            _ => continue,
        };
        if open.len() > DEPTH_MAX {
            return Err(Error::format(format!("it has more than {DEPTH_MAX} levels")));
        }
        match open.last_mut() {
            None => return Ok(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(entries, key)) => match (key.take(), value) {
                (Some(key), value) => entries.push((key, value)),
                (None, Value::Text(text)) => *key = Some(text),
                (None, _) => return Err(Error::format("a key is not text")),
            },
        }
    }
    Ok(Value::Map(Vec::new()))
}
