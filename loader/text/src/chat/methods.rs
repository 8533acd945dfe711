//! Methods of Python's strings that `minijinja-contrib` does not have, or that treat white space as Rust does.

use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, State};
use minijinja_contrib::pycompat;

/// True for the characters that Python's `str.isspace` is true for.
pub(super) fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

/// Calls a method of a value.
pub(super) fn call(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name) {
        (Some(text), "strip" | "lstrip" | "rstrip") => {
            let (chars,): (Option<&Value>,) = from_args(args)?;
            let given = chars.filter(|chars| !chars.is_none()).map(|chars| chars.as_str().unwrap_or_default());
            let is_cut = |char: char| given.map_or_else(|| is_space(char), |given| given.contains(char));
            Ok(Value::from(match name {
                "lstrip" => text.trim_start_matches(is_cut),
                "rstrip" => text.trim_end_matches(is_cut),
                _ => text.trim_matches(is_cut),
            }))
        }
        (Some(text), "split") if args.is_empty() => {
            Ok(text.split(is_space).filter(|word| !word.is_empty()).map(Value::from).collect())
        }
        (Some(text), "removeprefix" | "removesuffix") => {
            let (end,): (&str,) = from_args(args)?;
            let cut = if name == "removeprefix" { text.strip_prefix(end) } else { text.strip_suffix(end) };
            Ok(Value::from(cut.unwrap_or(text)))
        }
        (Some(text), "partition" | "rpartition") => {
            let (by,): (&str,) = from_args(args)?;
            let parts = if name == "partition" { text.split_once(by) } else { text.rsplit_once(by) };
            let parts = match parts {
                Some((before, after)) => [before, by, after],
                None if name == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Ok(parts.into_iter().map(Value::from).collect())
        }
        _ => pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// The test `sequence`: true for values with a length and items by number or key.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
}

/// The test `iterable`.
pub(super) fn is_iterable(value: &Value) -> bool {
    value.kind() == ValueKind::String || value.try_iter().is_ok()
}
