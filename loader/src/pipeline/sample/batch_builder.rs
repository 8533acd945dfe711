//! Batch while it is being filled.
//!
//! Decode threads write rows directly into the slot, in any order. The thread that finishes the last row has the batch
//! [placed](super::place).

use super::batch_layout::BatchLayout;
use super::row_marks::RowMark;
use crate::batch::RowBytes;
use crate::decode::DrawKey;
use crate::delivery::OutputLayout;
use crate::error::{Error, Result};
use crate::memory::{BatchSlot, RowMut};
use crate::order::SampleId;
use crate::pipeline::plan::{PackedRows, RowFragment, RowGroups};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// A device's part of a batch, which only the device's own code knows.
pub(crate) trait BatchExtension: Any + Send + Sync + Debug {
    /// Sets the free memory after the slot's rows, or releases what remains of it, since it borrows the slot.
    fn set_room(&self, room: Option<RowMut>);

    /// Drops everything, for a batch that is filled again.
    fn reset(&self);
}

/// Makes the extension of a batch.
pub(crate) type MakeExtension = Box<dyn Fn() -> Box<dyn BatchExtension> + Send + Sync>;

/// Batch that is being filled.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    /// Number in this run, from 0.
    pub(crate) number: u64,
    /// Position of its first row among the rank's samples of this run, from 0.
    pub(crate) first_position: u64,
    /// Key of the draws of its first planned sample, from which the batch's are made.
    pub(crate) key: DrawKey,
    pub(crate) layout: Arc<BatchLayout>,
    /// Rows to decode.
    pub(crate) rows: usize,
    /// Packs that are made of the rows; `None`: the rows are the batch's. A refill replaces them.
    packs: Option<Mutex<Arc<PackedRows>>>,
    /// Groups that are composed to one row each; `None`: each row is one of the batch.
    pub(crate) groups: Option<RowGroups>,
    slot: Mutex<Option<BatchSlot>>,
    /// Rows that are neither decoded nor skipped, and chunks that are in progress: a chunk borrows the slot until it
    /// ends.
    remaining: AtomicUsize,
    /// One list per output without fixed shape, in the order of the outputs.
    lists: Vec<Mutex<Vec<RowBytes>>>,
    outcome: Mutex<RowOutcomes>,
    /// `None` for batches in host memory.
    extension: Option<Box<dyn BatchExtension>>,
}

/// Outcomes of the rows, except success.
#[derive(Debug, Default)]
struct RowOutcomes {
    skipped: Vec<usize>,
    /// Errors of the skipped rows, each with the number of refills at its time.
    bad: Vec<(u32, usize, Error)>,
    /// Number of times that the batch was reopened.
    refills: u32,
    /// Error of the lowest row that failed.
    failure: Option<(usize, Error)>,
    /// Refills and row of that failure, which ends the bad samples that count.
    failed_at: Option<(u32, usize)>,
}

/// Contents of a batch with all rows done.
#[derive(Debug)]
pub(crate) struct FilledBatch {
    pub(crate) slot: BatchSlot,
    /// Rows that the batch keeps, ascending.
    pub(crate) kept: Vec<usize>,
    /// Rows that were skipped, ascending.
    pub(crate) skipped: Vec<usize>,
}

impl BatchBuilder {
    /// Begins batch `number`, with its first row at `first_position` and with `key`, in `slot`, with one entry of
    /// `marks` per row, and `packs` or `groups` of them.
    pub(crate) fn begin(
        (number, first_position, key): (u64, u64, DrawKey),
        layout: Arc<BatchLayout>,
        mut slot: BatchSlot,
        (marks, packs, groups): (&[RowMark], Option<PackedRows>, Option<RowGroups>),
        extension: Option<Box<dyn BatchExtension>>,
    ) -> Arc<Self> {
        let rows = marks.len();
        layout.mark(&mut slot, marks);
        let lists = layout
            .outputs
            .iter()
            .filter(|output| output.row_bytes().is_none())
            .map(|_| Mutex::new((0..rows).map(|_| RowBytes::Engine(Vec::new())).collect()))
            .collect();
        Arc::new(Self {
            number,
            first_position,
            key,
            rows,
            packs: packs.map(|packs| Mutex::new(Arc::new(packs))),
            groups,
            slot: Mutex::new(Some(slot)),
            remaining: AtomicUsize::new(rows),
            lists,
            outcome: Mutex::default(),
            extension,
            layout,
        })
    }

    /// Rows of the batch in the plan: samples, or packs.
    pub(crate) fn planned_rows(&self) -> usize {
        self.packs().map_or_else(|| self.planned_samples(), |packs| packs.packs)
    }

    /// Row of the batch in the plan that row `row` is a part of.
    pub(crate) fn planned_row(&self, row: usize) -> usize {
        self.groups.as_ref().map_or(row, |groups| groups.group_of(row))
    }

    /// True if row `row` is the row of a partner.
    pub(crate) fn is_partner(&self, row: usize) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.is_partner(row))
    }

    /// The packs that are made of the rows; `None`: the rows are the batch's.
    pub(crate) fn packs(&self) -> Option<Arc<PackedRows>> {
        self.packs.as_ref().map(|packs| packs.lock().clone())
    }

    /// Replaces the contents of all packs by `fragment` of the document `sample`, in row 0.
    pub(crate) fn refill_packs(&self, sample: SampleId, fragment: RowFragment) {
        if let Some(packs) = &self.packs {
            let mut packs = packs.lock();
            *packs = Arc::new(PackedRows { packs: packs.packs, documents: vec![sample], fragments: vec![fragment] });
        }
    }

    /// The device's part of the batch, if it has one of type `T`.
    pub(crate) fn extension<T: BatchExtension>(&self) -> Option<&T> {
        let extension: &dyn Any = self.extension.as_deref()?;
        extension.downcast_ref()
    }

    /// Splits the slot into the memory of the fixed outputs for each of the `chunks` of rows: one [`RowMut`] per chunk
    /// and output. Also opens the room after the rows.
    ///
    /// # Errors
    ///
    /// `Internal` when the chunks overlap.
    pub(crate) fn split_rows(&self, chunks: &[Range<usize>]) -> Result<Vec<Vec<RowMut>>> {
        let mut ranges = Vec::new();
        for chunk in chunks {
            let range = |place: &OutputLayout| {
                place.offset + chunk.start * place.row_bytes..place.offset + chunk.end * place.row_bytes
            };
            ranges.extend(self.layout.decoded_places().iter().map(range));
        }
        let per_chunk = ranges.len() / chunks.len().max(1);
        let mut slot = self.slot.lock();
        let slot = slot.as_mut().expect("the slot stays until the last row is done");
        let mut all = slot.rows(&ranges)?.into_iter();
        if let Some(extension) = self.extension.as_ref().filter(|_| self.layout.room_bytes > 0) {
            let room = self.layout.bytes()..self.layout.slot_bytes();
            extension.set_room(slot.rows(std::slice::from_ref(&room))?.pop());
        }
        Ok(chunks.iter().map(|_| all.by_ref().take(per_chunk).collect()).collect())
    }

    /// Splits off the first `count` rows of each of `rows`, the memory of the fixed outputs.
    pub(crate) fn split_front(&self, rows: &mut [RowMut], count: usize) -> Vec<RowMut> {
        rows.iter_mut().zip(&self.layout.row_bytes).map(|(rows, bytes)| rows.split_front(count * bytes)).collect()
    }

    /// The first row of each of `rows`, the memory of the fixed outputs.
    pub(crate) fn first_rows<'r>(&self, rows: &'r mut [RowMut]) -> impl Iterator<Item = &'r mut [u8]> {
        rows.iter_mut().zip(&self.layout.row_bytes).map(|(row, bytes)| &mut row[..*bytes])
    }

    /// Offset in the batch of `row` of fixed output number `output`.
    pub(crate) fn row_offset(&self, output: usize, row: usize) -> usize {
        let place = &self.layout.places[output];
        place.offset + row * place.row_bytes
    }

    /// Stores a row of the outputs without fixed shape.
    pub(crate) fn put_lists(&self, row: usize, values: impl IntoIterator<Item = RowBytes>) {
        for (list, value) in self.lists.iter().zip(values) {
            list.lock()[row] = value;
        }
    }

    /// Takes the lists, without their `skipped` rows (ascending).
    pub(crate) fn take_lists(&self, skipped: &[usize]) -> impl Iterator<Item = Vec<RowBytes>> {
        self.lists.iter().map(|list| {
            let mut list = std::mem::take(&mut *list.lock());
            let mut row = 0..;
            list.retain(|_| row.next().is_some_and(|row| skipped.binary_search(&row).is_err()));
            list
        })
    }

    /// True if row `row` was skipped.
    pub(crate) fn is_skipped(&self, row: usize) -> bool {
        self.outcome.lock().skipped.contains(&row)
    }

    /// Skips row `row` because of `error`; the batch becomes shorter.
    pub(crate) fn skip(&self, row: usize, error: Error) {
        let mut outcome = self.outcome.lock();
        let refills = outcome.refills;
        outcome.skipped.push(row);
        outcome.bad.push((refills, row, error));
    }

    /// Number of bad samples, also of samples that replaced skipped rows.
    pub(crate) fn bad_samples(&self) -> u64 {
        self.outcome.lock().bad.len() as u64
    }

    /// Takes the planned rows that were skipped before the failure, if there is one, with their errors, in plan order,
    /// whatever the threads.
    pub(crate) fn take_bad(&self) -> Vec<(usize, Error)> {
        let mut outcome = self.outcome.lock();
        let mut bad = std::mem::take(&mut outcome.bad);
        bad.sort_by_key(|(refills, row, _)| (*refills, *row));
        let failed_at = outcome.failed_at.unwrap_or((u32::MAX, usize::MAX));
        bad.into_iter()
            .take_while(|(refills, row, _)| (*refills, *row) < failed_at)
            .map(|(_, row, error)| (self.planned_row(row), error))
            .collect()
    }

    /// Makes the whole batch fail because of row `row`. The error of the lowest such row is reported, whatever the
    /// threads.
    pub(crate) fn fail(&self, row: usize, error: Error) {
        let mut outcome = self.outcome.lock();
        if outcome.failure.as_ref().is_none_or(|(first, _)| row < *first) {
            outcome.failed_at = Some((outcome.refills, row));
            outcome.failure = Some((row, error));
        }
    }

    /// True if all rows were skipped; rows of partners do not count.
    pub(crate) fn is_emptied(&self) -> bool {
        let outcome = self.outcome.lock();
        outcome.failure.is_none() && self.has_lost(&outcome.skipped)
    }

    /// True if `skipped` has the rows of all samples.
    fn has_lost(&self, skipped: &[usize]) -> bool {
        skipped.iter().filter(|row| !self.is_partner(**row)).count() == self.planned_samples()
    }

    /// Rows that are not rows of partners.
    fn planned_samples(&self) -> usize {
        self.groups.as_ref().map_or(self.rows, |groups| groups.starts.len())
    }

    /// Number of times that the batch was reopened.
    pub(crate) fn refills(&self) -> u32 {
        self.outcome.lock().refills
    }

    /// Opens row 0 of an emptied batch for a different sample, a repeat with the values `mark`. Returns its memory in
    /// each fixed output. One row and one chunk then remain.
    ///
    /// # Errors
    ///
    /// `Internal` while a row is in use.
    pub(crate) fn reopen(&self, mark: RowMark) -> Result<Vec<RowMut>> {
        let mut outcome = self.outcome.lock();
        outcome.skipped.retain(|row| *row != 0);
        outcome.refills += 1;
        drop(outcome);
        self.extension.iter().for_each(|extension| extension.reset());
        let mut slot = self.slot.lock();
        if let Some(slot) = slot.as_mut() {
            if !slot.reclaim() {
                return Err(Error::internal("a batch was reopened before its rows were done"));
            }
            self.layout.mark(slot, &[mark]);
        }
        drop(slot);
        // Relaxed: the count was zero, so no thread touches it until the new chunk has been sent.
        self.remaining.store(2, Ordering::Relaxed);
        Ok(self.split_rows(std::slice::from_ref(&(0..1)))?.pop().unwrap_or_default())
    }

    /// Adds `chunks` to the chunks in progress.
    pub(crate) fn add_chunks(&self, chunks: usize) {
        // Relaxed: the caller has a chunk or rows itself, so the count cannot reach zero meanwhile.
        self.remaining.fetch_add(chunks, Ordering::Relaxed);
    }

    /// Counts rows and chunks that are done and have dropped their [`RowMut`]s. Returns true for the caller that must
    /// finish the batch.
    pub(crate) fn done(&self, rows_and_chunks: usize) -> bool {
        // AcqRel: the thread that finishes the batch sees the rows of all threads.
        self.remaining.fetch_sub(rows_and_chunks, Ordering::AcqRel) == rows_and_chunks
    }

    /// Takes the slot out, with the list of rows to keep; `None` if every row was skipped.
    ///
    /// # Errors
    ///
    /// The lowest failed row and its failure.
    pub(crate) fn take_filled(&self) -> Result<Option<FilledBatch>, (usize, Error)> {
        let mut outcome = self.outcome.lock();
        if let Some(failure) = outcome.failure.take() {
            return Err(failure);
        }
        let mut skipped = outcome.skipped.clone();
        drop(outcome);
        if self.has_lost(&skipped) {
            return Ok(None);
        }
        skipped.sort_unstable();
        let kept = (0..self.rows).filter(|row| skipped.binary_search(row).is_err()).collect();
        self.extension.iter().for_each(|extension| extension.set_room(None));
        let slot = self.slot.lock().take().expect("a batch is finished once");
        Ok(Some(FilledBatch { slot, kept, skipped }))
    }

    /// Restores the slot that [`take_filled`](Self::take_filled) took.
    pub(crate) fn restore_slot(&self, slot: BatchSlot) {
        *self.slot.lock() = Some(slot);
    }
}
