//! A number for each sample of a stream, such as its weight or its length: from an array of numpy, or as text that
//! holds an array.
//!
//! The text is `float64:` and the base64 of little-endian doubles. A text without that start is the name of a column,
//! with values that [`question`](super::question) is about, or the path of a `.npy` file.

use super::question::NO_COUNT;
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding::NpyArray;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Start of a text that holds the numbers.
const INLINE: &str = "float64:";

/// End of the name of a file.
const FILE: &str = ".npy";

/// Source of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource<'a> {
    /// Name of a column.
    Column(&'a str),
    /// Path of an array's file.
    File(&'a str),
    /// Base64 of doubles.
    Inline(&'a str),
}

/// Returns the source that an argument names.
pub(crate) fn source_of(given: &str) -> ValueSource<'_> {
    match given.strip_prefix(INLINE) {
        Some(inline) => ValueSource::Inline(inline),
        None if given.ends_with(FILE) => ValueSource::File(given),
        None => ValueSource::Column(given),
    }
}

/// The argument in a few words.
pub(crate) fn words_of(given: &str) -> String {
    match source_of(given) {
        ValueSource::Column(text) | ValueSource::File(text) => format!("{text:?}"),
        ValueSource::Inline(_) => "an array".to_owned(),
    }
}

/// Returns the numbers of a file, each as `number` has it.
///
/// # Errors
///
/// `Config` for a file that is no array of numbers with one dimension; the errors of `number`.
pub(crate) fn of_file<T>(bytes: &[u8], number: impl Fn(f64) -> Result<T>) -> Result<Vec<T>> {
    let unfit =
        |problem: String| Error::config(format!("the file is an array of numbers as numpy.save writes it, {problem}"));
    if !NpyArray::is_start(bytes) {
        return Err(unfit("and this is a different kind of file".to_owned()));
    }
    let mut shape = Vec::new();
    let array = NpyArray::read(bytes, &mut shape).map_err(|e| match e.kind() {
        ErrorKind::Unsupported => unfit("and this array has a different type".to_owned()),
        _ => e,
    })?;
    if shape.len() != 1 {
        return Err(unfit(format!("with one dimension, and this one has the shape {shape:?}")));
    }
    let numbered = |(place, found): (usize, f64)| number(found).map_err(|e| e.with("number", place));
    array.floats().enumerate().map(numbered).collect()
}

/// Returns the numbers of a text, each as `number` has it.
///
/// # Errors
///
/// `Config` for a text that holds none; the errors of `number`.
pub(crate) fn of_inline<T>(text: &str, number: impl Fn(f64) -> Result<T>) -> Result<Vec<T>> {
    let broken =
        || Error::config("after `float64:` there is the base64 of little-endian doubles, and this text is none");
    let bytes = BASE64_STANDARD.decode(text).map_err(|e| broken().caused_by(e))?;
    let (doubles, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(broken());
    }
    let numbered =
        |(place, bytes): (usize, &[u8; 8])| number(f64::from_le_bytes(*bytes)).map_err(|e| e.with("number", place));
    doubles.iter().enumerate().map(numbered).collect()
}

/// Returns a number with the precision that is kept.
///
/// # Errors
///
/// `Config` for a number that is negative, NaN, infinite, or too large or small.
pub(crate) fn value(number: f64) -> Result<f32> {
    let narrow = number as f32;
    if number == 0.0 || number > 0.0 && narrow.is_normal() {
        return Ok(narrow.abs());
    }
    let message = format!("a weight or length is 0, or from 1.2e-38 to 3.4e38, and not {number}");
    Err(Error::config(message).hinting("replace such numbers before: a weight of 0 leaves its sample out"))
}

/// Returns a number of tokens.
///
/// # Errors
///
/// `Config` for a number that is not whole, negative, or above 4,294,967,294.
pub(crate) fn count(number: f64) -> Result<u32> {
    if number.fract() == 0.0 && (0.0..f64::from(NO_COUNT)).contains(&number) {
        return Ok(number as u32);
    }
    Err(Error::config(format!("a number of tokens is a whole number from 0 to 4294967294, and not {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsets::npy::tests::array;

    #[test]
    fn an_argument_is_a_column_a_file_or_the_numbers() {
        assert_eq!(source_of("class"), ValueSource::Column("class"));
        assert_eq!(source_of("a/b.npy"), ValueSource::File("a/b.npy"));
        assert_eq!(source_of("float64:AAAA"), ValueSource::Inline("AAAA"));
        assert_eq!(words_of("float64:AAAA"), "an array");
    }

    #[test]
    fn arrays_of_any_numbers_are_read() {
        let doubles = [0.5_f64, 0.0, 3e30].map(f64::to_le_bytes).concat();
        assert_eq!(of_file(&array("<f8", "(3,)", &doubles), value).expect("f8"), [0.5, 0.0, 3e30]);
        let singles = [0.25_f32, 7.0].map(f32::to_be_bytes).concat();
        assert_eq!(of_file(&array(">f4", "(2,)", &singles), value).expect("f4"), [0.25, 7.0]);
        assert_eq!(of_file(&array("<i2", "(2,)", &[1, 0, 2, 1]), value).expect("i2"), [1.0, 258.0]);
        assert_eq!(of_file(&array("|b1", "(2,)", &[0, 1]), value).expect("b1"), [0.0, 1.0]);
        let text = BASE64_STANDARD.encode(&doubles);
        assert_eq!(of_inline(&text, value).expect("base64"), [0.5, 0.0, 3e30]);
        assert_eq!(of_inline("", value).expect("none"), [0.0_f32; 0]);
    }

    #[test]
    fn arrays_and_numbers_that_do_not_fit_are_rejected() {
        for (bytes, message) in [
            (array("<f8", "(1, 1)", &[0; 8]), "with one dimension, and this one has the shape [1, 1]"),
            (array("<f8", "(1,)", &[0; 7]), "do not fit"),
            (array("<U1", "(1,)", &[0; 4]), "a different type"),
            (b"1\n2\n".to_vec(), "a different kind of file"),
            (array("<f8", "(1,)", &f64::NAN.to_le_bytes()), "and not NaN (number 0)"),
            (array("<i2", "(2,)", &[0, 0, 255, 255]), "and not -1 (number 1)"),
        ] {
            let error = of_file(&bytes, value).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
        for number in [-1.0, f64::INFINITY, 1e39, 1e-39, 5e-324, f64::NAN] {
            assert!(value(number).is_err(), "{number}");
        }
        assert_eq!(value(-0.0).expect("zero").to_bits(), 0);
        assert_eq!(count(4_294_967_294.0).expect("largest"), u32::MAX - 1);
        for number in [-1.0, 0.5, f64::INFINITY, 4_294_967_295.0, f64::NAN] {
            assert!(count(number).is_err(), "{number}");
        }
        for text in ["AAAA", "*", "AAAAAAAA"] {
            assert!(of_inline(text, value).is_err(), "{text}");
        }
    }
}
