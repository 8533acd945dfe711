//! JSON documents from Python and C. Errors name the path in the document.

use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Parses `text`, which is called `what` in error messages.
///
/// # Errors
///
/// `Config` with the path to the wrong value, such as `streams[0].choose`.
pub(crate) fn read<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|e| match e.path().to_string().as_str() {
        // The document as a whole.
        "." => Error::config(format!("{what} cannot be read: {}", e.inner())),
        path => Error::config(format!("{what} cannot be read: {path}: {}", e.inner())),
    })?;
    json.end().map_err(|e| Error::config(format!("{what} cannot be read: {e}")))?;
    Ok(read)
}

/// A size in a document.
#[derive(Deserialize)]
#[serde(untagged, expecting = "this must be a number of bytes, or text such as \"2gb\"")]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes<E: serde::de::Error>(self) -> Result<u64, E> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => parse_bytes(&text).map_err(E::custom),
        }
    }
}

/// Bytes as a number or as text such as `"2gb"`.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Size::deserialize(from)?.bytes()
}

/// Bytes as a number or as text, or null.
pub(super) fn size_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<Size>::deserialize(from)?.map(Size::bytes).transpose()
}

/// Parses a size in bytes: `1000`, `"64mb"`, `"2.5 GiB"`; units are powers of 1,024 as in the reference.
///
/// # Errors
///
/// `Config`, naming the text.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let clean = text.trim().to_ascii_lowercase().replace(['_', ' '], "");
    let digits = clean.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(clean.len());
    let (number, unit) = clean.split_at(digits);
    let power = match unit {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        "p" | "pb" | "pib" => Some(50),
        _ => None,
    };
    let bytes = power.zip(number.parse::<f64>().ok()).map(|(power, n)| n * f64::from(power).exp2());
    bytes
        .filter(|b| b.is_finite() && *b < 9e18)
        .map(|b| b as u64)
        .ok_or_else(|| Error::config(format!("`{text}` is no size: write bytes as a number, or for example \"2gb\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_as_in_the_reference() {
        for (text, bytes) in
            [("1000", 1000), ("64mb", 64 << 20), ("2.5 GiB", 5 << 29), ("0b", 0), ("1_000kb", 1_024_000)]
        {
            assert_eq!(parse_bytes(text).expect(text), bytes);
        }
        for text in ["", "mb", "1xb", "-1", "1e99gb", "nan"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[derive(Debug, Deserialize)]
    struct Sizes {
        #[serde(deserialize_with = "size")]
        one: u64,
        #[serde(default, deserialize_with = "size_or_null")]
        other: Option<u64>,
    }

    #[test]
    fn a_size_is_a_number_or_text_and_may_be_null_if_optional() {
        let sizes: Sizes = read(r#"{"one": "1kb", "other": 7}"#, "it").expect("good");
        assert_eq!((sizes.one, sizes.other), (1024, Some(7)));
        assert_eq!(read::<Sizes>(r#"{"one": 1, "other": null}"#, "it").expect("good").other, None);
        for (text, message) in [
            (r#"{"one": "2 apples"}"#, "it cannot be read: one: `2 apples` is no size"),
            (r#"{"one": -1}"#, "it cannot be read: one: this must be a number of bytes, or text"),
            (r#"{"one": null}"#, "it cannot be read: one: this must be a number of bytes, or text"),
            (r#"{"one": 1, "other": true}"#, "it cannot be read: other: this must be a number of bytes, or text"),
            (r#"{"one": 1} 2"#, "it cannot be read: trailing characters"),
            ("", "it cannot be read: EOF"),
        ] {
            let e = read::<Sizes>(text, "it").expect_err(text).to_string();
            assert!(e.starts_with(message), "{text}: {e}");
        }
    }
}
