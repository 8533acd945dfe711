//! Fields of the classes of pixels, by the segmentations of objects. They are fields of a Joint.

use serde::{Deserialize, Serialize};

use super::annotated_size::size_path;
use super::column::Columns;
use super::followed::FollowedPicture;
use super::json_path::JsonPath;
use super::kind::{Compiled, FieldKind, JointParts, ScenePart, uint8};
use super::list_source::ListSource;
use super::object_masks::{StoredObjects, outside_joint};
use super::ops::CheckedOps;
use crate::decode::draw::FieldDraws;
use crate::decode::field::Op;
use crate::decode::json_value::JsonForm;
use crate::decode::normalise::PictureWriter;
use crate::decode::plan::RowShape;
use crate::decode::ragged::start_ragged;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Step, Stored};
use crate::error::{Context, Error, Result};
use crate::format::encoding::DType;
use forebay_picture::geometry::Stage;
use forebay_picture::pixels::deep_pixel;

/// The class of each pixel of a picture of the same `Joint`, painted object by object; it follows the operations of the
/// picture as a `Mask` does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassMap {
    /// The column of JSON documents.
    pub column: String,
    /// Path to the list of segmentations. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Path to the list of the objects' classes in the same document.
    pub labels: JsonPath,
    /// Class of pixels without an object, and of borders. No object may have it.
    #[serde(default)]
    pub background: u8,
    /// Class of pixels of several objects. Default: the class of the last one.
    #[serde(default)]
    pub overlap: Option<u8>,
    /// Path to height and width of the annotated picture, as in `ObjectMasks`.
    #[serde(default = "size_path")]
    pub size: Option<JsonPath>,
    /// Name of the picture or mask. Default: the first one of the `Joint`.
    #[serde(default)]
    pub of: Option<String>,
    /// An integer type that holds 255.
    #[serde(default = "uint8")]
    pub dtype: DType,
}

impl FieldKind for ClassMap {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, _columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        Err(outside_joint())
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let writer = PictureWriter::labels(self.dtype)?;
        if self.overlap == Some(self.background) {
            return Err(Error::config("`overlap` of a ClassMap is not its `background`: pass a different class"));
        }
        let (column, objects) = StoredObjects::of(columns, &self.column, self.path.as_ref(), self.size.as_ref())?;
        let form = JsonForm::Array(DType::Int64, vec![None]);
        let (_, labels) = ListSource::of(columns, &self.column, Some(&self.labels), form)?;
        let followed = FollowedPicture::find(joint, self.of.as_deref())?;
        let ops = followed.label_ops(joint, self.background)?;
        let size = CheckedOps::new(&ops)?.size;
        let shape = size.map_or(RowShape::RaggedArray, |size| RowShape::Fixed(writer.shape(size)));
        let &Self { background, overlap, dtype, .. } = self;
        let decoder = ClassMapDecoder { objects, labels, background, overlap, followed, ops, writer };
        Ok(Compiled::new(column, decoder, dtype, shape))
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::ObjectLabels
    }
}

/// Decoder of the classes of a picture's pixels.
#[derive(Debug)]
struct ClassMapDecoder {
    objects: StoredObjects,
    labels: ListSource,
    background: u8,
    overlap: Option<u8>,
    followed: FollowedPicture,
    /// Operations of the picture for labels.
    ops: Vec<Op>,
    writer: PictureWriter,
}

impl Decode for ClassMapDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let (_, labels) = self.labels.read(stored.bytes, memory)?;
        let (steps, size) = self.followed.resolve(stored, Some(&self.ops), memory)?;
        let output = steps.stages.last().map_or(size, Stage::output);
        let objects = self.objects.read(stored.bytes, size)?;
        let labels = labels.as_chunks::<8>().0;
        if labels.len() != objects.len() {
            return Err(Error::decode(
                "the number of segmentations of the sample differs from the number of its labels",
            )
            .with("segmentations", objects.len())
            .with("labels", labels.len()));
        }
        let Memory { images, objects: scratch, .. } = memory;
        let background = deep_pixel(self.background.into());
        scratch.start(size, background);
        for (number, (object, label)) in objects.iter().zip(labels).enumerate() {
            let class = deep_pixel(self.class(i64::from_ne_bytes(*label)).context("object", || number)?);
            let again = self.overlap.map_or(class, |overlap| deep_pixel(overlap.into()));
            let paint = |pixel: &mut [u8; 3]| *pixel = if *pixel == background { class } else { again };
            scratch.draw(object, paint).context("object", || number)?;
        }
        let out = match row {
            Row::Fixed(out) if out.len() == self.writer.bytes(output) => &mut **out,
            Row::Var(out) => start_ragged(out, self.writer.dtype(), &self.writer.shape(output))?,
            _ => return Err(Error::internal("classes cannot be decoded into memory of this kind")),
        };
        images.move_labels(&mut scratch.painted, |y, row| self.writer.write(out, output, y, row))?;
        scratch.release();
        Ok(())
    }

    fn check_joint(&self, steps: &[Step]) -> Result<()> {
        self.followed.check("masks of objects", steps)
    }
}

impl ClassMapDecoder {
    /// Returns the class of an object with this label.
    fn class(&self, label: i64) -> Result<u16> {
        let class = u16::try_from(label).ok().filter(|class| u64::from(*class) <= self.writer.label_max());
        let class = class.ok_or_else(|| {
            let message = "the label of an object does not fit the `dtype` of the ClassMap, or is above 65535";
            Error::decode(message).with("label", label)
        })?;
        if class == u16::from(self.background) {
            let message = "an object has the class of the `background` of the ClassMap: pass a `background` that no \
                           object has, such as 255";
            return Err(Error::decode(message).with("label", label));
        }
        Ok(class)
    }
}
