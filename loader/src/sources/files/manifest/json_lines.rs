//! JSON-lines manifests: an object in each line.

use super::table::{COLUMNS_MAX, NOT_UTF8, Table};
use super::values::Cells;
use crate::error::{Error, Result};
use crate::format::json::{self, PathPart};

/// Reads the columns of all lines.
pub(super) fn json_lines(bytes: &[u8]) -> Result<Table> {
    let (mut columns, mut lines): (Vec<(String, Cells)>, Vec<u64>) = Default::default();
    for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let mut object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(|e| Error::format(not_json(text)).caused_by(e).with("line", line))?;
        for name in object.keys() {
            if columns.iter().any(|(known, _)| known == name) {
                continue;
            }
            if columns.len() == COLUMNS_MAX {
                return Err(
                    Error::format(format!("the manifest has more than {COLUMNS_MAX} columns")).with("line", line)
                );
            }
            let mut cells = Cells { is_text: !lines.is_empty(), ..Cells::default() };
            lines.iter().for_each(|_| cells.texts.push(""));
            columns.push((name.clone(), cells));
        }
        lines.push(line);
        for (name, cells) in &mut columns {
            use serde_json::Value;
            let (text, is_text) = match object.remove(name.as_str()) {
                None | Some(Value::Null) => (String::new(), true),
                Some(Value::Bool(yes)) => (u8::from(yes).to_string(), false),
                Some(Value::Number(number)) if number.is_f64() => {
                    (digits_of(text, name)?.unwrap_or(number.to_string()), false)
                }
                Some(Value::Number(number)) => (number.to_string(), false),
                Some(Value::String(text)) => (text, true),
                Some(nested) => (nested.to_string(), true),
            };
            cells.texts.push(&text);
            cells.is_text |= is_text;
        }
    }
    Ok((columns, lines))
}

/// Returns the message about a line that is no JSON object.
fn not_json(line: &[u8]) -> &'static str {
    if std::str::from_utf8(line).is_err() { NOT_UTF8 } else { "a line is not a JSON object" }
}

/// Returns the integer of more than 64 bits that is the value of `key` in `object`; `None` for a value of a different
/// kind.
fn digits_of(object: &[u8], key: &str) -> Result<Option<String>> {
    let Some(place) = json::find(object, &[PathPart::Key(key.to_owned())])? else { return Ok(None) };
    let digits = String::from_utf8_lossy(&object[place]);
    let is_integer = digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    Ok(is_integer.then(|| digits.into_owned()))
}
