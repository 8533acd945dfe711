//! Values of columns, by their encodings and by their contents.

use super::array;
use super::document;
use super::picture::{PictureProber, is_picture};
use super::{ColumnId, Number, Value, Values};
use forebay_loader::Result;
use forebay_loader::format::{Column, Encoding, FIELDS, SampleColumns, Value as Stored};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Bytes from which a value is contents of a sample, and not a label.
const CONTENTS_BYTES: usize = 16;

/// Columns that name a sample instead of describing it.
const KEYS: &[&str] = &[
    "__key__",
    "__url__",
    "__index_level_0__",
    FIELDS,
    "id",
    "idx",
    "index",
    "key",
    "uid",
    "uuid",
    "path",
    "file",
    "file_name",
    "filename",
    "sample_id",
    "image_id",
    "url",
];

/// Those with a different value in each sample.
const UNIQUE_KEYS: &[&str] = &["__key__", "id", "key", "uid", "uuid", "sample_id"];

/// Prober of the values of one thread.
#[derive(Default)]
pub(in crate::doctor) struct Prober {
    pictures: PictureProber,
}

impl Prober {
    /// Returns the values of a sample with the `columns` of its layout, which have the numbers `ids`.
    pub(in crate::doctor) fn values(
        &mut self,
        columns: &[Column],
        ids: &[ColumnId],
        sample: &SampleColumns<'_>,
    ) -> Values {
        let mut values = Values::default();
        let mut contents = Contents::default();
        for (number, (column, id)) in columns.iter().zip(ids).enumerate() {
            if column.name == FIELDS {
                continue;
            }
            let stored = sample.find(number);
            let value = stored.map_or(Value::Absent, |bytes| self.value(column, bytes));
            if let Some(bytes) = stored {
                let is_key = is_key(&column.name, &value);
                if !is_key {
                    contents.add(&column.name, &value, bytes);
                } else if values.key.is_none() && UNIQUE_KEYS.contains(&column.name.to_ascii_lowercase().as_str()) {
                    values.key = Some(hash_of_key(*id, bytes));
                }
            }
            values.columns.push((*id, value));
        }
        (values.contents, values.rest) = contents.hashes();
        values
    }

    fn value(&mut self, column: &Column, bytes: &[u8]) -> Value {
        let may_be_boxes = column.name.to_ascii_lowercase().contains("box");
        match &column.encoding {
            Encoding::Jpeg | Encoding::Png => self.picture(bytes),
            Encoding::Bytes if is_picture(bytes) => self.picture(bytes),
            Encoding::Bytes | Encoding::Pickle | Encoding::Custom(_) => {
                Value::Bytes { bytes: bytes.len(), start: std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)) }
            }
            Encoding::Str => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(document::text_of(text)),
                Err(_) => Value::Damaged("the text is not UTF-8".to_owned()),
            },
            encoding => match encoding.pictures(bytes) {
                Some(list) => self.list(encoding, list),
                None => match encoding.decode(bytes) {
                    Ok(stored) => self.stored(&stored, may_be_boxes),
                    Err(error) => Value::Damaged(error.message().to_owned()),
                },
            },
        }
    }

    fn picture(&mut self, bytes: &[u8]) -> Value {
        if bytes.is_empty() {
            return Value::Bytes { bytes: 0, start: [0; 4] };
        }
        match self.pictures.file(bytes) {
            Ok(picture) => Value::Picture(Box::new(picture)),
            Err(error) => Value::Damaged(error.message().to_owned()),
        }
    }

    fn list(&mut self, encoding: &Encoding, list: Result<Vec<&[u8]>>) -> Value {
        let items = match list {
            Ok(items) => items,
            Err(error) => return Value::Damaged(error.message().to_owned()),
        };
        let has_files = !matches!(encoding, Encoding::PilList);
        let damage = |(number, item): (usize, &&[u8])| {
            let is_file = has_files && (*encoding != Encoding::BytesList || is_picture(item));
            let error = if is_file { self.pictures.file(item).err()? } else { return None };
            Some(format!("item {number}: {}", error.message()))
        };
        let damage = items.iter().enumerate().find_map(damage);
        Value::Pictures { items: items.len(), damage }
    }

    fn stored(&mut self, stored: &Stored<'_>, may_be_boxes: bool) -> Value {
        match stored {
            Stored::Int(int) => Value::Number(Number::of(*int as f64)),
            Stored::Float(float) => Value::Number(Number { is_whole: false, value: *float }),
            Stored::Scalar(scalar) => {
                let is_whole = !scalar.dtype().is_float();
                Value::Number(Number { is_whole, value: scalar.as_f64() })
            }
            Stored::BigInt(text) | Stored::Decimal(text) => {
                Value::Number(Number { is_whole: false, value: text.parse().unwrap_or(0.0) })
            }
            Stored::Str(text) => Value::Text(document::text_of(text)),
            Stored::Json(text) => document::of_json(text, may_be_boxes),
            Stored::Array(found) => Value::Array(Box::new(array::of_stored(found, may_be_boxes))),
            Stored::Pixels(raw) => Value::Picture(Box::new(self.pictures.raw(raw))),
            Stored::Bytes(bytes) | Stored::Jpeg(bytes) | Stored::Png(bytes) | Stored::Pickle(bytes) => {
                Value::Bytes { bytes: bytes.len(), start: [0; 4] }
            }
            Stored::List(items) => Value::Pictures { items: items.len(), damage: None },
        }
    }
}

/// Returns true for values that name a sample. A column `file` may also have the contents of the files.
fn is_key(column: &str, value: &Value) -> bool {
    matches!(value, Value::Text(_) | Value::Number(_)) && KEYS.contains(&column.to_ascii_lowercase().as_str())
}

fn hash_of_key(column: ColumnId, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    column.hash(&mut hasher);
    hasher.write(bytes);
    hasher.finish()
}

/// Hashes of the contents of a sample.
#[derive(Default)]
struct Contents {
    pictures: DefaultHasher,
    long: DefaultHasher,
    rest: DefaultHasher,
    has_picture: bool,
    has_long: bool,
    rest_bytes: usize,
}

impl Contents {
    fn add(&mut self, column: &str, value: &Value, bytes: &[u8]) {
        let hasher = match value {
            Value::Absent => return,
            Value::Picture(picture) if !picture.is_mask => {
                self.has_picture = true;
                &mut self.pictures
            }
            Value::Pictures { .. } => {
                self.has_picture = true;
                &mut self.pictures
            }
            Value::Picture(_) | Value::Text(_) | Value::Array(_) | Value::Bytes { .. } | Value::Document(_)
                if bytes.len() >= CONTENTS_BYTES =>
            {
                self.has_long = true;
                &mut self.long
            }
            _ => {
                self.rest_bytes += bytes.len();
                &mut self.rest
            }
        };
        hasher.write(column.as_bytes());
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    }

    /// Returns the hash of the contents, and a short one of the remaining values.
    fn hashes(mut self) -> (Option<u64>, u16) {
        let Self { has_picture, has_long, .. } = self;
        let contents = match (has_picture, has_long) {
            (true, _) => {
                self.rest.write_u64(self.long.finish());
                Some(self.pictures.finish())
            }
            (false, true) => Some(self.long.finish()),
            (false, false) => (self.rest_bytes >= CONTENTS_BYTES).then(|| self.rest.finish()),
        };
        (contents, self.rest.finish() as u16)
    }
}
