//! JSON documents from Python and C. Errors name the path in the document.

use crate::error::{Error, Result};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Likeness from which a name may be meant by an unknown one.
const NEAR: f64 = 0.85;

/// Parses `text`, which is called `noun` in error messages.
///
/// # Errors
///
/// `Config` with the path to the wrong value, such as `streams[0].choose`.
pub(crate) fn read<T: DeserializeOwned>(text: &str, noun: &str) -> Result<T> {
    read_with(text, noun, |_, _| None)
}

/// As [`read`], with the sentences of `elsewhere` about unknown names, which gets the path of the object and the name.
pub(super) fn read_with<T: DeserializeOwned>(
    text: &str,
    noun: &str,
    elsewhere: impl Fn(&str, &str) -> Option<String>,
) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read: Object<T> = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let (path, message) = (e.path().to_string(), e.inner().to_string());
        let unknown = unknown_name(&message).and_then(|(name, _)| Some((path.strip_suffix(name)?, name)));
        if let Some(sentence) = unknown.and_then(|(path, name)| elsewhere(path, name)) {
            return Error::config(sentence);
        }
        let message = with_near_name(&message);
        match path.as_str() {
            // The document as a whole.
            "." => Error::config(format!("{noun} cannot be read: {message}")),
            path => Error::config(format!("{noun} cannot be read: {path}: {message}")),
        }
    })?;
    json.end().map_err(|e| Error::config(format!("{noun} cannot be read: {e}")))?;
    Ok(read.0)
}

/// Value of an object with names. Without it, a list of the values in their order would be one as well.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfObject<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, such as {\"name\": value}")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(OfObject(PhantomData))
    }
}

/// An object with names.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Object::deserialize(from).map(|object| object.0)
}

/// An object with names, or null.
pub(super) fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(from)?.map(|object| object.0))
}

/// A list of objects with names.
pub(super) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Vec::<Object<T>>::deserialize(from).map(|objects| objects.into_iter().map(|object| object.0).collect())
}

/// An object of texts as a list of names and texts in the order of the document.
pub(super) mod pairs {
    use serde::de::{MapAccess, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    pub(in crate::config) fn serialize<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(pairs.iter().map(|(name, text)| (name, text)))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, String)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, such as {\"name\": \"text\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        from.deserialize_map(Pairs)
    }
}

/// Returns the unknown name in the error about it, and the list of the known ones.
fn unknown_name(message: &str) -> Option<(&str, &str)> {
    let (start, expected) = message.split_once(", expected ")?;
    Some((start.strip_prefix("unknown field `")?.strip_suffix('`')?, expected))
}

/// Puts the name that may be meant, instead of a list of all names, in the error about an unknown one.
fn with_near_name(message: &str) -> String {
    let Some((unknown, expected)) = unknown_name(message) else { return message.to_owned() };
    let likeness = |name: &&str| strsim::jaro_winkler(&unknown.to_lowercase(), name);
    let names = expected.split('`').skip(1).step_by(2);
    let near = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|name| likeness(name) >= NEAR);
    near.map_or_else(|| message.to_owned(), |name| format!("unknown field `{unknown}`: did you mean `{name}`?"))
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
    bytes.filter(|b| b.is_finite() && *b < 9e18).map(|b| b as u64).ok_or_else(|| {
        Error::config(format!("`{text}` is not a size: write bytes as a number, or for example \"2gb\""))
    })
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
        two: Option<u64>,
    }

    #[test]
    fn a_size_is_a_number_or_text_and_may_be_null_if_optional() {
        let sizes: Sizes = read(r#"{"one": "1kb", "two": 7}"#, "it").expect("good");
        assert_eq!((sizes.one, sizes.two), (1024, Some(7)));
        assert_eq!(read::<Sizes>(r#"{"one": 1, "two": null}"#, "it").expect("good").two, None);
        for (text, message) in [
            (r#"{"one": "2 apples"}"#, "it cannot be read: one: `2 apples` is not a size"),
            (r#"{"one": -1}"#, "it cannot be read: one: this must be a number of bytes, or text"),
            (r#"{"one": null}"#, "it cannot be read: one: this must be a number of bytes, or text"),
            (r#"{"one": 1, "two": true}"#, "it cannot be read: two: this must be a number of bytes, or text"),
            (r#"{"one": 1} 2"#, "it cannot be read: trailing characters"),
            ("[1, 2]", "it cannot be read: invalid type: sequence, expected an object, such as {"),
            ("7", "it cannot be read: invalid type: integer `7`, expected an object, such as {"),
            ("", "it cannot be read: EOF"),
        ] {
            let e = read::<Sizes>(text, "it").expect_err(text).to_string();
            assert!(e.starts_with(message), "{text}: {e}");
        }
    }
}
