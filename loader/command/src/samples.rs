//! Samples of a data set as values.

use crate::text;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::{DType, formats, jpeg};
use forebay_loader::format::encoding::Scalar;
use forebay_loader::format::{Column, Encoding, FIELDS, Layout, Scratch, Value};
use forebay_loader::order::{SampleId, ShardId};
use forebay_loader::store::LibraryStores;
use forebay_loader::sync::Arc;
use forebay_loader::worker::{ATTEMPTS, DataSet, SampleReader};
use jpeg::JpegDecoder as _;
use serde_json::{Value as Json, json};
use std::borrow::Cow;

/// Elements of an array and bytes of a value that are shown.
const SHOWN: usize = 24;

/// Characters of a text that are shown: some lines of a wide terminal.
const CHARACTERS_SHOWN: usize = 1000;

/// Reader of the samples of a data set.
pub(crate) struct Samples {
    reader: SampleReader,
    buffer: Vec<u8>,
}

/// Sample: the columns of its shard, and the stored values of those that it has.
pub(crate) struct Record {
    layout: Arc<Layout>,
    values: Vec<Option<Vec<u8>>>,
    /// Bytes of the whole sample as it is stored.
    pub(crate) bytes: usize,
}

impl Samples {
    pub(crate) fn open(data: Arc<DataSet>, library: Option<LibraryStores>) -> Result<Self> {
        Ok(Self { reader: SampleReader::open(data, Vec::new())?.with_library(library), buffer: Vec::new() })
    }

    /// Number of samples.
    pub(crate) fn count(&self) -> u64 {
        self.reader.data().shape().num_samples()
    }

    /// Shard of a sample, and its index there.
    pub(crate) fn locate(&self, number: u64) -> Option<(ShardId, u32)> {
        self.reader.data().shape().locate(SampleId(number))
    }

    /// Reads a sample; its shard is fetched if necessary.
    pub(crate) fn read(&mut self, number: u64) -> Result<Record> {
        let info = match self.reader.read(SampleId(number), &mut self.buffer)? {
            Some(info) => info,
            None => self.reader.fetch_and_read(SampleId(number), &mut self.buffer, ATTEMPTS)?,
        };
        let layout = self.reader.layouts()[info.layout].clone();
        let mut scratch = Scratch::default();
        let split = layout.split(&self.buffer[..info.bytes], &mut scratch);
        let columns = split.map_err(|e| self.reader.located(e, SampleId(number)))?;
        let values = (0..layout.columns.len()).map(|number| columns.find(number).map(<[u8]>::to_vec)).collect();
        Ok(Record { layout, values, bytes: info.bytes })
    }
}

impl Record {
    /// Columns with their stored values; `None` for a value that the sample lacks. The list of its fields is no column.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&Column, Option<&[u8]>)> {
        let columns = self.layout.columns.iter().zip(self.values.iter().map(Option::as_deref));
        columns.filter(|(column, _)| column.name != FIELDS)
    }
}

/// Value of a column by its kind.
pub(crate) enum Content<'a> {
    /// Encoded picture: name of its format, and its size by the header.
    Picture {
        format: &'static str,
        size: Size,
        bytes: usize,
    },
    Text(Cow<'a, str>),
    /// Number, its digits for people, and its JSON.
    Number {
        value: f64,
        digits: String,
        json: Json,
    },
    Array {
        dtype: DType,
        shape: Vec<usize>,
        data: Cow<'a, [u8]>,
    },
    List(Vec<Content<'a>>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Content<'a> {
    /// Returns the content of the value `bytes` of `column`. Of pictures only the headers are read.
    ///
    /// # Errors
    ///
    /// Bytes that are no value of the column's encoding, with the column.
    pub(crate) fn of(column: &Column, bytes: &'a [u8]) -> Result<Self> {
        let found = match &column.encoding {
            Encoding::Jpeg | Encoding::Png => picture(bytes),
            Encoding::Bytes | Encoding::Custom(_) | Encoding::Pickle => Ok(Self::of_bytes(bytes.into())),
            encoding => encoding.decode(bytes).map(Self::of_value),
        };
        found.map_err(|e| e.with("column", &column.name))
    }

    fn of_bytes(bytes: Cow<'a, [u8]>) -> Self {
        picture(&bytes).unwrap_or(Self::Bytes(bytes))
    }

    fn of_value(value: Value<'a>) -> Self {
        // Integers of any size, of which a float would lose digits.
        let digits = |value: f64, digits: String| Self::Number { value, json: number_json(&digits), digits };
        match value {
            Value::Bytes(bytes) | Value::Jpeg(bytes) | Value::Png(bytes) | Value::Pickle(bytes) => {
                Self::of_bytes(bytes)
            }
            Value::Str(text) | Value::Json(text) => Self::Text(text),
            Value::Int(int) => digits(int as f64, int.to_string()),
            Value::BigInt(text) | Value::Decimal(text) => digits(text.parse().unwrap_or(f64::NAN), text.into_owned()),
            Value::Float(value) => Self::Number { value, digits: text::float(value), json: json!(value) },
            Value::Scalar(scalar) => Element::Scalar(scalar).into(),
            Value::Array(array) => Self::Array { dtype: array.dtype, shape: array.shape, data: array.data },
            Value::Pixels(pixels) => Self::Picture {
                format: "pixels",
                size: Size { w: pixels.width, h: pixels.height },
                bytes: pixels.data.len(),
            },
            Value::List(items) => Self::List(items.into_iter().map(Self::of_value).collect()),
        }
    }

    /// Returns the content as text in one line.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Picture { format, size, bytes } => format!("{format} {size}, {}", text::bytes(*bytes as u64)),
            Self::Text(text) => text::one_line(&text::shortened(text, CHARACTERS_SHOWN)),
            Self::Number { digits, .. } => text::one_line(&text::shortened(digits, CHARACTERS_SHOWN)),
            Self::Array { dtype, shape, data } => {
                let all = data.len() / dtype.size().max(1);
                let mut numbers =
                    elements(*dtype, data).take(SHOWN).map(|one| one.text()).collect::<Vec<_>>().join(" ");
                if all > SHOWN {
                    numbers.push_str(" …");
                }
                format!("{dtype} {shape:?} {numbers}")
            }
            Self::List(items) => {
                let items: Vec<String> = items.iter().take(SHOWN).map(Self::text).collect();
                format!("[{}]", items.join("; "))
            }
            Self::Bytes(bytes) => {
                let end = if bytes.len() > SHOWN { "…" } else { "" };
                let start = bytes[..bytes.len().min(SHOWN)].escape_ascii();
                format!("{}: {start}{end}", text::counted(bytes.len() as u64, "byte"))
            }
        }
    }

    /// Returns the content as JSON: numbers and texts as they are, and the rest by its size.
    pub(crate) fn json(&self) -> Json {
        match self {
            Self::Picture { format, size, bytes } => {
                json!({"format": format, "width": size.w, "height": size.h, "bytes": bytes})
            }
            Self::Text(text) => json!(text),
            Self::Number { json, .. } => json.clone(),
            Self::Array { dtype, shape, data } => {
                let numbers: Vec<Json> = elements(*dtype, data).take(SHOWN).map(|one| one.json()).collect();
                json!({"dtype": dtype.name(), "shape": shape, "first": numbers})
            }
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Bytes(bytes) => json!({"bytes": bytes.len()}),
        }
    }
}

impl From<Element> for Content<'_> {
    fn from(element: Element) -> Self {
        Self::Number { value: element.as_f64(), digits: element.text(), json: element.json() }
    }
}

/// Element of an array.
pub(crate) enum Element {
    Scalar(Scalar),
    /// Element of type bfloat16, which data sets do not store.
    Brain(f32),
}

impl Element {
    pub(crate) fn as_f64(&self) -> f64 {
        match self {
            Self::Scalar(scalar) => scalar.as_f64(),
            Self::Brain(number) => f64::from(*number),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.integer().unwrap_or_else(|| text::float(self.as_f64()))
    }

    /// Returns the number as JSON has it: null for NaN and infinity.
    pub(crate) fn json(&self) -> Json {
        match (self, self.integer()) {
            (_, Some(digits)) => number_json(&digits),
            // The shortest digits of the type.
            (Self::Scalar(Scalar::F32(number)), None) => number_json(&format!("{number:?}")),
            _ => json!(self.as_f64()),
        }
    }

    fn integer(&self) -> Option<String> {
        match self {
            Self::Scalar(Scalar::U64(int)) => Some(int.to_string()),
            Self::Scalar(scalar) if !scalar.dtype().is_float() => scalar.as_i64().map(|int| int.to_string()),
            _ => None,
        }
    }
}

/// Returns the number of these digits: as text if it is an integer of more than 64 bits, and null if it is NaN.
fn number_json(digits: &str) -> Json {
    let number: Json = serde_json::from_str(digits).ok().filter(Json::is_number).unwrap_or_default();
    let is_integer = digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && number.is_f64() { digits.into() } else { number }
}

/// Returns the elements of an array.
pub(crate) fn elements(dtype: DType, data: &[u8]) -> impl Iterator<Item = Element> {
    data.chunks_exact(dtype.size().max(1)).filter_map(move |bytes| match (dtype, bytes) {
        (DType::BFloat16, [low, high]) => Some(Element::Brain(f32::from_le_bytes([0, 0, *low, *high]))),
        _ => Scalar::read(dtype, bytes).map(Element::Scalar),
    })
}

/// Returns the elements of an array as floats.
pub(crate) fn floats(dtype: DType, data: &[u8]) -> impl Iterator<Item = f64> {
    elements(dtype, data).map(|element| element.as_f64())
}

/// Returns the picture that a file is, by its header.
///
/// # Errors
///
/// A file that is no picture, or with a damaged header.
fn picture(bytes: &[u8]) -> Result<Content<'static>> {
    let (format, size) = if bytes.starts_with(&[0xff, 0xd8]) {
        ("jpeg", jpeg::Decoder::default().size(bytes)?)
    } else {
        let format = formats::find(bytes)?;
        (lower(format.name()), format.size(bytes)?)
    };
    Ok(Content::Picture { format, size, bytes: bytes.len() })
}

/// Name of a format of pictures in lower case, as encodings have it.
fn lower(name: &'static str) -> &'static str {
    match name {
        "PNG" => "png",
        "PBM, PGM, PPM" => "pnm",
        "WebP" => "webp",
        "BMP" => "bmp",
        "GIF" => "gif",
        "TIFF" => "tiff",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(encoding: &str, bytes: &[u8]) -> Json {
        let column = Column::new("x", Encoding::parse(encoding).expect("an encoding"));
        Content::of(&column, bytes).expect("a value").json()
    }

    #[test]
    fn numbers_in_json_keep_their_digits() {
        assert_eq!(json("float64", &0.123456789_f64.to_le_bytes()), json!(0.123456789));
        assert_eq!(json("float32", &0.1_f32.to_le_bytes()).to_string(), "0.1");
        assert_eq!(json("float64", &f64::NAN.to_le_bytes()), Json::Null);
        assert_eq!(json("uint64", &u64::MAX.to_le_bytes()), json!(u64::MAX));
        assert_eq!(json("str_int", b"1000000000000000000000000000001"), json!("1000000000000000000000000000001"));
        let floats = [0.123_456_7_f32, f32::NAN].map(f32::to_le_bytes).concat();
        assert_eq!(json("ndarray:float32:2", &floats)["first"].to_string(), "[0.1234567,null]");
    }
}
