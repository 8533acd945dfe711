//! Lists and dictionaries that are one leaf, in the form of LitData's serialiser `json`.
//!
//! ```text
//!   u8 kind | content           kind > 0x20: the first byte of a JSON document, as earlier versions wrote all
//! ```
//!
//! A column of them is JSON, or arrays where all fields read lists.

use crate::encoding::{DType, write_shape};
use crate::json;
use forebay_core::error::{Error, ErrorKind, Result};
use serde_json::Value as Json;

/// Most dictionaries around a value: few enough for the stack.
const LEVELS_MAX: usize = 64;

/// Most bytes of a leaf as JSON. A list of dictionaries has their keys once, and JSON has them in each.
const JSON_BYTES_MAX: usize = 256 << 20;

/// Most axes of an array.
const AXES_MAX: usize = 32;

// Kinds of values.
const DOCUMENT: u8 = 0;
const TEXTS: u8 = 1;
const INTS: u8 = 2;
const FLOATS: u8 = 3;
const BOOLS: u8 = 4;
const DICT: u8 = 5;
const RECORDS: u8 = 6;
const TEXT: u8 = 7;
const INT: u8 = 8;
const FLOAT: u8 = 9;
const BOOL: u8 = 10;
const NONE: u8 = 11;

/// First kind of a value of a dictionary in a list of them; the next ones are text, int, float and bool.
const RECORD_NONE: u8 = 0x10;

/// Greatest number that is a kind, and not the first byte of a document.
const KIND_MAX: u8 = 0x20;

fn damaged() -> Error {
    Error::format("a list or dictionary is not in the form that LitData writes")
}

/// Appends the JSON of the value `leaf` to `out`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for bytes of a different form; [`ErrorKind::Full`] for more than 256 MiB.
pub(super) fn to_json(leaf: &[u8], out: &mut Vec<u8>) -> Result<()> {
    to_json_of(leaf, JSON_BYTES_MAX, out)
}

/// Appends the JSON of `leaf`, which has at most about `most` bytes.
fn to_json_of(leaf: &[u8], most: usize, out: &mut Vec<u8>) -> Result<()> {
    if leaf.first().is_none_or(|kind| *kind > KIND_MAX) {
        out.extend_from_slice(leaf);
        return Ok(());
    }
    let mut value = Value { rest: leaf, most: out.len().saturating_add(most) };
    value.write(out, LEVELS_MAX)?;
    if value.rest.is_empty() { Ok(()) } else { Err(damaged()) }
}

/// Appends the array that the list of numbers `leaf` is to `out`, in the form of an `ndarray` of MDS with its type. An
/// empty list has the type int64.
///
/// # Errors
///
/// [`ErrorKind::Decode`] for a value that is not a list of numbers, or of lists of one shape of them;
/// [`ErrorKind::Format`] for bytes of a different form.
pub(super) fn to_array(leaf: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (kind, content) = leaf.split_first().ok_or_else(damaged)?;
    match *kind {
        INTS | FLOATS => {
            let (count, values) = list_of(content, 8)?;
            start(if *kind == INTS { DType::Int64 } else { DType::Float64 }, &[count], out)?;
            out.extend_from_slice(values);
        }
        BOOLS => {
            let (count, values) = list_of(content, 1)?;
            start(DType::UInt8, &[count], out)?;
            out.extend_from_slice(values);
        }
        // An empty list has no type.
        TEXTS if content == [0; 4] => start(DType::Int64, &[0], out)?,
        DOCUMENT => numbers_of(list_of(content, 1)?.1, out)?,
        kind if kind > KIND_MAX => numbers_of(leaf, out)?,
        _ => return Err(no_numbers()),
    }
    Ok(())
}

/// Returns the number and the bytes of values of `size` bytes each, which are all of `content`.
fn list_of(content: &[u8], size: usize) -> Result<(usize, &[u8])> {
    let mut values = content;
    let count = take_u32(&mut values)? as usize;
    if count.checked_mul(size) == Some(values.len()) { Ok((count, values)) } else { Err(damaged()) }
}

fn no_numbers() -> Error {
    let message = "the value is not a list of numbers, or of lists of numbers of one shape: read it with Json";
    Error::new(ErrorKind::Decode, message)
}

/// Appends the front of an array of MDS.
fn start(dtype: DType, shape: &[usize], out: &mut Vec<u8>) -> Result<()> {
    out.push(dtype.code().ok_or_else(|| Error::internal("a type without a number in MDS"))?);
    write_shape(shape, out);
    Ok(())
}

/// Appends the array of the numbers in a JSON document.
fn numbers_of(document: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let document = json::parse(document)?;
    let (mut shape, mut level) = (Vec::new(), &document);
    while let Json::Array(items) = level {
        shape.push(items.len());
        let Some(first) = items.first() else { break };
        level = first;
    }
    if shape.is_empty() || shape.len() > AXES_MAX {
        return Err(no_numbers());
    }
    let mut numbers = Vec::new();
    flatten(&document, &shape, &mut numbers)?;
    let is = |test: fn(&Json) -> bool| numbers.iter().all(|number| test(number));
    if is(|number| number.is_i64()) {
        start(DType::Int64, &shape, out)?;
        out.extend(numbers.iter().filter_map(|number| number.as_i64()).flat_map(i64::to_le_bytes));
    } else if is(Json::is_boolean) {
        start(DType::UInt8, &shape, out)?;
        out.extend(numbers.iter().map(|number| u8::from(number.as_bool() == Some(true))));
    } else if is(Json::is_number) {
        start(DType::Float64, &shape, out)?;
        out.extend(numbers.iter().filter_map(|number| number.as_f64()).flat_map(f64::to_le_bytes));
    } else {
        return Err(no_numbers());
    }
    Ok(())
}

/// Adds the values of nested lists of this shape.
fn flatten<'a>(value: &'a Json, shape: &[usize], out: &mut Vec<&'a Json>) -> Result<()> {
    match (value, shape.split_first()) {
        (Json::Array(items), Some((length, shape))) if items.len() == *length => {
            items.iter().try_for_each(|item| flatten(item, shape, out))
        }
        (Json::Array(_), _) | (_, Some(_)) => Err(no_numbers()),
        (value, None) => {
            out.push(value);
            Ok(())
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(bytes).ok_or_else(damaged)?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, after) = rest.split_first_chunk().ok_or_else(damaged)?;
    *rest = after;
    Ok(*taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32> {
    take_array(rest).map(u32::from_le_bytes)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Result<&'a str> {
    let bytes = take_u32(rest)? as usize;
    std::str::from_utf8(take(rest, bytes)?).map_err(|e| damaged().caused_by(e))
}

/// Value that is written as JSON.
struct Value<'a> {
    /// Bytes that have not been read.
    rest: &'a [u8],
    /// Most bytes of the output.
    most: usize,
}

impl Value<'_> {
    fn write(&mut self, out: &mut Vec<u8>, levels_left: usize) -> Result<()> {
        let levels_left = levels_left.checked_sub(1).ok_or_else(damaged)?;
        let [kind] = take_array(&mut self.rest)?;
        match kind {
            DOCUMENT => {
                let bytes = take_u32(&mut self.rest)? as usize;
                out.extend_from_slice(take(&mut self.rest, bytes)?);
            }
            TEXTS => self.list(out, |rest, out| write_json(take_text(rest)?, out))?,
            INTS => self.list(out, |rest, out| write_json(&i64::from_le_bytes(take_array(rest)?), out))?,
            FLOATS => self.list(out, |rest, out| write_json(&f64::from_le_bytes(take_array(rest)?), out))?,
            BOOLS => self.list(out, |rest, out| write_json(&(take_array(rest)? != [0]), out))?,
            DICT => {
                let count = take_u32(&mut self.rest)?;
                out.push(b'{');
                for number in 0..count {
                    let key = take_text(&mut self.rest)?;
                    self.key(number, key, out)?;
                    self.write(out, levels_left)?;
                }
                out.push(b'}');
            }
            RECORDS => self.records(out)?,
            TEXT | INT | FLOAT | BOOL => self.scalar(kind - TEXT, out)?,
            NONE => out.extend_from_slice(b"null"),
            _ => return Err(damaged()),
        }
        Ok(())
    }

    /// Writes a list. `write` takes and writes each of its values.
    fn list(&mut self, out: &mut Vec<u8>, write: impl Fn(&mut &[u8], &mut Vec<u8>) -> Result<()>) -> Result<()> {
        let count = take_u32(&mut self.rest)?;
        out.push(b'[');
        for number in 0..count {
            self.separate(number, out)?;
            write(&mut self.rest, out)?;
        }
        out.push(b']');
        Ok(())
    }

    /// Writes a list of dictionaries with the same keys.
    fn records(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (count, keys) = (take_u32(&mut self.rest)?, take_u32(&mut self.rest)?);
        if keys == 0 {
            return Err(damaged());
        }
        // Each has at least the bytes of its length.
        let keys = (0..keys).map(|_| take_text(&mut self.rest)).collect::<Result<Vec<_>>>()?;
        out.push(b'[');
        for number in 0..count {
            self.separate(number, out)?;
            out.push(b'{');
            for (number, key) in (0..).zip(&keys) {
                self.key(number, key, out)?;
                match take_array(&mut self.rest)? {
                    [RECORD_NONE] => out.extend_from_slice(b"null"),
                    [kind] => self.scalar(kind.checked_sub(RECORD_NONE + 1).ok_or_else(damaged)?, out)?,
                }
            }
            out.push(b'}');
        }
        out.push(b']');
        Ok(())
    }

    /// Writes a text, int, float or bool, by the number of its kind.
    fn scalar(&mut self, kind: u8, out: &mut Vec<u8>) -> Result<()> {
        let rest = &mut self.rest;
        match kind {
            0 => write_json(take_text(rest)?, out),
            1 => write_json(&i64::from_le_bytes(take_array(rest)?), out),
            2 => write_json(&f64::from_le_bytes(take_array(rest)?), out),
            3 => write_json(&(take_array(rest)? != [0]), out),
            _ => Err(damaged()),
        }
    }

    /// Writes the key before value number `number`.
    fn key(&self, number: u32, key: &str, out: &mut Vec<u8>) -> Result<()> {
        self.separate(number, out)?;
        write_json(key, out)?;
        out.push(b':');
        Ok(())
    }

    /// Writes the comma before value number `number`.
    fn separate(&self, number: u32, out: &mut Vec<u8>) -> Result<()> {
        if out.len() > self.most {
            let message = format!("a list or dictionary has more than {JSON_BYTES_MAX} bytes as JSON");
            return Err(Error::new(ErrorKind::Full, message));
        }
        if number > 0 {
            out.push(b',');
        }
        Ok(())
    }
}

/// Writes a value; a number that JSON does not have is null.
fn write_json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|e| Error::internal("a value cannot be written as JSON").caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{ArrayType, Encoding};

    fn text(value: &str) -> Vec<u8> {
        [&(value.len() as u32).to_le_bytes(), value.as_bytes()].concat()
    }

    fn list(kind: u8, count: u32, content: &[u8]) -> Vec<u8> {
        [&[kind][..], &count.to_le_bytes(), content].concat()
    }

    fn json_of(leaf: &[u8]) -> Result<String> {
        let mut out = b"before".to_vec();
        to_json(leaf, &mut out)?;
        Ok(String::from_utf8(out[6..].to_vec()).unwrap())
    }

    fn array_of(leaf: &[u8]) -> Result<String> {
        let mut out = Vec::new();
        to_array(leaf, &mut out)?;
        let array = Encoding::Array(ArrayType::default()).decode(&out)?;
        Ok(format!("{array:?}"))
    }

    #[test]
    fn values_of_all_kinds_are_json() {
        let dict =
            [list(DICT, 2, &text("a")), vec![BOOL, 1], text("ü\"\n"), list(INTS, 1, &7_i64.to_le_bytes())].concat();
        let records = [
            &list(RECORDS, 2, &2_u32.to_le_bytes())[..],
            &text("k"),
            &text("l"),
            &[RECORD_NONE, RECORD_NONE + 2],
            &(-3_i64).to_le_bytes(),
            &[RECORD_NONE + 1],
            &text("t"),
            &[RECORD_NONE + 4, 0],
        ]
        .concat();
        for (leaf, expected) in [
            (list(DOCUMENT, 5, b"[[1]]"), "[[1]]"),
            (b"[1, 2]".to_vec(), "[1, 2]"),
            (list(TEXTS, 0, b""), "[]"),
            (list(TEXTS, 2, &[text("a"), text("")].concat()), r#"["a",""]"#),
            (list(FLOATS, 2, &[0.5_f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat()), "[0.5,null]"),
            (list(BOOLS, 2, &[1, 0]), "[true,false]"),
            (dict, r#"{"a":true,"ü\"\n":[7]}"#),
            (records, r#"[{"k":null,"l":-3},{"k":"t","l":false}]"#),
            ([&[TEXT][..], &text("x")].concat(), r#""x""#),
            ([&[INT][..], &1_i64.to_le_bytes()].concat(), "1"),
            ([&[FLOAT][..], &1.5_f64.to_le_bytes()].concat(), "1.5"),
            (vec![NONE], "null"),
        ] {
            assert_eq!(json_of(&leaf).unwrap(), expected);
            for end in 1..leaf.len() {
                // A document is checked where it is read.
                let cut = json_of(&leaf[..end]);
                assert!(leaf[0] > KIND_MAX || cut.is_err(), "{expected} cut at {end}: {cut:?}");
            }
            let longer = json_of(&[&leaf[..], &[0]].concat());
            assert!(leaf[0] > KIND_MAX || longer.is_err(), "{expected}");
        }
    }

    #[test]
    fn lists_of_numbers_are_arrays() {
        let ints = [1_i64.to_le_bytes(), (-2_i64).to_le_bytes()].concat();
        for (leaf, parts) in [
            (list(INTS, 2, &ints), ["Int64", "shape: [2]"]),
            (list(FLOATS, 1, &0.5_f64.to_le_bytes()), ["Float64", "shape: [1]"]),
            (list(BOOLS, 3, &[1, 0, 1]), ["UInt8", "shape: [3]"]),
            (list(TEXTS, 0, b""), ["Int64", "shape: [0]"]),
            (list(DOCUMENT, 13, b"[[1,2],[3,4]]"), ["Int64", "shape: [2, 2]"]),
            (b"[[1],[2.5]]".to_vec(), ["Float64", "shape: [2, 1]"]),
            (b"[[],[]]".to_vec(), ["Int64", "shape: [2, 0]"]),
            (b"[true]".to_vec(), ["UInt8", "shape: [1]"]),
        ] {
            let found = array_of(&leaf).unwrap();
            assert!(parts.iter().all(|part| found.contains(part)), "{found}");
        }
        for leaf in [&b"[[1],[2,3]]"[..], b"[1,[2]]", b"[\"a\"]", b"[1,null]", b"{}", b"3", &[NONE], &[BOOL, 1]] {
            assert!(array_of(leaf).unwrap_err().to_string().contains("not a list of numbers"), "{leaf:?}");
        }
        for leaf in [&list(INTS, 3, &ints)[..], &list(INTS, 1, &ints), &[INTS], b"", &list(INTS, u32::MAX, b"")] {
            assert_eq!(array_of(leaf).unwrap_err().kind(), ErrorKind::Format, "{leaf:?}");
        }
    }

    #[test]
    fn leaves_that_take_the_stack_or_the_memory_are_refused() {
        let deep = [list(DICT, 1, &text("")).repeat(LEVELS_MAX), vec![NONE]].concat();
        assert!(json_of(&deep).is_err());
        assert!(json_of(&[list(DICT, 1, &text("")).repeat(LEVELS_MAX - 1), vec![NONE]].concat()).is_ok());
        let (key, rows) = ("k".repeat(1000), 1000);
        let wide =
            [&list(RECORDS, rows, &1_u32.to_le_bytes())[..], &text(&key), &vec![RECORD_NONE; rows as usize]].concat();
        let mut out = Vec::new();
        assert_eq!(to_json_of(&wide, 10_000, &mut out).unwrap_err().kind(), ErrorKind::Full);
        assert!(out.len() < 20_000);
        assert!(json_of(&wide).is_ok());
        assert!(json_of(&list(RECORDS, u32::MAX, &0_u32.to_le_bytes())).is_err(), "dictionaries without keys");
    }
}
