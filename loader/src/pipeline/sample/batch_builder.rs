//! A batch while it is being filled, and what it becomes.
//!
//! All outputs of fixed shape lie one behind another in one slot of the batch pool, each aligned for any device copy. Behind
//! them there may be room for files that are left to the target's decoder and are longer than their rows.
//! Decode threads write rows in place, in any order; the one that finishes the last row has the slot turned into a batch
//! ([`deliver`](super::deliver)).

use super::deliver::Encoded;
use crate::batch::RowBytes;
use crate::decode::{DType, EncodedPicture, FieldPlan, RowShape};
use crate::delivery::{DeviceRows, DirectBatch, DirectRows, OutputLayout, RowPicture};
use crate::error::{Error, Result};
use crate::memory::{BatchSlot, RowMut};
use crate::pipeline::Task;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use std::ops::Range;

/// Outputs start at multiples of this many bytes: a cache line pair, and what device copies like.
const OUTPUT_ALIGN_BYTES: usize = 256;

/// Where every output of a batch lies.
#[derive(Debug)]
pub(crate) struct BatchLayout {
    pub(crate) outputs: Vec<Place>,
    /// Rows of a full batch.
    rows: usize,
    /// Bytes of all outputs.
    pub(crate) bytes: usize,
    /// Bytes behind them for files.
    room_bytes: usize,
    /// Index of the `repeat` output.
    pub(crate) repeat: Option<usize>,
    /// Bytes of one row of each fixed output that is decoded.
    row_bytes: Vec<usize>,
    /// The fixed outputs, as a target sees them.
    pub(crate) places: Vec<OutputLayout>,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    pub(crate) shape: Shape,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Fixed { dtype: DType, row: Vec<i64>, row_bytes: usize, offset: usize },
    Text,
    Bytes,
    Ragged,
}

impl Place {
    /// Bytes of one row, if its shape is fixed.
    fn row_bytes(&self) -> Option<usize> {
        match self.shape {
            Shape::Fixed { row_bytes, .. } => Some(row_bytes),
            Shape::Text | Shape::Bytes | Shape::Ragged => None,
        }
    }
}

impl BatchLayout {
    /// The layout of batches of `rows` rows of what `plan` decodes, with a `repeat` output at the end if asked for.
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
        layout.row_bytes = layout.outputs.iter().filter_map(Place::row_bytes).collect();
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
        self.outputs.push(Place { name: name.into(), shape });
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

    /// The same with room for files of pictures, for samples of `sample_bytes` stored bytes on average, in slots of at most
    /// `slot_bytes_max` bytes. What finds no room is decoded on the host.
    pub(crate) fn with_room(self, sample_bytes: u64, slot_bytes_max: u64) -> Self {
        let mean = sample_bytes as f64;
        // Files that are longer than a row of r bytes need E[b; b > r] per row. That is at most the mean m, and at most
        // E[b b] / r, hence of the order of m m / r. For 6,000 photographs, m = 93 kB: 37 of these 57 kB for r = 151 kB, and
        // 12 of 14 kB for r = 602 kB.
        let of_row = |place: &OutputLayout| mean * (mean / place.row_bytes.max(1) as f64).min(1.0);
        let of_rows: f64 = self.places.iter().filter(|place| place.form.is_some()).map(of_row).sum();
        let wanted = (of_rows * self.rows as f64) as u64;
        let room_bytes = wanted.min(slot_bytes_max.saturating_sub(self.bytes() as u64)) as usize;
        Self { room_bytes, ..self }
    }

    /// Bytes of one batch; at least 1, so that a batch of lists has a slot too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.max(1)
    }

    /// Bytes of one batch slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.bytes() + self.room_bytes
    }

    /// Writes the first rows of the `repeat` output, if there is one. No row of the slot is out.
    fn mark(&self, slot: &mut BatchSlot, repeats: &[bool]) {
        if let Some(Shape::Fixed { offset, .. }) = self.repeat.map(|i| &self.outputs[i].shape)
            && let Some(bytes) = slot.bytes_mut()
        {
            for (byte, repeat) in bytes[*offset..].iter_mut().zip(repeats) {
                *byte = u8::from(*repeat);
            }
        }
    }

    /// For each decoded output of fixed rows, whether its pictures may be left to the target's decoder.
    pub(crate) fn has_pictures(&self) -> impl Iterator<Item = bool> + '_ {
        self.places[..self.row_bytes.len()].iter().map(|place| place.form.is_some())
    }

    /// How many of the outputs are decoded (all but `repeat`).
    fn decoded(&self) -> &[Place] {
        &self.outputs[..self.repeat.unwrap_or(self.outputs.len())]
    }
}

/// A batch that is being filled.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    /// Its number in this run, from 0.
    pub(crate) number: u64,
    /// The position of its first row among the rank's samples of this run, from 0.
    pub(crate) first_position: u64,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) rows: usize,
    pub(crate) slot: Mutex<Option<BatchSlot>>,
    /// What is left of the room behind the rows.
    room: Mutex<Option<RowMut>>,
    /// Rows not yet decoded or given up, and chunks not yet put down: a chunk holds on to the slot until then.
    left: AtomicUsize,
    /// One list per output without fixed shape, in the order of the outputs.
    pub(crate) lists: Vec<Mutex<Vec<RowBytes>>>,
    pub(crate) outcome: Mutex<Outcome>,
    /// Pictures that are left to the target's decoder.
    pub(crate) encoded: Mutex<Vec<Encoded>>,
    /// What the target has of the batch while pictures that its decoder refused are decoded on the host.
    pub(crate) decoded: Mutex<Option<DeviceRows>>,
    /// Rows that the target has before the others, once there are some.
    pub(crate) at_target: Mutex<AtTarget>,
}

/// Rows of a batch that are at its target.
#[derive(Debug, Default)]
pub(crate) struct AtTarget {
    pub(crate) memory: Option<Arc<dyn DirectBatch>>,
    /// Output among those with fixed rows, and row.
    pub(crate) rows: Vec<(usize, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) skipped: Vec<usize>,
    /// How often the batch was reopened.
    pub(crate) refills: u32,
    pub(crate) failure: Option<(usize, Error)>,
}

impl BatchBuilder {
    /// Begins batch `number`, whose first row is at `first_position`, in `slot`, with one entry of `repeats` per row.
    pub(crate) fn begin(
        (number, first_position): (u64, u64),
        layout: Arc<BatchLayout>,
        mut slot: BatchSlot,
        repeats: &[bool],
    ) -> Arc<Self> {
        let rows = repeats.len();
        layout.mark(&mut slot, repeats);
        let is_list = |p: &&Place| !matches!(p.shape, Shape::Fixed { .. });
        let lists = layout
            .outputs
            .iter()
            .filter(is_list)
            .map(|_| Mutex::new((0..rows).map(|_| RowBytes::Own(Vec::new())).collect()))
            .collect();
        Arc::new(Self {
            number,
            first_position,
            rows,
            slot: Mutex::new(Some(slot)),
            room: Mutex::default(),
            left: AtomicUsize::new(rows),
            lists,
            outcome: Mutex::default(),
            encoded: Mutex::default(),
            decoded: Mutex::default(),
            at_target: Mutex::default(),
            layout,
        })
    }

    /// The places of the fixed outputs for each of the `chunks` of rows: one [`RowMut`] per chunk and output. Opens the room
    /// for files.
    ///
    /// # Errors
    ///
    /// `Internal` when the chunks overlap.
    pub(crate) fn places(&self, chunks: &[Range<usize>]) -> Result<Vec<Vec<RowMut>>> {
        let mut ranges = Vec::new();
        for chunk in chunks {
            for place in self.layout.decoded() {
                if let Shape::Fixed { row_bytes, offset, .. } = place.shape {
                    ranges.push(offset + chunk.start * row_bytes..offset + chunk.end * row_bytes);
                }
            }
        }
        let per_chunk = ranges.len() / chunks.len().max(1);
        let mut slot = self.slot.lock();
        let slot = slot.as_mut().expect("the slot stays until the last row is done");
        let mut all = slot.rows(&ranges)?.into_iter();
        if self.layout.room_bytes > 0 {
            let room = self.layout.bytes()..self.layout.slot_bytes();
            *self.room.lock() = slot.rows(std::slice::from_ref(&room))?.pop();
        }
        Ok(chunks.iter().map(|_| all.by_ref().take(per_chunk).collect()).collect())
    }

    /// Bytes of one row of each fixed output.
    pub(crate) fn row_bytes(&self) -> &[usize] {
        &self.layout.row_bytes
    }

    /// For each decoded output, whether it has a fixed shape.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = bool> + '_ {
        self.layout.decoded().iter().map(|p| matches!(p.shape, Shape::Fixed { .. }))
    }

    /// Keeps a row of the outputs without fixed shape.
    pub(crate) fn put_lists(&self, row: usize, values: impl IntoIterator<Item = RowBytes>) {
        for (list, value) in self.lists.iter().zip(values) {
            list.lock()[row] = value;
        }
    }

    /// For each output of fixed rows, whether its pictures may be left to the target's decoder.
    pub(crate) fn has_pictures(&self) -> impl Iterator<Item = bool> + '_ {
        self.layout.has_pictures()
    }

    /// Which of all outputs the fixed output number `fixed` is.
    pub(crate) fn output_of_fixed(&self, fixed: usize) -> usize {
        let mut outputs = self.fixed().enumerate().filter(|(_, is_fixed)| *is_fixed);
        outputs.nth(fixed).map_or(usize::MAX, |(output, _)| output)
    }

    /// Room for a file of `bytes` bytes that is longer than its row, if there is some left.
    pub(crate) fn room(&self, bytes: usize) -> Option<RowMut> {
        self.room.lock().as_mut().filter(|room| room.len() >= bytes).map(|room| room.split_front(bytes))
    }

    /// Gives up what is left of the room: the slot is filled.
    pub(crate) fn close_room(&self) {
        *self.room.lock() = None;
    }

    /// Notes that a row's picture of fixed output number `output` is still a file, `apart` bytes behind the slot's start or
    /// else at the start of its row.
    pub(crate) fn put_encoded(
        &self,
        (output, row): (usize, usize),
        (picture, apart): (EncodedPicture, Option<usize>),
        task: Task,
        layout_number: usize,
    ) {
        let place = &self.layout.places[output];
        let at = apart.unwrap_or(place.offset + row * place.row_bytes);
        self.encoded.lock().push(Encoded { at: RowPicture { output, row, at, picture }, task, layout_number });
    }

    /// Bytes of the batch before `row` of fixed output number `output`.
    pub(crate) fn place_of(&self, output: usize, row: usize) -> usize {
        let place = &self.layout.places[output];
        place.offset + row * place.row_bytes
    }

    /// The batch's memory at the target, which `early` sets aside with the first call; `None` where there is none without
    /// waiting.
    ///
    /// # Errors
    ///
    /// What `early` says.
    pub(crate) fn at_target(&self, early: &dyn DirectRows, may_wait: bool) -> Result<Option<Arc<dyn DirectBatch>>> {
        // Who has the lock may be waiting for the device.
        let at_target = if may_wait { Some(self.at_target.lock()) } else { self.at_target.try_lock() };
        let Some(mut at_target) = at_target else { return Ok(None) };
        if at_target.memory.is_none() {
            at_target.memory = early.allocate(self.layout.bytes(), may_wait)?;
        }
        Ok(at_target.memory.clone())
    }

    /// Notes that these rows (fixed output, row) are at the target.
    pub(crate) fn put_at_target(&self, rows: impl Iterator<Item = (usize, usize)>) {
        self.at_target.lock().rows.extend(rows);
    }

    /// Whether there are pictures that are still files.
    pub(crate) fn has_encoded(&self) -> bool {
        !self.encoded.lock().is_empty()
    }

    /// Whether row `row` was given up.
    pub(crate) fn is_skipped(&self, row: usize) -> bool {
        self.outcome.lock().skipped.contains(&row)
    }

    /// Gives row `row` up; the batch gets shorter.
    pub(crate) fn skip(&self, row: usize) {
        self.outcome.lock().skipped.push(row);
    }

    /// Whether all rows are done and were given up.
    pub(crate) fn is_emptied(&self) -> bool {
        let outcome = self.outcome.lock();
        outcome.failure.is_none() && outcome.skipped.len() == self.rows
    }

    /// How often the batch was reopened.
    pub(crate) fn refills(&self) -> u32 {
        self.outcome.lock().refills
    }

    /// Opens row 0 of an emptied batch for another sample, a repeat, which counts as a row and a chunk to be done: its
    /// place in each fixed output.
    ///
    /// # Errors
    ///
    /// `Internal` while a row is out.
    pub(crate) fn reopen(&self) -> Result<Vec<RowMut>> {
        let mut outcome = self.outcome.lock();
        outcome.skipped.retain(|row| *row != 0);
        outcome.refills += 1;
        drop(outcome);
        self.encoded.lock().clear();
        *self.decoded.lock() = None;
        *self.at_target.lock() = AtTarget::default();
        self.close_room();
        let mut slot = self.slot.lock();
        if let Some(slot) = slot.as_mut() {
            if !slot.reclaim() {
                return Err(Error::internal("a batch was reopened before its rows were done"));
            }
            self.layout.mark(slot, &[true]);
        }
        drop(slot);
        // Relaxed: the count was zero, so nobody else touches it until the new chunk has been sent.
        self.left.store(2, Ordering::Relaxed);
        Ok(self.places(std::slice::from_ref(&(0..1)))?.pop().unwrap_or_default())
    }

    /// Row `row` makes the whole batch fail. The lowest row's error is the one that is reported, whatever the threads.
    pub(crate) fn fail(&self, row: usize, error: Error) {
        let mut outcome = self.outcome.lock();
        if outcome.failure.as_ref().is_none_or(|(first, _)| row < *first) {
            outcome.failure = Some((row, error));
        }
    }

    /// There are `chunks` more chunks of this batch.
    pub(crate) fn add_chunks(&self, chunks: usize) {
        // Relaxed: the caller holds a chunk or rows of its own, so the count cannot reach zero meanwhile.
        self.left.fetch_add(chunks, Ordering::Relaxed);
    }

    /// So many rows and chunks are done, and their [`RowMut`]s gone; true for the caller that must finish the batch.
    pub(crate) fn done(&self, rows_and_chunks: usize) -> bool {
        // AcqRel: the finisher sees every other thread's rows.
        self.left.fetch_sub(rows_and_chunks, Ordering::AcqRel) == rows_and_chunks
    }
}
