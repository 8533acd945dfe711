//! Encodings between a column's values and bytes: the encodings of MDS, and the three text types of JSONL and XSV.
//!
//! * [`dtype`](DType) — number types; [`scalar`](Scalar) — single numbers;
//! * [`value`](Value) — value of a column, borrowed from the sample if possible;
//! * `ndarray` — arrays; `npy` — numpy's files; `image` — raw pixels and lists of images.
//!
//! Images stay encoded here: `jpeg` and `png` values are files, which `decode` converts to pixels. Pickles stay
//! pickles.

mod dtype;
mod image;
mod ndarray;
mod npy;
mod scalar;
mod value;

use std::fmt;

pub use dtype::DType;
pub use ndarray::ArrayType;
pub(super) use ndarray::{DOCUMENT, encode_shape as write_shape};
pub use npy::NpyArray;
pub use scalar::Scalar;
pub use value::{Array, Pixels, Value};

use super::json;
use forebay_core::error::{Error, ErrorKind, Result};

/// The encoding of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Raw bytes.
    Bytes,
    /// UTF-8 text.
    Str,
    /// A Python int as an int64.
    Int,
    /// A number of a numpy type.
    Scalar(DType),
    /// An int as decimal text.
    StrInt,
    /// A float as text.
    StrFloat,
    /// A decimal number as text.
    StrDecimal,
    /// An array.
    Array(ArrayType),
    /// Raw pixels with size and mode.
    Pil,
    /// A JPEG file.
    Jpeg,
    /// A PNG file.
    Png,
    /// Several JPEG files, under either of the names `jpeg_array` and `jpegarray`.
    JpegArray(JpegArrayName),
    /// A list of raw images.
    PilList,
    /// A list of JPEG files.
    JpegList,
    /// A list of PNG files.
    PngList,
    /// A list of bytes, such as files of pictures of any format. Only tables have this encoding.
    BytesList,
    /// A JSON document.
    Json,
    /// An array as numpy's `save` writes it. Only files have this encoding, also those in archives.
    Npy,
    /// A Python pickle: never decoded here.
    Pickle,
    /// An encoding that users registered with the reference under this name, which may be the name of a different
    /// encoding: only its bytes can be read.
    Custom(String),
}

/// The two spellings of one encoding. The index keeps the original one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the spellings")]
pub enum JpegArrayName {
    Underscore,
    Plain,
}

/// The encodings without parameters, by name.
const PLAIN: [(&str, Encoding); 15] = [
    ("bytes", Encoding::Bytes),
    ("str", Encoding::Str),
    ("int", Encoding::Int),
    ("str_int", Encoding::StrInt),
    ("str_float", Encoding::StrFloat),
    ("str_decimal", Encoding::StrDecimal),
    ("pil", Encoding::Pil),
    ("jpeg", Encoding::Jpeg),
    ("png", Encoding::Png),
    ("jpeg_array", Encoding::JpegArray(JpegArrayName::Underscore)),
    ("jpegarray", Encoding::JpegArray(JpegArrayName::Plain)),
    ("list[pil]", Encoding::PilList),
    ("list[jpeg]", Encoding::JpegList),
    ("list[png]", Encoding::PngList),
    ("json", Encoding::Json),
];

/// Name of the encoding of numpy's files.
const NPY: &str = "npy";

/// Name of the encoding of lists of bytes.
const BYTES_LIST: &str = "list[bytes]";

impl Encoding {
    /// Parses the name of an encoding, from an index or from a user.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a name that the reference does not have, and for a wrong dtype or shape after
    /// `ndarray:`.
    pub fn parse(name: &str) -> Result<Self> {
        if let Some((_, encoding)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Ok(encoding.clone());
        }
        if let Some(dtype) = DType::from_name(name) {
            return Ok(Self::Scalar(dtype));
        }
        match name.split_once(':') {
            None if name == "ndarray" => Ok(Self::Array(ArrayType::default())),
            None if name == "pkl" => Ok(Self::Pickle),
            Some(("ndarray", config)) => {
                ArrayType::parse(config).map(Self::Array).map_err(|e| e.with("encoding", name))
            }
            _ => {
                let known: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).collect();
                let message = format!(
                    "`{name}` is not a known encoding; known are {}, pkl, ndarray and numpy's numbers, such as uint16",
                    known.join(", ")
                );
                Err(Error::config(message))
            }
        }
    }

    /// Parses the name of an encoding of files, as it is printed: also one that the reference does not have.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_of_file(name: &str) -> Result<Self> {
        match name {
            NPY => Ok(Self::Npy),
            BYTES_LIST => Ok(Self::BytesList),
            name => Self::parse(name),
        }
    }

    /// Bytes of every value, if they are fixed.
    pub fn fixed_size(&self) -> Option<u32> {
        match self {
            Self::Int => Some(8),
            Self::Scalar(dtype) => Some(dtype.size() as u32),
            Self::Array(kind) => kind.fixed_size(),
            _ => None,
        }
    }

    /// Returns true unless decoding would run code from the data.
    pub fn is_safe(&self) -> bool {
        !matches!(self, Self::Pickle)
    }

    /// Appends `value` to `out`. [`Value::Bytes`] are stored unchanged under every encoding.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if the value has a different type or does not fit, or if a value of a fixed-size column
    /// has a different size; `out` may then hold a part of the value.
    pub fn encode(&self, value: &Value<'_>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        self.encode_unchecked(value, out)?;
        let written = out.len() - start;
        match self.fixed_size() {
            Some(size) if written != size as usize => Err(Error::config(format!(
                "{written} bytes where `{self}` takes {size}: is the column typed with the right encoding?"
            ))),
            _ => Ok(()),
        }
    }

    fn encode_unchecked(&self, value: &Value<'_>, out: &mut Vec<u8>) -> Result<()> {
        let out_of_range = |dtype: DType| {
            let (given, range) = (value.shown(), Scalar::range(dtype));
            Error::config(format!("{given} cannot be stored as `{self}`, which holds {range}"))
        };
        let put = |dtype: DType, scalar: Option<Scalar>, out: &mut Vec<u8>| -> Result<()> {
            scalar.ok_or_else(|| out_of_range(dtype))?.write(out);
            Ok(())
        };
        if let (Some((element, reserved)), Value::List(items)) = (self.list(), value) {
            out.extend(reserved);
            return image::encode_list(items, out, |item, out| element.encode(item, out));
        }
        match (self, value) {
            (_, Value::Bytes(bytes))
            | (Self::Jpeg, Value::Jpeg(bytes))
            | (Self::Png, Value::Png(bytes))
            | (Self::Pickle, Value::Pickle(bytes)) => out.extend_from_slice(bytes),
            (Self::Str, Value::Str(text)) => out.extend_from_slice(text.as_bytes()),
            (Self::Int, Value::Int(int)) => out.extend(int.to_le_bytes()),
            (Self::Int, Value::BigInt(_)) => return Err(out_of_range(DType::Int64)),
            (Self::Scalar(dtype), Value::Int(int)) => put(*dtype, Scalar::of_int(*dtype, *int), out)?,
            (Self::Scalar(dtype), Value::BigInt(digits)) if is_integer(digits) => {
                put(*dtype, Scalar::of_digits(*dtype, digits), out)?;
            }
            (Self::Scalar(dtype), Value::Float(float)) => put(*dtype, Scalar::of_float(*dtype, *float), out)?,
            (Self::Scalar(dtype), Value::Scalar(scalar)) => put(*dtype, scalar.cast(*dtype), out)?,
            (Self::StrInt, Value::Int(int)) => out.extend(int.to_string().bytes()),
            (Self::StrInt, Value::BigInt(digits)) if is_integer(digits) => out.extend(digits.bytes()),
            (Self::StrFloat, Value::Float(float)) => out.extend(json::python_float(*float, json::STR_WORDS).bytes()),
            (Self::StrDecimal, Value::Decimal(text)) if is_decimal(text) => out.extend(text.bytes()),
            (Self::Array(kind), Value::Array(array)) => kind.encode(array, out)?,
            (Self::Pil, Value::Pixels(pixels)) => image::encode_pixels(pixels, out)?,
            (Self::Json, Value::Json(text)) => {
                json::check(text.as_bytes()).map_err(|e| e.of_kind(ErrorKind::Config))?;
                out.extend(text.bytes());
            }
            _ => return Err(Error::config(format!("a value of type {} cannot be stored as `{self}`", value.kind()))),
        }
        Ok(())
    }

    /// Encoding of the elements of a list, and the reserved bytes before their number; `None` for values that are no
    /// lists.
    fn list(&self) -> Option<(&Self, &'static [u8])> {
        match self {
            Self::JpegArray(_) => Some((&Self::Jpeg, &[])),
            Self::PilList => Some((&Self::Pil, &[0; 4])),
            Self::JpegList => Some((&Self::Jpeg, &[0; 4])),
            Self::PngList => Some((&Self::Png, &[0; 4])),
            Self::BytesList => Some((&Self::Bytes, &[0; 4])),
            _ => None,
        }
    }

    /// Decodes `bytes`. Only numbers and tables of lists are copied.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for bytes that the encoding does not write; [`ErrorKind::Unsupported`] for
    /// [`Custom`](Self::Custom).
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>> {
        self.decode_inner(bytes).map_err(|e| e.with("encoding", self))
    }

    /// Splits a list of pictures into the bytes of each. `None` for encodings that are no pictures.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a broken table.
    pub fn pictures<'a>(&self, bytes: &'a [u8]) -> Option<Result<Vec<&'a [u8]>>> {
        self.list().map(|(_, reserved)| image::decode_list(bytes, reserved, Ok))
    }

    fn decode_inner<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>> {
        if let Some((element, reserved)) = self.list() {
            let list = image::decode_list(bytes, reserved, |picture| element.decode_inner(picture))?;
            return match self {
                Self::JpegArray(_) if list.is_empty() => Err(Error::format("an array without images")),
                _ => Ok(Value::List(list)),
            };
        }
        Ok(match self {
            Self::Bytes => Value::Bytes(bytes.into()),
            Self::Str => Value::Str(text(bytes)?.into()),
            Self::Int => Value::Int(i64::from_le_bytes(
                bytes.try_into().map_err(|_| Error::format(format!("{} bytes are not an int64", bytes.len())))?,
            )),
            Self::Scalar(dtype) => Value::Scalar(
                Scalar::read(*dtype, bytes)
                    .ok_or_else(|| Error::format(format!("{} bytes are not one {self}", bytes.len())))?,
            ),
            Self::StrInt => parse_int(text(bytes)?)?,
            Self::StrFloat => {
                let text = text(bytes)?.trim();
                Value::Float(
                    text.parse()
                        .map_err(|e| Error::format(format!("`{}` is not a float", brief(text))).caused_by(e))?,
                )
            }
            Self::StrDecimal => match text(bytes)?.trim() {
                text if is_decimal(text) => Value::Decimal(text.into()),
                text => return Err(Error::format(format!("`{}` is not a decimal number", brief(text)))),
            },
            Self::Array(kind) => match kind.document(bytes) {
                Some(document) => {
                    json::check(document)?;
                    Value::Json(text(document)?.into())
                }
                None => Value::Array(kind.decode(bytes)?),
            },
            Self::Npy => {
                let (mut shape, mut side) = (Vec::new(), Vec::new());
                let array = NpyArray::read(bytes, &mut shape)?;
                let dtype = array.dtype;
                let data = array.into_values(&shape, &mut side).to_vec().into();
                Value::Array(Array { dtype, shape, data })
            }
            Self::Pil => Value::Pixels(Pixels::read(bytes)?),
            Self::Jpeg => Value::Jpeg(bytes.into()),
            Self::Png => Value::Png(bytes.into()),
            Self::Json => {
                let text = text(bytes)?;
                json::check(bytes)?;
                Value::Json(text.into())
            }
            Self::Pickle => Value::Pickle(bytes.into()),
            // Lists are decoded above.
            custom => {
                let why = format!("`{custom}` is not an encoding that is known here; read its bytes");
                return Err(Error::new(ErrorKind::Unsupported, why));
            }
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(dtype) => f.write_str(dtype.name()),
            Self::Array(kind) => kind.fmt(f),
            Self::Pickle => f.write_str("pkl"),
            Self::Npy => f.write_str(NPY),
            Self::BytesList => f.write_str(BYTES_LIST),
            Self::Custom(name) => f.write_str(name),
            plain => f.write_str(PLAIN.iter().find(|(_, e)| e == plain).map_or("", |(name, _)| name)),
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    simdutf8::compat::from_utf8(bytes).map_err(|e| Error::format("the text is not UTF-8").caused_by(e))
}

fn brief(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Returns true for an optional sign and digits.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn parse_int(text: &str) -> Result<Value<'_>> {
    let text = text.trim();
    match text.parse() {
        Ok(int) => Ok(Value::Int(int)),
        Err(_) if is_integer(text) => Ok(Value::BigInt(text.into())),
        Err(e) => Err(Error::format(format!("`{}` is not an int", brief(text))).caused_by(e)),
    }
}

/// Returns true if Python's `Decimal` accepts the text: digits with at most one point and an exponent, infinity, or NaN
/// with digits.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if lower == "inf" || lower == "infinity" {
        return true;
    }
    if let Some(payload) = lower.strip_prefix("nan").or_else(|| lower.strip_prefix("snan")) {
        return payload.bytes().all(|b| b.is_ascii_digit());
    }
    let (digits, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let whole = digits.replacen('.', "", 1);
    !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit()) && is_integer(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> Encoding {
        Encoding::parse(name).unwrap()
    }

    fn encoded(name: &str, value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encoding(name).encode(&value, &mut out).unwrap();
        out
    }

    #[test]
    fn all_28_names_parse_and_print_back() {
        let scalars = DType::stored().map(DType::name);
        let names: Vec<_> = PLAIN.iter().map(|(name, _)| *name).chain(scalars).chain(["ndarray", "pkl"]).collect();
        assert_eq!(names.len(), 28);
        for name in names {
            assert_eq!(encoding(name).to_string(), name);
        }
        for name in ["", "int:8", "foo", "foo:1", "uint128", "list[str]", "ndarray:", "Bytes"] {
            let ok = name == "ndarray:";
            assert_eq!(Encoding::parse(name).is_ok(), ok, "{name}");
        }
        assert_eq!(Encoding::parse_of_file(&Encoding::Npy.to_string()).unwrap(), Encoding::Npy);
        assert!(Encoding::parse("npy").is_err(), "not of the reference");
    }

    #[test]
    fn values_read_back_under_their_encoding() {
        let jpeg = || Value::Jpeg(b"\xff\xd8..."[..].into());
        let pixels = || Value::Pixels(Pixels { width: 2, height: 1, mode: "RGB".into(), data: b"abcdef"[..].into() });
        for (name, value) in [
            ("bytes", Value::Bytes(b"abc"[..].into())),
            ("str", Value::Str("é".into())),
            ("int", Value::Int(-7)),
            ("uint8", Value::Scalar(Scalar::U8(200))),
            ("str_int", Value::Int(i64::MIN)),
            ("str_int", Value::BigInt("-9223372036854775809".into())),
            ("str_float", Value::Float(1e-5)),
            ("str_decimal", Value::Decimal("-1.50E+3".into())),
            ("pil", pixels()),
            ("jpeg", jpeg()),
            ("png", Value::Png(b"\x89PNG"[..].into())),
            ("jpeg_array", Value::List(vec![jpeg(), jpeg()])),
            ("list[pil]", Value::List(vec![pixels()])),
            ("list[jpeg]", Value::List(vec![])),
            ("json", Value::Json("{\"a\": [1, NaN]}".into())),
            ("pkl", Value::Pickle(b"\x80\x04N."[..].into())),
        ] {
            let bytes = encoded(name, value.clone());
            assert_eq!(encoding(name).decode(&bytes).unwrap(), value, "{name}");
        }
        assert_eq!(encoded("str_float", Value::Float(1e-5)), b"1e-05");
        assert_eq!(encoded("list[png]", Value::List(vec![])), [0; 8]);
    }

    #[test]
    fn bytes_are_stored_unchanged_but_must_match_a_fixed_size() {
        assert_eq!(encoded("json", Value::Bytes(b"{"[..].into())), b"{");
        assert_eq!(encoded("int", Value::Bytes(b"12345678"[..].into())), b"12345678");
        let e = encoding("int").encode(&Value::Bytes(b"123"[..].into()), &mut Vec::new()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.message().contains("3 bytes where `int` takes 8"), "{e}");
    }

    #[test]
    fn a_value_of_a_different_type_is_rejected() {
        for (name, value) in [
            ("str", Value::Int(1)),
            ("int", Value::Float(1.0)),
            ("str_float", Value::Int(1)),
            ("uint8", Value::Int(256)),
            ("json", Value::Json("{".into())),
            ("str_decimal", Value::Decimal("1e".into())),
            ("list[png]", Value::List(vec![Value::Jpeg(b"x"[..].into())])),
            ("pil", Value::Pixels(Pixels { width: 9, height: 9, mode: "L".into(), data: b"x"[..].into() })),
        ] {
            let e = encoding(name).encode(&value, &mut Vec::new()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config, "{name}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_shown_with_the_range_of_its_column() {
        for (name, value, message) in [
            ("uint8", Value::Int(256), "256 cannot be stored as `uint8`, which holds whole numbers from 0 to 255"),
            ("int8", Value::Float(3.7), "3.7 cannot be stored as `int8`, which holds whole numbers from -128 to 127"),
            ("int8", Value::Scalar(Scalar::I64(200)), "200 cannot be stored as `int8`, which holds whole numbers from"),
            ("uint16", Value::Scalar(Scalar::F32(f32::NAN)), "nan cannot be stored as `uint16`"),
            (
                "float16",
                Value::Float(1e6),
                "1000000.0 cannot be stored as `float16`, which holds numbers from -6.5504e4 to",
            ),
            (
                "int",
                Value::BigInt("9223372036854775808".into()),
                "9223372036854775808 cannot be stored as `int`, which holds whole numbers from -9223372036854775808 to \
                 9223372036854775807",
            ),
            ("int", Value::BigInt("9".repeat(400).into()), "9999999999999999999999999999999999999999... cannot"),
        ] {
            let e = encoding(name).encode(&value, &mut Vec::new()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config, "{name}");
            assert!(e.message().starts_with(message), "{e}");
        }
    }

    #[test]
    fn hostile_values_are_format_errors() {
        for (name, bytes) in [
            ("str", &b"\xff"[..]),
            ("int", b"123"),
            ("float16", b"1"),
            ("str_int", b"1.0"),
            ("str_int", b""),
            ("str_float", b"one"),
            ("str_decimal", b"."),
            ("json", b"{"),
            ("pil", b"\x01\0\0\0\x01\0\0\0\xff\xff\xff\xffL"),
            ("pil", b"\xff\xff\xff\xff\xff\xff\xff\xff\x04\0\0\0RGBAx"),
            ("jpegarray", b"\0\0\0\0"),
            ("jpegarray", b"\xff\xff\xff\xff"),
            ("jpegarray", b"\x02\0\0\0\0\0\0\0"),
            ("list[jpeg]", b"\0\0\0\0\x01\0\0\0\xff\xff\xff\xff"),
            ("list[jpeg]", b"\0\0\0\0\x01\0\0\0\x01\0\0\0abc"),
        ] {
            let e = encoding(name).decode(bytes).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{name}");
            assert!(e.to_string().contains(&format!("encoding {name}")), "{e}");
        }
    }

    #[test]
    fn a_pickle_is_unsafe_and_stays_a_pickle() {
        assert!(!encoding("pkl").is_safe());
        assert!(encoding("json").is_safe());
    }
}
