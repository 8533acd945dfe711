//! Layout of a batch in its slot.
//!
//! The outputs of fixed shape are in sequence in one slot of the batch pool, each aligned for any device copy. There
//! may be room after them for files of pictures that the device decodes and that are longer than their rows.

use super::pack_layout::PackLayout;
use super::row_marks::{MarkOutput, RowMark};
use crate::decode::compose::Composition;
use crate::decode::mix::{Mix, RowRange};
use crate::decode::ragged::elements;
use crate::decode::{DType, DrawKey, FieldPlan, Output};
use crate::delivery::OutputLayout;
use crate::error::{Error, Result};
use crate::memory::BatchSlot;
use crate::sync::Arc;

/// Alignment of outputs: a pair of cache lines, which device copies need as well.
const OUTPUT_ALIGN_BYTES: usize = 256;

/// Layout of a batch: the shape and offset of each output.
#[derive(Debug)]
pub(crate) struct BatchLayout {
    /// Name of each output, as batches share it.
    pub(crate) names: Vec<Arc<str>>,
    /// The outputs, with `marks` last.
    pub(crate) outputs: Vec<Output>,
    /// The outputs that the plan gives.
    marks: Vec<MarkOutput>,
    /// Rows of a full batch.
    rows: usize,
    /// Bytes of all outputs.
    pub(crate) bytes: usize,
    /// Bytes after them, for files of pictures that the device decodes.
    pub(crate) room_bytes: usize,
    /// The fixed outputs, in the form that a device gets.
    pub(crate) places: Vec<OutputLayout>,
    /// Bytes of one row of each fixed output without `marks`.
    pub(crate) row_bytes: Vec<usize>,
    /// Outputs that are mixed in each batch.
    mixes: Vec<Mix>,
    /// Rows of each sample, which may be consecutive.
    repeats: usize,
    /// Packs, which the batch has in place of its rows.
    pub(crate) packs: Option<PackLayout>,
    /// Rows that are composed of several rows.
    pub(crate) composed: Option<ComposedLayout>,
}

/// Composed rows of a batch.
#[derive(Debug)]
pub(crate) struct ComposedLayout {
    pub(crate) composition: Arc<Composition>,
    /// Composed pictures, after all decoded rows.
    pub(crate) places: Vec<ComposedPlace>,
}

/// Output of composed pictures in the slot.
#[derive(Debug)]
pub(crate) struct ComposedPlace {
    /// Its number among all outputs.
    pub(crate) output: usize,
    pub(crate) dtype: DType,
    /// Shape of a row.
    pub(crate) shape: Vec<usize>,
    /// Offset of the first row.
    pub(crate) offset: usize,
    pub(crate) row_bytes: usize,
}

impl ComposedLayout {
    /// Layout of `rows` rows after `bytes` bytes of the slot, which are added to.
    fn new(composition: &Arc<Composition>, outputs: &[Output], rows: usize, bytes: &mut usize) -> Result<Self> {
        let mut places = Vec::new();
        for (output, shape) in composition.pictures() {
            let Output { name, dtype, .. } = &outputs[output];
            let too_large = || Error::config("a batch of this output is too large").with("output", name);
            let row_bytes = elements(shape).and_then(|n| n.checked_mul(dtype.size())).ok_or_else(too_large)?;
            let all = row_bytes.checked_mul(rows).filter(|all| *all < isize::MAX as usize / 2);
            let offset = bytes.next_multiple_of(OUTPUT_ALIGN_BYTES);
            *bytes = offset.checked_add(all.ok_or_else(too_large)?).ok_or_else(too_large)?;
            places.push(ComposedPlace { output, dtype: *dtype, shape: shape.to_vec(), offset, row_bytes });
        }
        Ok(Self { composition: composition.clone(), places })
    }
}

impl BatchLayout {
    /// Layout of batches of `rows` rows with the outputs of `plan`, and `marks` after them.
    ///
    /// # Errors
    ///
    /// `Config` when a batch would not fit into memory addresses.
    pub(crate) fn new(plan: &FieldPlan, rows: usize, marks: Vec<MarkOutput>) -> Result<Self> {
        // Rows of partners are decoded as well.
        let decoded = plan.composition().map_or(1, |composition| composition.rows_max());
        let mut outputs = plan.outputs().to_vec();
        outputs.extend(marks.iter().map(|mark| mark.output()));
        let (mut places, mut bytes) = (Vec::new(), 0usize);
        for (output, form) in outputs.iter().zip(plan.picture_forms().chain(std::iter::repeat(None))) {
            let Some(row_bytes) = output.row_bytes() else { continue };
            let all = row_bytes
                .checked_mul(rows)
                .and_then(|all| all.checked_mul(decoded))
                .filter(|all| *all < isize::MAX as usize / 2);
            let too_large = || Error::config("a batch of this output is too large").with("output", &output.name);
            let offset = bytes.next_multiple_of(OUTPUT_ALIGN_BYTES);
            bytes = offset + all.ok_or_else(too_large)?;
            places.push(OutputLayout { offset, row_bytes, form });
        }
        let composed =
            plan.composition().map(|composition| ComposedLayout::new(composition, &outputs, rows, &mut bytes));
        let names = outputs.iter().map(|output| output.name.as_str().into()).collect();
        let row_bytes = plan.outputs().iter().filter_map(Output::row_bytes).collect();
        Ok(Self {
            names,
            outputs,
            marks,
            rows,
            bytes,
            room_bytes: 0,
            places,
            row_bytes,
            mixes: plan.mixes().to_vec(),
            repeats: 1,
            packs: None,
            composed: composed.transpose()?,
        })
    }

    /// Sets the number of rows of each sample, which are not mixed together.
    pub(crate) fn with_repeats(self, repeats: u32) -> Self {
        Self { repeats: repeats as usize, ..self }
    }

    /// Sets the packs that are made of the rows.
    pub(crate) fn with_packs(self, packs: PackLayout) -> Self {
        Self { bytes: packs.bytes(), packs: Some(packs), ..self }
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

    /// Writes the first rows of the outputs that the plan gives. No part of the slot may be lent.
    pub(crate) fn mark(&self, slot: &mut BatchSlot, rows: &[RowMark]) {
        let places = &self.places[self.row_bytes.len()..];
        for (mark, place) in self.marks.iter().zip(places) {
            let Some(bytes) = slot.bytes_mut() else { return };
            for (row, values) in bytes[place.offset..].chunks_exact_mut(place.row_bytes).zip(rows) {
                mark.write(row, values);
            }
        }
    }

    /// Mixes the rows `kept` of a batch in its memory. `key` is the key of its first sample.
    pub(crate) fn mix(&self, bytes: &mut [u8], kept: &[usize], key: DrawKey) {
        let place = |output: usize| {
            let fixed = self.outputs[..output].iter().filter(|output| output.row_bytes().is_some()).count();
            let OutputLayout { offset, row_bytes, .. } = self.places[fixed];
            RowRange { offset, bytes: row_bytes }
        };
        self.mixes.iter().for_each(|mix| mix.run(key, kept, self.repeats, bytes, place));
    }

    /// Number of rows that a mixed batch of `rows` rows keeps, the first ones.
    pub(crate) fn rows_after_mix(&self, rows: usize) -> usize {
        self.mixes.iter().map(|mix| mix.mode().rows_after(rows)).min().unwrap_or(rows)
    }

    /// True if rows are mixed.
    pub(crate) fn has_mixes(&self) -> bool {
        !self.mixes.is_empty()
    }

    /// Rows of a full batch, with the rows of partners.
    pub(crate) fn decoded_rows(&self) -> usize {
        self.rows * self.composed.as_ref().map_or(1, |composed| composed.composition.rows_max())
    }

    /// The decoded fixed outputs: all except those that the plan gives.
    pub(crate) fn decoded_places(&self) -> &[OutputLayout] {
        &self.places[..self.row_bytes.len()]
    }

    /// For each decoded fixed output: true if the device may decode its pictures.
    pub(crate) fn has_pictures(&self) -> impl Iterator<Item = bool> + '_ {
        self.decoded_places().iter().map(|place| place.form.is_some())
    }

    /// Number among all outputs of the fixed output number `fixed`.
    pub(crate) fn output_of_fixed(&self, fixed: usize) -> usize {
        let mut fixed_outputs = (0..self.outputs.len()).filter(|output| self.outputs[*output].row_bytes().is_some());
        fixed_outputs.nth(fixed).unwrap_or(usize::MAX)
    }

    /// Number among the outputs without fixed shape of output number `output`, which is one.
    pub(crate) fn list_of(&self, output: usize) -> usize {
        self.outputs[..output].iter().filter(|output| output.row_bytes().is_none()).count()
    }

    /// True for the output `repeat`.
    pub(crate) fn is_repeat(&self, output: usize) -> bool {
        let decoded = self.outputs.len() - self.marks.len();
        output.checked_sub(decoded).is_some_and(|mark| self.marks[mark] == MarkOutput::Repeat)
    }
}
