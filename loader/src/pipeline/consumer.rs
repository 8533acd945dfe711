//! The consumer's side of an epoch: it takes batches, detects that nothing moves while it waits, and ends the stages.

use super::done_batch::DoneBatch;
use super::sample::consumer_memory::ConsumerMemory;
use super::sample::place::PlaceStage;
use super::shard::source::ShardSource;
use super::skip::SkipBudget;
use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::BatchPool;
use crate::sync::{Arc, Mutex};
use forebay_core::flow::Run;
use forebay_core::flow::TakeOutcome;
use std::time::{Duration, Instant};

/// Wait without progress after which the device is asked if it still takes work.
const DEVICE_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Wait without progress after which one warning names the reason.
const WARNING_AFTER: Duration = Duration::from_secs(30);

/// The consumer's side of the stages.
pub(crate) struct Consumer {
    pub(crate) run: Arc<Run>,
    pub(crate) place: Arc<PlaceStage>,
    pub(crate) consumer_memory: Arc<ConsumerMemory>,
    pub(crate) source: Arc<ShardSource>,
    pub(crate) batches: BatchPool,
    pub(crate) skip: Arc<SkipBudget>,
    /// Wait without progress that ends the epoch.
    pub(crate) stall_timeout: Duration,
    pub(crate) wait: Mutex<Wait>,
}

/// The consumer's wait since the last progress.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// Progress of the run when it was last compared.
    progress: u64,
    /// Time waited since it changed. Time between the consumer's calls does not count.
    waited: Duration,
    is_warned: bool,
}

impl Consumer {
    /// Wakes every thread of the epoch, after a stop.
    pub(crate) fn wake(&self) {
        let PlaceStage { dispatcher, offload, reorder, .. } = &*self.place;
        dispatcher.chunks.close();
        offload.iter().for_each(|offload| offload.close());
        self.consumer_memory.clear();
        dispatcher.residency.close();
        self.source.wake();
        reorder.stop();
        self.batches.wake();
    }

    /// Takes the next batch, waiting at most `limit` for it.
    ///
    /// # Errors
    ///
    /// The failure of the batch or the epoch; `Timeout` when nothing has moved for the stall timeout.
    pub(crate) fn take(&self, limit: Duration) -> Result<TakeOutcome<Batch>> {
        let Self { run, place, consumer_memory, .. } = self;
        let begun = Instant::now();
        run.set_awaited(true);
        let taken = loop {
            consumer_memory.allocate()?;
            match place.reorder.take(limit.saturating_sub(begun.elapsed())) {
                // Interrupted for rows, which are allocated before the next wait.
                TakeOutcome::Pending if !consumer_memory.is_empty() => {}
                taken => break taken,
            }
        };
        run.set_awaited(false);
        // Rows of later batches: they are filled while the consumer works on this one.
        consumer_memory.allocate()?;
        let taken = match taken {
            TakeOutcome::Item(done) => match self.spend(done) {
                Ok(batch) => TakeOutcome::Item(batch),
                Err(error) => {
                    // Every later call fails too: the next batch would hide the gap.
                    run.fail(error);
                    TakeOutcome::Stopped
                }
            },
            TakeOutcome::End => TakeOutcome::End,
            TakeOutcome::Pending => TakeOutcome::Pending,
            TakeOutcome::Stopped => TakeOutcome::Stopped,
        };
        if let Some(failure) = run.failure() {
            return Err(failure);
        }
        if matches!(taken, TakeOutcome::Pending) {
            self.add_wait(begun.elapsed())?;
        }
        Ok(taken)
    }

    /// Time so far in which samples of the prefetched batches waited for their shards.
    pub(crate) fn parked_time(&self) -> Duration {
        self.place.dispatcher.residency.parked_time()
    }

    /// Spends the budget for the bad samples of a batch.
    ///
    /// # Errors
    ///
    /// The first bad sample that the epoch may not leave out; the failure of the batch.
    fn spend(&self, done: DoneBatch) -> Result<Batch> {
        let number = || self.place.first_batch + self.place.reorder.next() - 1;
        for (row, error) in done.bad {
            self.skip.spend(error).map_err(|e| e.with("batch", number()).with("row", row))?;
        }
        done.delivered
    }

    /// Adds a wait of `waited` that ended without a batch.
    ///
    /// # Errors
    ///
    /// `Timeout` after the stall timeout without progress; the error of a device that has failed.
    fn add_wait(&self, waited: Duration) -> Result<()> {
        let mut wait = self.wait.lock();
        let progress = self.run.progress();
        if progress != wait.progress {
            *wait = Wait { progress, ..Wait::default() };
            return Ok(());
        }
        wait.waited += waited;
        let waited = wait.waited;
        if waited >= self.stall_timeout {
            let message = format!("nothing has moved for {} s: {}", waited.as_secs(), self.stall_cause());
            return Err(Error::new(ErrorKind::Timeout, message)
                .with("batch", self.place.first_batch + self.place.reorder.next()));
        }
        if waited >= DEVICE_CHECK_AFTER {
            // Threads that wait for a failed device would wait forever.
            self.place.delivery.check()?;
        }
        if waited >= WARNING_AFTER && !wait.is_warned {
            wait.is_warned = true;
            log::warn!("no progress for {} s: {}", waited.as_secs(), self.stall_cause());
        }
        Ok(())
    }

    /// Describes the wait for the next batch.
    fn stall_cause(&self) -> String {
        let PlaceStage { dispatcher, offload, .. } = &*self.place;
        match dispatcher.residency.awaited() {
            Some(shard) => self.source.status(shard),
            None if offload.as_ref().is_some_and(|offload| offload.decodes_pictures()) => {
                "samples of the next batch are being read, or decoded here or on the device".to_owned()
            }
            None => "samples of the next batch are being read or decoded".to_owned(),
        }
    }
}
