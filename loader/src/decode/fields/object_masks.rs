//! Fields of masks of the objects of a picture, by the segmentations of COCO. They are fields of a Joint.

use serde::{Deserialize, Serialize};

use super::annotated_size::{AnnotatedSize, size_path};
use super::boxes::BoxesDecoder;
use super::column::{Columns, is_text, unsuitable};
use super::followed::FollowedPicture;
use super::json_path::{JsonPath, parts_of_path};
use super::kind::{Compiled, FieldKind, JointParts, ScenePart};
use crate::decode::draw::FieldDraws;
use crate::decode::field::Op;
use crate::decode::plan::RowShape;
use crate::decode::ragged::{elements, start_ragged};
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Step, Stored};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::encoding::{DType, Encoding};
use crate::format::json::{self, PathPart};
use forebay_picture::geometry::{PIXELS_MAX, Size, Stage};

/// Masks of the objects of a picture of the same `Joint`, which follow its operations: an array of shape (objects,
/// height, width) with 1 inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectMasks {
    /// The column of JSON documents.
    pub column: String,
    /// Path to the list of segmentations: polygons, or run lengths. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Path to height and width of the annotated picture; a picture of a different size is an error. A document without
    /// them is not compared.
    #[serde(default = "size_path")]
    pub size: Option<JsonPath>,
    /// Name of the boxes of the same objects. Masks of boxes that are left out are left out. Default: the first ones of
    /// the `Joint`; without boxes all objects are kept.
    #[serde(default)]
    pub of: Option<String>,
}

impl FieldKind for ObjectMasks {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, _columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Err(outside_joint())
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let (column, objects) = StoredObjects::of(columns, &self.column, self.path.as_ref(), self.size.as_ref())?;
        let boxes = joint.find_boxes(self.of.as_deref())?;
        let picture = boxes.and_then(|boxes| match joint.part(boxes) {
            ScenePart::Boxes(of) => of,
            _ => None,
        });
        let followed = FollowedPicture::find(joint, picture)?;
        let ops = followed.label_ops(joint, 0)?;
        let decoder = ObjectMasksDecoder { objects, boxes, followed, ops };
        Ok(Compiled::new(column, decoder, DType::UInt8, RowShape::RaggedArray))
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::ObjectLabels
    }
}

pub(super) fn outside_joint() -> Error {
    Error::config("masks of objects are fields of a Joint with their picture")
}

/// Stored form of the segmentations of a picture.
#[derive(Debug)]
pub(super) struct StoredObjects {
    path: Vec<PathPart>,
    size: AnnotatedSize,
}

impl StoredObjects {
    /// Returns the number of the column, and the form of its segmentations.
    pub(super) fn of(
        columns: Columns<'_>,
        name: &str,
        path: Option<&JsonPath>,
        size: Option<&JsonPath>,
    ) -> Result<(usize, Self)> {
        let (index, column) = columns.find(name)?;
        if !is_text(column) && column.encoding != Encoding::Bytes {
            return Err(unsuitable(column, "masks of objects need a column of JSON documents, text or bytes"));
        }
        let kind = "masks of objects";
        Ok((index, Self { path: parts_of_path(kind, path)?, size: AnnotatedSize::at(size, kind)? }))
    }

    /// Returns the segmentation of each object. `picture` is the size of the picture.
    pub(super) fn read<'a>(&self, document: &'a [u8], picture: Size) -> Result<Vec<&'a [u8]>> {
        let of_sample = |e: Error| if e.kind() == ErrorKind::Format { e.of_kind(ErrorKind::Decode) } else { e };
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        self.size.check(document, picture)?;
        let list = json::find(document, &self.path).map_err(of_sample)?.map(|range| &document[range]);
        let Some(list) = list.filter(|list| list.starts_with(b"[")) else {
            return Err(Error::decode("the document has no list of segmentations at this path"));
        };
        let mut objects = Vec::new();
        json::scan_list(list, |range| {
            objects.push(&list[range]);
            Ok(())
        })
        .map_err(of_sample)?;
        Ok(objects)
    }
}

/// Decoder of the masks of a picture.
#[derive(Debug)]
struct ObjectMasksDecoder {
    objects: StoredObjects,
    /// Number of the step of the boxes.
    boxes: Option<usize>,
    followed: FollowedPicture,
    /// Operations of the picture for labels.
    ops: Vec<Op>,
}

/// Masks that move together: a bit of a pixel for each.
const TOGETHER: usize = 24;

impl Decode for ObjectMasksDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let kept = self.boxes.map(|boxes| BoxesDecoder::kept(boxes, stored, memory)).transpose()?;
        let (steps, size) = self.followed.resolve(stored, Some(&self.ops), memory)?;
        let output = steps.stages.last().map_or(size, Stage::output);
        let all = self.objects.read(stored.bytes, size)?;
        if let Some(kept) = &kept
            && kept.len() != all.len()
        {
            return Err(Error::decode(
                "the number of segmentations of the sample differs from the number of its boxes",
            )
            .with("segmentations", all.len())
            .with("boxes", kept.len()));
        }
        let is_kept = |number: &usize| kept.as_ref().is_none_or(|kept| kept[*number]);
        let objects: Vec<(usize, &[u8])> = (0..).zip(all).filter(|(number, _)| is_kept(number)).collect();
        let Row::Var(out) = row else {
            return Err(Error::internal("masks cannot be decoded into memory of this kind"));
        };
        let (w, h) = (output.w as usize, output.h as usize);
        let shape = [objects.len(), h, w];
        if elements(&shape).is_none_or(|all| all as u64 > 3 * PIXELS_MAX) {
            return Err(Error::decode(
                "the masks of the sample have more pixels than the limit allows: resize the picture",
            )
            .with("shape", format!("{shape:?}"))
            .with("pixels_max", 3 * PIXELS_MAX));
        }
        let out = start_ragged(out, DType::UInt8, &shape)?;
        let Memory { images, objects: scratch, .. } = memory;
        for (group, out) in objects.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER * h * w)) {
            scratch.start(size, [0; 3]);
            for (place, (number, object)) in group.iter().enumerate() {
                let (byte, bit) = (place / 8, 1 << (place % 8));
                scratch.draw(object, |pixel| pixel[byte] |= bit).context("object", || *number)?;
            }
            images.move_labels(&mut scratch.painted, |y, row| {
                for (place, out) in out.chunks_exact_mut(h * w).enumerate() {
                    let out = &mut out[y as usize * w..][..w];
                    out.iter_mut().zip(row[place / 8]).for_each(|(out, bits)| *out = bits >> (place % 8) & 1);
                }
            })?;
        }
        scratch.release();
        Ok(())
    }

    fn check_joint(&self, steps: &[Step]) -> Result<()> {
        self.followed.check("masks of objects", steps)
    }
}
