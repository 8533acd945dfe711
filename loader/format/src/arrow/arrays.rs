//! Parts of Arrow's arrays: values of a dictionary, bytes of numbers, decimals as text.

use super::columns::value_type;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use forebay_core::error::{Error, Result};

/// Returns the values of a dictionary that `keys` name.
pub(super) fn flat(values: &ArrayRef, keys: &dyn Array) -> Result<ArrayRef> {
    arrow_select::take::take(values, keys, None).map_err(|e| Error::format("a dictionary is damaged").caused_by(e))
}

/// Returns the bytes of all numbers of `array`, each of `width` bytes.
pub(super) fn number_bytes(array: &ArrayRef, width: usize) -> Buffer {
    let data = array.to_data();
    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
}

/// Returns a decimal number as text.
pub(super) fn decimal(array: &ArrayRef, row: usize) -> Option<String> {
    Some(match value_type(array.data_type()) {
        DataType::Decimal32(..) => array.as_primitive_opt::<Decimal32Type>()?.value_as_string(row),
        DataType::Decimal64(..) => array.as_primitive_opt::<Decimal64Type>()?.value_as_string(row),
        DataType::Decimal128(..) => array.as_primitive_opt::<Decimal128Type>()?.value_as_string(row),
        DataType::Decimal256(..) => array.as_primitive_opt::<Decimal256Type>()?.value_as_string(row),
        _ => return None,
    })
}
