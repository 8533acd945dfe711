//! Encodings of leaves, by the names of LitData's serialisers.

use crate::encoding::{ArrayType, DType, Encoding};

/// Types of tensors by their number in LitData, which has torch's aliases, too; `None` for complex numbers.
const TENSOR_TYPES: [Option<DType>; 21] = [
    Some(DType::Float32),
    Some(DType::Float32),
    Some(DType::Float64),
    Some(DType::Float64),
    None,
    None,
    None,
    None,
    Some(DType::Float16),
    Some(DType::Float16),
    Some(DType::BFloat16),
    Some(DType::UInt8),
    Some(DType::Int8),
    Some(DType::Int16),
    Some(DType::Int16),
    Some(DType::Int32),
    Some(DType::Int32),
    Some(DType::Int64),
    Some(DType::Int64),
    // A bool is a byte.
    Some(DType::UInt8),
    Some(DType::UInt16),
];

/// Types of numpy's arrays by their number in LitData, up to bool; those between are complex.
const ARRAY_TYPES: [Option<DType>; 14] = [
    Some(DType::Int8),
    Some(DType::Int16),
    Some(DType::Int32),
    Some(DType::Int64),
    Some(DType::UInt8),
    Some(DType::UInt16),
    Some(DType::UInt32),
    Some(DType::UInt64),
    Some(DType::Float16),
    Some(DType::Float32),
    Some(DType::Float64),
    None,
    None,
    Some(DType::UInt8),
];

/// Serialiser of lists and dictionaries that are one leaf.
pub(super) const JSON: &str = "json";

/// Returns the encoding of the leaves that `serializer` writes. Leaves of unknown serialisers, and of types that have
/// no counterpart, can be read as bytes.
pub(super) fn encoding_of(serializer: &str) -> Encoding {
    let (kind, more) = serializer.split_once(':').unwrap_or((serializer, ""));
    let custom = || Encoding::Custom(serializer.to_owned());
    let flat = |types: &[Option<DType>]| {
        let number = more.parse().ok().filter(|number: &usize| number.to_string() == more);
        number.and_then(|number| types.get(number).copied().flatten())
    };
    match kind {
        "str" | "text" => Encoding::Str,
        "int" => Encoding::Int,
        "float" => Encoding::Scalar(DType::Float64),
        "bool" => Encoding::Scalar(DType::UInt8),
        "jpeg" => Encoding::Jpeg,
        "jpeg_array" => Encoding::JpegArray(crate::encoding::JpegArrayName::Underscore),
        "png" => Encoding::Png,
        "pil" => Encoding::Pil,
        "tensor" => Encoding::Array(ArrayType::with_types(&TENSOR_TYPES, true)),
        "numpy" => Encoding::Array(ArrayType::with_types(&ARRAY_TYPES, false)),
        "no_header_tensor" => flat(&TENSOR_TYPES).map_or_else(custom, |dtype| Encoding::Array(ArrayType::flat(dtype))),
        "no_header_numpy" => flat(&ARRAY_TYPES).map_or_else(custom, |dtype| Encoding::Array(ArrayType::flat(dtype))),
        // Pictures are in the format of the first sample or in a different one: their own headers decide.
        "bytes" | "file" | "image" | "tif" | "tiff" | "tifffile" | "video" | "audio" | "nifti" | "mesh" | "pdf" => {
            Encoding::Bytes
        }
        JSON => Encoding::Json,
        // A graph has a pickle in it.
        "pickle" | "graph" => Encoding::Pickle,
        _ => custom(),
    }
}
