//! Fields of boxes around the objects of a picture, and of the boxes' labels. They are fields of a Joint.

use serde::{Deserialize, Serialize};

use super::annotated_size::{AnnotatedSize, size_path};
use super::array_source::ArraySource;
use super::column::Columns;
use super::followed::FollowedPicture;
use super::json_path::JsonPath;
use super::kind::{Compiled, FieldKind, JointParts, ScenePart};
use super::list_source::ListSource;
use crate::decode::box_format::{BoxFormat, Corners};
use crate::decode::boxes::is_large;
use crate::decode::draw::FieldDraws;
use crate::decode::json_value::JsonForm;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Step, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;
use forebay_picture::geometry::Size;

/// Boxes around objects of a picture of the same `Joint`; they follow its operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// The column: an array of four numbers per box, or JSON documents.
    pub column: String,
    /// Path to the list of boxes inside a JSON document. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Meaning of the four numbers in the column.
    #[serde(default)]
    pub format: BoxFormat,
    /// Meaning of the four numbers in the batch. Default: as in the column.
    #[serde(default)]
    pub to: Option<BoxFormat>,
    /// Name of the picture or mask. Default: the first one of the `Joint`.
    #[serde(default)]
    pub of: Option<String>,
    /// Smallest width and height of a box, pixels, and its smallest area without `min_area`; smaller boxes are left
    /// out. Default: all are kept.
    #[serde(default)]
    pub min_size: Option<f64>,
    /// Smallest area of a box, pixels; smaller boxes are left out.
    #[serde(default)]
    pub min_area: Option<f64>,
    /// Path to height and width of the annotated picture in a JSON document; a picture of a different size is an error.
    /// A document without two integers there is not compared.
    #[serde(default = "size_path")]
    pub size: Option<JsonPath>,
}

impl FieldKind for Boxes {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, _columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Err(outside_joint())
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        if [self.min_size, self.min_area].into_iter().flatten().any(|least| !(least >= 0.0 && least.is_finite())) {
            return Err(Error::config("`min_size` and `min_area` of Boxes are numbers of pixels, at least 0"));
        }
        let followed = FollowedPicture::find(joint, self.of.as_deref())?;
        let form = JsonForm::Array(DType::Float64, vec![None, Some(4)]);
        let (column, source) = ListSource::of(columns, &self.column, self.path.as_ref(), form)?;
        let &Self { format, to, min_size, min_area, .. } = self;
        let (to, size) = (to.unwrap_or(format), AnnotatedSize::at(self.size.as_ref(), "boxes")?);
        let decoder = BoxesDecoder { source, column, size, format, to, followed, min_size, min_area };
        Ok(Compiled::new(column, decoder, DType::Float32, RowShape::RaggedArray))
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::Boxes(self.of.as_deref())
    }
}

/// Values of the boxes of the same `Joint`, without the values of boxes that are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxLabels {
    /// The column: an array with an entry for each box in its first dimension, or JSON documents.
    pub column: String,
    /// Path to a list of numbers inside a JSON document. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Type of the output. Default: the column's, `int64` for JSON.
    #[serde(default)]
    pub dtype: Option<DType>,
    /// Name of the boxes. Default: the first ones of the `Joint`.
    #[serde(default)]
    pub of: Option<String>,
}

impl FieldKind for BoxLabels {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, _columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Err(outside_joint())
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let boxes = joint.find_step(self.of.as_deref(), "Boxes", |part| matches!(part, ScenePart::Boxes(_)))?;
        let form = JsonForm::Array(self.dtype.unwrap_or(DType::Int64), vec![None]);
        let (column, source) = ListSource::of(columns, &self.column, self.path.as_ref(), form)?;
        let known = match &source {
            ListSource::Json(_) => Some(DType::Int64),
            ListSource::Array(ArraySource::Array(kind)) => kind.dtype(),
            ListSource::Array(_) => None,
        };
        let dtype = self.dtype.or(known);
        let decoder = LabelsDecoder { source, boxes, dtype };
        Ok(Compiled::new(column, decoder, dtype.unwrap_or(DType::UInt8), RowShape::RaggedArray))
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::BoxLabels
    }
}

pub(super) fn outside_joint() -> Error {
    Error::config("boxes, their labels and key points are fields of a Joint with their picture")
}

/// Decoder of the boxes of a picture.
#[derive(Debug)]
pub(super) struct BoxesDecoder {
    source: ListSource,
    column: usize,
    size: AnnotatedSize,
    format: BoxFormat,
    /// Format in the batch.
    to: BoxFormat,
    followed: FollowedPicture,
    /// Smallest width, height and area of those that are kept.
    min_size: Option<f64>,
    /// Smallest area of them.
    min_area: Option<f64>,
}

impl Decode for BoxesDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let (boxes, size) = self.followed(stored, memory)?;
        self.source.check_size(&self.size, stored.bytes, size)?;
        let out = ragged(row)?;
        let kept = boxes.iter().filter(|corners| self.is_kept(corners));
        let out = start_ragged(out, DType::Float32, &[kept.clone().count(), 4])?.as_chunks_mut::<4>().0;
        for (out, number) in out.iter_mut().zip(kept.flat_map(|corners| self.to.numbers(*corners))) {
            *out = (number as f32).to_ne_bytes();
        }
        Ok(())
    }

    fn boxes(&self, stored: &[u8], memory: &mut Memory) -> Result<Vec<Corners>> {
        let (from, values) = self.source.read(stored, memory)?;
        let mut numbers = vec![0; values.len() / from.size() * size_of::<f64>()];
        numeric::convert(&values, from, &mut numbers, DType::Float64)?;
        // Without boxes, the last dimension may be missing.
        if !numbers.is_empty() && !matches!(memory.shape[..], [_, 4]) {
            return Err(Error::decode("boxes are four numbers each: an array of shape (k, 4)")
                .with("shape", format!("{:?}", memory.shape)));
        }
        let numbers = numbers.as_chunks::<8>().0.iter().map(|number| f64::from_ne_bytes(*number));
        let numbers: Vec<f64> = numbers.collect();
        Ok(numbers.as_chunks::<4>().0.iter().map(|one| self.format.corners(*one)).collect())
    }

    fn check_joint(&self, steps: &[Step]) -> Result<()> {
        self.followed.check("boxes", steps)
    }
}

impl BoxesDecoder {
    /// Returns the boxes of the sample after the operations of the picture, in the order in which they are stored, and
    /// the size of the picture before its operations.
    fn followed(&self, sample: &Stored<'_, '_>, memory: &mut Memory) -> Result<(Vec<Corners>, Size)> {
        let stored = (sample.column)(self.column).ok_or_else(|| Error::decode("the sample lacks its boxes"))?;
        let mut boxes = self.boxes(stored, memory)?;
        let (steps, size) = self.followed.resolve(sample, None, memory)?;
        steps.follow(&mut boxes, size);
        Ok((boxes, size))
    }

    /// Returns true for each box of the step number `boxes` that is in the row of the sample.
    pub(super) fn kept(boxes: usize, sample: &Stored<'_, '_>, memory: &mut Memory) -> Result<Vec<bool>> {
        let decoder: &Self = sample.steps[boxes].decoder().ok_or_else(broken)?;
        let (boxes, _) = decoder.followed(sample, memory)?;
        Ok(boxes.iter().map(|corners| decoder.is_kept(corners)).collect())
    }

    /// Returns true if a box that has followed the picture is in the row.
    fn is_kept(&self, corners: &Corners) -> bool {
        let (size, area) = (self.min_size.unwrap_or(0.0), self.min_area.or(self.min_size).unwrap_or(0.0));
        (self.min_size, self.min_area) == (None, None) || is_large(*corners, size, area)
    }
}

/// Decoder of values of the boxes of a different step.
#[derive(Debug)]
struct LabelsDecoder {
    source: ListSource,
    /// Number of the boxes among the steps.
    boxes: usize,
    dtype: Option<DType>,
}

impl Decode for LabelsDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let kept = BoxesDecoder::kept(self.boxes, stored, memory)?;
        let out = ragged(row)?;
        let (from, values) = self.source.read(stored.bytes, memory)?;
        let mut shape = memory.shape.clone();
        if shape.first() != Some(&kept.len()) {
            return Err(Error::decode("the number of labels of the sample differs from the number of its boxes")
                .with("labels", format!("{shape:?}"))
                .with("boxes", kept.len()));
        }
        let (to, each) = (self.dtype.unwrap_or(from), shape[1..].iter().product::<usize>());
        shape[0] = kept.iter().filter(|is_kept| **is_kept).count();
        let mut rest = start_ragged(out, to, &shape)?;
        for (place, _) in kept.iter().enumerate().filter(|(_, is_kept)| **is_kept) {
            let (out, after) = rest.split_at_mut(each * to.size());
            numeric::convert(&values[place * each * from.size()..][..each * from.size()], from, out, to)?;
            rest = after;
        }
        Ok(())
    }
}

fn broken() -> Error {
    Error::internal("the boxes of a Joint do not have their picture")
}

/// Returns the memory of a row of variable size.
pub(super) fn ragged<'a>(row: &'a mut Row<'_>) -> Result<&'a mut Vec<u8>> {
    let Row::Var(out) = row else {
        return Err(Error::internal("boxes cannot be decoded into memory of this kind"));
    };
    Ok(out)
}
