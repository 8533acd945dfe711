//! Stored lists, in arrays and in JSON documents.

use super::annotated_size::AnnotatedSize;
use super::array_source::ArraySource;
use super::column::{Columns, unsuitable};
use super::json_path::{JsonPath, parts_of_path};
use crate::decode::json_value::{JsonForm, JsonValue};
use crate::decode::ragged::read_ragged;
use crate::decode::row::Row;
use crate::decode::step::Memory;
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};
use forebay_picture::geometry::Size;

/// Stored form of a list of numbers, or of rows of numbers.
#[derive(Debug)]
pub(super) enum ListSource {
    Array(ArraySource),
    Json(JsonValue),
}

impl ListSource {
    /// Returns the number of the column, and the form in which it stores a list: `form` if it has JSON documents.
    pub(super) fn of(
        columns: Columns<'_>,
        name: &str,
        path: Option<&JsonPath>,
        form: JsonForm,
    ) -> Result<(usize, Self)> {
        let (index, column) = columns.find(name)?;
        let is_json = path.is_some() || matches!(column.encoding, Encoding::Json | Encoding::Str);
        if !is_json {
            let message = "boxes, their labels, key points and lists of classes need a column of arrays, files of \
                           numpy or JSON documents";
            let source = ArraySource::of(column).ok_or_else(|| unsuitable(column, message))?;
            return Ok((index, Self::Array(source)));
        }
        if !matches!(column.encoding, Encoding::Json | Encoding::Str | Encoding::Bytes) {
            let message = "`path` is for a column of JSON documents, text or bytes";
            return Err(unsuitable(column, message));
        }
        Ok((index, Self::Json(JsonValue::new(parts_of_path("boxes and labels", path)?, form)?)))
    }

    /// Reads a stored list: type and elements. Its shape is in the memory.
    pub(super) fn read(&self, bytes: &[u8], memory: &mut Memory) -> Result<(DType, Vec<u8>)> {
        match self {
            Self::Array(source) => {
                let (dtype, values) = source.read(bytes, &mut memory.shape, &mut memory.values)?;
                Ok((dtype, values.to_vec()))
            }
            Self::Json(value) => {
                let found = value.find(bytes)?.ok_or_else(|| Error::decode("the document has no list at this path"))?;
                let mut row = Vec::new();
                value.write(found, &mut Row::Var(&mut row), &mut memory.json)?;
                let (dtype, shape, values) = read_ragged(&row)?;
                memory.shape = shape;
                Ok((dtype, values.to_vec()))
            }
        }
    }

    /// Compares the `size` of the annotated picture, if the list is in a document with one, with the picture's.
    pub(super) fn check_size(&self, size: &AnnotatedSize, document: &[u8], picture: Size) -> Result<()> {
        if matches!(self, Self::Json(_)) { size.check_if_size(document, picture) } else { Ok(()) }
    }
}
