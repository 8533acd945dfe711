//! Values of a column of a table, row by row.

use super::arrays::{decimal, number_bytes};
use super::columns::{Partition, TableColumn, element, is_decimal, number};
use super::json::write_json;
use super::lists::Lists;
use crate::encoding::{Encoding, Value};
use arrow_array::array::AnyDictionaryArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteArrayType, ByteViewType, GenericBinaryType, GenericStringType, StringViewType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray, RecordBatch,
};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use forebay_core::error::{Error, Result};

/// Values of a column in a batch of rows.
pub struct Values {
    /// The values, and the structs that they are in.
    nullable: Vec<ArrayRef>,
    /// Dictionary of the values of `kind`, which may be much smaller than the rows.
    dictionary: Option<Dictionary>,
    kind: ArrowKind,
}

struct Dictionary {
    /// Index of the value of each row.
    keys: Vec<usize>,
    /// The values, if some are null.
    nullable: Option<ArrayRef>,
}

enum ArrowKind {
    Bytes(Bytes),
    /// Little-endian numbers.
    Numbers {
        bytes: Buffer,
        width: usize,
    },
    Truths(BooleanArray),
    Lists(Lists),
    Decimals(ArrayRef),
    Documents(ArrayRef),
    BytesLists(ArrayRef),
    /// One value for all rows; `None`: null.
    Constant(Partition),
}

enum Bytes {
    Text(GenericByteArray<GenericStringType<i32>>),
    LargeText(GenericByteArray<GenericStringType<i64>>),
    TextView(GenericByteViewArray<StringViewType>),
    Binary(GenericByteArray<GenericBinaryType<i32>>),
    LargeBinary(GenericByteArray<GenericBinaryType<i64>>),
    BinaryView(GenericByteViewArray<BinaryViewType>),
    Fixed(FixedSizeBinaryArray),
}

impl Values {
    /// Returns the values of `column` in `batch`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a batch that is not of the table that this column belongs to.
    pub fn new(batch: &RecordBatch, column: &TableColumn) -> Result<Self> {
        if let Some(value) = &column.partition {
            return Ok(Self { nullable: Vec::new(), dictionary: None, kind: ArrowKind::Constant(value.clone()) });
        }
        let other =
            || Error::format("the rows are not from the table that the index declares").with("column", &column.name);
        let mut nullable: Vec<ArrayRef> = Vec::new();
        for name in &column.path {
            let found = match nullable.last() {
                None => batch.column_by_name(name),
                Some(parent) => parent.as_struct_opt().and_then(|parent| parent.column_by_name(name)),
            };
            nullable.push(found.ok_or_else(other)?.clone());
        }
        let array = nullable.last().ok_or_else(other)?;
        let (array, dictionary) = match array.as_any_dictionary_opt() {
            Some(found) => (found.values().clone(), Some(Dictionary::of(found))),
            None => (array.clone(), None),
        };
        let kind = ArrowKind::of(&array, &column.encoding).ok_or_else(other)?;
        nullable.retain(|array| array.null_count() > 0 || *array.data_type() == DataType::Null);
        Ok(Self { nullable, dictionary, kind })
    }

    /// Returns true if `row` has no value.
    pub fn is_null(&self, row: usize) -> bool {
        self.nullable.iter().any(|array| array.is_null(row))
            || self.dictionary.as_ref().is_some_and(|dictionary| dictionary.has_null(row))
            || matches!(self.kind, ArrowKind::Constant(None))
    }

    /// Appends the value of `row` to `out`, in the column's encoding.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a null.
    pub fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            return Err(Error::format("a value is null: give the field a `default`, if it takes one"));
        }
        let row = self.dictionary.as_ref().map_or(row, |dictionary| dictionary.keys[row]);
        match &self.kind {
            ArrowKind::Bytes(bytes) => out.extend_from_slice(bytes.value(row)),
            ArrowKind::Numbers { bytes, width } => out.extend_from_slice(&bytes[row * width..][..*width]),
            ArrowKind::Truths(truths) => out.push(truths.value(row).into()),
            ArrowKind::Lists(lists) => lists.append(row, out)?,
            ArrowKind::Decimals(array) => out.extend_from_slice(decimal(array, row).unwrap_or_default().as_bytes()),
            ArrowKind::Documents(array) => write_json(array, row, out)?,
            ArrowKind::BytesLists(array) => append_list_of_bytes(array, row, out)?,
            ArrowKind::Constant(value) => out.extend_from_slice(value.as_deref().unwrap_or_default()),
        }
        Ok(())
    }
}

impl Dictionary {
    fn of(found: &dyn AnyDictionaryArray) -> Self {
        let values = found.values();
        // Without values all keys are null.
        let keys = if values.is_empty() { vec![0; found.len()] } else { found.normalized_keys() };
        Self { keys, nullable: (values.null_count() > 0).then(|| values.clone()) }
    }

    /// Returns true if the value of `row`, which has a key, is null.
    fn has_null(&self, row: usize) -> bool {
        self.nullable.as_ref().is_some_and(|values| values.is_null(self.keys[row]))
    }
}

impl ArrowKind {
    /// Returns the values of `array` for `encoding`; `None` if the column was of a different type.
    fn of(array: &ArrayRef, encoding: &Encoding) -> Option<Self> {
        let kind = array.data_type();
        if let Some(bytes) = Bytes::of(array) {
            return matches!(encoding, Encoding::Str | Encoding::Bytes).then_some(Self::Bytes(bytes));
        }
        if let Some(truths) = array.as_boolean_opt() {
            return (*encoding == Encoding::Scalar(number(kind)?)).then(|| Self::Truths(truths.clone()));
        }
        if let Some(dtype) = number(kind) {
            let of_type = *encoding == Encoding::Scalar(dtype);
            return of_type.then(|| Self::Numbers { bytes: number_bytes(array, dtype.size()), width: dtype.size() });
        }
        if is_decimal(kind) {
            return (*encoding == Encoding::StrDecimal).then(|| Self::Decimals(array.clone()));
        }
        match encoding {
            Encoding::Array(kind) if element(array.data_type()).is_some() => Lists::new(array, kind).map(Self::Lists),
            Encoding::Json => Some(Self::Documents(array.clone())),
            Encoding::BytesList if element(array.data_type()).is_some() => Some(Self::BytesLists(array.clone())),
            _ => None,
        }
    }
}

/// Appends a list of bytes, or of the bytes of pictures. A null is an element without bytes.
fn append_list_of_bytes(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let items = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        _ => array.as_fixed_size_list().value(row),
    };
    let no_bytes = || Error::format("the elements of a list are not bytes");
    let inner = match items.as_struct_opt() {
        Some(pictures) => pictures.column_by_name("bytes").ok_or_else(no_bytes)?,
        None => &items,
    };
    let bytes = Bytes::of(inner).ok_or_else(no_bytes)?;
    // The bytes at a null may belong to a different element.
    let value = |item| if items.is_null(item) || inner.is_null(item) { &[][..] } else { bytes.value(item) };
    let list = (0..items.len()).map(|item| Value::Bytes(value(item).into())).collect();
    Encoding::BytesList.encode(&Value::List(list), out)
}

impl Bytes {
    fn of(array: &ArrayRef) -> Option<Self> {
        fn bytes<T: ByteArrayType>(array: &ArrayRef) -> Option<GenericByteArray<T>> {
            array.as_bytes_opt::<T>().cloned()
        }
        fn views<T: ByteViewType>(array: &ArrayRef) -> Option<GenericByteViewArray<T>> {
            array.as_byte_view_opt::<T>().cloned()
        }
        match array.data_type() {
            DataType::Utf8 => bytes(array).map(Self::Text),
            DataType::LargeUtf8 => bytes(array).map(Self::LargeText),
            DataType::Utf8View => views(array).map(Self::TextView),
            DataType::Binary => bytes(array).map(Self::Binary),
            DataType::LargeBinary => bytes(array).map(Self::LargeBinary),
            DataType::BinaryView => views(array).map(Self::BinaryView),
            DataType::FixedSizeBinary(_) => array.as_fixed_size_binary_opt().cloned().map(Self::Fixed),
            _ => None,
        }
    }

    fn value(&self, row: usize) -> &[u8] {
        match self {
            Self::Text(array) => array.value(row).as_bytes(),
            Self::LargeText(array) => array.value(row).as_bytes(),
            Self::TextView(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::LargeBinary(array) => array.value(row),
            Self::BinaryView(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
        }
    }
}
