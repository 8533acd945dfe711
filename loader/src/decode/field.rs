//! Operations on pictures and on batches, and arguments of pictures, as the JSON documents of the bindings have them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::augment::{Augment, Composition, Grayscale, RandomErasing};
use super::framing::Framing;
use super::linear::LinearTransformation;
use forebay_picture::{Interpolation, PaddingMode};

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
    /// Replaces a box of every picture by the same box of the picture before it.
    CutMix {
        /// Parameter of the Beta distribution of the box's area.
        #[serde(default = "one")]
        alpha: f64,
        /// Smallest and largest side of the box divided by the picture's, instead of a drawn area.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        minmax: Option<[f64; 2]>,
        /// If true, the labels have the drawn share, not the box's, which a side of the picture may have cut off.
        #[serde(default, skip_serializing_if = "is_false")]
        keeps_share: bool,
    },
}

/// Rows of a batch that are mixed together, and that have the same draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixMode {
    /// Each row with the one before it; all have the same draws, as in torchvision.
    #[default]
    Previous,
    /// Each row with the one as far from the end of the batch as it is from the start, as in timm; all have the same
    /// draws.
    Batch,
    /// As `Batch`, with the same draws for both rows of a pair.
    Pair,
    /// As `Batch`, with separate draws for each row.
    Elem,
    /// As `Elem`, and the batch keeps its first half, the mixed rows, alone.
    Half,
}

impl MixMode {
    /// Returns the number of rows that a mixed batch of `rows` rows keeps.
    pub(crate) fn rows_after(self, rows: usize) -> usize {
        if self == Self::Half { rows.div_ceil(2) } else { rows }
    }
}

pub(super) fn one() -> f64 {
    1.0
}

fn is_false(value: &bool) -> bool {
    !value
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
        /// Filter; for labels always the nearest pixel.
        #[serde(default = "Interpolation::bilinear")]
        interpolation: Interpolation,
        /// Filter of half of the pictures, if they are drawn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alternative: Option<Interpolation>,
    },
    /// Resizes, antialiased.
    Resize {
        /// The short side, or height and width. Without it, `max_size` is the long side.
        #[serde(default)]
        size: Option<ResizeTo>,
        /// Upper bound of the long side: if it would be longer, the short side becomes shorter than `size`.
        #[serde(default)]
        max_size: Option<u32>,
        /// Filter; for labels always the nearest pixel.
        #[serde(default = "Interpolation::bilinear")]
        interpolation: Interpolation,
    },
    /// Resizes to a random size, antialiased.
    RandomResize {
        /// Smallest short side.
        min_size: u32,
        /// Exclusive upper bound of the short side.
        max_size: u32,
        /// Filter; for labels always the nearest pixel.
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
    /// Cuts the crops of `FiveCrop`, and then the crops of the mirrored picture.
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
    /// Adds borders, and cuts a box at a random position, without a resize.
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
    /// Multiplies the picture by a matrix. After `Normalize`, before `RandomErasing`.
    LinearTransformation(LinearTransformation),
    /// Replaces a box of the row. After all remaining operations.
    RandomErasing(RandomErasing),
    /// Changes the size or the frame. In a document it has the name of its operation, as those above.
    #[serde(skip)]
    Framing(Framing),
    /// Changes the pixels. In a document it has the name of its operation, as those above.
    #[serde(skip)]
    Augment(Augment),
    /// Draws which of several operations are applied, some of them on the frame. Compositions of operations on pixels
    /// alone are an `Augment`.
    #[serde(skip)]
    Composed(Composition<Op>),
}

/// Returns all operations of a list, with the operations inside of a composition instead of it.
pub(super) fn leaves(ops: &[Op]) -> Vec<&Op> {
    let mut found = Vec::new();
    for op in ops {
        if let Op::Composed(composed) = op { found.extend(leaves(composed.transforms())) } else { found.push(op) }
    }
    found
}

/// Names of the operations of [`Op`] in documents. The rest are operations on the frame, or augmentations.
const OWN_NAMES: [&str; 13] = [
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
    "linear_transformation",
    "random_erasing",
];

/// Those that are an [`Augment`] as well.
const ON_PIXELS: [&str; 2] = ["grayscale", "random_horizontal_flip"];

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_own = value.get("op").is_none_or(|name| OWN_NAMES.iter().any(|own| name == own));
        let is_framing = value.get("op").and_then(Value::as_str).is_some_and(Framing::is_named);
        let parsed = match (is_own, is_framing) {
            (true, _) => Self::deserialize(value),
            (_, true) => Framing::deserialize(value).map(Self::Framing),
            _ if composes_frames(&value) => Composition::deserialize(value).map(Self::composed),
            _ => Augment::deserialize(value).map(Self::Augment),
        };
        parsed.map_err(D::Error::custom)
    }
}

impl Op {
    /// Makes an operation of a composition. The luma is computed at its position there.
    fn composed(mut composition: Composition<Self>) -> Self {
        for op in composition.transforms_mut() {
            if *op == Self::Grayscale {
                *op = Self::Augment(Augment::Grayscale(Grayscale {}));
            }
        }
        Self::Composed(composition)
    }
}

/// Returns true for a composition with an operation that is not only on pixels.
fn composes_frames(value: &Value) -> bool {
    let name = |value: &Value| value.get("op").and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
    let is_own = |name: &str| OWN_NAMES.contains(&name) && !ON_PIXELS.contains(&name);
    let inner = value.get("transforms").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Composition::<Op>::is_named(&name(value))
        && inner.iter().any(|op| is_own(&name(op)) || Framing::is_named(&name(op)) || composes_frames(op))
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Augment(augment) => augment.serialize(serializer),
            Self::Framing(framing) => framing.serialize(serializer),
            Self::Composed(composed) => composed.serialize(serializer),
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
    fn every_operation_has_one_name_in_documents() {
        let json = r#"[{"op": "pad", "padding": [1, 2, 3, 4]}, {"op": "grayscale"}, {"op": "random_erasing"},
            {"op": "random_crop", "size": [3, 4]}, {"op": "random_horizontal_flip"}, {"op": "color_jitter", "hue": [-0.1, 0.1]},
            {"op": "random_apply", "transforms": [{"op": "random_choice", "transforms": [{"op": "random_horizontal_flip"},
                {"op": "grayscale"}]}], "p": 0.3}, {"op": "aug_mix"}, {"op": "auto_augment", "policy": "svhn"},
            {"op": "random_iou_crop"}, {"op": "random_zoom_out", "fill": [1, 2, 3]}]"#;
        let ops: Vec<Op> = serde_json::from_str(json).unwrap();
        assert_eq!(ops.iter().filter(|op| matches!(op, Op::Augment(_))).count(), 4);
        assert_eq!(ops.iter().filter(|op| matches!(op, Op::Framing(_))).count(), 2);
        let again: Vec<Op> = serde_json::from_str(&serde_json::to_string(&ops).unwrap()).unwrap();
        assert_eq!(again, ops);
        for (json, problem) in [
            (r#"{"op": "random_hue"}"#, "unknown variant `random_hue`"),
            (r#"{"op": "color_jitter", "colour": 1}"#, "unknown field `colour`"),
            (r#"{"op": "resize", "side": 1}"#, "unknown field `side`"),
            (r#"{"op": "scale_jitter", "target_size": [1, 2], "side": 1}"#, "unknown field `side`"),
            (r#"{"size": 1}"#, "missing field `op`"),
        ] {
            let e = serde_json::from_str::<Op>(json).unwrap_err();
            assert!(e.to_string().contains(problem), "{e}");
        }
    }
}
