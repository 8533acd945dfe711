//! Fields of points of the objects of a picture. They are fields of a Joint.

use serde::{Deserialize, Serialize};

use super::annotated_size::{AnnotatedSize, size_path};
use super::boxes::{BoxesDecoder, outside_joint, ragged};
use super::column::Columns;
use super::followed::FollowedPicture;
use super::json_path::JsonPath;
use super::kind::{Compiled, FieldKind, JointParts, ScenePart};
use super::list_source::ListSource;
use crate::decode::draw::FieldDraws;
use crate::decode::json_value::JsonForm;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::points::Point;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Step, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Points of objects of a picture of the same `Joint`; they follow its operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPoints {
    /// The column: an array of two or three numbers per point (column, row, visibility), of one object or of several,
    /// or JSON documents.
    pub column: String,
    /// Path to the list inside a JSON document. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Pairs of the numbers of left and right points, which are exchanged in a mirrored picture.
    #[serde(default)]
    pub flip: Vec<[usize; 2]>,
    /// Number of points of an object; a different one is an error. Default: any.
    #[serde(default)]
    pub points: Option<usize>,
    /// Name of the picture or mask. Default: the first one of the `Joint`.
    #[serde(default)]
    pub of: Option<String>,
    /// Name of the boxes of the objects, which are left out with their boxes. Default: the first ones of the `Joint`,
    /// if it has some.
    #[serde(default)]
    pub boxes: Option<String>,
    /// Path to height and width of the annotated picture in a JSON document; a picture of a different size is an error.
    /// A document without two integers there is not compared.
    #[serde(default = "size_path")]
    pub size: Option<JsonPath>,
}

impl FieldKind for KeyPoints {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, _columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Err(outside_joint())
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let Self { flip, points, .. } = self;
        let mut numbers: Vec<usize> = flip.as_flattened().to_vec();
        numbers.sort_unstable();
        let is_outside = points.is_some_and(|points| numbers.last().is_some_and(|last| *last >= points));
        if numbers.windows(2).any(|two| two[0] == two[1]) || is_outside {
            let message = "`flip` of KeyPoints has pairs of numbers of points, from 0, and a point in one pair at most";
            return Err(Error::config(message).with("flip", format!("{flip:?}")));
        }
        if *points == Some(0) {
            return Err(Error::config("`points` of KeyPoints is the number of points of an object, at least 1"));
        }
        let picture = FollowedPicture::find(joint, self.of.as_deref())?;
        let boxes = joint.find_boxes(self.boxes.as_deref())?;
        let form = JsonForm::Nested(DType::Float64);
        let (column, source) = ListSource::of(columns, &self.column, self.path.as_ref(), form)?;
        let size = AnnotatedSize::at(self.size.as_ref(), "key points")?;
        let decoder = KeyPointsDecoder { source, size, picture, boxes, flip: flip.clone(), points: *points };
        Ok(Compiled::new(column, decoder, DType::Float32, RowShape::RaggedArray))
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::Points
    }
}

/// Decoder of the points of a picture.
#[derive(Debug)]
struct KeyPointsDecoder {
    source: ListSource,
    size: AnnotatedSize,
    picture: FollowedPicture,
    /// Number of the boxes of the objects among the steps.
    boxes: Option<usize>,
    flip: Vec<[usize; 2]>,
    points: Option<usize>,
}

impl Decode for KeyPointsDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let (from, values) = self.source.read(stored.bytes, memory)?;
        let mut numbers = vec![0; values.len() / from.size() * size_of::<f64>()];
        numeric::convert(&values, from, &mut numbers, DType::Float64)?;
        let numbers: Vec<f64> = numbers.as_chunks::<8>().0.iter().map(|number| f64::from_ne_bytes(*number)).collect();
        let mut shape = self.shape(&memory.shape)?;
        let [.., each, dims] = shape[..] else { return Err(broken()) };
        let mut points: Vec<Point> = numbers
            .chunks_exact(dims)
            .map(|point| Point { place: [point[0], point[1]], is_seen: point.get(2).is_none_or(|seen| *seen > 0.0) })
            .collect();
        let mut visibility: Vec<f64> = numbers.chunks_exact(dims).filter_map(|point| point.get(2).copied()).collect();
        let kept = self.kept(&shape, stored, memory)?;
        // The visibility of a point is a part of it, and the marks follow the exchange of the points.
        let (steps, size) = self.picture.resolve(stored, None, memory)?;
        self.source.check_size(&self.size, stored.bytes, size)?;
        steps.follow_points(&mut points, size, |points| {
            points.chunks_exact_mut(each.max(1)).for_each(|object| swap(object, &self.flip));
            visibility.chunks_exact_mut(each.max(1)).for_each(|object| swap(object, &self.flip));
        });
        if let ([objects, _, _], Some(kept)) = (&mut shape[..], &kept) {
            *objects = kept.len();
        }
        let mut out = start_ragged(ragged(row)?, DType::Float32, &shape)?.as_chunks_mut::<4>().0.iter_mut();
        let all = (0..points.len() / each.max(1)).collect();
        for object in kept.unwrap_or(all) {
            for (place, point) in (object * each..).zip(&points[object * each..][..each]) {
                let &Point { place: [x, y], is_seen } = point;
                // As in COCO: a point that is not labelled is at 0, 0.
                let all = match visibility.get(place) {
                    Some(_) if !is_seen => [0.0; 3],
                    Some(visibility) => [x, y, *visibility],
                    None => [x, y, 0.0],
                };
                out.by_ref().zip(&all[..dims]).for_each(|(out, number)| *out = (*number as f32).to_ne_bytes());
            }
        }
        Ok(())
    }

    fn check_joint(&self, steps: &[Step]) -> Result<()> {
        self.picture.check("key points", steps)
    }
}

impl KeyPointsDecoder {
    /// Returns the shape of the points: objects, if there may be several, points of each and numbers of a point.
    fn shape(&self, stored: &[usize]) -> Result<Vec<usize>> {
        let wrong = |message: &str| Err(Error::decode(message).with("shape", format!("{stored:?}")));
        let shape = match *stored {
            // A list without items has none of the dimensions inside it.
            [0] | [0, 0] if self.points.or(self.boxes).is_none() => vec![0, 3],
            [0] | [0, 0] => vec![0, self.points.unwrap_or(0), 3],
            [points, dims @ (2 | 3)] => vec![points, dims],
            [objects, points, dims @ (2 | 3)] => vec![objects, points, dims],
            // As COCO has them: all numbers of an object in one list.
            [objects, numbers] if numbers > 3 && numbers.is_multiple_of(3) => vec![objects, numbers / 3, 3],
            _ => {
                return wrong(
                    "key points are two or three numbers each: an array of shape (k, 2), (k, 3), (n, k, 2), (n, k, 3) \
                     or, as in COCO, (n, 3 k)",
                );
            }
        };
        let each = shape[shape.len() - 2];
        let is_other = self.points.is_some_and(|points| points != each);
        // One object may have no points, and several may be none.
        if is_other && (shape.len() == 3 || each > 0) {
            return wrong("the number of points of an object differs from `points` of KeyPoints");
        }
        if self.flip.as_flattened().iter().any(|number| *number >= each) && !shape.contains(&0) {
            return wrong("`flip` of KeyPoints names a point that the objects do not have");
        }
        Ok(shape)
    }

    /// Returns the numbers of the objects with boxes that are kept; `None` for all.
    fn kept(&self, shape: &[usize], sample: &Stored<'_, '_>, memory: &mut Memory) -> Result<Option<Vec<usize>>> {
        let ([objects, _, _], Some(step)) = (shape, self.boxes) else { return Ok(None) };
        let kept = BoxesDecoder::kept(step, sample, memory)?;
        if *objects != kept.len() {
            return Err(Error::decode("the sample does not have key points for each of its boxes")
                .with("objects", objects)
                .with("boxes", kept.len()));
        }
        Ok(Some((0..kept.len()).filter(|number| kept[*number]).collect()))
    }
}

/// Exchanges the left and right points of an object.
fn swap<T>(object: &mut [T], pairs: &[[usize; 2]]) {
    pairs.iter().for_each(|[left, right]| object.swap(*left, *right));
}

fn broken() -> Error {
    Error::internal("the key points of a Joint do not have their boxes")
}
