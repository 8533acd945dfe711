//! JSON in the dialect of Python's `json` module.
//!
//! Index files and shard headers must equal the reference's byte for byte, so the writer follows `json.dumps`: `", "`
//! and `": "` between items, everything outside printable ASCII escaped, floats as in `repr`. The scanner finds the
//! values of a flat object without building it, bounds nesting, and accepts Python's `NaN` and `Infinity`, which
//! serde_json does not.

mod pieces;

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value as Json;

use forebay_core::error::{Error, Result};
pub use pieces::{ObjectScanner, ObjectVisitor};

/// Upper bound of the nesting of arrays and objects; serde_json has the same.
pub const DEPTH_MAX: usize = 128;

/// Parses a document that nests down to [`DEPTH_MAX`].
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with line and column.
pub fn parse(bytes: &[u8]) -> Result<Json> {
    serde_json::from_slice(bytes).map_err(|e| Error::format("not valid JSON").caused_by(e))
}

/// Appends `value` in the form of `json.dumps(sort_keys=True)`. Keys are sorted by code point.
pub fn write(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Json::Number(n) => match n.as_f64() {
            Some(float) if n.is_f64() => out.push_str(&python_float(float, JSON_WORDS)),
            _ => out.push_str(&n.to_string()),
        },
        Json::String(s) => write_str(s, out),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (i, (key, item)) in entries.into_iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_str(key, out);
                out.push_str(": ");
                write(item, out);
            }
            out.push('}');
        }
    }
}

/// Spelling of the floats without digits, as in `json.dumps`: not a number, and infinity.
pub const JSON_WORDS: [&str; 2] = ["NaN", "Infinity"];

/// Spelling of the same floats as in `str`.
pub const STR_WORDS: [&str; 2] = ["nan", "inf"];

/// Prints `float` as Python's `repr` does: the shortest digits that read back as the same number, with an exponent
/// below 1e-4 and from 1e16 on.
pub fn python_float(float: f64, [nan, infinity]: [&str; 2]) -> String {
    if !float.is_finite() {
        let word = if float.is_nan() { nan } else { infinity };
        return format!("{}{word}", if float < 0.0 { "-" } else { "" });
    }
    // `{:e}` prints the shortest digits as `d.ddde±x`; only their arrangement differs from Python's.
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        if plain.contains('.') { plain } else { plain + ".0" }
    } else {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

/// Appends `text` as a JSON string in ASCII.
pub fn write_str(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out.push('"');
}

/// Checks that `bytes` are one JSON document that Python's `json.loads` accepts.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with the position of the error.
pub fn check(bytes: &[u8]) -> Result<()> {
    let mut scanner = Scanner::new(bytes);
    scanner.value(0)?;
    scanner.end()
}

/// Calls `entry(key, value)` for each entry of the object in `bytes`, with the ranges of the key (its quotes included)
/// and of the value.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] if `bytes` are not one object; errors of `entry`.
pub fn scan_object(bytes: &[u8], mut entry: impl FnMut(Range<usize>, Range<usize>) -> Result<()>) -> Result<()> {
    let mut scanner = Scanner::new(bytes);
    scanner.space();
    scanner.items(b'{', b'}', |scanner| {
        let (key, value) = scanner.entry(1)?;
        entry(key, value)
    })?;
    scanner.end()
}

/// Calls `item` for each item of the list in `bytes`, with its range.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] if `bytes` are not one list; errors of `item`.
pub fn scan_list(bytes: &[u8], mut item: impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
    let mut scanner = Scanner::new(bytes);
    scanner.space();
    scanner.items(b'[', b']', |scanner| item(scanner.value(1)?))?;
    scanner.end()
}

/// Part of the path to a value inside a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Key of an object; digits are the index in a list, too.
    Key(String),
    /// Index in a list, from 0.
    Index(usize),
}

/// Returns the range of the value at `path` inside `document`, `None` if there is none. The last of two equal keys
/// counts, as in Python.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] if `document` is not JSON.
pub fn find(document: &[u8], path: &[PathPart]) -> Result<Option<Range<usize>>> {
    let mut scanner = Scanner::new(document);
    let mut found = scanner.value(0)?;
    scanner.end()?;
    for part in path {
        let value = &document[found.clone()];
        let mut inner = None;
        match (value.first(), part) {
            (Some(b'{'), PathPart::Key(name)) => scan_object(value, |key, entry| {
                if is_string(&value[key], name) {
                    inner = Some(entry);
                }
                Ok(())
            })?,
            (Some(b'['), part) => {
                let place = match part {
                    PathPart::Key(name) => name.parse().ok(),
                    PathPart::Index(place) => Some(*place),
                };
                let mut items = 0;
                scan_list(value, |item| {
                    if place == Some(items) {
                        inner = Some(item);
                    }
                    items += 1;
                    Ok(())
                })?;
            }
            _ => {}
        }
        let Some(inner) = inner else { return Ok(None) };
        found = found.start + inner.start..found.start + inner.end;
    }
    Ok(Some(found))
}

/// Returns true if the string token `token` has the text `text`.
fn is_string(token: &[u8], text: &str) -> bool {
    match &token[1..token.len() - 1] {
        plain if !plain.contains(&b'\\') => plain == text.as_bytes(),
        // A key that is no text, such as half of a surrogate pair, is no key of a path.
        _ => unescape(token).is_ok_and(|unescaped| unescaped == text),
    }
}

/// Returns the text of a string token, which includes its quotes.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for broken escapes, half surrogate pairs and bytes that are not UTF-8.
pub fn unescape(token: &[u8]) -> Result<String> {
    // Checked before, in vectors: the parser does it byte by byte.
    let token = simdutf8::compat::from_utf8(token).map_err(|e| Error::format("not a JSON string").caused_by(e))?;
    serde_json::from_str(token).map_err(|e| Error::format("not a JSON string").caused_by(e))
}

/// Returns the bytes of the scalar at the start of `rest`, if it is one of the usual ones: a string without escapes,
/// a whole number or a word.
fn plain_scalar(rest: &[u8]) -> Option<usize> {
    let bytes = match rest.first()? {
        b'"' => return Some(plain_string(rest)?.len() + 2),
        b'1'..=b'9' => rest.iter().position(|byte| !byte.is_ascii_digit())?,
        b'0' => 1,
        _ => ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word.as_bytes()))?.len(),
    };
    matches!(rest.get(bytes)?, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t').then_some(bytes)
}

/// Returns the bytes of the string at the start of `rest`, without its quotes, if it has no escapes.
pub fn plain_string(rest: &[u8]) -> Option<&[u8]> {
    let text = rest.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', text)?;
    (text[end] == b'"' && text[..end].iter().all(|byte| *byte >= b' ')).then_some(&text[..end])
}

/// Cursor over JSON text. It finds the ends of values, but does not unescape strings.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes of the document before `bytes`.
    before: u64,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, before: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, expected: &str) -> Error {
        Error::format(format!("not valid JSON: {expected} expected")).with("byte", self.before + self.at as u64)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(&format!("`{}`", char::from(byte)))) }
    }

    fn end(&mut self) -> Result<()> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    fn value(&mut self, depth: usize) -> Result<Range<usize>> {
        self.space();
        let start = self.at;
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => {
                return Err(Error::format(format!("JSON nests deeper than {DEPTH_MAX}")).with("byte", self.at));
            }
            Some(b'{') => self.items(b'{', b'}', |scanner| scanner.entry(depth + 1).map(drop))?,
            Some(b'[') => self.items(b'[', b']', |scanner| scanner.value(depth + 1).map(drop))?,
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    /// Scans an array or object from `open` to `close`; `item` scans each of its items.
    fn items(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(open)?;
        self.space();
        if self.take(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            self.space();
            if self.take(close) {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Scans an entry of an object, and returns its key and its value.
    fn entry(&mut self, depth: usize) -> Result<(Range<usize>, Range<usize>)> {
        Ok((self.key()?, self.value(depth)?))
    }

    /// Scans the key of an entry, with the colon after it.
    fn key(&mut self) -> Result<Range<usize>> {
        self.space();
        let key = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.wrong("`\"`"));
        }
        self.scalar()?;
        let key = key..self.at;
        self.space();
        self.expect(b':')?;
        Ok(key)
    }

    /// Scans a string, a number or a word.
    fn scalar(&mut self) -> Result<()> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if let Some(bytes) = plain_scalar(rest) {
            self.at += bytes;
            return Ok(());
        }
        let floats: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
        if let Some(word) = floats.into_iter().find(|word| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => self.at += values.byte_offset(),
            Some(Err(e)) => return Err(self.wrong("a value").caused_by(e)),
            None => return Err(self.wrong("a value")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(text: &str) -> String {
        let mut out = String::new();
        write(&parse(text.as_bytes()).unwrap(), &mut out);
        out
    }

    #[test]
    fn text_is_printed_as_in_python() {
        let text = r#"{"b":[1,-2,3.0,1e-5,1e16,true,null],"a":{"é":"\u0000\u007f\"\\\n😀/"},"c":18446744073709551615}"#;
        assert_eq!(
            dumps(text),
            r#"{"a": {"\u00e9": "\u0000\u007f\"\\\n\ud83d\ude00/"}, "b": [1, -2, 3.0, 1e-05, 1e+16, true, null], "c": 18446744073709551615}"#
        );
        assert_eq!(dumps(r#"{"b":[],"a":{}}"#), r#"{"a": {}, "b": []}"#);
    }

    #[test]
    fn the_scanner_accepts_the_same_texts_as_python() {
        for text in ["1", "-0.5e+3", " [1, {\"a\": [NaN, -Infinity]}, \"\\\"\"] ", "{}", "\"\"", "null"] {
            check(text.as_bytes()).unwrap();
        }
        for text in [
            "",
            "01",
            "1.",
            "-",
            "nul",
            "{\"a\"}",
            "[1,]",
            "{\"a\":1,}",
            "\"a",
            "\"\n\"",
            "\"\\",
            "1 2",
            "{1:2}",
            "+1",
            "-NaN",
        ] {
            assert_eq!(check(text.as_bytes()).unwrap_err().kind(), crate::ErrorKind::Format, "{text}");
        }
    }

    #[test]
    fn floats_are_printed_as_in_python() {
        for (float, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(python_float(float, STR_WORDS), text);
        }
        assert_eq!(python_float(f64::NEG_INFINITY, JSON_WORDS), "-Infinity");
    }

    #[test]
    fn deep_nesting_is_rejected_and_does_not_overflow_the_stack() {
        let deep = "[".repeat(1 << 20);
        assert!(check(deep.as_bytes()).unwrap_err().message().contains("deeper"));
        assert!(parse(deep.as_bytes()).is_err());
        let fine = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        check(fine.as_bytes()).unwrap();
    }

    #[test]
    fn an_object_is_scanned_entry_by_entry() {
        let text = br#" {"a": "x\"y", "b" : [1, 2]} "#;
        let mut seen = Vec::new();
        scan_object(text, |key, value| {
            seen.push((unescape(&text[key])?, String::from_utf8_lossy(&text[value]).into_owned()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [("a".to_owned(), r#""x\"y""#.to_owned()), ("b".to_owned(), "[1, 2]".to_owned())]);
        assert!(scan_object(b"[]", |_, _| Ok(())).is_err());
    }

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = br#" {"a": {"b.c": [1, {"d": "x"}], "0": 2, "0": 3}, "\u00e9": null, "l": [[], [4, 5]]} "#;
        let key = |key: &str| PathPart::Key(key.to_owned());
        for (path, found) in [
            (vec![], Some(&text[1..text.len() - 1])),
            (vec![key("a"), key("b.c"), PathPart::Index(1), key("d")], Some(&br#""x""#[..])),
            (vec![key("a"), key("0")], Some(b"3")),
            (vec![key("\u{e9}")], Some(b"null")),
            (vec![key("l"), key("1"), key("0")], Some(b"4")),
            (vec![key("l"), PathPart::Index(2)], None),
            (vec![key("l"), key("x")], None),
            (vec![key("a"), PathPart::Index(0)], None),
            (vec![key("a"), key("b.c"), key("0"), key("0")], None),
        ] {
            assert_eq!(find(text, &path).unwrap().map(|range| &text[range]), found, "{path:?}");
        }
        for bad in [&b"{\"a\": 1"[..], b"", b"{} {}", b"{\"a\": 1, \"b\": x}"] {
            assert!(find(bad, &[key("a")]).is_err());
        }
    }
}
