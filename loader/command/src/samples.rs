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
        let columns = layout.split(&self.buffer[..info.bytes], &mut scratch).map_err(|e| info.describe(e))?;
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
    /// Number, and its digits.
    Number {
        value: f64,
        digits: String,
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
    /// Returns the content of the value `bytes` of `column`. Of pictures the headers alone are read.
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
        let number = |value: f64, digits: String| Self::Number { value, digits };
        match value {
            Value::Bytes(bytes) | Value::Jpeg(bytes) | Value::Png(bytes) | Value::Pickle(bytes) => {
                Self::of_bytes(bytes)
            }
            Value::Str(text) | Value::Json(text) => Self::Text(text),
            Value::Int(int) => number(int as f64, int.to_string()),
            Value::BigInt(digits) | Value::Decimal(digits) => {
                number(digits.parse().unwrap_or(f64::NAN), digits.into_owned())
            }
            Value::Float(float) => number(float, text::float(float)),
            Value::Scalar(scalar) => number(scalar.as_f64(), scalar_text(scalar)),
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
            Self::Text(text) => text::one_line(&beginning(text)),
            Self::Number { digits, .. } => text::shortened(digits, CHARACTERS_SHOWN),
            Self::Array { dtype, shape, data } => {
                let all = data.len() / dtype.size().max(1);
                let mut numbers = elements(*dtype, data).take(SHOWN).collect::<Vec<_>>().join(" ");
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
            Self::Number { digits, value } => serde_json::from_str(digits).unwrap_or_else(|_| json!(value)),
            Self::Array { dtype, shape, data } => {
                let numbers: Vec<String> = elements(*dtype, data).take(SHOWN).collect();
                json!({"dtype": dtype.name(), "shape": shape, "first": numbers})
            }
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Bytes(bytes) => json!({"bytes": bytes.len()}),
        }
    }
}

/// Returns the beginning of a text.
fn beginning(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(CHARACTERS_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

fn scalar_text(scalar: Scalar) -> String {
    match scalar {
        Scalar::U64(int) => int.to_string(),
        scalar if scalar.dtype().is_float() => text::float(scalar.as_f64()),
        scalar => scalar.as_i64().map_or_else(|| text::float(scalar.as_f64()), |int| int.to_string()),
    }
}

/// Returns the elements of an array as text.
pub(crate) fn elements(dtype: DType, data: &[u8]) -> impl Iterator<Item = String> {
    numbers(dtype, data).map(move |number| match number {
        Number::Scalar(scalar) => scalar_text(scalar),
        Number::Brain(number) => text::float(number.into()),
    })
}

/// Returns the elements of an array as floats.
pub(crate) fn floats(dtype: DType, data: &[u8]) -> impl Iterator<Item = f64> {
    numbers(dtype, data).map(|number| match number {
        Number::Scalar(scalar) => scalar.as_f64(),
        Number::Brain(number) => number.into(),
    })
}

/// Element of an array.
enum Number {
    Scalar(Scalar),
    /// Element of type bfloat16, which data sets do not store.
    Brain(f32),
}

fn numbers(dtype: DType, data: &[u8]) -> impl Iterator<Item = Number> {
    data.chunks_exact(dtype.size().max(1)).filter_map(move |bytes| match (dtype, bytes) {
        (DType::BFloat16, [low, high]) => Some(Number::Brain(f32::from_le_bytes([0, 0, *low, *high]))),
        _ => Scalar::read(dtype, bytes).map(Number::Scalar),
    })
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
