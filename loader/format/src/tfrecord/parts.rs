//! Parts of a record that columns are, and the names of their encodings in an index.

use crate::columns::Column;
use crate::encoding::{ArrayType, DType, Encoding};

/// Column of the records' bytes: the only one where they are no Examples.
pub const RECORD: &str = "record";

/// Name in the index of a list of bytes of any length.
const BYTES_LIST: &str = "bytes_list";

/// Part of a record that a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPart {
    /// The values of a feature.
    Values,
    /// The list of bytes of a feature, as the protocol buffer has it.
    BytesList,
    /// All bytes of the record.
    Whole,
}

/// Stored form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Text,
    Texts,
    Int,
    Ints,
    Float,
    Floats,
}

/// Returns the form of the values of a column with this encoding.
pub(super) fn values_of(encoding: &Encoding, part: RecordPart) -> Values {
    match encoding {
        _ if part == RecordPart::BytesList => Values::Texts,
        Encoding::Int => Values::Int,
        Encoding::Scalar(_) => Values::Float,
        Encoding::Array(kind) if kind.dtype() == Some(DType::Int64) => Values::Ints,
        Encoding::Array(_) => Values::Floats,
        _ => Values::Text,
    }
}

/// Column of the records' bytes.
pub(super) fn record_column() -> (Column, RecordPart) {
    (Column::new(RECORD, Encoding::Bytes), RecordPart::Whole)
}

/// Name of an encoding in the index.
pub(super) fn name_of(encoding: &Encoding, part: RecordPart) -> String {
    let count = |kind: &ArrayType| kind.shape().map_or(String::new(), |shape| shape[0].to_string());
    match encoding {
        _ if part == RecordPart::BytesList => BYTES_LIST.to_owned(),
        _ if part == RecordPart::Whole => RECORD.to_owned(),
        Encoding::Int => "int64".to_owned(),
        Encoding::Scalar(_) => "float".to_owned(),
        Encoding::Array(kind) if kind.dtype() == Some(DType::Int64) => format!("int64[{}]", count(kind)),
        Encoding::Array(kind) => format!("float[{}]", count(kind)),
        Encoding::Str => "str".to_owned(),
        _ => "bytes".to_owned(),
    }
}

/// Returns the encoding of this [`name`](name_of).
pub(super) fn encoding_of(name: &str) -> Option<(Encoding, RecordPart)> {
    let array = |dtype, count: &str| {
        let kind = match count {
            "" => ArrayType::flat(dtype),
            count => ArrayType::fixed(dtype, vec![count.parse().ok()?])?,
        };
        Some((Encoding::Array(kind), RecordPart::Values))
    };
    let encoding = match name {
        "int64" => Encoding::Int,
        "float" => Encoding::Scalar(DType::Float32),
        "str" => Encoding::Str,
        "bytes" => Encoding::Bytes,
        BYTES_LIST => return Some((Encoding::Bytes, RecordPart::BytesList)),
        RECORD => return Some((Encoding::Bytes, RecordPart::Whole)),
        _ => {
            let (kind, count) = name.strip_suffix(']')?.split_once('[')?;
            return match kind {
                "int64" => array(DType::Int64, count),
                "float" => array(DType::Float32, count),
                _ => None,
            };
        }
    };
    Some((encoding, RecordPart::Values))
}
