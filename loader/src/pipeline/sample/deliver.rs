//! Deliver stage: from a filled batch to the consumer.

use super::batch_builder::{BatchBuilder, FilledBatch};
use super::batch_layout::{BatchLayout, Shape};
use super::offload::Offload;
use crate::batch::{Batch, Output, RowBytes, Tensor};
use crate::delivery::{Delivery, PartialBatch, TensorMemory};
use crate::error::{Error, Result};
use crate::pipeline::refill::Refiller;
use crate::pipeline::reorder::ReorderQueue;
use crate::stats::{Counter, Stage, TimeKind};
use crate::sync::Arc;

/// Deliver stage. Any thread that finishes a batch delivers it.
pub(crate) struct DeliverStage {
    pub(crate) epoch: u64,
    /// Number of the run's first batch in the epoch.
    pub(crate) first_batch: u64,
    /// Batches without rows are allowed.
    pub(crate) may_be_empty: bool,
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) reorder: Arc<ReorderQueue<Result<Batch>>>,
    pub(crate) refiller: Refiller,
    pub(crate) offload: Option<Arc<dyn Offload>>,
    pub(crate) stage: Arc<Stage>,
    /// Counts emptied batches that were delivered with a repeated sample.
    pub(crate) batches_refilled: Arc<Counter>,
}

impl DeliverStage {
    /// Counts rows and chunks of `batch` that are done, and passes the batch on after the last.
    ///
    /// # Errors
    ///
    /// `Config` if every sample of the batch was skipped and no order can be planned for the replacement.
    pub(crate) fn done(&self, batch: &Arc<BatchBuilder>, rows_and_chunks: usize) -> Result<()> {
        if !batch.done(rows_and_chunks) || self.refiller.refill(batch)? {
            return Ok(());
        }
        if self.offload.as_ref().is_none_or(|offload| !offload.take_batch(batch)) {
            let delivered = self.stage.timed(TimeKind::Busy, || match self.take(batch)? {
                Some(filled) => self.place(batch, filled),
                None => Ok(self.empty(batch)),
            });
            self.put(batch, delivered);
        }
        Ok(())
    }

    /// Hands a delivered batch, or its failure, to the consumer.
    pub(crate) fn put(&self, batch: &BatchBuilder, delivered: Result<Batch>) {
        self.batches_refilled.add(u64::from(delivered.is_ok() && batch.refills() > 0));
        self.stage.done(1, batch.layout.bytes() as u64);
        self.reorder.put(batch.number, delivered);
    }

    /// Takes the contents of `batch`, whose rows are all done; `None` if it has no rows and may be empty.
    ///
    /// # Errors
    ///
    /// The failure of the lowest failed row; `Decode` when every row was skipped and the batch may not be empty.
    pub(crate) fn take(&self, batch: &BatchBuilder) -> Result<Option<FilledBatch>> {
        let number = self.first_batch + batch.number;
        let filled = batch.take_filled().map_err(|(row, error)| error.with("batch", number).with("row", row))?;
        if filled.is_none() && !self.may_be_empty {
            return Err(Error::decode(
                "every sample of a batch was skipped, and there is no other one to repeat in its place, without which \
                 the other ranks would wait: repair the data, or choose a larger batch_size",
            )
            .with("batch", number)
            .with("tried", batch.refills()));
        }
        Ok(filled)
    }

    /// Places the contents of a batch in which no picture is encoded.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn place(&self, batch: &BatchBuilder, filled: FilledBatch) -> Result<Batch> {
        let FilledBatch { mut slot, kept, skipped } = filled;
        let layout = &batch.layout;
        if let Some(offload) = &self.offload
            && let Some(on_device) = offload.take_rows(batch)?
            && let Some(direct_rows) = self.delivery.direct_rows()
        {
            let memory = direct_rows.deliver(PartialBatch { slot, outputs: &layout.places, rows: &kept, on_device })?;
            return self.batch(batch, &memory, &skipped);
        }
        let unfinished = || Error::internal("a batch was finished before its rows were");
        if !skipped.is_empty() {
            close_gaps(layout, &kept, slot.bytes_mut().ok_or_else(unfinished)?);
        }
        let memory = self.delivery.deliver(slot.freeze().map_err(|_| unfinished())?, layout.bytes)?;
        self.batch(batch, &memory, &skipped)
    }

    /// The batch, with its fixed rows in `memory`.
    ///
    /// # Errors
    ///
    /// `Decode` for text that is not UTF-8.
    pub(crate) fn batch(
        &self,
        batch: &BatchBuilder,
        memory: &Arc<dyn TensorMemory>,
        skipped: &[usize],
    ) -> Result<Batch> {
        let rows = batch.rows - skipped.len();
        Ok(Batch { rows, outputs: outputs(batch, memory, skipped)?, ..self.empty(batch) })
    }

    /// The batch without its rows.
    pub(crate) fn empty(&self, batch: &BatchBuilder) -> Batch {
        Batch {
            epoch: self.epoch,
            number: self.first_batch + batch.number,
            rows: 0,
            outputs: Vec::new(),
            planned_rows: batch.rows as u64,
        }
    }
}

/// Outputs of a batch with its fixed rows in `memory`.
fn outputs(batch: &BatchBuilder, memory: &Arc<dyn TensorMemory>, skipped: &[usize]) -> Result<Vec<(Arc<str>, Output)>> {
    let rows = (batch.rows - skipped.len()) as i64;
    let mut lists = batch.take_lists(skipped);
    let outputs = batch.layout.outputs.iter().enumerate().map(|(i, output)| {
        let value = match &output.shape {
            Shape::Fixed { dtype, row, offset, .. } => {
                let shape = std::iter::once(rows).chain(row.iter().copied()).collect();
                let tensor = Tensor::new(memory.clone(), *offset, *dtype, shape);
                Output::Tensor(if batch.layout.repeat == Some(i) { tensor.of_bool() } else { tensor })
            }
            Shape::Text => Output::Text(text(lists.next().unwrap_or_default())?),
            Shape::Bytes => Output::Bytes(lists.next().unwrap_or_default()),
            Shape::Ragged => Output::Ragged(owned(lists.next().unwrap_or_default())?),
        };
        Ok((output.name.clone(), value))
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
