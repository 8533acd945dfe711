//! JSONL: one JSON object per sample. A column's bytes are its unescaped text, or its number as written.

use super::types::{number, text_column, text_type};
use crate::columns::{Column, Scratch, Span, sorted};
use crate::encoding::{Encoding, Value};
use crate::index::{IndexedFormat, JsonObject};
use crate::json;
use crate::layout::Layout;
use crate::shard_format::ShardFormat;
use forebay_core::error::{Error, ErrorKind, Result};
use serde_json::Value as Json;

/// Entry of a shard in an index.
pub(crate) const JSONL: IndexedFormat =
    IndexedFormat { name: "json", keys: &["raw_meta", "zip_meta", "newline", "columns"], layout, foreign: None };

/// One JSON object per sample, each followed by `newline`; offsets in a `.meta` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jsonl {
    /// Text after every sample; may be empty.
    pub(super) newline: String,
}

impl Layout {
    /// Makes a layout of JSONL with these columns, of the types `str`, `int` and `float`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a different type or a repeated column.
    pub fn jsonl<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>, newline: &str) -> Result<Self> {
        let columns = sorted(columns.into_iter().map(text_column))?;
        Ok(Self::new(Jsonl { newline: newline.to_owned() }, columns))
    }
}

fn layout(entry: &JsonObject<'_>) -> Result<Layout> {
    let newline = entry.text("newline")?;
    let Json::Object(map) = entry.get("columns")? else {
        return Err(entry.expected("columns", "an object"));
    };
    let columns = map.iter().map(|(name, kind)| (name.as_str(), kind.as_str().unwrap_or_default()));
    Layout::jsonl(columns, newline).map_err(|e| e.of_kind(ErrorKind::Format).with("field", "columns"))
}

impl ShardFormat for Jsonl {
    fn name(&self) -> &'static str {
        JSONL.name
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        let types = columns.iter().map(|column| (column.name.clone(), Json::from(text_type(&column.encoding))));
        put("columns", Json::Object(types.collect()));
        put("newline", self.newline.as_str().into());
    }

    fn is_split(&self) -> bool {
        true
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, &self.newline, sample, scratch)
    }

    fn document<'a>(&self, sample: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let document = sample.strip_suffix(self.newline.as_bytes());
        document.map(Some).ok_or_else(|| Error::format("the sample does not end with its newline"))
    }

    fn encode(&self, columns: &[Column], values: &[Value<'_>], _: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let mut text = String::from("{");
        for (i, (column, value)) in columns.iter().zip(values).enumerate() {
            text.push_str(if i == 0 { "" } else { ", " });
            json::write_str(&column.name, &mut text);
            text.push_str(": ");
            match (&column.encoding, value) {
                (Encoding::Str, Value::Str(string)) => json::write_str(string, &mut text),
                _ => text.push_str(&number(column, value, json::JSON_WORDS)?),
            }
        }
        text.push('}');
        text.push_str(&self.newline);
        out.extend(text.bytes());
        Ok(())
    }
}

/// Splits `sample` into `columns`, which are sorted by name. Further keys are ignored; the last of two equal keys
/// counts, as in Python.
fn split(columns: &[Column], newline: &str, sample: &[u8], scratch: &mut Scratch) -> Result<()> {
    let Some(object) = sample.strip_suffix(newline.as_bytes()) else {
        return Err(Error::format(format!("the sample does not end with its newline {newline:?}")));
    };
    // An empty range marks a column not seen yet: no JSON value is empty.
    scratch.spans.resize(columns.len(), Span::Sample(0..0));
    let spans = &mut scratch.spans;
    json::scan_object(object, |key, value| {
        let plain = &object[key.start + 1..key.end - 1];
        let unescaped;
        let name = if plain.contains(&b'\\') {
            unescaped = json::unescape(&object[key])?;
            unescaped.as_bytes()
        } else {
            plain
        };
        // A linear search would take long with many keys and many columns.
        if let Ok(i) = columns.binary_search_by(|column| column.name.as_bytes().cmp(name)) {
            spans[i] = Span::Sample(value);
        }
        Ok(())
    })?;
    for (column, span) in columns.iter().zip(&mut scratch.spans) {
        let Span::Sample(range) = span else { continue };
        *span =
            content(column, object, range.clone(), &mut scratch.side).map_err(|e| e.with("column", &column.name))?;
    }
    Ok(())
}

/// Returns the column's bytes for the JSON value at `range`.
fn content(column: &Column, object: &[u8], range: std::ops::Range<usize>, side: &mut Vec<u8>) -> Result<Span> {
    let token = &object[range.clone()];
    let start = side.len();
    match (&column.encoding, token.first()) {
        (_, None) => return Err(Error::format("the sample lacks the column")),
        (Encoding::Str, Some(b'"')) if !token.contains(&b'\\') => {
            return Ok(Span::Sample(range.start + 1..range.end - 1));
        }
        (Encoding::Str, Some(b'"')) => side.extend(json::unescape(token)?.into_bytes()),
        // Python's bool is an int, so the reference's writer accepts it.
        (Encoding::StrInt, Some(b't')) => side.push(b'1'),
        (Encoding::StrInt, Some(b'f')) => side.push(b'0'),
        (Encoding::StrInt | Encoding::StrFloat, Some(b'-' | b'0'..=b'9' | b'N' | b'I')) => {
            return Ok(Span::Sample(range));
        }
        (encoding, Some(_)) => {
            let shown = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
            return Err(Error::format(format!("`{shown}` is not a value of type {}", text_type(encoding))));
        }
    }
    Ok(Span::Side(start..side.len()))
}

#[cfg(test)]
mod tests {
    use crate::columns::{Column, Scratch};
    use crate::encoding::{Encoding, Value};
    use crate::layout::Layout;

    fn layout() -> Layout {
        let column = |(name, encoding): (&str, Encoding)| Column { name: name.into(), encoding, size: None };
        let columns = [("f", Encoding::StrFloat), ("i", Encoding::StrInt), ("s", Encoding::Str)];
        Layout::new(super::Jsonl { newline: "\r\n".into() }, columns.map(column).into())
    }

    #[test]
    fn values_are_read_by_their_columns_encodings() {
        let layout = layout();
        let mut scratch = Scratch::default();
        for (text, float, int, string) in [
            ("{\"f\": 1e-05, \"i\": -7, \"s\": \"plain\"}\r\n", 1e-5, -7, "plain"),
            ("{\"s\": \"\\u00e9\\n\", \"\\u0069\": true, \"f\": Infinity, \"x\": [{}]}\r\n", f64::INFINITY, 1, "é\n"),
            ("{\"i\": 1, \"i\": 2, \"f\": 0, \"s\": \"\"}\r\n", 0.0, 2, ""),
        ] {
            let columns = layout.split(text.as_bytes(), &mut scratch).unwrap();
            let value = |i: usize| layout.columns[i].encoding.decode(columns.get(i)).unwrap();
            assert_eq!(
                (value(0), value(1), value(2)),
                (Value::Float(float), Value::Int(int), Value::Str(string.into()))
            );
        }
    }

    #[test]
    fn an_error_in_a_sample_names_the_column() {
        let layout = layout();
        for (text, words) in [
            ("{\"f\": 1, \"i\": 1, \"s\": \"\"}\n", "newline"),
            ("{\"f\": 1, \"i\": 1}\r\n", "column s"),
            ("{\"f\": 1, \"i\": \"1\", \"s\": \"\"}\r\n", "column i"),
            ("{\"f\": null, \"i\": 1, \"s\": \"\"}\r\n", "column f"),
            ("{\"f\": 1, \"i\": 1, \"s\": \"\\ud800\"}\r\n", "column s"),
            ("[1]\r\n", "`{` expected"),
            ("\r\n", "`{` expected"),
        ] {
            let e = layout.split(text.as_bytes(), &mut Scratch::default()).unwrap_err();
            assert!(e.to_string().contains(words), "{text}: {e}");
        }
    }
}
