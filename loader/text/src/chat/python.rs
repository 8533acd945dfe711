//! Values as Python prints them, and as its module `json` writes them.

use std::fmt::Write as _;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Deepest nesting of a value that is written.
const DEPTH_MAX: usize = 128;

/// Returns `str(value)`.
pub(super) fn text_of(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::String => text.push_str(value.as_str().unwrap_or_default()),
        _ => write_repr(value, &mut text, 0)?,
    }
    Ok(text)
}

/// Adds `repr(value)`.
fn write_repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(value, out, ["inf", "-inf", "nan"]),
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter()? {
                if count > 0 {
                    out.push_str(", ");
                }
                write_repr(&item, out, depth + 1)?;
                count += 1;
            }
            if value.is_tuple() && count == 1 {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (number, key) in value.try_iter()?.enumerate() {
                if number > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, out, depth + 1)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => write!(out, "{value}").unwrap_or_default(),
    }
    Ok(())
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply"));
    }
    Ok(())
}

/// Adds a number. `special` has the names of infinity, of its negative and of the value that is no number.
fn write_number(value: &Value, out: &mut String, special: [&str; 3]) {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => {
            let text = match float {
                _ if float.is_nan() => special[2].to_owned(),
                f64::INFINITY => special[0].to_owned(),
                f64::NEG_INFINITY => special[1].to_owned(),
                float => float_text(float),
            };
            out.push_str(&text);
        }
        _ => write!(out, "{value}").unwrap_or_default(),
    }
}

/// Returns the shortest text of a float, in the form of Python's `repr`.
fn float_text(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Adds the `repr` of a text.
fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            char if char == quote => out.extend(['\\', char]),
            char if char.is_control() || char == '\u{ad}' => write!(out, "\\x{:02x}", char as u32).unwrap_or_default(),
            char => out.push(char),
        }
    }
    out.push(quote);
}

/// Form of a JSON document.
#[derive(Clone, Debug)]
pub(super) struct JsonStyle {
    pub(super) is_ascii: bool,
    /// Text of one level; `None` for a document in one line.
    pub(super) indent: Option<String>,
    /// Texts between items, and after keys.
    pub(super) separators: [String; 2],
    pub(super) sorts_keys: bool,
}

/// Returns `json.dumps(value)`.
pub(super) fn json_of(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(value, style, &mut out, 0)?;
    Ok(out)
}

fn write_json(value: &Value, style: &JsonStyle, out: &mut String, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(value, out, ["Infinity", "-Infinity", "NaN"]),
        ValueKind::String => write_json_text(value.as_str().unwrap_or_default(), style.is_ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut count = 0;
            out.push('[');
            for item in value.try_iter()? {
                start_item(style, out, depth, count);
                write_json(&item, style, out, depth + 1)?;
                count += 1;
            }
            end_items(style, out, depth, count);
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sorts_keys {
                keys.sort();
            }
            out.push('{');
            for (count, key) in keys.iter().enumerate() {
                start_item(style, out, depth, count);
                match key.as_str() {
                    Some(text) => write_json_text(text, style.is_ascii, out),
                    None => {
                        let mut text = String::new();
                        write_json(key, style, &mut text, depth + 1)?;
                        write_json_text(&text, style.is_ascii, out);
                    }
                }
                out.push_str(&style.separators[1]);
                write_json(&value.get_item(key)?, style, out, depth + 1)?;
            }
            end_items(style, out, depth, keys.len());
            out.push('}');
        }
        kind => {
            let message = format!("a value of the kind {kind} is not JSON serializable");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    }
    Ok(())
}

fn start_item(style: &JsonStyle, out: &mut String, depth: usize, count: usize) {
    if count > 0 {
        out.push_str(&style.separators[0]);
    }
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..=depth).for_each(|_| out.push_str(indent));
    }
}

fn end_items(style: &JsonStyle, out: &mut String, depth: usize, count: usize) {
    if let Some(indent) = style.indent.as_ref().filter(|_| count > 0) {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn write_json_text(text: &str, is_ascii: bool, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            char if char < ' ' || (is_ascii && !(' '..='~').contains(&char)) => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").unwrap_or_default();
                }
            }
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        super::super::conversation::value_of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let json = r#"{"a": [1, 1.0, 1e22, 1e-7, 0.1, null, true], "b'": "it's \"x\"\n", "c": "it's", "é": {}}"#;
        let printed = r#"{'a': [1, 1.0, 1e+22, 1e-07, 0.1, None, True], "b'": 'it\'s "x"\n', 'c': "it's", 'é': {}}"#;
        assert_eq!(text_of(&value(json)).unwrap(), printed);
        assert_eq!(text_of(&value("null")).unwrap(), "None");
        assert_eq!(text_of(&Value::UNDEFINED).unwrap(), "");
    }

    #[test]
    fn json_has_the_form_of_python() {
        let style = |indent: Option<&str>| JsonStyle {
            is_ascii: indent.is_some(),
            indent: indent.map(str::to_owned),
            separators: [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
            sorts_keys: indent.is_some(),
        };
        let json = value(r#"{"b": [1.5, "é\u0001\"\u007f"], "a": {}, "c": []}"#);
        assert_eq!(
            json_of(&json, &style(None)).unwrap(),
            "{\"b\": [1.5, \"é\\u0001\\\"\u{7f}\"], \"a\": {}, \"c\": []}"
        );
        let indented = "{\n  \"a\": {},\n  \"b\": [\n    1.5,\n    \"\\u00e9\\u0001\\\"\\u007f\"\n  ],\n  \"c\": []\n}";
        assert_eq!(json_of(&json, &style(Some("  "))).unwrap(), indented);
    }
}
