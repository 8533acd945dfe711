//! Field specifications: the columns that become outputs, and the operations on them.
//!
//! The types mirror the JSON document of the bindings: `{"kind": "image", "column": "image", "ops": [...]}`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::augment::{Augment, RandomErasing};
use super::box_format::BoxFormat;
use crate::format::encoding::DType;
use crate::format::json::PathPart;
use forebay_picture::{Interpolation, PaddingMode};

/// One output, or several that share random draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldSpec {
    /// A picture: decoded, transformed, with the channels of a mode.
    Image {
        /// Name of the column.
        column: String,
        /// Operations in order; `Normalize` last, or before `RandomErasing`.
        #[serde(default)]
        ops: Vec<Op>,
        /// `uint8`: grey levels. A float type: grey levels / 255, then `Normalize`. Mode I;16 has `uint16` or `int32` in place of `uint8`,
        /// and values / 65535.
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
        /// Pictures of each sample with different draws, as a dimension before the others. Default: one, without it.
        #[serde(default)]
        views: Option<u32>,
        /// Channels.
        #[serde(default)]
        mode: PictureMode,
    },
    /// A picture of labels, as for segmentation: stored values unchanged, one channel, nearest neighbour. In a `Joint`
    /// with its picture it gets the same crops and flips.
    Mask {
        /// The column: a PNG of one channel (grey or palette), or `pil` of mode L, P or I;16.
        column: String,
        /// Operations in order, without `Normalize`.
        #[serde(default)]
        ops: Vec<Op>,
        /// An integer type that holds 255. A label above its largest number, of 16 bits, is an error.
        #[serde(default = "int64")]
        dtype: DType,
    },
    /// Boxes around objects of a picture of the same `Joint`, whose operations they follow.
    Boxes {
        /// The column: an array of four numbers per box, or JSON documents.
        column: String,
        /// Path to the list of boxes inside a JSON document. Default: the document.
        #[serde(default)]
        path: Option<JsonPath>,
        /// Meaning of the four numbers, in the column and in the batch.
        #[serde(default)]
        format: BoxFormat,
        /// Name of the picture or mask. Default: the first one of the `Joint`.
        #[serde(default)]
        of: Option<String>,
        /// Smallest width, height and area of a box, pixels; others are left out. Default: all are kept.
        #[serde(default)]
        min_size: Option<f64>,
    },
    /// Values of the boxes of the same `Joint`, without those of boxes that are left out.
    BoxLabels {
        /// The column: an array whose first dimension is that of the boxes, or JSON documents.
        column: String,
        /// Path to a list of numbers inside a JSON document. Default: the document.
        #[serde(default)]
        path: Option<JsonPath>,
        /// Type of the output. Default: the column's, `int64` for JSON.
        #[serde(default)]
        dtype: Option<DType>,
        /// Name of the boxes. Default: the first ones of the `Joint`.
        #[serde(default)]
        of: Option<String>,
    },
    /// A number per sample.
    Scalar {
        /// Name of the column.
        column: String,
        /// Type of the output. Default: the column's.
        #[serde(default)]
        dtype: Option<DType>,
        /// Number of samples without the column; `"nan"`, `"inf"` and `"-inf"` as text. Without it they are errors.
        #[serde(default)]
        default: Option<Value>,
    },
    /// A sequence of token ids of fixed length.
    Tokens {
        /// The column: an `ndarray`, or `bytes` together with `stored`.
        column: String,
        /// Tokens per row. Without it every row is an array of its own length.
        #[serde(default)]
        length: Option<usize>,
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
    /// An `ndarray`, or numpy's file of one (`.npy`): a tensor per batch when the encoding or `shape` fixes the shape, else a
    /// list of arrays.
    Array {
        /// The column; `bytes` are read as files of numpy.
        column: String,
        /// Type of the output. Default: the column's, or the file's.
        #[serde(default)]
        dtype: Option<DType>,
        /// Shape of every array; another one is an error.
        #[serde(default)]
        shape: Option<Vec<usize>>,
        /// Array of samples without the column, as nested lists; one number fills a fixed shape.
        #[serde(default)]
        default: Option<Value>,
    },
    /// A string per sample.
    Text {
        /// Name of the column.
        column: String,
        /// Text of samples without the column. Without it they are errors.
        #[serde(default)]
        default: Option<Value>,
    },
    /// The stored bytes per sample.
    Bytes {
        /// Name of the column.
        column: String,
        /// Bytes of samples without the column, as a list of numbers. Without it they are errors.
        #[serde(default)]
        default: Option<Value>,
    },
    /// A value inside a JSON document per sample.
    Json {
        /// The column: `json`, text or `bytes`.
        column: String,
        /// Path to the value, such as `"meta.boxes[0].label"`, or a list of keys and places in lists. Default: the document.
        #[serde(default)]
        path: Option<JsonPath>,
        /// Type of the value. Default: the whole document as JSON, a value inside it as text.
        #[serde(default)]
        dtype: Option<JsonType>,
        /// Lengths of nested lists of numbers, the outermost first; `null` for those that differ from sample to sample.
        #[serde(default)]
        shape: Option<Vec<Option<usize>>>,
        /// Value of samples without the column or the value. Without it they are errors.
        #[serde(default)]
        default: Option<Value>,
    },
    /// A class as a row of probabilities: 1 for the class, 0 for the others.
    OneHot {
        /// Column with the number of the class, from 0.
        column: String,
        /// Number of classes.
        classes: usize,
        /// A float type.
        #[serde(default = "float32")]
        dtype: DType,
    },
    /// Pictures and their classes that are mixed with others of the batch. Each becomes a separate output.
    Mix {
        /// The outputs by name: an `Image` of a fixed size or more, and `OneHot` fields.
        fields: Vec<(String, FieldSpec)>,
        /// Operations, one of which is drawn for each batch.
        by: Vec<BatchOp>,
        /// Probability that a batch is mixed.
        #[serde(default = "one")]
        p: f64,
    },
    /// Fields whose random operations share their draws: a picture and its mask. Each becomes a separate output.
    Joint {
        /// The outputs by name.
        fields: Vec<(String, FieldSpec)>,
    },
}

impl FieldSpec {
    /// Columns that the field reads; true for those that a sample may lack.
    pub fn columns(&self) -> Vec<(&str, bool)> {
        match self {
            Self::Image { column, .. }
            | Self::Mask { column, .. }
            | Self::Boxes { column, .. }
            | Self::BoxLabels { column, .. }
            | Self::Scalar { column, .. }
            | Self::Tokens { column, .. }
            | Self::Length { column, .. }
            | Self::OneHot { column, .. }
            | Self::Array { column, .. }
            | Self::Text { column, .. }
            | Self::Bytes { column, .. }
            | Self::Json { column, .. } => vec![(column, self.default().is_some())],
            Self::Joint { fields } | Self::Mix { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.columns()).collect()
            }
        }
    }

    /// Value of samples that lack the field's.
    pub(super) fn default(&self) -> Option<&Value> {
        match self {
            Self::Scalar { default, .. }
            | Self::Array { default, .. }
            | Self::Text { default, .. }
            | Self::Bytes { default, .. }
            | Self::Json { default, .. } => default.as_ref(),
            _ => None,
        }
    }
}

/// Path to a value of a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a path is text such as \"meta.boxes[0].label\", or a list of keys and places in lists")]
pub enum JsonPath {
    /// Keys with dots between them, and in brackets places in lists, and keys in double quotes, which may have dots in them.
    Text(String),
    /// Keys, which may have dots in them, and places in lists.
    Parts(Vec<JsonPart>),
}

/// Part of a [`JsonPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a part of a path is a key, or a place in a list from 0")]
pub enum JsonPart {
    /// Place in a list, from 0.
    Place(usize),
    /// Key of an object.
    Key(String),
}

impl JsonPath {
    /// Returns the parts; `None` for text that is no path.
    pub(crate) fn parts(&self) -> Option<Vec<PathPart>> {
        let Self::Text(text) = self else {
            let Self::Parts(parts) = self else { return None };
            let part = |part: &JsonPart| match part {
                JsonPart::Place(place) => PathPart::Place(*place),
                JsonPart::Key(key) => PathPart::Key(key.clone()),
            };
            return Some(parts.iter().map(part).collect());
        };
        if text.is_empty() { None } else { parts_of(text) }
    }
}

/// Returns the parts of a path such as `a.b[0]["key.with.dots"]`.
fn parts_of(text: &str) -> Option<Vec<PathPart>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let part;
        (part, rest) = match rest.strip_prefix('[') {
            Some(quoted) if quoted.starts_with('"') => {
                let mut keys = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
                let key = keys.next()?.ok()?;
                (PathPart::Key(key), quoted[keys.byte_offset()..].strip_prefix(']')?)
            }
            Some(place) => {
                let (place, rest) = place.split_once(']')?;
                (PathPart::Place(place.parse().ok()?), rest)
            }
            None => {
                let key = if parts.is_empty() { rest } else { rest.strip_prefix('.')? };
                let (key, rest) = key.split_at(key.find(['.', '[']).unwrap_or(key.len()));
                (PathPart::Key(Some(key).filter(|key| !key.is_empty())?.to_owned()), rest)
            }
        };
        parts.push(part);
    }
    Some(parts)
}

/// Type of a value of a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "the type of a value of JSON is \"str\", \"json\" or that of a number, such as \"int64\""
)]
pub enum JsonType {
    /// A number, or nested lists of numbers.
    Number(DType),
    /// Anything else.
    Other(JsonText),
}

/// Type of a value of a JSON document that is delivered as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonText {
    /// The text of a string.
    Str,
    /// Any value, as JSON.
    Json,
}

/// Operation on the rows of a batch. Names, parameters and distributions are torchvision's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum BatchOp {
    /// Blends every row with the one before it.
    MixUp {
        /// Parameter of the Beta distribution of the share.
        #[serde(default = "one")]
        alpha: f64,
    },
    /// Replaces a box of every picture by that of the one before it.
    CutMix {
        /// Parameter of the Beta distribution of the box's area.
        #[serde(default = "one")]
        alpha: f64,
    },
}

fn one() -> f64 {
    1.0
}

fn float32() -> DType {
    DType::Float32
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

/// Channels of a picture, by the names of Pillow's modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PictureMode {
    /// Red, green and blue.
    #[default]
    #[serde(rename = "RGB")]
    Rgb,
    /// The luma.
    #[serde(rename = "L")]
    Grey,
    /// Red, green, blue and the opacity, which is 255 where a file has none.
    #[serde(rename = "RGBA")]
    Opacity,
    /// Values of 16 bits, one channel.
    #[serde(rename = "I;16")]
    Deep,
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
#[serde(remote = "Self", tag = "op", rename_all = "snake_case", deny_unknown_fields)]
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
        /// Filter; that of labels is always the nearest pixel.
        #[serde(default = "Interpolation::bilinear")]
        interpolation: Interpolation,
    },
    /// Resizes, antialiased.
    Resize {
        /// The short side, or height and width. Without it, `max_size` is the long side.
        #[serde(default)]
        size: Option<ResizeTo>,
        /// Upper bound of the long side: if it would be longer, the short side becomes shorter than `size`.
        #[serde(default)]
        max_size: Option<u32>,
        /// Filter; that of labels is always the nearest pixel.
        #[serde(default = "Interpolation::bilinear")]
        interpolation: Interpolation,
    },
    /// Resizes to a random size, antialiased.
    RandomResize {
        /// Smallest short side.
        min_size: u32,
        /// Exclusive upper bound of the short side.
        max_size: u32,
        /// Filter; that of labels is always the nearest pixel.
        #[serde(default = "Interpolation::bilinear")]
        interpolation: Interpolation,
    },
    /// Cuts the middle; black borders where the picture is smaller.
    CenterCrop {
        /// Height and width of the result.
        size: [u32; 2],
    },
    /// Cuts the four corners and the middle. Each crop is a view of the field, and all have the same draws.
    FiveCrop {
        /// Height and width of a crop.
        size: [u32; 2],
        /// Number of the crop: top left, top right, bottom left, bottom right, middle.
        #[serde(skip)]
        view: u32,
    },
    /// Cuts the crops of `FiveCrop`, and then those of the mirrored picture.
    TenCrop {
        /// Height and width of a crop.
        size: [u32; 2],
        /// Number of the crop. From 5 on it is a crop of the mirrored picture.
        #[serde(skip)]
        view: u32,
    },
    /// Adds borders.
    Pad {
        /// Left, top, right and bottom, pixels.
        padding: [u32; 4],
        /// Colour.
        #[serde(default)]
        fill: [u8; 3],
        /// Kind of the borders; `fill` is for constant ones.
        #[serde(default)]
        padding_mode: PaddingMode,
    },
    /// Adds borders, and cuts a box at a random place, without a resize.
    RandomCrop {
        /// Height and width of the result.
        size: [u32; 2],
        /// Left, top, right and bottom, pixels.
        #[serde(default)]
        padding: [u32; 4],
        /// If true, a picture that is too small gets larger borders. Otherwise it is an error.
        #[serde(default)]
        pad_if_needed: bool,
        /// Colour.
        #[serde(default)]
        fill: [u8; 3],
        /// Kind of the borders; `fill` is for constant ones.
        #[serde(default)]
        padding_mode: PaddingMode,
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
        mean: Vec<f32>,
        /// Per channel, above 0.
        std: Vec<f32>,
    },
    /// Replaces a box of the row. After all others.
    RandomErasing(RandomErasing),
    /// Changes the pixels. In a document it has the name of its operation, as those above.
    #[serde(skip)]
    Augment(Augment),
}

/// Names of the operations of [`Op`] in documents. All others are augmentations.
const OWN_NAMES: [&str; 12] = [
    "random_resized_crop",
    "resize",
    "random_resize",
    "center_crop",
    "five_crop",
    "ten_crop",
    "pad",
    "random_crop",
    "grayscale",
    "random_horizontal_flip",
    "normalize",
    "random_erasing",
];

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_own = value.get("op").is_none_or(|name| OWN_NAMES.iter().any(|own| name == own));
        let parsed = if is_own { Self::deserialize(value) } else { Augment::deserialize(value).map(Self::Augment) };
        parsed.map_err(D::Error::custom)
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Augment(augment) => augment.serialize(serializer),
            own => Self::serialize(own, serializer),
        }
    }
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
                {"op": "resize", "size": 256}, {"op": "resize", "size": [3, 4], "interpolation": "bicubic"}, {"op": "center_crop", "size": [1, 2]},
                {"op": "normalize", "mean": [0.5, 0.5, 0.5], "std": [1, 1, 1]}], "dtype": "float32", "layout": "NHWC"}],
            ["y", {"kind": "scalar", "column": "class", "dtype": "int64"}],
            ["t", {"kind": "tokens", "column": "t", "length": 8}],
            ["j", {"kind": "joint", "fields": [["a", {"kind": "bytes", "column": "a"}]]}]]"#;
        let fields: Vec<(String, FieldSpec)> = serde_json::from_str(json).unwrap();
        let FieldSpec::Image { ops, dtype, layout, .. } = &fields[0].1 else { panic!() };
        assert_eq!((ops.len(), *dtype, *layout), (6, DType::Float32, PixelLayout::Nhwc));
        let crop = Op::RandomResizedCrop {
            size: [224, 224],
            scale: [0.08, 1.0],
            ratio: [0.75, 4.0 / 3.0],
            interpolation: Interpolation::Bilinear,
        };
        assert_eq!(ops[0], crop);
        let resize =
            Op::Resize { size: Some(ResizeTo::Exact([3, 4])), max_size: None, interpolation: Interpolation::Bicubic };
        assert_eq!(ops[3], resize);
        let tokens = FieldSpec::Tokens {
            column: "t".into(),
            length: Some(8),
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
    fn every_operation_has_one_name_in_documents() {
        let json = r#"[{"op": "pad", "padding": [1, 2, 3, 4]}, {"op": "grayscale"}, {"op": "random_erasing"},
            {"op": "random_crop", "size": [3, 4]}, {"op": "random_horizontal_flip"}, {"op": "color_jitter", "hue": [-0.1, 0.1]},
            {"op": "random_apply", "transforms": [{"op": "random_choice", "transforms": [{"op": "random_horizontal_flip"},
                {"op": "grayscale"}]}], "p": 0.3}, {"op": "aug_mix"}, {"op": "auto_augment", "policy": "svhn"}]"#;
        let ops: Vec<Op> = serde_json::from_str(json).unwrap();
        assert_eq!(ops.iter().filter(|op| matches!(op, Op::Augment(_))).count(), 4);
        let again: Vec<Op> = serde_json::from_str(&serde_json::to_string(&ops).unwrap()).unwrap();
        assert_eq!(again, ops);
        for (json, problem) in [
            (r#"{"op": "random_hue"}"#, "unknown variant `random_hue`"),
            (r#"{"op": "color_jitter", "colour": 1}"#, "unknown field `colour`"),
            (r#"{"op": "resize", "side": 1}"#, "unknown field `side`"),
            (r#"{"size": 1}"#, "missing field `op`"),
        ] {
            let e = serde_json::from_str::<Op>(json).unwrap_err();
            assert!(e.to_string().contains(problem), "{e}");
        }
    }

    #[test]
    fn a_path_is_keys_and_places() {
        let (key, place) = (|key: &str| PathPart::Key(key.to_owned()), PathPart::Place);
        for (json, parts) in [
            (r#""caption""#, Some(vec![key("caption")])),
            (r#""meta.boxes[0][1].label""#, Some(vec![key("meta"), key("boxes"), place(0), place(1), key("label")])),
            (r#""[2].0""#, Some(vec![place(2), key("0")])),
            (r#"["a.b", 0, "c[1]"]"#, Some(vec![key("a.b"), place(0), key("c[1]")])),
            (r#""""#, None),
            (r#""a..b""#, None),
            (r#""a.[0]""#, None),
            (r#""a[0""#, None),
            (r#""a[-1]""#, None),
            (r#""a[0]b""#, None),
        ] {
            assert_eq!(serde_json::from_str::<JsonPath>(json).unwrap().parts(), parts, "{json}");
        }
    }

    #[test]
    fn an_unknown_argument_is_rejected_by_name() {
        let e = serde_json::from_str::<FieldSpec>(r#"{"kind": "text", "column": "a", "colour": 1}"#).unwrap_err();
        assert!(e.to_string().contains("colour"), "{e}");
    }
}
