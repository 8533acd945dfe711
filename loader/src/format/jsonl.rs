//! JSONL samples: one JSON object each. A column's bytes are its unescaped text, or its number as written.

use super::columns::{Column, Scratch, Span};
use super::encoding::Encoding;
use super::json;
use crate::error::{Error, Result};

/// Splits `sample` into `columns`, which are sorted by name. Other keys are ignored; the last of two equal keys counts,
/// as in Python.
pub(super) fn split(columns: &[Column], newline: &str, sample: &[u8], scratch: &mut Scratch) -> Result<()> {
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
        (Encoding::Str, Some(b'"')) => side.extend(json::unescape(token)?.bytes()),
        // Python's bool is an int, so the reference's writer accepts it.
        (Encoding::StrInt, Some(b't')) => side.push(b'1'),
        (Encoding::StrInt, Some(b'f')) => side.push(b'0'),
        (Encoding::StrInt | Encoding::StrFloat, Some(b'-' | b'0'..=b'9' | b'N' | b'I')) => {
            return Ok(Span::Sample(range));
        }
        (encoding, Some(_)) => {
            let shown = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
            return Err(Error::format(format!("`{shown}` is not a value of type {}", super::xsv::text_type(encoding))));
        }
    }
    Ok(Span::Side(start..side.len()))
}

#[cfg(test)]
mod tests {
    use crate::format::columns::{Column, Scratch};
    use crate::format::encoding::{Encoding, Value};
    use crate::format::layout::{Layout, ShardFormat};

    fn layout() -> Layout {
        let column = |(name, encoding): (&str, Encoding)| Column { name: name.into(), encoding, size: None };
        let columns = [("f", Encoding::StrFloat), ("i", Encoding::StrInt), ("s", Encoding::Str)];
        Layout { format: ShardFormat::Jsonl { newline: "\r\n".into() }, columns: columns.map(column).into() }
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
