//! Field specifications: the columns that become outputs, and the operations on them.
//!
//! The types mirror the JSON document of the bindings: `{"kind": "image", "column": "image", "ops": [...]}`.

use serde::{Deserialize, Serialize};

use crate::format::encoding::DType;

/// One output, or several that share random draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldSpec {
    /// A picture: decoded to RGB, transformed, three channels.
    Image {
        /// Name of the column.
        column: String,
        /// Operations in order; `Normalize` last.
        #[serde(default)]
        ops: Vec<Op>,
        /// `uint8`: grey levels. A float type: grey levels / 255, then `Normalize`.
        #[serde(default = "uint8")]
        dtype: DType,
        /// Order of the dimensions.
        #[serde(default)]
        layout: PixelLayout,
        /// If true, a damaged or truncated JPEG is decoded as far as possible. Otherwise it is an error.
        #[serde(default)]
        tolerant: bool,
        /// If true, a JPEG is rotated and mirrored by its EXIF orientation before the operations.
        #[serde(default)]
        apply_exif_orientation: bool,
        /// If true, a JPEG is decoded at a half, a quarter or an eighth of its size when the first resize shrinks it at
        /// least that much in both directions. Faster, but not exact.
        #[serde(default)]
        scaled_decode: bool,
    },
    /// A picture of labels, as for segmentation: stored values unchanged, one channel, nearest neighbour. In a `Joint`
    /// with its picture it gets the same crops and flips.
    Mask {
        /// The column: a PNG of one channel (grey or palette), or `pil` of mode L or P.
        column: String,
        /// Operations in order, without `Normalize`.
        #[serde(default)]
        ops: Vec<Op>,
        /// An integer type that holds 255.
        #[serde(default = "int64")]
        dtype: DType,
    },
    /// A number per sample.
    Scalar {
        /// Name of the column.
        column: String,
        /// Type of the output. Default: the column's.
        #[serde(default)]
        dtype: Option<DType>,
    },
    /// A sequence of token ids of fixed length.
    Tokens {
        /// The column: an `ndarray`, or `bytes` together with `stored`.
        column: String,
        /// Tokens per row.
        length: usize,
        /// Type of the output.
        #[serde(default = "int64")]
        dtype: DType,
        /// Padding at the end of shorter samples; without it a shorter sample is an error.
        #[serde(default)]
        pad: Option<i64>,
        /// Element type of a `bytes` column; an `ndarray` has its own.
        #[serde(default)]
        stored: Option<DType>,
        /// If true, only the first tokens of a longer sample are kept. Otherwise it is an error.
        #[serde(default)]
        truncate: bool,
    },
    /// The number of elements of each sample's array along its first dimension, before any truncation or padding.
    Length {
        /// The column: an `ndarray`, or `bytes`.
        column: String,
        /// Element type of a `bytes` column. Default: bytes are counted.
        #[serde(default)]
        stored: Option<DType>,
    },
    /// An `ndarray`: a tensor per batch when the encoding fixes the shape, else a list of arrays.
    Array {
        /// Name of the column.
        column: String,
        /// Type of the output. Default: the column's.
        #[serde(default)]
        dtype: Option<DType>,
    },
    /// A string per sample.
    Text {
        /// Name of the column.
        column: String,
    },
    /// The stored bytes per sample.
    Bytes {
        /// Name of the column.
        column: String,
    },
    /// A JSON document per sample, delivered as its text.
    Json {
        /// Name of the column.
        column: String,
    },
    /// Fields whose random operations share their draws: a picture and its mask. Each becomes a separate output.
    Joint {
        /// The outputs by name.
        fields: Vec<(String, FieldSpec)>,
    },
}

impl FieldSpec {
    /// Columns that the field reads.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Image { column, .. }
            | Self::Mask { column, .. }
            | Self::Scalar { column, .. }
            | Self::Tokens { column, .. }
            | Self::Length { column, .. }
            | Self::Array { column, .. }
            | Self::Text { column }
            | Self::Bytes { column }
            | Self::Json { column } => vec![column],
            Self::Joint { fields } => fields.iter().flat_map(|(_, field)| field.columns()).collect(),
        }
    }
}

fn uint8() -> DType {
    DType::UInt8
}

fn int64() -> DType {
    DType::Int64
}

/// The order of a picture's dimensions in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PixelLayout {
    /// Batch, channel, row, column: a plane per channel.
    #[default]
    #[serde(rename = "NCHW")]
    Nchw,
    /// Batch, row, column, channel: channels side by side.
    #[serde(rename = "NHWC")]
    Nhwc,
}

/// Argument of `Resize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a size is one number of pixels, or [height, width]")]
pub enum ResizeTo {
    /// The short side; the long side keeps the ratio.
    Short(u32),
    /// Height and width.
    Exact([u32; 2]),
}

/// Operation on a picture. Names, parameters and distributions are torchvision's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Cuts a random box and resizes it.
    RandomResizedCrop {
        /// Height and width of the result.
        size: [u32; 2],
        /// Smallest and largest fraction of the picture's area.
        #[serde(default = "crop_scale")]
        scale: [f64; 2],
        /// Smallest and largest width / height of the box.
        #[serde(default = "crop_ratio")]
        ratio: [f64; 2],
    },
    /// Resizes, antialiased bilinear.
    Resize {
        /// The short side, or height and width.
        size: ResizeTo,
    },
    /// Cuts the middle; black borders where the picture is smaller.
    CenterCrop {
        /// Height and width of the result.
        size: [u32; 2],
    },
    /// Adds black borders.
    Pad {
        /// Left, top, right and bottom, pixels.
        padding: [u32; 4],
    },
    /// Adds black borders, and cuts a box at a random place, without a resize.
    RandomCrop {
        /// Height and width of the result.
        size: [u32; 2],
        /// Left, top, right and bottom, pixels.
        #[serde(default)]
        padding: [u32; 4],
        /// If true, a picture that is too small gets black borders first. Otherwise it is an error.
        #[serde(default)]
        pad_if_needed: bool,
    },
    /// Makes the three channels equal: the luma of ITU-R 601-2, as in Pillow's mode L.
    Grayscale,
    /// Mirrors left to right.
    RandomHorizontalFlip {
        /// The probability.
        #[serde(default = "half")]
        p: f64,
    },
    /// (value - mean) / std per channel, values in 0 to 1.
    Normalize {
        /// Per channel.
        mean: [f32; 3],
        /// Per channel, above 0.
        std: [f32; 3],
    },
}

fn crop_scale() -> [f64; 2] {
    [0.08, 1.0]
}

fn crop_ratio() -> [f64; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

fn half() -> f64 {
    0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_document_of_the_bindings_is_parsed() {
        let json = r#"[["x", {"kind": "image", "column": "image", "ops": [
                {"op": "random_resized_crop", "size": [224, 224]}, {"op": "random_horizontal_flip", "p": 0.5},
                {"op": "resize", "size": 256}, {"op": "resize", "size": [3, 4]}, {"op": "center_crop", "size": [1, 2]},
                {"op": "normalize", "mean": [0.5, 0.5, 0.5], "std": [1, 1, 1]}], "dtype": "float32", "layout": "NHWC"}],
            ["y", {"kind": "scalar", "column": "class", "dtype": "int64"}],
            ["t", {"kind": "tokens", "column": "t", "length": 8}],
            ["j", {"kind": "joint", "fields": [["a", {"kind": "bytes", "column": "a"}]]}]]"#;
        let fields: Vec<(String, FieldSpec)> = serde_json::from_str(json).unwrap();
        let FieldSpec::Image { ops, dtype, layout, .. } = &fields[0].1 else { panic!() };
        assert_eq!((ops.len(), *dtype, *layout), (6, DType::Float32, PixelLayout::Nhwc));
        let crop = Op::RandomResizedCrop { size: [224, 224], scale: [0.08, 1.0], ratio: [0.75, 4.0 / 3.0] };
        assert_eq!(ops[0], crop);
        assert_eq!(ops[3], Op::Resize { size: ResizeTo::Exact([3, 4]) });
        let tokens = FieldSpec::Tokens {
            column: "t".into(),
            length: 8,
            dtype: DType::Int64,
            pad: None,
            stored: None,
            truncate: false,
        };
        assert_eq!(fields[2].1, tokens);
        let again: Vec<(String, FieldSpec)> = serde_json::from_str(&serde_json::to_string(&fields).unwrap()).unwrap();
        assert_eq!(again, fields);
    }

    #[test]
    fn an_unknown_argument_is_rejected_by_name() {
        let e = serde_json::from_str::<FieldSpec>(r#"{"kind": "text", "column": "a", "colour": 1}"#).unwrap_err();
        assert!(e.to_string().contains("colour"), "{e}");
    }
}
