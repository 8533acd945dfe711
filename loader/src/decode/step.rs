//! Work of a plan on one sample: a step per output, and the memory that the steps share.

use std::any::Any;
use std::fmt::Debug;

use super::box_format::Corners;
use super::draw::DrawKey;
use super::image::{ImageDecoder, ImageField};
use super::json_value::JsonScratch;
use super::row::Row;
use super::segmentation::ObjectScratch;
use crate::error::{Error, Result};

/// Decoder of a field's values. A kind of field has one, with the arguments that it needs.
pub(super) trait Decode: Any + Debug + Send + Sync {
    /// Decodes a stored value into `row`.
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()>;

    /// Returns true if a row of the stored value's length is the stored value.
    fn is_copy(&self) -> bool {
        false
    }

    /// Returns true if [`decode_in_place`](Self::decode_in_place) makes rows without a fixed size.
    fn is_in_place(&self) -> bool {
        false
    }

    /// Makes a row of the stored value in `row`, which takes no second memory where that is possible.
    fn decode_in_place(&self, _row: &mut Vec<u8>, _memory: &mut Memory) -> Result<()> {
        Err(Error::internal("the field makes no row of a stored value"))
    }

    /// Reads a stored value as the corners of boxes, before they follow a picture.
    fn boxes(&self, _stored: &[u8], _memory: &mut Memory) -> Result<Vec<Corners>> {
        Err(Error::internal("the field has no boxes"))
    }

    /// Returns the number of tokens of a stored value, whatever the field's rows have of them. `column` returns the
    /// stored bytes of a further column of the field by its number.
    fn tokens(&self, _stored: &[u8], _column: StoredColumn<'_, '_>, _memory: &mut Memory) -> Result<u64> {
        Err(Error::internal("the field has no tokens"))
    }

    /// Returns the number of tokens of every stored value of `bytes` bytes, if it depends on nothing else.
    fn tokens_of_bytes(&self, _bytes: usize) -> Option<u64> {
        None
    }

    /// Checks the steps that this one refers to, after all of its Joint are compiled.
    fn check_joint(&self, _steps: &[Step]) -> Result<()> {
        Ok(())
    }
}

/// Returns the stored bytes of a column by its number; `None` if the sample lacks it.
pub(super) type StoredColumn<'s, 'c> = &'s dyn Fn(usize) -> Option<&'c [u8]>;

/// Stored value of a field, and the sample around it.
pub(super) struct Stored<'s, 'c> {
    /// Bytes of the field's column.
    pub bytes: &'c [u8],
    /// Step of the field.
    pub step: &'s Step,
    /// All steps of the plan, for fields that follow earlier ones.
    pub steps: &'s [Step],
    pub column: StoredColumn<'s, 'c>,
    /// Key of the sample's draws.
    pub key: DrawKey,
}

/// Memory of a decoder, kept from sample to sample.
#[derive(Default)]
pub(super) struct Memory {
    pub images: ImageDecoder,
    /// Shape of the current array.
    pub shape: Vec<usize>,
    /// Its elements, if they are stored in a different order.
    pub values: Vec<u8>,
    pub json: JsonScratch,
    pub objects: ObjectScratch,
    /// For each id of the current conversation, true if it is trained.
    pub trained: Vec<bool>,
    /// Token ids of the current text.
    pub ids: forebay_text::Ids,
    /// Token ids that are stored in a different form.
    pub numbers: Vec<u32>,
    /// Token ids after the draws of the document.
    pub changed: Vec<u32>,
    /// Labels of masked tokens, of 64 bits each.
    pub labels: Vec<u8>,
    /// Ids of the chosen and the rejected answer of the current preference pair.
    pub answers: [Vec<u32>; 2],
}

impl Memory {
    /// Reads the boxes that operations of `field` draw by. `column` returns the sample's stored bytes.
    pub(super) fn load_objects<'c>(
        &mut self,
        field: &ImageField,
        steps: &[Step],
        column: &dyn Fn(usize) -> Option<&'c [u8]>,
    ) -> Result<()> {
        let Some(step) = field.objects.and_then(|number| steps.get(number)) else { return Ok(()) };
        let bytes = step.column.and_then(column);
        let bytes = bytes.ok_or_else(|| Error::decode("the sample lacks the boxes that its picture is cropped by"))?;
        let Work::Value(decoder) = &step.work else { return Err(Error::internal("the field has no boxes")) };
        let boxes = decoder.boxes(bytes, self)?;
        self.images.set_objects(boxes);
        Ok(())
    }
}

/// Kind of work for an output.
#[derive(Debug)]
pub(super) enum Work {
    /// Decodes a picture. Pictures of one file share the decoded pixels, and boxes follow it.
    Picture(Box<ImageField>),
    /// Decodes a value.
    Value(Box<dyn Decode>),
    /// Writes the default: the layout lacks the column.
    Absent,
}

/// Step of a plan, which makes one output.
#[derive(Debug)]
pub(super) struct Step {
    /// Number of the column; `None` for a field with a default that is the value of all samples of this layout.
    pub(super) column: Option<usize>,
    pub(super) work: Work,
    /// Row of samples that lack the value.
    pub(super) default: Option<Vec<u8>>,
    /// Number that pictures of one file, decoded alike, have in common; `None` for a picture alone and for values
    /// without pixels.
    pub(super) group: Option<usize>,
}

impl Step {
    /// Returns the field of pictures.
    pub(super) fn picture(&self) -> Option<&ImageField> {
        if let Work::Picture(field) = &self.work { Some(field) } else { None }
    }

    /// Returns the decoder, if it is a `D`.
    pub(super) fn decoder<D: Decode>(&self) -> Option<&D> {
        let Work::Value(decoder) = &self.work else { return None };
        let decoder: &dyn Any = &**decoder;
        decoder.downcast_ref()
    }

    /// Writes the row of a sample that lacks the value.
    pub(super) fn write_default(&self, row: &mut Row<'_>) -> Result<()> {
        let default = self.default.as_deref().ok_or_else(|| {
            Error::decode(
                "the sample does not have the value: give the field a `default`, or leave such samples out with \
                 skip.errors",
            )
        })?;
        match row {
            Row::Fixed(out) if out.len() == default.len() => {
                out.copy_from_slice(default);
                Ok(())
            }
            Row::Fixed(_) => Err(Error::internal("a row does not have its output's size")),
            row => row.copy_from(default),
        }
    }
}
