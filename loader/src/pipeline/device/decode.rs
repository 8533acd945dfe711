//! Picture stage: batches whose pictures the device decodes.
//!
//! Submitting such a batch may block, which decode threads must not, so a separate thread does it. Pictures that the
//! device leaves undecoded are decoded by this thread: they are few in ordinary data, since decode threads leave only
//! pictures encoded that the device's decoder supports.

use super::part::{DevicePart, EncodedRow};
use super::split::HostShare;
use crate::batch::Batch;
use crate::decode::{FieldPlan, SampleDecoder};
use crate::delivery::{DecodeOutcome, EncodedBatch, InFlightBatch, PictureDecoder, RowPicture};
use crate::error::{Error, Result};
use crate::pipeline::run::Run;
use crate::pipeline::sample::batch_builder::{BatchBuilder, FilledBatch};
use crate::pipeline::sample::decode::DecodeStage;
use crate::pipeline::sample::deliver::DeliverStage;
use crate::pipeline::skip::SkipBudget;
use crate::stats::{Counter, Stats, TimeKind};
use crate::sync::Arc;
use crossbeam::channel::Receiver;
use std::time::Instant;

/// Picture stage.
pub(crate) struct PictureStage {
    decoder: Arc<dyn PictureDecoder>,
    /// Decode threads' share of the pictures, adjusted here.
    share: Option<Arc<HostShare>>,
    fields: Vec<Arc<FieldPlan>>,
    deliver: Arc<DeliverStage>,
    skip: Arc<SkipBudget>,
    run: Arc<Run>,
    stats: Arc<Stats>,
    /// Counts pictures that the device has decoded.
    on_device: Arc<Counter>,
    /// Counts those that a dedicated decoding engine has decoded.
    on_engines: Arc<Counter>,
    /// Counts pictures that the device left undecoded.
    undecoded: Arc<Counter>,
    /// Counts how often a part of the device's decoder was given up.
    fallbacks: Arc<Counter>,
}

/// Batch whose pictures the device decodes.
struct InFlight {
    batch: Arc<BatchBuilder>,
    in_flight: Box<dyn InFlightBatch>,
    encoded: Vec<EncodedRow>,
    /// Rows that were skipped, ascending.
    skipped: Vec<usize>,
}

/// Result of one step of a batch.
enum BatchProgress {
    /// The consumer can take the batch.
    Delivered,
    /// These pictures must be decoded on the host.
    Undecoded(Vec<EncodedRow>),
    InFlight(InFlight),
}

impl PictureStage {
    /// Stage that submits batches to `decoder`, for the pictures that the threads of `decode` leave encoded.
    pub(crate) fn new(
        decoder: Arc<dyn PictureDecoder>,
        share: Option<Arc<HostShare>>,
        DecodeStage { fields, deliver, skip, run, stats, .. }: &DecodeStage,
    ) -> Self {
        Self {
            decoder,
            share,
            fields: fields.clone(),
            deliver: deliver.clone(),
            skip: skip.clone(),
            run: run.clone(),
            on_device: stats.counter("pictures_on_device"),
            on_engines: stats.counter("pictures_on_engines"),
            undecoded: stats.counter("pictures_refused"),
            fallbacks: stats.counter("device_decode_fallbacks"),
            stats: stats.clone(),
        }
    }

    /// Submits batches until there are no more or the run stops. A batch in flight is waited for when the next one has
    /// been submitted, or at once if there is none.
    pub(crate) fn run(&self, batches: &Receiver<Arc<BatchBuilder>>) -> Result<()> {
        let decoders = self.fields.iter().map(|fields| fields.decoder()).collect();
        let mut host = HostDecoder { stage: self, decoders, file: Vec::new() };
        let mut before: Option<InFlight> = None;
        loop {
            let is_behind = !batches.is_empty();
            if let Some(in_flight) = before.take_if(|_| !is_behind) {
                host.complete(in_flight)?;
                continue;
            }
            let waiting = Instant::now();
            let batch = batches.recv();
            self.deliver.stage.add_time_since(TimeKind::Input, waiting);
            let Ok(batch) = batch else { return Ok(()) };
            if let Some(share) = &self.share {
                share.adjust(is_behind);
            }
            if self.run.is_stopped() {
                return Ok(());
            }
            let progress = self.submit(&batch);
            if let Some(in_flight) = before.take() {
                host.complete(in_flight)?;
            }
            before = host.follow(&batch, progress)?;
        }
    }

    /// Submits a batch whose rows are all done.
    fn submit(&self, batch: &Arc<BatchBuilder>) -> BatchProgress {
        self.step(batch, || {
            let Some(filled) = self.deliver.take(batch)? else { return Ok(Step::Batch(self.deliver.empty(batch))) };
            let mut encoded = DevicePart::of(batch).take_encoded();
            encoded.retain(|row| filled.skipped.binary_search(&row.picture.row).is_err());
            if encoded.is_empty() {
                return self.deliver.place(batch, filled).map(Step::Batch);
            }
            encoded.sort_unstable_by_key(|row| (row.picture.output, row.picture.row));
            let FilledBatch { slot, kept, skipped } = filled;
            let pictures: Vec<RowPicture> = encoded.iter().map(|row| row.picture).collect();
            let outcome = self.decoder.submit(EncodedBatch {
                slot,
                bytes: batch.layout.bytes,
                outputs: &batch.layout.places,
                rows: &kept,
                pictures: &pictures,
                on_device: DevicePart::of(batch).take_device_rows(batch.rows)?,
            })?;
            Ok(Step::Outcome { outcome, encoded, skipped })
        })
    }

    /// Waits for a batch in flight.
    fn wait(&self, InFlight { batch, in_flight, encoded, skipped }: InFlight) -> BatchProgress {
        self.step(&batch, || Ok(Step::Outcome { outcome: in_flight.wait()?, encoded, skipped }))
    }

    /// Times one step of `batch` and delivers the batch if the step completes it.
    fn step(&self, batch: &Arc<BatchBuilder>, step: impl FnOnce() -> Result<Step>) -> BatchProgress {
        let progress = self.deliver.stage.timed(TimeKind::Busy, || {
            let (outcome, encoded, skipped) = match step()? {
                Step::Batch(batch) => return Ok(Ok(batch)),
                Step::Outcome { outcome, encoded, skipped } => (outcome, encoded, skipped),
            };
            match outcome {
                DecodeOutcome::InFlight(in_flight) => {
                    Ok(Err(BatchProgress::InFlight(InFlight { batch: batch.clone(), in_flight, encoded, skipped })))
                }
                DecodeOutcome::Done { memory, on_engines } => {
                    let delivered = self.deliver.batch(batch, &memory, &skipped)?;
                    self.on_device.add(encoded.len() as u64);
                    self.on_engines.add(on_engines as u64);
                    Ok(Ok(delivered))
                }
                DecodeOutcome::Rejected { slot, pictures, on_device } => {
                    batch.restore_slot(slot);
                    let (undecoded, encoded) = partition(encoded, &pictures)?;
                    DevicePart::of(batch).set_undecoded(encoded, on_device);
                    Ok(Err(BatchProgress::Undecoded(undecoded)))
                }
            }
        });
        let delivered = match progress {
            Ok(Err(progress)) => return progress,
            Ok(Ok(delivered)) => Ok(delivered),
            Err(error) => Err(error),
        };
        self.deliver.put(batch, delivered);
        BatchProgress::Delivered
    }

    /// Logs and counts the parts of the device's decoder that were given up.
    fn report_fallbacks(&self) {
        for sentence in self.decoder.take_fallbacks() {
            log::warn!("{sentence}");
            self.stats.note(sentence);
            self.fallbacks.add(1);
        }
    }
}

/// Result of a step before it is interpreted.
enum Step {
    Batch(Batch),
    Outcome { outcome: DecodeOutcome, encoded: Vec<EncodedRow>, skipped: Vec<usize> },
}

/// Splits `encoded` into the pictures with these numbers, which are undecoded, and the others.
fn partition(encoded: Vec<EncodedRow>, undecoded: &[usize]) -> Result<(Vec<EncodedRow>, Vec<EncodedRow>)> {
    let (mut taken, mut others) = (Vec::new(), Vec::new());
    for (number, picture) in encoded.into_iter().enumerate() {
        if undecoded.contains(&number) { taken.push(picture) } else { others.push(picture) }
    }
    if taken.is_empty() {
        return Err(Error::internal("a device's decoder returned a batch and none of its pictures"));
    }
    Ok((taken, others))
}

/// Decodes pictures that the device left undecoded.
struct HostDecoder<'a> {
    stage: &'a PictureStage,
    /// One for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    /// File of the current picture.
    file: Vec<u8>,
}

impl HostDecoder<'_> {
    /// Waits for a batch in flight and delivers it.
    fn complete(&mut self, in_flight: InFlight) -> Result<()> {
        let mut waiting = Some(in_flight);
        while let Some(in_flight) = waiting.take() {
            let batch = in_flight.batch.clone();
            let progress = self.stage.wait(in_flight);
            waiting = self.follow(&batch, progress)?;
        }
        Ok(())
    }

    /// Decodes undecoded pictures and submits the batch again until it is delivered or in flight. Each round takes
    /// pictures from the device's decoder, so the number of rounds is bounded.
    fn follow(&mut self, batch: &Arc<BatchBuilder>, mut progress: BatchProgress) -> Result<Option<InFlight>> {
        let stage = self.stage;
        loop {
            stage.report_fallbacks();
            stage.run.advance();
            let undecoded = match progress {
                BatchProgress::Delivered => return Ok(None),
                BatchProgress::InFlight(in_flight) => return Ok(Some(in_flight)),
                BatchProgress::Undecoded(undecoded) => undecoded,
            };
            stage.undecoded.add(undecoded.len() as u64);
            for row in &undecoded {
                if stage.run.is_stopped() {
                    return Ok(None);
                }
                self.decode(batch, row);
            }
            if stage.deliver.refiller.refill(batch)? {
                // The batch returns to this stage or is delivered when its new row is done.
                return Ok(None);
            }
            progress = stage.submit(batch);
        }
    }

    /// Decodes a picture into its row.
    fn decode(&mut self, batch: &BatchBuilder, row: &EncodedRow) {
        let Self { stage, decoders, file } = self;
        let EncodedRow { picture, task, layout_number } = row;
        let key = task.draw_key(stage.deliver.epoch);
        let decoder = &mut decoders[*layout_number];
        let output = batch.layout.output_of_fixed(picture.output);
        let place = batch.layout.places[picture.output];
        let decoded = batch.rewrite(|slot| {
            // The file is usually in the row that the picture is written to.
            file.clear();
            file.extend_from_slice(&slot[picture.at..][..picture.picture.bytes]);
            let row = &mut slot[place.offset + picture.row * place.row_bytes..][..place.row_bytes];
            decoder.decode_picture(output, file, key, row)
        });
        if let Err(error) = decoded
            && !batch.is_skipped(picture.row)
        {
            stage.skip.settle(batch, picture.row, task, error);
        }
    }
}
