//! Nested values as JSON documents, as Python's `json` writes the values of `to_pylist`.

use super::arrays::{decimal, flat};
use super::columns::{is_decimal, is_text, number, value_type};
use crate::encoding::DType;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use forebay_core::error::{Error, Result};
use std::io::Write as _;

/// Deepest nesting.
const DEPTH_MAX: usize = 64;

/// Appends the value of `row` as a document.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for values that a document cannot have.
pub(super) fn write_json(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
    write(array, row, out, DEPTH_MAX)
}

fn write(array: &ArrayRef, row: usize, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    let depth =
        depth.checked_sub(1).ok_or_else(|| Error::format(format!("a value has more than {DEPTH_MAX} levels")))?;
    if array.is_null(row) || *array.data_type() == DataType::Null {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return write(&flat(dictionary.values(), &dictionary.keys().slice(row, 1))?, 0, out, depth);
    }
    let kind = array.data_type();
    if is_text(kind) {
        return write_text(text(array, row).unwrap_or_default(), out);
    }
    if let Some(truths) = array.as_boolean_opt() {
        out.extend_from_slice(if truths.value(row) { b"true" } else { b"false" });
        return Ok(());
    }
    if let Some(dtype) = number(kind) {
        return write_number(array, dtype, row, out);
    }
    if is_decimal(kind) {
        return write_text(&decimal(array, row).unwrap_or_default(), out);
    }
    match kind {
        DataType::List(_) => write_list(&array.as_list::<i32>().value(row), out, depth),
        DataType::LargeList(_) => write_list(&array.as_list::<i64>().value(row), out, depth),
        DataType::FixedSizeList(..) => write_list(&array.as_fixed_size_list().value(row), out, depth),
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| field.name().as_str()).zip(array.as_struct().columns());
            write_object(columns.map(|(name, column)| (name, column, row)), out, depth)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let entries = (0..entries.len()).map(|at| (text(keys, at).unwrap_or_default(), values, at));
            write_object(entries, out, depth)
        }
        kind => Err(Error::format(format!("a value of the type {kind} has no JSON form"))),
    }
}

fn write_list(items: &ArrayRef, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    out.push(b'[');
    for item in 0..items.len() {
        if item > 0 {
            out.extend_from_slice(b", ");
        }
        write(items, item, out, depth)?;
    }
    out.push(b']');
    Ok(())
}

fn write_object<'a>(
    entries: impl Iterator<Item = (&'a str, &'a ArrayRef, usize)>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<()> {
    out.push(b'{');
    for (number, (name, values, row)) in entries.enumerate() {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        write_text(name, out)?;
        out.extend_from_slice(b": ");
        write(values, row, out, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    match value_type(array.data_type()) {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|array| array.value(row)),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|array| array.value(row)),
        DataType::Utf8View => array.as_string_view_opt().map(|array| array.value(row)),
        _ => None,
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text).map_err(|e| Error::internal("a text has no JSON form").caused_by(e))
}

fn write_number(array: &ArrayRef, dtype: DType, row: usize, out: &mut Vec<u8>) -> Result<()> {
    fn value<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> Result<T::Native> {
        let array = array.as_primitive_opt::<T>();
        array.map(|array| array.value(row)).ok_or_else(|| Error::internal("a number of a different type"))
    }
    let float = match dtype {
        DType::UInt8 => return put(value::<UInt8Type>(array, row)?, out),
        DType::UInt16 => return put(value::<UInt16Type>(array, row)?, out),
        DType::UInt32 => return put(value::<UInt32Type>(array, row)?, out),
        DType::UInt64 => return put(value::<UInt64Type>(array, row)?, out),
        DType::Int8 => return put(value::<Int8Type>(array, row)?, out),
        DType::Int16 => return put(value::<Int16Type>(array, row)?, out),
        // Points in time as well.
        DType::Int32 | DType::Int64 => return put(whole_number(array, dtype, row)?, out),
        DType::Float16 => f64::from(value::<Float16Type>(array, row)?),
        DType::Float32 => f64::from(value::<Float32Type>(array, row)?),
        _ => value::<Float64Type>(array, row)?,
    };
    out.extend_from_slice(crate::json::python_float(float, crate::json::JSON_WORDS).as_bytes());
    Ok(())
}

/// Returns an integer of 32 or 64 bits.
fn whole_number(array: &ArrayRef, dtype: DType, row: usize) -> Result<i64> {
    let data = array.to_data();
    let width = dtype.size();
    let bytes = data.buffers()[0].get((data.offset() + row) * width..).and_then(|bytes| bytes.get(..width));
    let bytes = bytes.ok_or_else(|| Error::format("a number is damaged"))?;
    let sign = if bytes[width - 1] & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [sign; 8];
    wide[..width].copy_from_slice(bytes);
    Ok(i64::from_le_bytes(wide))
}

fn put(number: impl std::fmt::Display, out: &mut Vec<u8>) -> Result<()> {
    write!(out, "{number}").map_err(|e| Error::internal("a number has no JSON form").caused_by(e))
}
