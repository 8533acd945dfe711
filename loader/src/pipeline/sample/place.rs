//! Place stage: from a filled batch to the consumer.

use super::batch_builder::{BatchBuilder, FilledBatch};
use super::batch_layout::{BatchLayout, ComposedLayout};
use super::offload::Offload;
use super::pack_layout::{LengthMismatch, PackLayout, PackTensor};
use crate::batch::{Batch, Output, RowBytes, Tensor};
use crate::catalog::Catalog;
use crate::decode::{DType, RowShape};
use crate::delivery::{Delivery, DeviceRows, PartialBatch, TensorMemory};
use crate::error::{Error, Result};
use crate::memory::BatchSlot;
use crate::pipeline::done_batch::DoneBatch;
use crate::pipeline::plan::{PackedRows, RowGroups};
use crate::pipeline::refill::{Refill, Refills};
use crate::pipeline::schedule::{Chunk, Dispatcher, Task};
use crate::stats::{Counter, Stage, TimeKind};
use crate::sync::Arc;
use forebay_core::flow::ReorderQueue;

/// Place stage. Any thread that finishes a batch places it.
pub(crate) struct PlaceStage {
    pub(crate) epoch: u64,
    /// Number of the run's first batch in the epoch.
    pub(crate) first_batch: u64,
    /// True if there are no further ranks, which would wait for a rank with fewer batches: a batch may be empty.
    pub(crate) is_alone: bool,
    /// Bad samples that the epoch may leave out.
    pub(crate) max_errors: u64,
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) reorder: Arc<ReorderQueue<DoneBatch>>,
    pub(crate) refills: Refills,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) offload: Option<Arc<dyn Offload>>,
    pub(crate) stage: Arc<Stage>,
    /// Counts emptied batches that were delivered with a repeated sample.
    pub(crate) batches_refilled: Arc<Counter>,
}

impl PlaceStage {
    /// Counts rows and chunks of `batch` that are done, and passes the batch on after the last.
    ///
    /// # Errors
    ///
    /// `Config` if every sample of the batch was skipped and no order can be planned for the replacement.
    pub(crate) fn done(&self, batch: &Arc<BatchBuilder>, rows_and_chunks: usize) -> Result<()> {
        if !batch.done(rows_and_chunks) || self.refill(batch)? {
            return Ok(());
        }
        if self.offload.as_ref().is_none_or(|offload| !offload.take_batch(batch)) {
            let rows = || self.offload.as_ref().map_or(Ok(None), |offload| offload.take_rows(batch));
            let delivered = self.stage.timed(TimeKind::Busy, || match self.take(batch)? {
                Some(filled) => self.place(batch, filled, rows()?),
                None => Ok(self.empty(batch)),
            });
            self.put(batch, delivered);
        }
        Ok(())
    }

    /// Dispatches a further sample for `batch`, which has all rows done, if it has lost all its samples. Returns false
    /// if the batch has rows, may stay empty, or has no sample left to try.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be planned.
    pub(crate) fn refill(&self, batch: &Arc<BatchBuilder>) -> Result<bool> {
        // More bad samples than the epoch may have: the consumer reports them.
        let is_over = batch.bad_samples() > self.max_errors;
        if self.is_alone || !batch.is_emptied() || is_over {
            return Ok(false);
        }
        let number = self.first_batch + batch.number;
        let Some(Refill { planned, fragment }) = self.refills.sample(number, batch.refills())? else {
            return Ok(false);
        };
        log::warn!(
            "batch {number} lost all its samples; the remaining ranks would wait for it, so sample {} is repeated \
             there",
            planned.sample.0
        );
        let task = Task::new(planned, batch.first_position, &self.catalog)?;
        fragment.into_iter().for_each(|fragment| batch.refill_packs(planned.sample, fragment));
        let rows = batch.reopen(task.mark(self.epoch, &self.catalog))?;
        self.dispatcher.residency.announce_again(task.shard, task.position);
        let (batch, samples) = (batch.clone(), vec![task]);
        self.dispatcher.dispatch(Chunk { batch, first_row: 0, samples, rows, consumer_rows: None });
        Ok(true)
    }

    /// Hands a delivered batch, or its failure, to the consumer.
    pub(crate) fn put(&self, batch: &BatchBuilder, delivered: Result<Batch>) {
        self.batches_refilled.add(u64::from(delivered.is_ok() && batch.refills() > 0));
        self.stage.done(1, batch.layout.bytes() as u64);
        self.reorder.put(batch.number, DoneBatch { bad: batch.take_bad(), delivered });
    }

    /// Takes the contents of `batch`, which has all rows done; `None` if it has no rows and may be empty.
    ///
    /// # Errors
    ///
    /// The failure of the lowest failed row; `Decode` when every row was skipped and the batch may not be empty.
    pub(crate) fn take(&self, batch: &BatchBuilder) -> Result<Option<FilledBatch>> {
        let number = self.first_batch + batch.number;
        let of_row = |(row, error): (usize, Error)| error.with("batch", number).with("row", batch.planned_row(row));
        let filled = batch.take_filled().map_err(of_row)?;
        if filled.is_none() && !self.is_alone {
            return Err(Error::decode(
                "every sample of a batch was skipped, and none is left to repeat instead, so the remaining ranks \
                 would wait: repair the data, or choose a larger batch_size",
            )
            .with("batch", number)
            .with("tried", batch.refills()));
        }
        Ok(filled)
    }

    /// Places the contents of a batch in which no picture is encoded, with its `rows` that are on the device.
    ///
    /// # Errors
    ///
    /// Errors of the device; `Decode` for text that is not UTF-8.
    pub(crate) fn place(
        &self,
        batch: &BatchBuilder,
        FilledBatch { mut slot, mut kept, mut skipped }: FilledBatch,
        rows: Option<Box<dyn DeviceRows>>,
    ) -> Result<Batch> {
        let layout = &batch.layout;
        let unfinished = || Error::internal("a batch was finished before its rows were");
        if let (Some(layout), Some(packs)) = (&layout.packs, batch.packs()) {
            return self.place_packs(batch, (layout, &packs), slot, &skipped);
        }
        let mut lists = Vec::new();
        if let (Some(composed), Some(groups)) = (&layout.composed, &batch.groups) {
            lists = batch.take_lists(&[]).collect();
            kept.retain(|row| !groups.is_partner(*row));
            let bytes = slot.bytes_mut().ok_or_else(unfinished)?;
            compose(batch, (composed, groups), &kept, &mut lists, bytes)?;
            skipped = (0..batch.rows).filter(|row| kept.binary_search(row).is_err()).collect();
        }
        if layout.has_mixes() {
            layout.mix(slot.bytes_mut().ok_or_else(unfinished)?, &kept, batch.key);
            skipped.extend(kept.drain(layout.rows_after_mix(kept.len())..));
            skipped.sort_unstable();
        }
        let memory = match rows {
            Some(rows) => rows.deliver(PartialBatch { slot, outputs: &layout.places, rows: &kept })?,
            None => {
                if !skipped.is_empty() {
                    close_gaps(layout, &kept, slot.bytes_mut().ok_or_else(unfinished)?);
                }
                self.delivery.deliver(slot.freeze().map_err(|_| unfinished())?, layout.bytes)?
            }
        };
        Ok(Batch { rows: kept.len(), outputs: outputs(batch, &memory, &skipped, lists)?, ..self.empty(batch) })
    }

    /// Places the packs of a batch with these rows of ids.
    fn place_packs(
        &self,
        batch: &BatchBuilder,
        (layout, packs): (&PackLayout, &PackedRows),
        mut slot: BatchSlot,
        skipped: &[usize],
    ) -> Result<Batch> {
        let lists = batch.take_lists(&[]).map(owned).collect::<Result<Vec<_>>>()?;
        let mut lists = lists.iter().map(|rows| kept_of(rows, skipped));
        let (ids, labels) = (lists.next().unwrap_or_default(), lists.next());
        let unfinished = || Error::internal("a batch was finished before its rows were");
        let bytes = slot.bytes_mut().ok_or_else(unfinished)?;
        let contents = layout.assemble(packs, &ids, labels.as_deref(), bytes)?;
        let contents = contents.map_err(|mismatch| self.other_length(packs, &mismatch))?;
        let memory = self.delivery.deliver(slot.freeze().map_err(|_| unfinished())?, batch.layout.bytes)?;
        let tensor = |tensor: PackTensor<'_>| {
            let PackTensor { name, dtype, offset, shape } = tensor;
            (Arc::from(name), Output::Tensor(Tensor::new(memory.clone(), offset, dtype, shape)))
        };
        let outputs = contents.tensors.into_iter().map(tensor).collect();
        Ok(Batch { rows: contents.rows, outputs, numbers: contents.numbers, ..self.empty(batch) })
    }

    /// Error of a document that has other tokens than the plan, so that its packs are no longer what they should be.
    fn other_length(&self, packs: &PackedRows, mismatch: &LengthMismatch) -> Error {
        let &LengthMismatch { row, planned, found } = mismatch;
        let error = Error::config("the number of tokens of a sample differs from the number that it is packed with")
            .with("tokens", found)
            .with("packed", planned)
            .hinting(
                "pass the right numbers as `lengths` of packs, or leave `lengths` out and remove the counts in \
                       the cache folder",
            );
        let document = packs.documents.get(row).copied();
        let place = document.and_then(|sample| Some((sample, self.catalog.locate_sample(sample)?)));
        match place {
            Some((sample, (shard, index))) => {
                self.catalog.describe_sample(error, shard, index).with("sample", sample.0)
            }
            None => error,
        }
    }

    /// The batch without its rows.
    pub(crate) fn empty(&self, batch: &BatchBuilder) -> Batch {
        Batch {
            epoch: self.epoch,
            number: self.first_batch + batch.number,
            rows: 0,
            outputs: Vec::new(),
            numbers: Vec::new(),
            planned_rows: batch.planned_rows() as u64,
        }
    }
}

/// Composes the `kept` rows of `groups` with the rows of their partners: pictures in the slot's `bytes`, and the rest
/// in the `lists` of the outputs without fixed shape. Afterwards the lists have only the kept rows.
fn compose(
    batch: &BatchBuilder,
    (ComposedLayout { composition, places }, groups): (&ComposedLayout, &RowGroups),
    kept: &[usize],
    lists: &mut [Vec<RowBytes>],
    bytes: &mut [u8],
) -> Result<()> {
    let layout = &batch.layout;
    let mut composed: Vec<Vec<Vec<u8>>> = Vec::with_capacity(kept.len());
    for (to, row) in kept.iter().enumerate() {
        let group = groups.group_of(*row);
        let parts = groups.rows_of(group, batch.rows).map(|row| (!batch.is_skipped(row)).then_some(row));
        let list = |row: usize, output: usize| match lists[layout.list_of(output)].get(row) {
            Some(RowBytes::Engine(array)) => &**array,
            _ => &[],
        };
        let mut pictures = Vec::with_capacity(places.len());
        let (mut rest, mut start) = (&mut *bytes, 0);
        for place in places {
            let (before, after) = rest.split_at_mut(place.offset + to * place.row_bytes - start + place.row_bytes);
            start = place.offset + (to + 1) * place.row_bytes;
            let skip = before.len() - place.row_bytes;
            pictures.push(&mut before[skip..]);
            rest = after;
        }
        composed.push(composition.compose(groups.keys[group], &parts.collect::<Vec<_>>(), list, &mut pictures)?);
    }
    for list in lists.iter_mut() {
        let mut row = 0..;
        list.retain(|_| row.next().is_some_and(|row| kept.binary_search(&row).is_ok()));
    }
    for (to, arrays) in composed.into_iter().enumerate() {
        for (output, array) in composition.outputs().zip(arrays) {
            lists[layout.list_of(output)][to] = RowBytes::Engine(array);
        }
    }
    Ok(())
}

/// Outputs of a batch with its fixed rows in `memory`. `lists` are the lists of a composed batch; of further batches
/// they are taken here.
fn outputs(
    batch: &BatchBuilder,
    memory: &Arc<dyn TensorMemory>,
    skipped: &[usize],
    mut lists: Vec<Vec<RowBytes>>,
) -> Result<Vec<(Arc<str>, Output)>> {
    let (layout, rows) = (&batch.layout, (batch.rows - skipped.len()) as i64);
    if layout.composed.is_none() {
        lists = batch.take_lists(skipped).collect();
    }
    let (mut places, mut lists) = (layout.places.iter(), lists.into_iter());
    let tensor = |offset: usize, dtype: DType, row: &[usize]| {
        let shape = std::iter::once(rows).chain(row.iter().map(|length| *length as i64)).collect();
        Tensor::new(memory.clone(), offset, dtype, shape)
    };
    let pictures = || layout.composed.iter().flat_map(|composed| &composed.places);
    let outputs = layout.outputs.iter().zip(&layout.names).enumerate().map(|(number, (output, name))| {
        let mut list = || lists.next().unwrap_or_default();
        let value = match &output.shape {
            RowShape::Fixed(row) => {
                let offset = places.next().map_or(0, |place| place.offset);
                let tensor = tensor(offset, output.dtype, row);
                Output::Tensor(if layout.is_repeat(number) { tensor.of_bool() } else { tensor })
            }
            RowShape::Text => Output::Text(text(list())?),
            RowShape::Bytes => Output::Bytes(list()),
            RowShape::RaggedArray => {
                let rows = list();
                match pictures().find(|place| place.output == number) {
                    Some(place) => Output::Tensor(tensor(place.offset, place.dtype, &place.shape)),
                    None => Output::Ragged(owned(rows)?),
                }
            }
        };
        Ok((name.clone(), value))
    });
    outputs.collect()
}

/// Moves the `kept` rows (ascending) to the front.
fn close_gaps(layout: &BatchLayout, kept: &[usize], slot: &mut [u8]) {
    for place in &layout.places {
        for (to, from) in kept.iter().enumerate() {
            let start = place.offset + from * place.row_bytes;
            slot.copy_within(start..start + place.row_bytes, place.offset + to * place.row_bytes);
        }
    }
}

/// The `rows`, with `None` for the `skipped` ones (ascending).
fn kept_of<'r>(rows: &'r [Vec<u8>], skipped: &[usize]) -> Vec<Option<&'r [u8]>> {
    rows.iter().enumerate().map(|(row, ids)| skipped.binary_search(&row).is_err().then_some(&**ids)).collect()
}

/// Rows in the engine's memory. Only rows of bytes can be in the consumer's.
fn owned(rows: Vec<RowBytes>) -> Result<Vec<Vec<u8>>> {
    let own = |row| match row {
        RowBytes::Engine(bytes) => Ok(bytes),
        RowBytes::Consumer(_) => Err(Error::internal("a row that is not of bytes is in the consumer's memory")),
    };
    rows.into_iter().map(own).collect()
}

fn text(rows: Vec<RowBytes>) -> Result<Vec<String>> {
    owned(rows)?
        .into_iter()
        .map(|bytes| String::from_utf8(bytes).map_err(|_| Error::decode("a text sample is not valid UTF-8")))
        .collect()
}
