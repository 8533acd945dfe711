//! Decoding of one sample: from the columns' bytes to the rows of a batch.

use std::sync::Arc;

use super::draw::DrawKey;
use super::image::{PictureCounts, StoredPicture};
use super::plan::FieldPlan;
use super::row::Row;
use super::step::{Memory, Step, Stored, Work};
use crate::error::{Context, Error, Result};

/// Decoder of one thread for a [`FieldPlan`]. It keeps its memory from sample to sample: after the largest sample,
/// JPEGs, numbers, text and bytes allocate nothing here.
pub struct SampleDecoder {
    plan: Arc<FieldPlan>,
    memory: Memory,
}

impl FieldPlan {
    /// Makes a decoder for one thread.
    pub fn decoder(self: &Arc<Self>) -> SampleDecoder {
        SampleDecoder { plan: Arc::clone(self), memory: Memory::default() }
    }
}

impl SampleDecoder {
    /// Decodes one sample. `column` returns a column's stored bytes by its number in the index, `None` if the sample
    /// lacks it, and is called for the plan's columns; `rows` are in the order of [`FieldPlan::outputs`]. After a
    /// failure the rows' contents are unspecified.
    ///
    /// `index` returns the entry of a column in the shard's value index; it may be empty. For a JPEG it is the row
    /// index, which saves decoding above and to the right of the region. The result is the same.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Decode`] or [`crate::ErrorKind::Unsupported`] for a bad sample, with field and column;
    /// [`crate::ErrorKind::Internal`] for rows that are not the plan's.
    pub fn decode<'c, 'i, 'r>(
        &mut self,
        column: impl Fn(usize) -> Option<&'c [u8]>,
        index: impl Fn(usize) -> &'i [u8],
        key: DrawKey,
        rows: impl IntoIterator<Item = Row<'r>>,
    ) -> Result<()> {
        let Self { plan, memory } = self;
        let mismatch = || Error::internal("the sample does not have the plan's rows");
        let mut rows = rows.into_iter();
        memory.images.start_sample();
        for (place, (step, output)) in plan.steps.iter().zip(plan.outputs()).enumerate() {
            let later = &plan.steps[place + 1..];
            let mut row = rows.next().ok_or_else(mismatch)?;
            let decoded = match step.column {
                None if matches!(row, Row::Filled) => Ok(()),
                None => step.write_default(&mut row),
                Some(number) => match (column(number), &mut row) {
                    (_, Row::Filled) => Ok(()),
                    (Some(_), Row::Stored(value)) => match &step.work {
                        Work::Value(decoder) => decoder.decode_in_place(value, memory),
                        Work::Picture(_) | Work::Absent => Err(mismatch()),
                    },
                    (Some(bytes), row) => match &step.work {
                        Work::Picture(field) => {
                            let file = StoredPicture { bytes, index: index(number), group: step.group };
                            let alike = |later: &&Step| step.group.is_some() && later.group == step.group;
                            let later = later.iter().filter(alike).filter_map(Step::picture);
                            let loaded = memory.load_objects(field, &plan.steps, &column);
                            loaded.and_then(|()| memory.images.decode(&file, field, later, key, row))
                        }
                        Work::Value(decoder) => {
                            let stored = Stored { bytes, step, steps: &plan.steps, column: &column, key };
                            decoder.decode(&stored, row, memory)
                        }
                        Work::Absent => step.write_default(row),
                    },
                    (None, row) => step.write_default(row),
                }
                .context("column", || &plan.columns()[number].name),
            };
            decoded.context("field", || &output.name)?;
        }
        if rows.next().is_some() { Err(mismatch()) } else { Ok(()) }
    }

    /// Decodes the picture `file` for output number `output` alone, as [`decode`](Self::decode) does, into `row`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_picture(&mut self, output: usize, file: &[u8], key: DrawKey, row: &mut [u8]) -> Result<()> {
        let Self { plan, memory } = self;
        let (Some(step), Some(named)) = (plan.steps.get(output), plan.outputs().get(output)) else {
            return Err(Error::internal("there is no such output").with("output", output));
        };
        let Some(field) = step.picture() else {
            return Err(Error::internal("the output is not a picture").with("output", output));
        };
        memory.images.start_sample();
        let file = StoredPicture { bytes: file, index: &[], group: None };
        memory
            .images
            .decode(&file, field, std::iter::empty(), key, &mut Row::Fixed(row))
            .context("column", || step.column.map_or("", |column| &plan.columns()[column].name))
            .context("field", || &named.name)
    }

    /// Returns the counts of pictures since the last call.
    pub fn take_picture_counts(&mut self) -> PictureCounts {
        self.memory.images.take_counts()
    }
}
