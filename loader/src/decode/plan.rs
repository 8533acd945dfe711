//! Compiled fields of a data set: outputs, and a step for each.

use std::sync::Arc;

use super::compose::Composition;
use super::mix::Mix;
use super::normalise::PictureForm;
use super::ragged::elements;
use super::step::{Decode, Step, Work};
use crate::format::Column;
use crate::format::encoding::DType;

/// Output of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Key in the batch.
    pub name: String,
    /// Element type; `uint8` for text, bytes and ragged arrays without a fixed type.
    pub dtype: DType,
    /// Kind of its rows.
    pub shape: RowShape,
}

/// Kind of an output's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowShape {
    /// A row of a tensor, with these dimensions after the batch's; none for a scalar.
    Fixed(Vec<usize>),
    /// UTF-8 text of any length.
    Text,
    /// Bytes of any length.
    Bytes,
    /// An array with its own type and shape, see [`crate::decode::ragged::read_ragged`].
    RaggedArray,
}

impl Output {
    /// Bytes of a fixed row, `None` for the remaining shapes.
    pub fn row_bytes(&self) -> Option<usize> {
        match &self.shape {
            RowShape::Fixed(shape) => Some(elements(shape).unwrap_or(usize::MAX).saturating_mul(self.dtype.size())),
            _ => None,
        }
    }
}

/// Output with the stored bytes of a column as rows, so that they can be read directly into their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredColumn {
    /// Number among the outputs.
    pub output: usize,
    /// Number of its column in the index. No further output needs the column.
    pub column: usize,
    /// Bytes of a sample before the column.
    pub before: usize,
    /// Bytes of a sample after the column.
    pub after: usize,
}

impl StoredColumn {
    /// Returns the number of its output among the fixed ones; `None` if its rows have no fixed size.
    pub fn fixed_output(&self, outputs: &[Output]) -> Option<usize> {
        let is_fixed = |output: &Output| output.row_bytes().is_some();
        let before = || outputs[..self.output].iter().filter(|output| is_fixed(output)).count();
        is_fixed(&outputs[self.output]).then(before)
    }
}

/// The fields of a data set, compiled.
#[derive(Debug)]
pub struct FieldPlan {
    pub(super) columns: Vec<Column>,
    pub(super) outputs: Vec<Output>,
    pub(super) steps: Vec<Step>,
    pub(super) mixes: Vec<Mix>,
    pub(super) composition: Option<Arc<Composition>>,
}

impl FieldPlan {
    /// Numbers the groups of pictures that are made of one file, decoded alike.
    pub(super) fn find_groups(&mut self) {
        for number in 0..self.steps.len() {
            let Some(field) = self.steps[number].picture() else { continue };
            let column = self.steps[number].column;
            let is_alike = |step: &Step| step.column == column && step.picture().is_some_and(|p| p.is_read_as(field));
            let alike: Vec<usize> = (0..self.steps.len()).filter(|other| is_alike(&self.steps[*other])).collect();
            if let [first, rest @ ..] = &alike[..]
                && (!rest.is_empty() || field.views.is_some_and(|views| views > 1))
            {
                self.steps[number].group = Some(*first);
            }
        }
    }

    /// Returns true if pictures are decoded. Everything else costs little more than a copy.
    pub fn has_pictures(&self) -> bool {
        self.steps.iter().any(|step| step.picture().is_some())
    }

    /// Returns the form of each output's pictures, if all are colours of one size, cropped, resized and erased but not
    /// changed otherwise, nor drawn by boxes. A batch that is mixed or composed is complete on the host first, so it
    /// has none.
    pub fn picture_forms(&self) -> impl Iterator<Item = Option<PictureForm>> + '_ {
        self.steps.iter().map(|step| match step.picture() {
            _ if !self.mixes.is_empty() || self.composition.is_some() => None,
            Some(field)
                if !field.is_grey
                    && !field.is_augmented()
                    && field.linear.is_none()
                    && field.views.is_none()
                    && field.objects.is_none() =>
            {
                field.writer.form(field.size?)
            }
            _ => None,
        })
    }

    /// Returns the output that can be read directly into its destination, the largest if there are several. `around`
    /// returns the bytes of every sample before and after a column, if they are the same for all samples.
    pub fn stored_column(&self, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<StoredColumn> {
        let found = self.copies().filter_map(|(output, column)| {
            let (before, after) = around(column)?;
            Some(StoredColumn { output, column, before, after })
        });
        found.max_by_key(|d| self.outputs[d.output].row_bytes().unwrap_or(usize::MAX))
    }

    /// Returns the outputs of fixed size with a column's stored bytes as rows, each with its column's number in the
    /// index. No further output needs these columns.
    pub fn stored_outputs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.copies().filter(|(output, _)| self.outputs[*output].row_bytes().is_some())
    }

    /// Returns the outputs with rows that a column's stored bytes become in their own memory, and these columns, which
    /// no further output needs.
    pub fn outputs_in_place(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let has_own_memory = |output: usize| match self.outputs[output].shape {
            RowShape::Text | RowShape::RaggedArray => true,
            RowShape::Fixed(_) | RowShape::Bytes => false,
        };
        self.alone(|decoder| decoder.is_in_place()).filter(move |(output, _)| has_own_memory(*output))
    }

    /// Returns the outputs with a column's stored bytes as rows, and these columns, which no further output needs.
    pub fn copies(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.alone(|decoder| decoder.is_copy())
    }

    /// Returns the outputs with a decoder for which `is` returns true, and their columns, which no further output
    /// needs.
    fn alone(&self, is: fn(&dyn Decode) -> bool) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.steps.iter().enumerate().filter_map(move |(output, step)| {
            let column = step.column?;
            let fits = |work: &Work| matches!(work, Work::Value(decoder) if is(&**decoder));
            let is_alone = self.steps.iter().filter(|s| s.column == step.column).count() == 1;
            (is_alone && fits(&step.work)).then_some((output, column))
        })
    }

    /// Outputs that are mixed in each batch.
    pub fn mixes(&self) -> &[Mix] {
        &self.mixes
    }

    /// Composition of each sample with its partners.
    pub fn composition(&self) -> Option<&Arc<Composition>> {
        self.composition.as_ref()
    }

    /// Outputs of a batch, in the order of the fields, after the composition.
    pub fn delivered(&self) -> Vec<Output> {
        let mut outputs = self.outputs.clone();
        for (output, shape) in self.composition.iter().flat_map(|composition| composition.pictures()) {
            outputs[output].shape = RowShape::Fixed(shape.to_vec());
        }
        outputs
    }

    /// Outputs as they are decoded, in the order of the fields.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The data set's columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}
