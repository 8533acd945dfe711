//! Values inside JSON documents: text, numbers and lists of numbers.

use std::ops::Range;

use super::numeric;
use super::ragged::start_ragged;
use super::row::Row;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::encoding::DType;
use crate::format::json::{self, PathPart};

/// Most dimensions of a list of lists.
const AXES_MAX: usize = 16;

/// Value of a document, and its form in a batch.
#[derive(Clone, Debug)]
pub(super) struct JsonValue {
    path: Vec<PathPart>,
    form: JsonForm,
}

/// Form of a value in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonForm {
    /// The text of a string.
    Text,
    /// Any value, as JSON.
    Json,
    /// A number.
    Number(DType),
    /// Lists of numbers, nested as deep as there are dimensions; `None` for those that differ from sample to sample.
    Array(DType, Vec<Option<usize>>),
    /// Lists of numbers, nested as deep as their first items.
    Nested(DType),
}

/// Memory that decoding needs, kept from value to value.
#[derive(Debug, Default)]
pub(super) struct JsonScratch {
    shape: Vec<Option<usize>>,
    values: Vec<u8>,
}

impl JsonValue {
    pub(super) fn new(path: Vec<PathPart>, form: JsonForm) -> Result<Self> {
        if let JsonForm::Array(_, shape) = &form
            && !(1..=AXES_MAX).contains(&shape.len())
        {
            return Err(Error::config("a list has 1 to 16 dimensions").with("dimensions", shape.len()));
        }
        Ok(Self { path, form })
    }

    pub(super) fn form(&self) -> &JsonForm {
        &self.form
    }

    /// Returns the value's location in `document`; `None` if it has no such value, or null there.
    pub(super) fn find<'a>(&self, document: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        let found = json::find(document, &self.path).map_err(|e| e.of_kind(ErrorKind::Decode))?;
        Ok(found.map(|range| &document[range]).filter(|value| *value != b"null" || self.form == JsonForm::Json))
    }

    /// Writes the value at `value` into `row`.
    pub(super) fn write(&self, value: &[u8], row: &mut Row<'_>, scratch: &mut JsonScratch) -> Result<()> {
        match &self.form {
            JsonForm::Json => row.copy_from(value),
            JsonForm::Text => {
                if value.first() != Some(&b'"') {
                    return Err(wrong_kind(value, "a string", "dtype=\"json\" takes any value as its text"));
                }
                match &value[1..value.len() - 1] {
                    plain if !plain.contains(&b'\\') => {
                        simdutf8::compat::from_utf8(plain).map_err(|_| Error::decode("the text is not UTF-8"))?;
                        row.copy_from(plain)
                    }
                    _ => row.copy_from(json::unescape(value).map_err(|e| e.of_kind(ErrorKind::Decode))?.as_bytes()),
                }
            }
            JsonForm::Number(dtype) => number(value, row.fixed(dtype.size())?, *dtype),
            JsonForm::Nested(dtype) => {
                let form = JsonForm::Array(*dtype, vec![None; depth(value)]);
                Self::new(Vec::new(), form).map_err(|e| e.of_kind(ErrorKind::Decode))?.write(value, row, scratch)
            }
            JsonForm::Array(dtype, shape) => {
                scratch.shape.clear();
                scratch.shape.extend(shape);
                scratch.values.clear();
                list(value, 0, *dtype, scratch).context("shape", || show(shape))?;
                // A list without items has none of the dimensions inside it.
                let shape: Vec<usize> = scratch.shape.iter().map(|length| length.unwrap_or(0)).collect();
                let out = match row {
                    Row::Fixed(out) => &mut **out,
                    Row::Var(out) => start_ragged(out, *dtype, &shape)?,
                    _ => return Err(Error::internal("an array cannot be decoded into memory of this kind")),
                };
                if out.len() != scratch.values.len() {
                    return Err(Error::internal("a row does not have its output's size"));
                }
                out.copy_from_slice(&scratch.values);
                Ok(())
            }
        }
    }
}

/// Returns the number of lists around the first number of `value`, at least 1.
fn depth(value: &[u8]) -> usize {
    let mut opened = value.iter().filter(|byte| !byte.is_ascii_whitespace());
    opened.by_ref().take_while(|byte| **byte == b'[').count().max(1)
}

/// Appends the numbers of the list `value`, of dimension `axis`, to the scratch memory.
fn list(value: &[u8], axis: usize, dtype: DType, scratch: &mut JsonScratch) -> Result<()> {
    if value.first() != Some(&b'[') {
        return Err(wrong_kind(value, "a list", "`shape` has more dimensions than the value"));
    }
    let mut items = 0;
    let item = |range: Range<usize>| {
        let item = &value[range];
        items += 1;
        if axis + 1 < scratch.shape.len() {
            return list(item, axis + 1, dtype, scratch);
        }
        let start = scratch.values.len();
        scratch.values.resize(start + dtype.size(), 0);
        number(item, &mut scratch.values[start..], dtype)
    };
    json::scan_list(value, item).map_err(|e| e.of_kind(ErrorKind::Decode))?;
    match &mut scratch.shape[axis] {
        Some(length) if *length != items => Err(Error::decode(
            "a list does not have the length in `shape`, or lists at the same level have different lengths",
        )
        .with("items", items)
        .with("expected", *length)),
        length => {
            *length = Some(items);
            Ok(())
        }
    }
}

/// Writes the number `value` to `out`.
fn number(value: &[u8], out: &mut [u8], dtype: DType) -> Result<()> {
    let is_whole = |value: &[u8]| value.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9'));
    let text = std::str::from_utf8(value).unwrap_or_default();
    let float = match value {
        // Python's bool is an int.
        b"true" | b"false" => return numeric::fill((value == b"true").into(), out, dtype),
        b"NaN" => f64::NAN,
        b"Infinity" => f64::INFINITY,
        b"-Infinity" => f64::NEG_INFINITY,
        _ if is_whole(value) => {
            if let Ok(whole) = text.parse::<i64>() {
                return numeric::convert(&whole.to_le_bytes(), DType::Int64, out, dtype);
            }
            if let Ok(whole) = text.parse::<u64>() {
                return numeric::convert(&whole.to_le_bytes(), DType::UInt64, out, dtype);
            }
            text.parse().map_err(|_| not_a_number(value))?
        }
        [b'-' | b'0'..=b'9', ..] => text.parse().map_err(|_| not_a_number(value))?,
        _ => return Err(not_a_number(value)),
    };
    numeric::convert(&float.to_le_bytes(), DType::Float64, out, dtype)
}

fn not_a_number(value: &[u8]) -> Error {
    wrong_kind(value, "a number", "name a different `dtype` or `shape`, such as dtype=\"str\" for text")
}

fn wrong_kind(value: &[u8], expected: &str, remedy: &str) -> Error {
    let kind = match value.first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    };
    Error::decode(format!("the value is {kind} where {expected} is expected: {remedy}"))
        .with("value", String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned())
}

/// Shape as in Python.
fn show(shape: &[Option<usize>]) -> String {
    let lengths = shape.iter().map(|length| length.map_or("None".to_owned(), |length| length.to_string()));
    format!("({})", lengths.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::ragged::read_ragged;

    fn array(text: &str, dtype: DType, shape: &[Option<usize>]) -> Result<(Vec<usize>, Vec<u8>)> {
        let value = JsonValue::new(Vec::new(), JsonForm::Array(dtype, shape.to_vec())).unwrap();
        let mut row = Vec::new();
        let found = value.find(text.as_bytes())?.unwrap();
        value.write(found, &mut Row::Var(&mut row), &mut JsonScratch::default())?;
        let (_, shape, values) = read_ragged(&row)?;
        Ok((shape, values.to_vec()))
    }

    #[test]
    fn lists_of_lists_are_arrays_if_their_lengths_agree() {
        let any = [None, None];
        let found = array("[[1, 2], [3, 4], [5, 6]]", DType::UInt8, &any).unwrap();
        assert_eq!(found, (vec![3, 2], vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(array("[]", DType::UInt8, &[None, Some(4)]).unwrap(), (vec![0, 4], vec![]));
        assert_eq!(array("[[], []]", DType::UInt8, &any).unwrap(), (vec![2, 0], vec![]));
        for (text, part) in [
            ("[[1], [2, 3]]", "different lengths (items 2, expected 1, shape (None, None)"),
            ("[1]", "the value is a number where a list is expected"),
            ("[[1], [\"x\"]]", "the value is a string where a number is expected"),
            ("[[256]]", "does not fit"),
            ("[[[1]]]", "the value is a list where a number"),
        ] {
            let e = array(text, DType::UInt8, &any).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Decode);
            assert!(e.to_string().contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn numbers_equal_python_s() {
        let one = |text: &str, dtype: DType| {
            let mut out = [0; 8];
            number(text.as_bytes(), &mut out[..dtype.size()], dtype).map(|()| out)
        };
        assert_eq!(one("18446744073709551615", DType::UInt64).unwrap(), u64::MAX.to_ne_bytes());
        assert_eq!(one("-3", DType::Int64).unwrap(), (-3_i64).to_ne_bytes());
        assert_eq!(one("3.0", DType::Int64).unwrap(), 3_i64.to_ne_bytes());
        assert_eq!(one("100000000000000000000", DType::Float64).unwrap(), 1e20_f64.to_ne_bytes());
        assert_eq!(one("-1.5e-3", DType::Float64).unwrap(), (-0.0015_f64).to_ne_bytes());
        assert_eq!(one("-Infinity", DType::Float64).unwrap(), f64::NEG_INFINITY.to_ne_bytes());
        assert_eq!(one("true", DType::Int64).unwrap(), 1_i64.to_ne_bytes());
        for (text, dtype) in
            [("3.5", DType::Int64), ("\"3\"", DType::Int64), ("null", DType::Float64), ("-1", DType::UInt64)]
        {
            assert!(one(text, dtype).is_err(), "{text}");
        }
    }
}
