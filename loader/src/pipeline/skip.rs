//! Bad samples: the budget of those that an epoch may skip.

use super::sample::batch_builder::BatchBuilder;
use super::schedule::Task;
use crate::catalog::Catalog;
use crate::config::OnError;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU64, Ordering};

/// Skipped samples of an epoch that are logged as warnings; further ones are logged for debugging.
const WARNINGS_MAX: u64 = 10;

/// Samples that the epoch may still skip.
#[derive(Debug)]
pub(crate) struct SkipBudget {
    catalog: Arc<Catalog>,
    on_error: OnError,
    max_errors: u64,
    /// Samples skipped in this epoch.
    skipped: AtomicU64,
    /// Samples skipped by the loader.
    samples_skipped: Arc<Counter>,
}

impl SkipBudget {
    /// Budget of one epoch: with `OnError::Skip`, at most `max_errors` samples.
    pub(crate) fn new(catalog: Arc<Catalog>, on_error: OnError, max_errors: u64, stats: &Stats) -> Self {
        let samples_skipped = stats.counter("samples_skipped");
        Self { catalog, on_error, max_errors, skipped: AtomicU64::new(0), samples_skipped }
    }

    /// Skips row `row` of `batch` because of `error` if the budget allows it; otherwise the batch fails.
    pub(crate) fn settle(&self, batch: &BatchBuilder, row: usize, task: &Task, error: Error) {
        match self.skip(self.describe(error, task)) {
            Ok(()) => batch.skip(row),
            Err(error) => batch.fail(row, error),
        }
    }

    /// Adds the sample, its shard and its stream to `error`.
    fn describe(&self, error: Error, task: &Task) -> Error {
        let error = self
            .catalog
            .describe(error, task.shard)
            .with("sample in shard", task.index)
            .with("sample", task.planned.sample.0);
        let recipe = self.catalog.shard(task.shard).recipe.as_ref();
        let error = match recipe.and_then(|recipe| recipe.row_of(task.index)) {
            Some(row) => error.with("file", row.file).with("row_group", row.group).with("row_in_group", row.row),
            None => error,
        };
        match self.on_error {
            OnError::Raise if is_about_sample(&error) => {
                error.hinting("on_error=\"skip\" with max_errors leaves such samples out")
            }
            _ => error,
        }
    }

    /// Counts and logs a bad sample.
    ///
    /// # Errors
    ///
    /// `error` itself where the sample may not be skipped.
    fn skip(&self, error: Error) -> Result<()> {
        if self.on_error != OnError::Skip || !is_about_sample(&error) {
            return Err(error);
        }
        let before = self.skipped.fetch_add(1, Ordering::Relaxed);
        if before >= self.max_errors {
            return Err(error.hinting(format!("the epoch has more bad samples than max_errors {}", self.max_errors)));
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
