//! Layout of a batch in its slot.
//!
//! The outputs of fixed shape follow each other in one slot of the batch pool, each aligned for any device copy. There
//! may be room after them for files of pictures that the device decodes and that are longer than their rows.

use crate::decode::{FieldPlan, RowShape};
use crate::delivery::OutputLayout;
use crate::error::{Error, Result};
use crate::format::encoding::DType;
use crate::memory::BatchSlot;
use crate::sync::Arc;

/// Alignment of outputs: a pair of cache lines, which device copies need as well.
const OUTPUT_ALIGN_BYTES: usize = 256;

/// Layout of a batch: the shape and offset of each output.
#[derive(Debug)]
pub(crate) struct BatchLayout {
    pub(crate) outputs: Vec<OutputShape>,
    /// Rows of a full batch.
    rows: usize,
    /// Bytes of all outputs.
    pub(crate) bytes: usize,
    /// Bytes after them, for files of pictures that the device decodes.
    pub(crate) room_bytes: usize,
    /// Index of the `repeat` output.
    pub(crate) repeat: Option<usize>,
    /// Bytes of one row of each decoded fixed output.
    pub(crate) row_bytes: Vec<usize>,
    /// The fixed outputs, in the form that a device gets.
    pub(crate) places: Vec<OutputLayout>,
}

/// One output of a batch.
#[derive(Debug)]
pub(crate) struct OutputShape {
    pub(crate) name: Arc<str>,
    pub(crate) shape: Shape,
}

/// Shape of an output's rows.
#[derive(Debug)]
pub(crate) enum Shape {
    Fixed { dtype: DType, row: Vec<i64>, row_bytes: usize, offset: usize },
    Text,
    Bytes,
    Ragged,
}

impl OutputShape {
    /// Bytes of one row, if their shape is fixed.
    fn row_bytes(&self) -> Option<usize> {
        match self.shape {
            Shape::Fixed { row_bytes, .. } => Some(row_bytes),
            Shape::Text | Shape::Bytes | Shape::Ragged => None,
        }
    }
}

impl BatchLayout {
    /// Layout of batches of `rows` rows with the outputs of `plan`, and a `repeat` output at the end if `mark_repeats`
    /// is true.
    ///
    /// # Errors
    ///
    /// `Config` when a batch would not fit into memory addresses.
    pub(crate) fn new(plan: &FieldPlan, rows: usize, mark_repeats: bool) -> Result<Self> {
        let mut layout = Self {
            outputs: Vec::new(),
            rows,
            bytes: 0,
            room_bytes: 0,
            repeat: None,
            row_bytes: Vec::new(),
            places: Vec::new(),
        };
        for output in plan.outputs() {
            match &output.shape {
                RowShape::Fixed(row) => layout.push_fixed(&output.name, output.dtype, row)?,
                RowShape::Text => layout.push(&output.name, Shape::Text),
                RowShape::Bytes => layout.push(&output.name, Shape::Bytes),
                RowShape::RaggedArray => layout.push(&output.name, Shape::Ragged),
            }
        }
        layout.row_bytes = layout.outputs.iter().filter_map(OutputShape::row_bytes).collect();
        if mark_repeats {
            layout.repeat = Some(layout.outputs.len());
            layout.push_fixed("repeat", DType::UInt8, &[])?;
        }
        let fixed = layout.outputs.iter().zip(plan.picture_forms().chain(std::iter::once(None)));
        layout.places = fixed
            .filter_map(|(place, form)| match place.shape {
                Shape::Fixed { row_bytes, offset, .. } => Some(OutputLayout { offset, row_bytes, form }),
                Shape::Text | Shape::Bytes | Shape::Ragged => None,
            })
            .collect();
        Ok(layout)
    }

    fn push(&mut self, name: &str, shape: Shape) {
        self.outputs.push(OutputShape { name: name.into(), shape });
    }

    fn push_fixed(&mut self, name: &str, dtype: DType, row: &[usize]) -> Result<()> {
        let too_large = || Error::config("a batch of this output is too large").with("output", name);
        let elements = row.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or_else(too_large)?;
        let row_bytes = elements.checked_mul(dtype.size()).ok_or_else(too_large)?;
        let bytes = row_bytes.checked_mul(self.rows).filter(|b| *b < isize::MAX as usize / 2).ok_or_else(too_large)?;
        let offset = self.bytes.next_multiple_of(OUTPUT_ALIGN_BYTES);
        self.bytes = offset + bytes;
        let row = row.iter().map(|d| *d as i64).collect();
        self.push(name, Shape::Fixed { dtype, row, row_bytes, offset });
        Ok(())
    }

    /// Adds room for files of pictures that are longer than their rows, for samples of `sample_bytes` stored bytes on
    /// average and slots of at most `slot_bytes_max` bytes. Pictures that find no room are decoded on the host.
    pub(crate) fn with_room(self, sample_bytes: u64, slot_bytes_max: u64) -> Self {
        let mean = sample_bytes as f64;
        // Files that are longer than a row of r bytes need E[b; b > r] per row. That is at most the mean m, and at most
        // E[b b] / r, hence of the order of m m / r. For 6,000 photographs, m = 93 kB: 37 of these 57 kB for r = 151
        // kB, and 12 of 14 kB for r = 602 kB.
        let of_row = |place: &OutputLayout| mean * (mean / place.row_bytes.max(1) as f64).min(1.0);
        let of_rows: f64 = self.places.iter().filter(|place| place.form.is_some()).map(of_row).sum();
        let needed = (of_rows * self.rows as f64) as u64;
        let room_bytes = needed.min(slot_bytes_max.saturating_sub(self.bytes() as u64)) as usize;
        Self { room_bytes, ..self }
    }

    /// Bytes of the rows; at least 1, so that a batch of lists has a slot too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.max(1)
    }

    /// Bytes of one batch slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.bytes() + self.room_bytes
    }

    /// Writes the first rows of the `repeat` output, if there is one. No part of the slot may be lent.
    pub(crate) fn mark_repeats(&self, slot: &mut BatchSlot, repeats: &[bool]) {
        if let Some(Shape::Fixed { offset, .. }) = self.repeat.map(|i| &self.outputs[i].shape)
            && let Some(bytes) = slot.bytes_mut()
        {
            for (byte, repeat) in bytes[*offset..].iter_mut().zip(repeats) {
                *byte = u8::from(*repeat);
            }
        }
    }

    /// For each decoded fixed output: true if the device may decode its pictures.
    pub(crate) fn has_pictures(&self) -> impl Iterator<Item = bool> + '_ {
        self.places[..self.row_bytes.len()].iter().map(|place| place.form.is_some())
    }

    /// Number among all outputs of the fixed output number `fixed`.
    pub(crate) fn output_of_fixed(&self, fixed: usize) -> usize {
        let outputs = self.decoded().iter().enumerate();
        let mut fixed_outputs = outputs.filter(|(_, output)| matches!(output.shape, Shape::Fixed { .. }));
        fixed_outputs.nth(fixed).map_or(usize::MAX, |(output, _)| output)
    }

    /// The outputs that are decoded: all except `repeat`.
    pub(crate) fn decoded(&self) -> &[OutputShape] {
        &self.outputs[..self.repeat.unwrap_or(self.outputs.len())]
    }
}
