//! The consumer's side of an epoch: it takes batches and ends the stages.

use super::reorder::{ReorderQueue, TakeOutcome};
use super::run::Run;
use super::sample::consumer_memory::ConsumerMemory;
use super::sample::offload::Offload;
use super::schedule::{Chunk, Dispatcher};
use super::shard::janitor::Janitor;
use super::shard::open_shards::OpenShards;
use super::shard::residency::Residency;
use super::shard::source::ShardSource;
use super::stall::StallWatch;
use crate::batch::Batch;
use crate::error::Result;
use crate::memory::BatchPool;
use crate::sync::Arc;
use std::time::{Duration, Instant};

/// The consumer's side of the stages.
pub(crate) struct Consumer {
    pub(crate) run: Arc<Run>,
    pub(crate) reorder: Arc<ReorderQueue<Result<Batch>>>,
    pub(crate) consumer_memory: Arc<ConsumerMemory>,
    pub(crate) stall: StallWatch,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) offload: Option<Arc<dyn Offload>>,
    pub(crate) residency: Arc<Residency<Chunk>>,
    pub(crate) source: Arc<ShardSource>,
    pub(crate) open_shards: Arc<OpenShards>,
    pub(crate) janitor: Arc<Janitor>,
    pub(crate) batches: BatchPool,
}

impl Consumer {
    /// Wakes every thread of the epoch, after a stop.
    pub(crate) fn wake(&self) {
        self.dispatcher.close();
        self.offload.iter().for_each(|offload| offload.close());
        self.consumer_memory.clear();
        self.residency.close();
        self.source.wake();
        self.janitor.close();
        self.reorder.stop();
        self.batches.wake();
    }

    /// Takes the next batch, waiting at most `limit` for it.
    ///
    /// # Errors
    ///
    /// The failure of the batch or the epoch; `Timeout` when nothing has moved for the stall timeout.
    pub(crate) fn take(&self, limit: Duration) -> Result<TakeOutcome<Batch>> {
        let Self { run, reorder, consumer_memory, stall, .. } = self;
        let begun = Instant::now();
        let taken = loop {
            consumer_memory.allocate()?;
            match reorder.take(limit.saturating_sub(begun.elapsed())) {
                // Interrupted for rows, which are allocated before the next wait.
                TakeOutcome::Pending if !consumer_memory.is_empty() => {}
                taken => break taken,
            }
        };
        // Rows of later batches: they are filled while the consumer works on this one.
        consumer_memory.allocate()?;
        let taken = match taken {
            TakeOutcome::Item(Ok(batch)) => TakeOutcome::Item(batch),
            TakeOutcome::Item(Err(error)) => {
                // Every later call fails too: the next batch would hide the gap.
                run.fail(error);
                TakeOutcome::Stopped
            }
            TakeOutcome::End => TakeOutcome::End,
            TakeOutcome::Pending => TakeOutcome::Pending,
            TakeOutcome::Stopped => TakeOutcome::Stopped,
        };
        if let Some(failure) = run.failure() {
            return Err(failure);
        }
        if matches!(taken, TakeOutcome::Pending) {
            stall.add(begun.elapsed())?;
        }
        Ok(taken)
    }

    /// Closes and releases the epoch's shards, after its threads have ended.
    pub(crate) fn release_shards(&self) {
        self.source.release_all();
        self.open_shards.close_all();
    }
}
