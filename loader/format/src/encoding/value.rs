//! Values of columns, between the bytes of a shard and a program's own types.

use std::borrow::Cow;

use super::dtype::DType;
use super::scalar::Scalar;
use crate::json;

/// Longest whole number that a message has in full.
const DIGITS_SHOWN_MAX: usize = 40;

/// Value of a column. Decoded values borrow from the sample if possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Raw bytes. A writer stores them unchanged under every encoding.
    Bytes(Cow<'a, [u8]>),
    /// Text.
    Str(Cow<'a, str>),
    /// A Python int that fits in 64 bits.
    Int(i64),
    /// A larger Python int: its decimal digits, with a `-` if negative.
    BigInt(Cow<'a, str>),
    /// A Python float.
    Float(f64),
    /// A number with a numpy type.
    Scalar(Scalar),
    /// A decimal number as text, in the form of Python's `Decimal`.
    Decimal(Cow<'a, str>),
    /// An array.
    Array(Array<'a>),
    /// Pixels with their size and mode.
    Pixels(Pixels<'a>),
    /// A JPEG file, still encoded.
    Jpeg(Cow<'a, [u8]>),
    /// A PNG file, still encoded.
    Png(Cow<'a, [u8]>),
    /// Several images.
    List(Vec<Value<'a>>),
    /// A JSON document as text.
    Json(Cow<'a, str>),
    /// A Python pickle. Unpickling runs code from the file, so this library never does it.
    Pickle(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// Name of the kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            Self::Str(_) => "str",
            Self::Int(_) | Self::BigInt(_) => "int",
            Self::Float(_) => "float",
            Self::Scalar(scalar) => scalar.dtype().name(),
            Self::Decimal(_) => "decimal",
            Self::Array(_) => "array",
            Self::Pixels(_) => "pixels",
            Self::Jpeg(_) => "jpeg",
            Self::Png(_) => "png",
            Self::List(_) => "list",
            Self::Json(_) => "json",
            Self::Pickle(_) => "pickle",
        }
    }

    /// A number as text, abridged, and all further values by their kind, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::BigInt(digits) if digits.len() > DIGITS_SHOWN_MAX => {
                format!("{}...", digits.chars().take(DIGITS_SHOWN_MAX).collect::<String>())
            }
            Self::BigInt(digits) => digits.to_string(),
            Self::Float(float) => json::python_float(*float, json::STR_WORDS),
            Self::Scalar(Scalar::U64(int)) => int.to_string(),
            Self::Scalar(scalar) => match scalar.as_i64() {
                Some(int) if !scalar.dtype().is_float() => int.to_string(),
                _ => json::python_float(scalar.as_f64(), json::STR_WORDS),
            },
            other => format!("a value of type {}", other.kind()),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Str(text.into())
    }
}

/// Array in C order, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'a> {
    /// Element type.
    pub dtype: DType,
    /// Elements along each axis, slowest first.
    pub shape: Vec<usize>,
    /// The elements; their number is the product of `shape`.
    pub data: Cow<'a, [u8]>,
}

/// Raw image in the form of Pillow's `tobytes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels<'a> {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Pillow's name of the pixel format: `RGB`, `L`, `RGBA`, `I;16` ...
    pub mode: Cow<'a, str>,
    /// The rows, top first.
    pub data: Cow<'a, [u8]>,
}
