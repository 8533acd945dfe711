//! Lists of numbers as arrays: one axis for each level of lists.

use super::arrays::number_bytes;
use super::columns::{element, number};
use super::json::write_json;
use crate::encoding::{ArrayType, DOCUMENT, write_shape};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::DataType;
use forebay_core::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// Lists of numbers.
pub(super) struct Lists {
    /// The outermost lists.
    array: ArrayRef,
    levels: Vec<Level>,
    /// The numbers, if some are null.
    nullable: Option<ArrayRef>,
    /// Bytes of all numbers.
    bytes: Buffer,
    width: usize,
    /// True if the column's encoding has the shape.
    is_shaped: bool,
}

/// Lists with elements that are adjacent in the level below, or in the numbers.
struct Level {
    ends: Ends,
    /// The lists, if some are null.
    nullable: Option<ArrayRef>,
}

enum Ends {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

impl Lists {
    /// Returns the lists of `array`; `None` if they are not of numbers of the type `kind`.
    pub(super) fn new(array: &ArrayRef, kind: &ArrayType) -> Option<Self> {
        let lists = array.clone();
        let (mut levels, mut array) = (Vec::new(), array.clone());
        while element(array.data_type()).is_some() {
            let (ends, inner) = match array.data_type() {
                DataType::List(_) => {
                    let list = array.as_list_opt::<i32>()?;
                    (Ends::Small(list.offsets().clone()), list.values().clone())
                }
                DataType::LargeList(_) => {
                    let list = array.as_list_opt::<i64>()?;
                    (Ends::Large(list.offsets().clone()), list.values().clone())
                }
                _ => {
                    let list = array.as_fixed_size_list_opt()?;
                    (Ends::Fixed(usize::try_from(list.value_length()).ok()?), list.values().clone())
                }
            };
            levels.push(Level { ends, nullable: nullable(&array) });
            array = inner;
        }
        let dtype = number(array.data_type()).filter(|dtype| kind.dtype() == Some(*dtype))?;
        let bytes = match array.as_boolean_opt() {
            Some(truths) => Buffer::from_iter(truths.values().iter().map(u8::from)),
            None => number_bytes(&array, dtype.size()),
        };
        let is_shaped = kind.shape().is_some();
        Some(Self { array: lists, levels, nullable: nullable(&array), bytes, width: dtype.size(), is_shaped })
    }

    /// Appends the list of `row`, with its shape if the encoding does not have it. Lists that are no array are a
    /// document, if the encoding does not have the shape: fields of arrays refuse the one sample, and no further rows.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a null in an array with a shape.
    pub(super) fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        match self.append_array(row, out) {
            Err(e) if e.kind() == ErrorKind::Format && !self.is_shaped => {
                out.truncate(start);
                out.push(DOCUMENT);
                write_json(&self.array, row, out)
            }
            appended => appended,
        }
    }

    fn append_array(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut range = row..row + 1;
        let mut shape = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            check_nulls(level.nullable.as_ref(), &range)?;
            let (len, inner) = level.ends.elements(&range)?;
            shape.push(len);
            range = inner;
        }
        check_nulls(self.nullable.as_ref(), &range)?;
        let bytes = range.start.checked_mul(self.width).zip(range.end.checked_mul(self.width));
        let bytes = bytes.and_then(|(start, end)| self.bytes.get(start..end)).ok_or_else(damaged)?;
        if !self.is_shaped {
            write_shape(&shape, out);
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

impl Ends {
    /// Returns the length of each of the lists `lists`, and the range of their elements.
    fn elements(&self, lists: &Range<usize>) -> Result<(usize, Range<usize>)> {
        let (start, end) = (self.end(lists.start)?, self.end(lists.end)?);
        let len = if lists.is_empty() { 0 } else { self.end(lists.start + 1)?.saturating_sub(start) };
        let mut ends = (lists.start..=lists.end).map(|at| self.end(at));
        let is_regular =
            ends.try_fold(start, |expected, end| (end? == expected).then_some(expected + len).ok_or_else(ragged));
        is_regular?;
        Ok((len, start..end))
    }

    /// Returns the index of the first element of list `list`.
    fn end(&self, list: usize) -> Result<usize> {
        let end = match self {
            Self::Small(ends) => ends.get(list).and_then(|end| usize::try_from(*end).ok()),
            Self::Large(ends) => ends.get(list).and_then(|end| usize::try_from(*end).ok()),
            Self::Fixed(len) => list.checked_mul(*len),
        };
        end.ok_or_else(damaged)
    }
}

fn nullable(array: &ArrayRef) -> Option<ArrayRef> {
    (array.null_count() > 0).then(|| array.clone())
}

fn check_nulls(array: Option<&ArrayRef>, range: &Range<usize>) -> Result<()> {
    let Some(array) = array else { return Ok(()) };
    if range.clone().any(|row| array.is_null(row)) {
        return Err(Error::format("a value or an element of its list is null"));
    }
    Ok(())
}

fn ragged() -> Error {
    Error::format("the lists inside a list have different lengths")
}

fn damaged() -> Error {
    Error::format("a list is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Encoding, Value};
    use arrow_array::ListArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn lists_that_are_no_array_are_a_document_in_their_row_alone() {
        let numbers = [[Some(1), Some(2)].to_vec(), vec![Some(3)], vec![Some(4)], vec![Some(5)], vec![None]];
        let inner = ListArray::from_iter_primitive::<Int64Type, _, _>(numbers.into_iter().map(Some));
        let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([2, 2, 1, 0]);
        let array: ArrayRef = Arc::new(ListArray::new(field, offsets, Arc::new(inner), None));
        let encoding = Encoding::parse("ndarray:int64").unwrap();
        let Encoding::Array(kind) = &encoding else { panic!("{encoding}") };
        let lists = Lists::new(&array, kind).unwrap();
        let stored = |row| {
            let mut out = b"before".to_vec();
            lists.append(row, &mut out).unwrap();
            out.split_off(6)
        };
        for (row, document) in [(0, "[[1, 2], [3]]"), (2, "[[null]]")] {
            let stored = stored(row);
            assert_eq!(encoding.decode(&stored).unwrap(), Value::Json(document.into()));
            let e = kind.read(&stored, &mut Vec::new()).unwrap_err();
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains("Text or Json"), "{e}");
        }
        for (row, shape) in [(1, [2, 1]), (3, [0, 0])] {
            let stored = stored(row);
            let Value::Array(found) = encoding.decode(&stored).unwrap() else { panic!("row {row}") };
            assert_eq!(found.shape, shape);
        }
    }
}
