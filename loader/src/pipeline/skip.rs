//! Bad samples: the budget of those that an epoch may skip.
//!
//! Decode threads leave out every bad sample and note its error in the batch. The budget is spent when the consumer
//! takes the batch, in plan order: so the batches before the error, and the sample that it names, follow from the plan,
//! whatever the threads have decoded ahead.

use super::sample::batch_builder::BatchBuilder;
use super::schedule::Task;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU64, Ordering};

/// Skipped samples of an epoch that are logged as warnings; further ones are logged for debugging.
const WARNINGS_MAX: u64 = 10;

/// Samples that the epoch may still skip.
#[derive(Debug)]
pub(crate) struct SkipBudget {
    catalog: Arc<Catalog>,
    /// Bad samples that an epoch may leave out; 0: a bad sample is an error.
    max_errors: u64,
    /// Samples skipped in this epoch.
    skipped: AtomicU64,
    /// Samples skipped by the loader.
    samples_skipped: Arc<Counter>,
}

impl SkipBudget {
    /// Budget of one epoch: at most `max_errors` samples.
    pub(crate) fn new(catalog: Arc<Catalog>, max_errors: u64, stats: &Stats) -> Self {
        let samples_skipped = stats.counter("samples_skipped");
        Self { catalog, max_errors, skipped: AtomicU64::new(0), samples_skipped }
    }

    /// Skips row `row` of `batch` because of `error`, if that may be skipped; otherwise the batch fails.
    pub(crate) fn settle(&self, batch: &BatchBuilder, row: usize, task: &Task, error: Error) {
        let error = self.describe(error, task);
        if self.max_errors > 0 && is_about_sample(&error) {
            batch.skip(row, error);
        } else {
            batch.fail(row, error);
        }
    }

    /// Adds the sample, its shard and its stream to `error`.
    fn describe(&self, error: Error, task: &Task) -> Error {
        let error = self.catalog.describe_sample(error, task.shard, task.index);
        let error = error.with("sample", task.planned.sample.0);
        if self.max_errors == 0 && is_about_sample(&error) {
            return error.hinting("skip.errors, such as 100, leaves such samples out");
        }
        error
    }

    /// Counts and logs a bad sample of the batch that the consumer takes.
    ///
    /// # Errors
    ///
    /// `error` itself if the epoch has had `max_errors` bad samples before.
    pub(crate) fn spend(&self, error: Error) -> Result<()> {
        let before = self.skipped.fetch_add(1, Ordering::Relaxed);
        if before >= self.max_errors {
            return Err(error.hinting(format!("the epoch has more bad samples than skip.errors {}", self.max_errors)));
        }
        self.samples_skipped.add(1);
        let level = if before < WARNINGS_MAX { log::Level::Warn } else { log::Level::Debug };
        log::log!(level, "a sample was skipped: {error}");
        if before + 1 == WARNINGS_MAX {
            log::warn!(
                "this epoch has skipped {WARNINGS_MAX} samples: further ones are counted, and logged for debugging"
            );
        }
        Ok(())
    }
}

/// True if the error is a fault of the sample itself, not of reading it.
fn is_about_sample(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode | ErrorKind::Format | ErrorKind::Unsupported | ErrorKind::Checksum)
}
