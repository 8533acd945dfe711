//! The thread that hands batches to a target which decodes pictures itself.
//!
//! Such a target may make its caller wait, which decode threads must not. What it refuses is decoded here: few files in an
//! ordinary data set, since decode threads leave only those to it that look as it likes them.

use crate::decode::{DrawKey, SampleDecoder};
use crate::error::Result;
use crate::pipeline::epoch::Shared;
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::pipeline::sample::deliver::{Encoded, Ends, Finished, Unended};
use crate::stats::{Stage, TimeKind};
use crate::sync::Arc;
use crossbeam::channel::Receiver;
use std::time::Instant;

/// What delivering a batch comes to.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// Its consumer can take it.
    Done,
    /// Its target's decoder refuses these pictures.
    Refused(Vec<Encoded>),
    /// Its target works on it.
    UnderWay(Unended),
}

impl Shared {
    /// Delivers a batch whose rows are all done.
    pub(crate) fn deliver(&self, batch: &BatchBuilder, place: &Stage) -> Delivered {
        self.finish(batch, place, |ends| batch.finish(ends))
    }

    /// Delivers a batch that was under way.
    fn deliver_unended(&self, batch: &BatchBuilder, unended: Unended, place: &Stage) -> Delivered {
        self.finish(batch, place, |ends| batch.end(ends, unended))
    }

    fn finish(
        &self,
        batch: &BatchBuilder,
        place: &Stage,
        finish: impl FnOnce(&Ends<'_>) -> Result<Finished>,
    ) -> Delivered {
        let is_refilled = batch.refills() > 0;
        let ends = Ends {
            epoch: self.epoch,
            first_batch: self.first_batch,
            target: &*self.target,
            pictures: self.pictures.as_deref(),
            may_be_empty: self.is_alone,
        };
        let finished = match place.timed(TimeKind::Busy, || finish(&ends)) {
            Ok(Finished::Refused(pictures)) => return Delivered::Refused(pictures),
            Ok(Finished::UnderWay(unended)) => return Delivered::UnderWay(unended),
            Ok(Finished::Batch(batch, counts)) => {
                self.pictures_on_device.add(counts.on_device);
                self.pictures_on_engines.add(counts.on_engines);
                self.batches_refilled.add(u64::from(is_refilled));
                Ok(batch)
            }
            Err(error) => Err(error),
        };
        place.done(1, self.layout.bytes() as u64);
        self.reorder.put(batch.number, finished);
        Delivered::Done
    }

    /// Logs and counts what the target's decoder has given up.
    fn tell_fallbacks(&self) {
        for sentence in self.pictures.iter().flat_map(|pictures| pictures.take_fallbacks()) {
            log::warn!("{sentence}");
            self.stats.note(sentence);
            self.device_decode_fallbacks.add(1);
        }
    }
}

/// Places batches until there are no more or the run stops. One that is under way is ended when the next one has been placed
/// beside it, or at once where none waits.
pub(crate) fn run(shared: &Shared, batches: &Receiver<Arc<BatchBuilder>>) -> Result<()> {
    let mut host = HostDecoder {
        shared,
        stage: shared.stats.stage("place"),
        decoders: shared.fields.iter().map(|fields| fields.decoder()).collect(),
        file: Vec::new(),
    };
    let mut before: Option<(Arc<BatchBuilder>, Unended)> = None;
    loop {
        let is_behind = !batches.is_empty();
        if let Some((batch, unended)) = before.take_if(|_| !is_behind) {
            host.end(&batch, unended)?;
            continue;
        }
        let waiting = Instant::now();
        let batch = batches.recv();
        host.stage.add_time_since(TimeKind::Input, waiting);
        let Ok(batch) = batch else { return Ok(()) };
        if let Some(share) = &shared.host_share {
            share.learn(is_behind);
        }
        if shared.run.is_stopped() {
            return Ok(());
        }
        let delivered = shared.deliver(&batch, &host.stage);
        if let Some((batch, unended)) = before.take() {
            host.end(&batch, unended)?;
        }
        before = host.follow(&batch, delivered)?.map(|unended| (batch, unended));
    }
}

/// Decodes what the target's decoder refuses.
struct HostDecoder<'a> {
    shared: &'a Shared,
    stage: Arc<Stage>,
    /// One for each layout of the data set's shards.
    decoders: Vec<SampleDecoder>,
    /// The current picture's file.
    file: Vec<u8>,
}

impl HostDecoder<'_> {
    /// Delivers `batch`, which was under way.
    fn end(&mut self, batch: &Arc<BatchBuilder>, unended: Unended) -> Result<()> {
        let mut unended = Some(unended);
        while let Some(under_way) = unended.take() {
            let delivered = self.shared.deliver_unended(batch, under_way, &self.stage);
            unended = self.follow(batch, delivered)?;
        }
        Ok(())
    }

    /// Has refused pictures decoded here and delivers the batch again, up to where it is under way. Each round takes pictures off
    /// the target's decoder, so there is a last one.
    fn follow(&mut self, batch: &Arc<BatchBuilder>, mut delivered: Delivered) -> Result<Option<Unended>> {
        loop {
            self.shared.tell_fallbacks();
            self.shared.run.advance();
            let refused = match delivered {
                Delivered::Done => return Ok(None),
                Delivered::UnderWay(unended) => return Ok(Some(unended)),
                Delivered::Refused(refused) => refused,
            };
            self.shared.pictures_refused.add(refused.len() as u64);
            for picture in &refused {
                if self.shared.run.is_stopped() {
                    return Ok(None);
                }
                self.decode(batch, picture);
            }
            if self.shared.refill(batch)? {
                // It comes back when its new row is in.
                return Ok(None);
            }
            delivered = self.shared.deliver(batch, &self.stage);
        }
    }

    /// Decodes a picture into its row; a bad one is skipped within the budget, or the batch's failure.
    fn decode(&mut self, batch: &BatchBuilder, picture: &Encoded) {
        let Self { shared, decoders, file, .. } = self;
        let Encoded { at, task, layout_number } = picture;
        let key = DrawKey { epoch: shared.epoch, stream: task.planned.stream.0, draw: task.planned.draw };
        let decoder = &mut decoders[*layout_number];
        let output = batch.output_of_fixed(at.output);
        let Err(error) = batch.replace(at, file, |file, row| decoder.decode_picture(output, file, key, row)) else {
            return;
        };
        let error = shared.describe(error, task);
        if batch.is_skipped(at.row) {
            return;
        }
        match shared.forgive(error) {
            Ok(()) => batch.skip(at.row),
            Err(error) => batch.fail(at.row, error),
        }
    }
}
