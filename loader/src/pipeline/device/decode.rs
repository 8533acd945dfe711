//! Picture stage: batches with pictures that the device decodes.
//!
//! Submitting such a batch may block, which decode threads must not, so a separate thread does it. Pictures that the
//! device leaves undecoded are decoded by this thread: they are few in ordinary data, since decode threads leave only
//! pictures encoded that the device's decoder supports.

use super::part::{DevicePart, EncodedRow};
use super::split::HostShare;
use crate::decode::SampleDecoder;
use crate::delivery::{BatchOnDevice, EncodedBatch, InFlightBatch, PictureDecoder, RowPicture};
use crate::error::{Error, Result};
use crate::memory::BatchSlot;
use crate::pipeline::sample::batch_builder::{BatchBuilder, FilledBatch};
use crate::pipeline::sample::decode::DecodeStage;
use crate::stats::{Counter, TimeKind};
use crate::sync::Arc;
use crossbeam::channel::Receiver;
use std::time::Instant;

/// Picture stage.
pub(crate) struct PictureStage {
    decoder: Arc<dyn PictureDecoder>,
    /// Decode threads' share of the pictures, adjusted here.
    share: Option<Arc<HostShare>>,
    /// Stage of the decode threads, which leave pictures encoded.
    host: Arc<DecodeStage>,
    /// Decoders of the host, one for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    /// File of the current picture.
    file: Vec<u8>,
    /// Counts pictures that the device has decoded.
    on_device: Arc<Counter>,
    /// Counts those that a dedicated decoding engine has decoded.
    on_engines: Arc<Counter>,
    /// Counts pictures that the device left undecoded.
    undecoded: Arc<Counter>,
    /// Counts how often a part of the device's decoder was given up.
    fallbacks: Arc<Counter>,
}

/// Batch with pictures that the device decodes.
struct SubmittedBatch {
    batch: Arc<BatchBuilder>,
    in_flight: Box<dyn InFlightBatch>,
    encoded: Vec<EncodedRow>,
}

impl PictureStage {
    /// Stage that submits batches to `decoder`, for the pictures that the threads of `decode` leave encoded.
    pub(crate) fn new(
        decoder: Arc<dyn PictureDecoder>,
        share: Option<Arc<HostShare>>,
        decode: &Arc<DecodeStage>,
    ) -> Self {
        let DecodeStage { fields, stats, .. } = &**decode;
        Self {
            decoder,
            share,
            host: decode.clone(),
            decoders: fields.iter().map(|fields| fields.decoder()).collect(),
            file: Vec::new(),
            on_device: stats.counter("pictures_on_device"),
            on_engines: stats.counter("pictures_on_engines"),
            undecoded: stats.counter("pictures_refused"),
            fallbacks: stats.counter("device_decode_fallbacks"),
        }
    }

    /// Submits batches until there are no more or the run stops. A batch in flight is waited for when the next one has
    /// been submitted, or at once if there is none.
    pub(crate) fn run(mut self, batches: &Receiver<Arc<BatchBuilder>>) -> Result<()> {
        let mut before: Option<SubmittedBatch> = None;
        loop {
            let is_behind = !batches.is_empty();
            if let Some(submitted) = before.take_if(|_| !is_behind) {
                self.complete(submitted)?;
                continue;
            }
            let waiting = Instant::now();
            let batch = batches.recv();
            self.host.place.stage.add_time_since(TimeKind::Input, waiting);
            let Ok(batch) = batch else { return Ok(()) };
            if let Some(share) = &self.share {
                share.adjust(is_behind);
            }
            if self.host.run.is_stopped() {
                return Ok(());
            }
            let submitted = self.submit(batch);
            self.report();
            if let Some(submitted) = before.take() {
                self.complete(submitted)?;
            }
            before = submitted;
        }
    }

    /// Submits a batch with all rows done. Delivers it if that fails, or if no row with an encoded picture is
    /// left.
    fn submit(&self, batch: Arc<BatchBuilder>) -> Option<SubmittedBatch> {
        let place = &self.host.place;
        let mut submitted = None;
        let delivered = place.stage.timed(TimeKind::Busy, || {
            let Some(filled) = place.take(&batch)? else { return Ok(Some(place.empty(&batch))) };
            let part = DevicePart::of(&batch);
            let on_device = part.take_device_rows(batch.rows)?;
            let mut encoded = part.take_encoded();
            encoded.retain(|row| filled.skipped.binary_search(&row.picture.row).is_err());
            if encoded.is_empty() {
                return place.place(&batch, filled, on_device).map(Some);
            }
            encoded.sort_unstable_by_key(|row| (row.picture.output, row.picture.row));
            let FilledBatch { slot, kept, .. } = filled;
            let pictures: Vec<RowPicture> = encoded.iter().map(|row| row.picture).collect();
            let in_flight = self.decoder.submit(EncodedBatch {
                slot,
                bytes: batch.layout.bytes,
                outputs: &batch.layout.places,
                rows: &kept,
                pictures: &pictures,
                on_device,
            })?;
            submitted = Some((in_flight, encoded));
            Ok(None)
        });
        if let Some(delivered) = delivered.transpose() {
            place.put(&batch, delivered);
        }
        submitted.map(|(in_flight, encoded)| SubmittedBatch { batch, in_flight, encoded })
    }

    /// Waits for a batch in flight, decodes the pictures that the device left undecoded, and delivers the batch.
    fn complete(&mut self, SubmittedBatch { batch, in_flight, encoded }: SubmittedBatch) -> Result<()> {
        let finished = self.host.place.stage.timed(TimeKind::Busy, || in_flight.wait());
        self.report();
        let BatchOnDevice { mut slot, rows, undecoded, mut on_engines } = match finished {
            Ok(on_device) => on_device,
            Err(error) => {
                self.host.place.put(&batch, Err(error));
                return Ok(());
            }
        };
        self.undecoded.add(undecoded.len() as u64);
        for number in &undecoded {
            if self.host.run.is_stopped() {
                return Ok(());
            }
            self.decode(&batch, &mut slot, &encoded[*number]);
        }
        batch.restore_slot(slot);
        let place = &self.host.place;
        if place.refill(&batch)? {
            // The batch returns to this stage or is delivered when its new row is done.
            return Ok(());
        }
        let delivered = place.stage.timed(TimeKind::Busy, || {
            let Some(filled) = place.take(&batch)? else { return Ok(place.empty(&batch)) };
            let mut decoded: Vec<usize> = (0..encoded.len()).filter(|n| undecoded.binary_search(n).is_err()).collect();
            for pictures in [&mut decoded, &mut on_engines] {
                pictures.retain(|number| filled.skipped.binary_search(&encoded[*number].picture.row).is_err());
            }
            let delivered = place.place(&batch, filled, rows)?;
            self.on_device.add(decoded.len() as u64);
            self.on_engines.add(on_engines.len() as u64);
            Ok(delivered)
        });
        place.put(&batch, delivered);
        Ok(())
    }

    /// Decodes a picture into its row of the slot.
    fn decode(&mut self, batch: &BatchBuilder, slot: &mut BatchSlot, row: &EncodedRow) {
        let Self { decoders, file, .. } = self;
        let EncodedRow { picture, task, layout_number } = row;
        let output = batch.layout.output_of_fixed(picture.output);
        let start = batch.row_offset(picture.output, picture.row);
        let place = start..start + batch.layout.places[picture.output].row_bytes;
        let slot = slot.bytes_mut().ok_or_else(|| Error::internal("a picture was decoded before its batch was filled"));
        let decoded = slot.and_then(|slot| {
            // The file is usually in the row that the picture is written to.
            file.clear();
            file.extend_from_slice(&slot[picture.at..][..picture.picture.bytes]);
            let key = task.draw_key(self.host.place.epoch);
            decoders[*layout_number].decode_picture(output, file, key, &mut slot[place])
        });
        if let Err(error) = decoded
            && !batch.is_skipped(picture.row)
        {
            self.host.skip.settle(batch, picture.row, task, error);
        }
    }

    /// Logs and counts the parts of the device's decoder that were given up, and records progress.
    fn report(&self) {
        for sentence in self.decoder.take_fallbacks() {
            log::warn!("{sentence}");
            self.host.stats.note(sentence);
            self.fallbacks.add(1);
        }
        self.host.run.advance();
    }
}
