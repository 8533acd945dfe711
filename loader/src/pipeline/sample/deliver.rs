//! From a filled slot to a batch at its target.

use super::batch_builder::{AtTarget, BatchBuilder, Shape};
use crate::batch::{Batch, Output, RowBytes, Tensor};
use crate::delivery::{
    DecodeOutcome, Delivery, DeviceRows, EncodedBatch, InFlightBatch, PartialBatch, PictureDecoder, RowPicture,
    TensorMemory,
};
use crate::error::{Error, Result};
use crate::memory::BatchSlot;
use crate::pipeline::Task;
use crate::sync::Arc;

/// A picture in the making that is still a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    /// Where it is and what becomes of it; its output counts those of fixed rows.
    pub(crate) at: RowPicture,
    /// The sample that it is of.
    pub(crate) task: Task,
    /// The layout of the sample's shard.
    pub(crate) layout_number: usize,
}

/// Where a batch goes.
pub(crate) struct Ends<'a> {
    pub(crate) epoch: u64,
    /// Number of the run's first batch in the epoch.
    pub(crate) first_batch: u64,
    pub(crate) target: &'a dyn Delivery,
    /// Decodes what is still a file.
    pub(crate) pictures: Option<&'a dyn PictureDecoder>,
    /// Whether a batch without rows is one.
    pub(crate) may_be_empty: bool,
}

/// What finishing a batch comes to.
#[derive(Debug)]
pub(crate) enum Finished {
    /// A batch, and what became of its pictures that were files.
    Batch(Batch, PictureCounts),
    /// The target's decoder does not take these pictures: they are to be decoded into their rows.
    Refused(Vec<Encoded>),
    /// The target works on its pictures: what comes of it is to be asked for, by [`BatchBuilder::end`].
    UnderWay(Unended),
}

/// A batch that its target works on.
#[derive(Debug)]
pub(crate) struct Unended {
    under_way: InFlightBatch,
    /// Its pictures that were files.
    encoded: Vec<Encoded>,
    /// The rows that it does not have, ascending.
    skipped: Vec<usize>,
}

/// Pictures of a batch that its target decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PictureCounts {
    /// All of them.
    pub(crate) on_device: u64,
    /// Those that a decoder made for nothing else decodes.
    pub(crate) on_engines: u64,
}

impl BatchBuilder {
    /// Turns the filled slot into a batch at its target.
    ///
    /// # Errors
    ///
    /// The failure of the lowest failed row; what the target says; `Decode` when every row was skipped, unless the
    /// batch may be empty: then it has no rows and no outputs.
    pub(crate) fn finish(&self, ends: &Ends<'_>) -> Result<Finished> {
        let (number, planned_rows) = (ends.first_batch + self.number, self.rows as u64);
        let mut outcome = self.outcome.lock();
        if let Some((row, error)) = outcome.failure.take() {
            return Err(error.with("batch", number).with("row", row));
        }
        let (mut skipped, refills) = (outcome.skipped.clone(), outcome.refills);
        drop(outcome);
        skipped.sort_unstable();
        let rows = self.rows - skipped.len();
        if rows == 0 {
            if ends.may_be_empty {
                let batch = Batch { epoch: ends.epoch, number, rows, outputs: Vec::new(), planned_rows };
                return Ok(Finished::Batch(batch, PictureCounts::default()));
            }
            return Err(Error::decode(
                "every sample of a batch was skipped, and there is no other one to repeat in its place, without which the \
                 other ranks would wait: repair the data, or choose a larger batch_size",
            )
            .with("batch", number)
            .with("tried", refills));
        }
        self.close_room();
        let slot = self.slot.lock().take().expect("a batch is finished once");
        let kept: Vec<usize> = (0..self.rows).filter(|row| skipped.binary_search(row).is_err()).collect();
        let mut encoded = std::mem::take(&mut *self.encoded.lock());
        encoded.retain(|picture| skipped.binary_search(&picture.at.row).is_err());
        let decoded = match self.take_at_target()? {
            Some(read) => Some(read),
            None => self.decoded.lock().take(),
        };
        match ends.pictures.filter(|_| !encoded.is_empty()) {
            None => {
                let memory = self.place(slot, &kept, decoded, ends)?;
                self.batch(ends, &memory, &skipped, PictureCounts::default())
            }
            Some(pictures) => {
                encoded.sort_unstable_by_key(|picture| (picture.at.output, picture.at.row));
                let placed = self.place_encoded(slot, &kept, &encoded, decoded, pictures)?;
                self.placed(ends, placed, encoded, skipped)
            }
        }
    }

    /// What came of a batch that was under way.
    ///
    /// # Errors
    ///
    /// What the target says.
    pub(crate) fn end(&self, ends: &Ends<'_>, unended: Unended) -> Result<Finished> {
        let Unended { under_way, encoded, skipped } = unended;
        let pictures = ends.pictures.ok_or_else(|| Error::internal("a batch is under way to no decoder"))?;
        self.placed(ends, pictures.wait(under_way)?, encoded, skipped)
    }

    /// Takes in what became of a batch without the rows `skipped` and with files.
    fn placed(
        &self,
        ends: &Ends<'_>,
        placed: DecodeOutcome,
        encoded: Vec<Encoded>,
        skipped: Vec<usize>,
    ) -> Result<Finished> {
        match placed {
            DecodeOutcome::InFlight(under_way) => Ok(Finished::UnderWay(Unended { under_way, encoded, skipped })),
            DecodeOutcome::Done { memory, on_engines } => {
                let counts = PictureCounts { on_device: encoded.len() as u64, on_engines: on_engines as u64 };
                self.batch(ends, &memory, &skipped, counts)
            }
            DecodeOutcome::Rejected { slot, pictures, on_device: decoded } => {
                *self.slot.lock() = Some(slot);
                *self.decoded.lock() = decoded;
                Ok(Finished::Refused(self.take_refused(encoded, &pictures)?))
            }
        }
    }

    /// The batch, whose fixed rows are in `memory`.
    fn batch(
        &self,
        ends: &Ends<'_>,
        memory: &Arc<dyn TensorMemory>,
        skipped: &[usize],
        counts: PictureCounts,
    ) -> Result<Finished> {
        let outputs = self.outputs(memory, skipped)?;
        let (number, rows) = (ends.first_batch + self.number, self.rows - skipped.len());
        let batch = Batch { epoch: ends.epoch, number, rows, outputs, planned_rows: self.rows as u64 };
        Ok(Finished::Batch(batch, counts))
    }

    /// What the target has of the batch after its early rows, unless it has been handed on before.
    fn take_at_target(&self) -> Result<Option<DeviceRows>> {
        let AtTarget { memory, rows } = std::mem::take(&mut *self.at_target.lock());
        match memory {
            Some(memory) if !rows.is_empty() => memory.finish(self.rows, &rows).map(Some),
            _ => Ok(None),
        }
    }

    /// A batch without files goes to its target.
    fn place(
        &self,
        mut slot: BatchSlot,
        kept: &[usize],
        decoded: Option<DeviceRows>,
        ends: &Ends<'_>,
    ) -> Result<Arc<dyn TensorMemory>> {
        let decoded = match (decoded, ends.target.direct_rows()) {
            (Some(decoded), Some(early)) => {
                return early.deliver(PartialBatch {
                    slot,
                    outputs: &self.layout.places,
                    rows: kept,
                    on_device: decoded,
                });
            }
            (decoded, _) => decoded,
        };
        // It may hold memory of the target's that the batch needs.
        drop(decoded);
        let unfinished = || Error::internal("a batch was finished before its rows were");
        if kept.len() < self.rows {
            self.close_gaps(kept, slot.bytes_mut().ok_or_else(unfinished)?);
        }
        ends.target.deliver(slot.freeze().map_err(|_| unfinished())?, self.layout.bytes)
    }

    /// A batch with files goes to the target's decoder.
    fn place_encoded(
        &self,
        slot: BatchSlot,
        kept: &[usize],
        encoded: &[Encoded],
        decoded: Option<DeviceRows>,
        pictures: &dyn PictureDecoder,
    ) -> Result<DecodeOutcome> {
        let at: Vec<RowPicture> = encoded.iter().map(|picture| picture.at).collect();
        let (bytes, outputs) = (self.layout.bytes, &self.layout.places[..]);
        pictures.submit(EncodedBatch { slot, bytes, outputs, rows: kept, pictures: &at, on_device: decoded })
    }

    /// Takes the pictures with these numbers out of `encoded`; the others stay files.
    fn take_refused(&self, encoded: Vec<Encoded>, refused: &[usize]) -> Result<Vec<Encoded>> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (number, picture) in encoded.into_iter().enumerate() {
            if refused.contains(&number) { taken.push(picture) } else { left.push(picture) }
        }
        if taken.is_empty() {
            return Err(Error::internal("a decoder refused a batch and none of its pictures"));
        }
        *self.encoded.lock() = left;
        Ok(taken)
    }

    /// Rewrites the row of a refused picture: `decode` gets the file, and the row to write.
    ///
    /// # Errors
    ///
    /// What `decode` says; `Internal` while a row is out.
    pub(crate) fn replace(
        &self,
        at: &RowPicture,
        file: &mut Vec<u8>,
        decode: impl FnOnce(&[u8], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let place = self.layout.places[at.output];
        let mut slot = self.slot.lock();
        let bytes = slot.as_mut().and_then(BatchSlot::bytes_mut);
        let bytes = bytes.ok_or_else(|| Error::internal("a picture was decoded before its batch was filled"))?;
        // The file stands where the picture goes, as a rule.
        file.clear();
        file.extend_from_slice(&bytes[at.at..][..at.picture.bytes]);
        decode(file, &mut bytes[place.offset + at.row * place.row_bytes..][..place.row_bytes])
    }

    /// The outputs of a batch whose fixed rows are in `memory`.
    fn outputs(&self, memory: &Arc<dyn TensorMemory>, skipped: &[usize]) -> Result<Vec<(Arc<str>, Output)>> {
        let rows = (self.rows - skipped.len()) as i64;
        let mut lists = self.lists.iter().map(|list| {
            let mut list = std::mem::take(&mut *list.lock());
            let mut row = 0..;
            list.retain(|_| row.next().is_some_and(|row| skipped.binary_search(&row).is_err()));
            list
        });
        let outputs = self.layout.outputs.iter().enumerate().map(|(i, place)| {
            let output = match &place.shape {
                Shape::Fixed { dtype, row, offset, .. } => {
                    let shape = std::iter::once(rows).chain(row.iter().copied()).collect();
                    let tensor = Tensor::new(memory.clone(), *offset, *dtype, shape);
                    Output::Tensor(if self.layout.repeat == Some(i) { tensor.of_bool() } else { tensor })
                }
                Shape::Text => Output::Text(text(lists.next().unwrap_or_default())?),
                Shape::Bytes => Output::Bytes(lists.next().unwrap_or_default()),
                Shape::Ragged => Output::Ragged(owned(lists.next().unwrap_or_default())?),
            };
            Ok((place.name.clone(), output))
        });
        outputs.collect()
    }

    /// Moves the `kept` rows (ascending) up to the front.
    fn close_gaps(&self, kept: &[usize], slot: &mut [u8]) {
        for place in &self.layout.places {
            for (to, from) in kept.iter().enumerate() {
                let start = place.offset + from * place.row_bytes;
                slot.copy_within(start..start + place.row_bytes, place.offset + to * place.row_bytes);
            }
        }
    }
}

/// Rows in the engine's memory: the consumer gives its own for bytes alone.
fn owned(rows: Vec<RowBytes>) -> Result<Vec<Vec<u8>>> {
    let own = |row| match row {
        RowBytes::Own(bytes) => Ok(bytes),
        RowBytes::Given(_) => Err(Error::internal("a row that is not bytes lies in the consumer's memory")),
    };
    rows.into_iter().map(own).collect()
}

fn text(rows: Vec<RowBytes>) -> Result<Vec<String>> {
    owned(rows)?
        .into_iter()
        .map(|bytes| String::from_utf8(bytes).map_err(|_| Error::decode("a text sample is not valid UTF-8")))
        .collect()
}
