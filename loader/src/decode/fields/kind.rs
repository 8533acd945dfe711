//! Interface of a kind of field: its arguments, and their compilation for the columns of a data set.

use serde_json::Value;

use super::column::Columns;
use crate::decode::default::default_row;
use crate::decode::draw::FieldDraws;
use crate::decode::field::Op;
use crate::decode::plan::{Output, RowShape};
use crate::decode::step::{Decode, Work};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Kind of field. Its methods run once per loader; its decoder, an implementation of [`Decode`], once per sample.
pub(in crate::decode) trait FieldKind {
    /// Name of the column.
    fn column(&self) -> &str;

    /// Value of samples that lack the field's.
    fn default(&self) -> Option<&Value> {
        None
    }

    /// Compiles the field: checks its arguments, and that the column suits them.
    fn compile(&self, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled>;

    /// Compiles the field as one of a Joint.
    fn compile_in(&self, _joint: &JointParts<'_>, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        self.compile(columns, draws)
    }

    /// Compiles the outputs that come with the field's own, such as `labels`, with their names. Their steps follow the
    /// field's, and have the memory as the field's step leaves it.
    fn compile_further(&self, _columns: Columns<'_>) -> Result<Vec<(&'static str, Compiled)>> {
        Ok(Vec::new())
    }

    /// Compiles the field for a layout without its column; `None` if `default` does not have a type.
    fn compile_absent(&self, _default: &Value) -> Option<Compiled> {
        None
    }

    /// Returns the row of samples that lack the value.
    fn default_row(&self, default: &Value, output: &Output) -> Result<Vec<u8>> {
        default_row(default, output, None)
    }

    /// Returns its part in the scene that the fields of a Joint show.
    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::None
    }

    /// Returns the number of its views; `None` if its rows have no dimension for them.
    ///
    /// # Errors
    /// A number of views out of range, or together with operations that make several crops.
    fn views(&self) -> Result<Option<u32>> {
        Ok(None)
    }

    /// Returns true if a Mix can hold the field.
    fn is_mixable(&self) -> bool {
        false
    }
}

/// Field that has been compiled for the columns of a data set.
pub(in crate::decode) struct Compiled {
    /// Number of the column; `None` if the layout lacks it.
    pub column: Option<usize>,
    pub work: Work,
    /// Element type and kind of the output's rows.
    pub dtype: DType,
    pub shape: RowShape,
}

impl Compiled {
    /// Makes a field with values that `decoder` decodes.
    pub(in crate::decode) fn new(column: usize, decoder: impl Decode, dtype: DType, shape: RowShape) -> Self {
        Self { column: Some(column), work: Work::Value(Box::new(decoder)), dtype, shape }
    }

    /// Makes a field of a layout without its column.
    pub(in crate::decode) fn absent(dtype: DType, shape: RowShape) -> Self {
        Self { column: None, work: Work::Absent, dtype, shape }
    }
}

/// Part of a field in the scene that the fields of a Joint show.
#[derive(Clone, Copy, Debug)]
pub(in crate::decode) enum ScenePart<'a> {
    /// Pixels, and the operations on them.
    Pixels(&'a [Op]),
    /// Labels of pixels: as pixels, but never blended.
    Labels(&'a [Op]),
    /// Boxes, which follow the operations of pixels or labels: of the field with this name, by default the first one.
    Boxes(Option<&'a str>),
    /// Values of boxes.
    BoxLabels,
    /// Labels that are drawn by the objects of a picture, and follow its operations.
    ObjectLabels,
    /// Points, which follow the operations of pixels or labels.
    Points,
    /// None: its values do not depend on the scene.
    None,
}

/// Names and parts of the fields of a Joint.
pub(in crate::decode) struct JointParts<'a> {
    pub fields: Vec<(&'a str, ScenePart<'a>)>,
    /// Number of the first field's step in the plan.
    pub first_step: usize,
}

impl<'a> JointParts<'a> {
    /// Returns the part of the field with this step.
    pub(in crate::decode) fn part(&self, step: usize) -> ScenePart<'a> {
        self.fields[step - self.first_step].1
    }

    /// Returns the operations of the field with this step, if it has some.
    pub(in crate::decode) fn ops(&self, step: usize) -> &'a [Op] {
        match self.part(step) {
            ScenePart::Pixels(ops) | ScenePart::Labels(ops) => ops,
            _ => &[],
        }
    }

    /// Returns the number of the step of the field `of`, by default of the first one, among those that `is_meant` is
    /// true for. `noun` names these in the error.
    pub(in crate::decode) fn find_step(
        &self,
        of: Option<&str>,
        noun: &str,
        is_meant: fn(&ScenePart<'_>) -> bool,
    ) -> Result<usize> {
        let place = self.fields.iter().position(|(name, part)| is_meant(part) && of.is_none_or(|of| of == *name));
        let missing = || {
            let error = Error::config(format!("the Joint has no {noun} with this name"));
            error.with("of", of.unwrap_or("any"))
        };
        place.map(|place| self.first_step + place).ok_or_else(missing)
    }

    /// Returns the number of the step of the boxes `of`; by default of the first ones, if the Joint has some.
    pub(in crate::decode) fn find_boxes(&self, of: Option<&str>) -> Result<Option<usize>> {
        match self.find_step(of, "Boxes", |part| matches!(part, ScenePart::Boxes(_))) {
            Err(_) if of.is_none() => Ok(None),
            found => found.map(Some),
        }
    }
}

/// Default of arguments.
pub(super) fn uint8() -> DType {
    DType::UInt8
}

/// Default of arguments.
pub(super) fn int64() -> DType {
    DType::Int64
}
