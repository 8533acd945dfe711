//! Kinds of fields. A kind has a file: its arguments as the JSON document of the bindings has them (`{"kind": "image",
//! "column": "image", "ops": [...]}`), how they are checked and compiled for the columns of a data set, the decoder of
//! a sample's value, and the row of samples without it.
//!
//! ```text
//! kind      FieldKind: arguments --compile--> Compiled: column, decoder, type and shape of the rows
//! image, mask                picture (ops, views): work of `decode::image`
//! boxes                      boxes and their labels, which follow a picture of their Joint (followed)
//! key_points                 points of objects, which follow it as well
//! object_masks, class_map    masks by polygons and run lengths, which follow it as well
//! scalar, one_hot            number_source
//! multi_hot                  list_source
//! tokens, length, array      array_source
//! chat                       the crate forebay-text; labels as of masked tokens
//! tokenize                   the crate forebay-text; rows as of tokens (token_row, fill_in_middle,
//!                            masked_tokens)
//! json                       json_path, `decode::json_value`
//! text, bytes                copied
//! ```
//!
//! To add a kind, add its file with implementations of `FieldKind` and of `step::Decode`, and its lines here. No
//! further file names the kinds; a field of a Joint has a `ScenePart`.

mod annotated_size;
mod array;
mod array_source;
mod boxes;
mod bytes;
mod chat;
mod class_map;
mod column;
mod fill_in_middle;
mod followed;
mod image;
mod json;
mod json_path;
mod key_points;
mod kind;
mod length;
mod list_source;
mod mask;
mod masked_tokens;
mod multi_hot;
mod number_source;
mod object_masks;
mod one_hot;
mod ops;
mod picture;
mod scalar;
mod text;
mod token_changes;
mod token_row;
mod tokenize;
mod tokens;
mod views;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compose::ComposeOp;
use super::draw::FieldDraws;
use super::field::{BatchOp, MixMode, one};
use crate::error::Result;
use crate::format::Column;
use crate::format::encoding::Encoding;
pub use array::Array;
pub use boxes::{BoxLabels, Boxes};
pub use bytes::Bytes;
pub use chat::{Chat, ChatPart, ChatTurns};
pub use class_map::ClassMap;
pub(super) use column::Columns;
pub use fill_in_middle::{FillInMiddle, Rearrangement};
pub use image::Image;
pub use json::{Json, JsonText, JsonType};
pub use json_path::{JsonPart, JsonPath};
pub use key_points::KeyPoints;
pub(super) use kind::{Compiled, FieldKind, JointParts, ScenePart};
pub use length::Length;
pub use mask::Mask;
pub use masked_tokens::MaskedTokens;
pub(crate) use masked_tokens::{LABELS, NO_LABEL};
pub use multi_hot::MultiHot;
pub use object_masks::ObjectMasks;
pub use one_hot::OneHot;
pub(super) use ops::{CheckedOps, of_labels};
pub(super) use picture::{check_labels, grey_last};
pub use scalar::Scalar;
pub use text::Text;
pub(super) use token_row::OF_ROWS;
pub use tokenize::{AddedEnd, AllSpecial, AllowedSpecial, RanksEncoding, TextErrors, Tokenize};
pub use tokens::Tokens;
pub(super) use views::{crops, of_crop};

/// One output, or several that share random draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldSpec {
    /// A picture.
    Image(Image),
    /// A picture of labels.
    Mask(Mask),
    /// Boxes around objects of a picture.
    Boxes(Boxes),
    /// Values of boxes.
    BoxLabels(BoxLabels),
    /// Points of objects of a picture.
    KeyPoints(KeyPoints),
    /// Masks of objects of a picture.
    ObjectMasks(ObjectMasks),
    /// Classes of the pixels of a picture.
    ClassMap(ClassMap),
    /// A number.
    Scalar(Scalar),
    /// Token ids.
    Tokens(Tokens),
    /// Token ids of a text.
    Tokenize(Tokenize),
    /// Token ids of a conversation.
    Chat(Box<Chat>),
    /// The length of an array.
    Length(Length),
    /// An array.
    Array(Array),
    /// A string.
    Text(Text),
    /// The stored bytes.
    Bytes(Bytes),
    /// A value inside a JSON document.
    Json(Json),
    /// A class as probabilities.
    OneHot(OneHot),
    /// Several classes as probabilities.
    MultiHot(MultiHot),
    /// Pictures and their classes that are mixed within the batch. Each becomes a separate output.
    Mix {
        /// The outputs by name: an `Image` of a fixed size or more, and `OneHot` or `MultiHot` fields.
        fields: Vec<(String, FieldSpec)>,
        /// Operations; one is drawn for each batch.
        by: Vec<BatchOp>,
        /// Probability that a batch is mixed, or a pair of rows or a row, by `mode`.
        #[serde(default = "one")]
        p: f64,
        /// Rows that are mixed together.
        #[serde(default)]
        mode: MixMode,
        /// Weight of each operation. Default: 1.
        #[serde(default)]
        weights: Option<Vec<f64>>,
    },
    /// Fields as those of a Joint, where each sample is composed with partners. Each becomes a separate output.
    Compose {
        /// The outputs by name.
        fields: Vec<(String, FieldSpec)>,
        /// The operation.
        by: ComposeOp,
        /// Probability that a sample is composed.
        #[serde(default = "one")]
        p: f64,
    },
    /// Fields with random operations that share their draws: a picture and its mask. Each becomes a separate output.
    Joint {
        /// The outputs by name.
        fields: Vec<(String, FieldSpec)>,
    },
}

impl FieldSpec {
    /// Returns the field; `None` for several.
    pub(super) fn kind(&self) -> Option<&dyn FieldKind> {
        Some(match self {
            Self::Image(field) => field,
            Self::Mask(field) => field,
            Self::Boxes(field) => field,
            Self::BoxLabels(field) => field,
            Self::KeyPoints(field) => field,
            Self::ObjectMasks(field) => field,
            Self::ClassMap(field) => field,
            Self::Scalar(field) => field,
            Self::Tokens(field) => field,
            Self::Tokenize(field) => field,
            Self::Chat(field) => &**field,
            Self::Length(field) => field,
            Self::Array(field) => field,
            Self::Text(field) => field,
            Self::Bytes(field) => field,
            Self::Json(field) => field,
            Self::OneHot(field) => field,
            Self::MultiHot(field) => field,
            Self::Mix { .. } | Self::Joint { .. } | Self::Compose { .. } => return None,
        })
    }

    /// Columns that the field reads; true for those that a sample may lack.
    pub fn columns(&self) -> Vec<(&str, bool)> {
        match self {
            Self::Joint { fields } | Self::Mix { fields, .. } | Self::Compose { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.columns()).collect()
            }
            Self::Chat(field) => field.columns(),
            one => one.kind().map(|kind| (kind.column(), kind.default().is_some())).into_iter().collect(),
        }
    }

    /// Columns that the field reads as texts.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Joint { fields } | Self::Mix { fields, .. } | Self::Compose { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.texts()).collect()
            }
            Self::Text(Text { column, .. })
            | Self::Json(Json { column, .. })
            | Self::ObjectMasks(ObjectMasks { column, .. })
            | Self::ClassMap(ClassMap { column, .. })
            | Self::Tokenize(Tokenize { column, .. }) => vec![column],
            Self::Chat(field) => field.columns().into_iter().map(|(column, _)| column).collect(),
            _ => Vec::new(),
        }
    }

    /// Columns where the field reads a list, also of one value.
    pub fn lists(&self) -> Vec<&str> {
        match self {
            Self::Joint { fields } | Self::Mix { fields, .. } | Self::Compose { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.lists()).collect()
            }
            Self::MultiHot(MultiHot { column, path: None, .. })
            | Self::Array(Array { column, .. })
            | Self::Tokens(Tokens { column, .. })
            | Self::Length(Length { column, .. }) => vec![column],
            _ => Vec::new(),
        }
    }

    /// Columns where the field reads the stored bytes.
    pub fn stored(&self) -> Vec<&str> {
        match self {
            Self::Joint { fields } | Self::Mix { fields, .. } | Self::Compose { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.stored()).collect()
            }
            Self::Bytes(Bytes { column, .. }) => vec![column],
            _ => Vec::new(),
        }
    }

    /// Returns the field of a column for a loader without `fields`.
    pub(super) fn of_column(column: &Column) -> Self {
        let name = column.name.clone();
        match column.encoding {
            Encoding::Int | Encoding::Scalar(_) | Encoding::StrInt | Encoding::StrFloat => {
                Self::Scalar(Scalar { column: name, dtype: None, default: None })
            }
            Encoding::Array(_) | Encoding::Npy => {
                Self::Array(Array { column: name, dtype: None, shape: None, default: None })
            }
            Encoding::Str | Encoding::Json | Encoding::StrDecimal => Self::text(name, None),
            _ => Self::bytes(name),
        }
    }

    /// Returns a field of text.
    pub fn text(column: String, default: Option<Value>) -> Self {
        Self::Text(Text { column, default })
    }

    /// Returns a field of bytes.
    pub fn bytes(column: String) -> Self {
        Self::Bytes(Bytes { column, default: None })
    }

    /// Returns the rearrangement of a field of token ids, the output `name` under `augment_seed`, if it has one.
    ///
    /// # Errors
    /// Arguments out of range.
    pub fn rearrangement(&self, name: &str, augment_seed: u64) -> Result<Option<Rearrangement>> {
        let draws = FieldDraws::new(augment_seed, name);
        match self {
            Self::Tokens(field) => field.rearrangement(draws),
            Self::Tokenize(field) => field.rearrangement(draws),
            _ => Ok(None),
        }
    }

    /// Returns the field with lists of any length as its rows; `None` for a field that makes no token ids.
    ///
    /// # Errors
    /// A Chat with rows that are no whole conversations.
    pub fn token_lists(&self) -> Result<Option<Self>> {
        Ok(Some(match self {
            Self::Tokens(field) => Self::Tokens(field.lists()),
            Self::Tokenize(field) => Self::Tokenize(field.lists()),
            Self::Chat(field) => Self::Chat(Box::new(field.lists()?)),
            _ => return Ok(None),
        }))
    }

    /// Returns its part in the scene that the fields of a Joint show.
    pub(super) fn scene_part(&self) -> ScenePart<'_> {
        self.kind().map_or(ScenePart::None, FieldKind::scene_part)
    }

    /// Returns the number of its views, see [`FieldKind::views`].
    pub(super) fn views(&self) -> Result<Option<u32>> {
        self.kind().map_or(Ok(None), FieldKind::views)
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::{Op, PixelLayout, ResizeTo};
    use super::*;
    use crate::format::encoding::DType;
    use forebay_picture::Interpolation;

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
        let FieldSpec::Image(Image { ops, dtype, layout, .. }) = &fields[0].1 else { panic!() };
        assert_eq!((ops.len(), *dtype, *layout), (6, DType::Float32, PixelLayout::Nhwc));
        let crop = Op::RandomResizedCrop {
            size: [224, 224],
            scale: [0.08, 1.0],
            ratio: [0.75, 4.0 / 3.0],
            interpolation: Interpolation::Bilinear,
            alternative: None,
        };
        assert_eq!(ops[0], crop);
        let resize =
            Op::Resize { size: Some(ResizeTo::Exact([3, 4])), max_size: None, interpolation: Interpolation::Bicubic };
        assert_eq!(ops[3], resize);
        let tokens = FieldSpec::Tokens(Tokens {
            column: "t".into(),
            length: Some(8),
            dtype: DType::Int64,
            pad: None,
            stored: None,
            truncate: false,
            fim: None,
            mask: None,
        });
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
