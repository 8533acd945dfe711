//! Types of the columns of text formats: `str`, `int` and `float`.

use crate::columns::Column;
use crate::encoding::{Encoding, Value, is_integer};
use crate::json;
use forebay_core::error::{Error, Result};
use std::borrow::Cow;

/// Returns the text formats' name of an encoding: `str`, `int` or `float`.
pub(super) fn text_type(encoding: &Encoding) -> &'static str {
    match encoding {
        Encoding::StrInt => "int",
        Encoding::StrFloat => "float",
        _ => "str",
    }
}

fn parse_text_type(name: &str) -> Result<Encoding> {
    match name {
        "str" => Ok(Encoding::Str),
        "int" => Ok(Encoding::StrInt),
        "float" => Ok(Encoding::StrFloat),
        _ => Err(Error::config(format!("`{name}` is not a type of a text format; write str, int or float"))),
    }
}

/// Makes a column from its name and type.
pub(super) fn text_column((name, kind): (&str, &str)) -> Result<Column> {
    let encoding = parse_text_type(kind).map_err(|e| e.with("column", name))?;
    Ok(Column { name: name.to_owned(), encoding, size: None })
}

/// Returns the text of a number; all further values do not belong into `column`.
pub(super) fn number<'a>(column: &Column, value: &'a Value<'_>, words: [&str; 2]) -> Result<Cow<'a, str>> {
    match (&column.encoding, value) {
        (Encoding::StrFloat, Value::Float(float)) => Ok(json::python_float(*float, words).into()),
        (Encoding::StrInt, Value::Int(int)) => Ok(int.to_string().into()),
        (Encoding::StrInt, Value::BigInt(digits)) if is_integer(digits) => Ok((&**digits).into()),
        (encoding, _) => {
            let message = format!("a value of type {} cannot be stored as {}", value.kind(), text_type(encoding));
            Err(Error::config(message).with("column", &column.name))
        }
    }
}
