//! Facts about the values of a column, from some samples.

use super::distribution::Distribution;
use crate::samples::{Content, floats};
use crate::text;
use forebay_loader::decode::geometry::Size;
use forebay_loader::format::{Column, Encoding};
use forebay_loader::worker::StreamDescription;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Characters of an example in JSON.
const EXAMPLE_CHARACTERS: usize = 120;

/// Column with the facts about its values.
pub(super) struct ColumnFacts {
    pub(super) name: String,
    pub(super) encoding: String,
    is_optional: bool,
    /// Samples with a value, and without one.
    present: u64,
    absent: u64,
    damaged: u64,
    example: Option<String>,
    lengths: Lengths,
    numbers: Vec<f64>,
    pictures: Pictures,
}

/// Lengths of values, all in one unit.
#[derive(Default)]
struct Lengths {
    unit: &'static str,
    values: Vec<u64>,
}

/// Pictures by their headers.
#[derive(Default)]
struct Pictures {
    formats: BTreeMap<&'static str, u64>,
    sizes: Vec<Size>,
}

/// Columns of a data set with the facts about their values.
pub(super) struct Columns(Vec<ColumnFacts>);

impl Columns {
    pub(super) fn new(stream: &StreamDescription) -> Self {
        let columns = stream.columns.iter().map(|known| ColumnFacts::new(&known.column, known.is_optional));
        Self(columns.collect())
    }

    /// Adds the value of a sample, and returns its bytes once it is decoded.
    ///
    /// # Errors
    ///
    /// The error of a value that is damaged.
    pub(super) fn add(&mut self, column: &Column, stored: Option<&[u8]>) -> forebay_loader::Result<u64> {
        let encoding = column.encoding.to_string();
        let known = self.0.iter().position(|facts| facts.name == column.name && facts.encoding == encoding);
        let known = known.unwrap_or_else(|| {
            self.0.push(ColumnFacts::new(column, true));
            self.0.len() - 1
        });
        self.0[known].add(column, stored)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ColumnFacts> {
        self.0.iter()
    }
}

impl ColumnFacts {
    fn new(column: &Column, is_optional: bool) -> Self {
        Self {
            name: column.name.clone(),
            encoding: column.encoding.to_string(),
            is_optional,
            present: 0,
            absent: 0,
            damaged: 0,
            example: None,
            lengths: Lengths::default(),
            numbers: Vec::new(),
            pictures: Pictures::default(),
        }
    }

    fn add(&mut self, column: &Column, stored: Option<&[u8]>) -> forebay_loader::Result<u64> {
        let Some(stored) = stored else {
            self.absent += 1;
            return Ok(0);
        };
        let content = Content::of(column, stored).inspect_err(|_| self.damaged += 1)?;
        self.present += 1;
        if self.example.is_none() {
            self.example = Some(content.text());
        }
        // Numbers in texts have no length that matters.
        if !matches!(content, Content::Number { .. }) || matches!(column.encoding, Encoding::Str) {
            self.add_length(&content);
        }
        self.add_values(&content);
        Ok(decoded_bytes(&content, stored.len() as u64))
    }

    fn add_length(&mut self, content: &Content<'_>) {
        let (unit, length) = match content {
            Content::Text(text) => ("character", text.chars().count()),
            Content::Array { dtype, data, .. } => ("element", data.len() / dtype.size().max(1)),
            Content::List(items) => ("item", items.len()),
            Content::Bytes(bytes) => ("byte", bytes.len()),
            Content::Picture { bytes, .. } => ("byte", *bytes),
            Content::Number { .. } => return,
        };
        // A column of bytes may have pictures and more.
        if self.lengths.values.is_empty() || self.lengths.unit == unit {
            self.lengths.unit = unit;
            self.lengths.values.push(length as u64);
        }
    }

    fn add_values(&mut self, content: &Content<'_>) {
        match content {
            Content::Picture { format, size, .. } => {
                *self.pictures.formats.entry(format).or_default() += 1;
                self.pictures.sizes.push(*size);
            }
            Content::Number { value, .. } => self.numbers.push(*value),
            Content::Array { dtype, data, .. } => {
                let range = floats(*dtype, data).filter(|number| number.is_finite());
                let ends = range.fold(None, |ends: Option<(f64, f64)>, number| {
                    let (least, most) = ends.unwrap_or((number, number));
                    Some((least.min(number), most.max(number)))
                });
                self.numbers.extend(ends.into_iter().flat_map(|(least, most)| [least, most]));
            }
            Content::List(items) => items.iter().for_each(|item| self.add_values(item)),
            Content::Text(_) | Content::Bytes(_) => {}
        }
    }

    fn least_and_most(&self) -> Option<(f64, f64)> {
        let finite = || self.numbers.iter().copied().filter(|number| number.is_finite());
        Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
    }

    fn sides(&self, side: impl Fn(&Size) -> u32) -> Option<Distribution> {
        Distribution::of(self.pictures.sizes.iter().map(|size| side(size).into()).collect())
    }

    /// Example of a value in one line.
    pub(super) fn example(&self) -> &str {
        self.example.as_deref().unwrap_or_default()
    }

    /// Facts about the values in a line of text.
    pub(super) fn summary(&self) -> String {
        let mut parts = Vec::new();
        if let (Some(width), Some(height)) = (self.sides(|size| size.w), self.sides(|size| size.h)) {
            let formats: Vec<&str> = self.pictures.formats.keys().copied().collect();
            let range = range(&width.min.to_string(), &width.max.to_string());
            let high = self::range(&height.min.to_string(), &height.max.to_string());
            parts.push(format!("{} {range} x {high} pixels {}", formats.join(", "), width.bars()));
        } else if let Some(lengths) = Distribution::of(self.lengths.values.clone()) {
            let plural = if lengths.max == 1 { "" } else { "s" };
            let ends = range(&text::count(lengths.min), &text::count(lengths.max));
            parts.push(format!("{ends} {}{plural} {}", self.lengths.unit, lengths.bars()));
        }
        if let Some((least, most)) = self.least_and_most() {
            parts.push(format!("from {} to {}", text::float(least), text::float(most)));
        }
        if self.absent > 0 {
            parts.push(format!("{} without", text::count(self.absent)));
        }
        if self.damaged > 0 {
            parts.push(format!("{} damaged", text::count(self.damaged)));
        }
        parts.iter().map(|part| part.trim_end()).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn json(&self) -> Value {
        let mut record = Map::new();
        let mut put = |name: &str, value: Value| record.insert(name.to_owned(), value);
        put("name", json!(self.name));
        put("type", json!(self.encoding));
        put("optional", json!(self.is_optional));
        put("present", json!(self.present));
        put("absent", json!(self.absent));
        put("damaged", json!(self.damaged));
        put("example", json!(self.example.as_deref().map(|text| text::shortened(text, EXAMPLE_CHARACTERS))));
        let lengths = Distribution::of(self.lengths.values.clone()).map(|lengths| {
            let mut lengths = lengths.json();
            lengths["unit"] = json!(self.lengths.unit);
            lengths
        });
        put("lengths", json!(lengths));
        let numbers = self.least_and_most().map(|(least, most)| json!({"min": least, "max": most}));
        put("numbers", json!(numbers));
        let pictures = self.sides(|size| size.w).zip(self.sides(|size| size.h)).map(
            |(width, height)| json!({"formats": self.pictures.formats, "width": width.json(), "height": height.json()}),
        );
        put("pictures", json!(pictures));
        Value::Object(record)
    }
}

/// Returns both ends of a range, or one if they are equal.
fn range(least: &str, most: &str) -> String {
    if least == most { least.to_owned() } else { format!("{least}..{most}") }
}

/// Bytes of a value once it is decoded: three for each pixel of a picture.
fn decoded_bytes(content: &Content<'_>, stored: u64) -> u64 {
    match content {
        Content::Picture { size, .. } => size.pixels() * 3,
        Content::Array { data, .. } => data.len() as u64,
        Content::List(items) => items.iter().map(|item| decoded_bytes(item, 0)).sum(),
        Content::Text(_) | Content::Number { .. } | Content::Bytes(_) => stored,
    }
}
