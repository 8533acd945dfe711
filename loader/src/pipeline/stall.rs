//! Stalls: an epoch in which nothing moves while the consumer waits.

use super::reorder::ReorderQueue;
use super::run::Run;
use super::schedule::Chunk;
use super::shard::residency::Residency;
use super::shard::source::ShardSource;
use crate::batch::Batch;
use crate::delivery::Delivery;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, Mutex};
use std::time::Duration;

/// Wait without progress after which the device is asked if it still takes work.
const DEVICE_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Wait without progress after which one warning names what the batch waits for.
const WARNING_AFTER: Duration = Duration::from_secs(30);

/// Detects that the consumer waits while no stage makes progress.
pub(crate) struct StallWatch {
    pub(crate) run: Arc<Run>,
    pub(crate) residency: Arc<Residency<Chunk>>,
    pub(crate) source: Arc<ShardSource>,
    pub(crate) reorder: Arc<ReorderQueue<Result<Batch>>>,
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) decodes_on_device: bool,
    /// Number of the run's first batch in the epoch.
    pub(crate) first_batch: u64,
    /// Wait without progress that ends the epoch.
    pub(crate) timeout: Duration,
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

impl StallWatch {
    /// Adds a wait of `waited` that ended without a batch.
    ///
    /// # Errors
    ///
    /// `Timeout` after the stall timeout without progress; the error of a device that has failed.
    pub(crate) fn add(&self, waited: Duration) -> Result<()> {
        let mut wait = self.wait.lock();
        let progress = self.run.progress();
        if progress != wait.progress {
            *wait = Wait { progress, ..Wait::default() };
            return Ok(());
        }
        wait.waited += waited;
        let waited = wait.waited;
        if waited >= self.timeout {
            let message = format!("nothing has moved for {} s: {}", waited.as_secs(), self.cause());
            return Err(Error::new(ErrorKind::Timeout, message).with("batch", self.first_batch + self.reorder.next()));
        }
        if waited >= DEVICE_CHECK_AFTER {
            // Threads that wait for a failed device would wait forever.
            self.delivery.check()?;
        }
        if waited >= WARNING_AFTER && !wait.is_warned {
            wait.is_warned = true;
            log::warn!("no progress for {} s: {}", waited.as_secs(), self.cause());
        }
        Ok(())
    }

    /// Describes what the next batch waits for.
    fn cause(&self) -> String {
        match self.residency.awaited() {
            Some(shard) => self.source.status(shard),
            None if self.decodes_on_device => {
                "samples of the next batch are being read, or decoded here or on the device".to_owned()
            }
            None => "samples of the next batch are being read or decoded".to_owned(),
        }
    }
}
