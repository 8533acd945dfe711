//! Picture of a Joint that boxes and masks of its objects follow.

use super::kind::{JointParts, ScenePart};
use super::ops::of_labels;
use crate::decode::field::Op;
use crate::decode::step::{Memory, Step, Stored};
use crate::decode::steps::Steps;
use crate::error::{Error, Result};
use forebay_picture::geometry::Size;
use serde_json::Value;

/// Picture that a field follows, by the numbers of steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowedPicture {
    picture: usize,
    /// First picture of the Joint.
    first: usize,
}

impl FollowedPicture {
    /// Returns the picture or mask with the name `of`, by default the first one of the Joint.
    pub(super) fn find(joint: &JointParts<'_>, of: Option<&str>) -> Result<Self> {
        let is_picture = |part: &ScenePart<'_>| matches!(part, ScenePart::Pixels(_) | ScenePart::Labels(_));
        let picture = joint.find_step(of, "Image or Mask", is_picture)?;
        let first = joint.find_step(None, "Image or Mask", is_picture)?;
        Ok(Self { picture, first })
    }

    /// Returns the operations of the picture for labels: never blended, and `outside` is the label of all borders.
    pub(super) fn label_ops(self, joint: &JointParts<'_>, outside: u8) -> Result<Vec<Op>> {
        let broken = |e| Error::internal("operations have no document").caused_by(e);
        let mut document = serde_json::to_value(joint.ops(self.picture)).map_err(broken)?;
        fill_with(&mut document, outside);
        let ops: Vec<Op> = serde_json::from_value(document).map_err(broken)?;
        Ok(of_labels(&ops))
    }

    /// Resolves the operations of the picture of a sample, or `ops` in their place, and returns the steps and the size
    /// before them.
    pub(super) fn resolve<'m>(
        self,
        sample: &Stored<'_, '_>,
        ops: Option<&[Op]>,
        memory: &'m mut Memory,
    ) -> Result<(&'m Steps, Size)> {
        let broken = || Error::internal("a field of a Joint does not have its picture");
        let (step, first_step) = (&sample.steps[self.picture], &sample.steps[self.first]);
        let picture = step.picture().ok_or_else(broken)?;
        let stored = |step: &Step| {
            let bytes = step.column.and_then(|column| (sample.column)(column));
            bytes.ok_or_else(|| Error::decode("the sample lacks the picture of its boxes or masks"))
        };
        // A sample that lacks the first picture begins with the next one.
        let first = (self.first != self.picture).then(|| stored(first_step).ok().zip(first_step.picture())).flatten();
        memory.load_objects(picture, sample.steps, sample.column)?;
        memory.images.steps((stored(step)?, picture, ops.unwrap_or(&picture.ops)), first, sample.key)
    }

    /// Checks the compiled picture. `noun` names the field that follows it.
    pub(super) fn check(self, noun: &str, steps: &[Step]) -> Result<()> {
        let picture = steps.get(self.picture).and_then(Step::picture);
        if picture.is_none_or(|picture| picture.encoding.pictures(&[]).is_some()) {
            return Err(Error::config(format!("{noun} need a column with one picture per sample")));
        }
        if self.picture != self.first && picture.is_some_and(|picture| picture.objects.is_some()) {
            return Err(Error::config(
                "RandomIoUCrop draws in the first picture of a Joint: put the picture of the Boxes first",
            ));
        }
        Ok(())
    }
}

/// Sets the colour of all borders in a document of operations.
fn fill_with(value: &mut Value, outside: u8) {
    match value {
        Value::Object(arguments) => {
            for (name, argument) in arguments {
                match argument {
                    Value::Array(levels) if name == "fill" => levels.fill(outside.into()),
                    argument => fill_with(argument, outside),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill_with(value, outside)),
        _ => {}
    }
}
