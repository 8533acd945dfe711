//! Samples of an epoch that were left out, up to a batch.
//!
//! An engine decodes ahead, so its count includes samples of later batches. The remaining room of a batch depends on
//! only the batches up to it.

use std::collections::BTreeMap;

/// Bound of the samples that an engine and its caller together leave out.
#[derive(Clone, Copy, Debug)]
pub struct SkipLimit {
    /// Samples of an epoch that may be left out.
    pub errors_max: u64,
    /// Rows of a full batch.
    pub rows: u64,
    /// This is the only rank, so the engine does not deliver a batch without rows.
    pub is_alone: bool,
}

/// Budget of one engine's epoch.
#[derive(Debug)]
pub(super) struct SkipBudget {
    pub(super) limit: SkipLimit,
    pub(super) first_sample: u64,
    /// Samples that were left out in earlier epochs.
    pub(super) skipped_before: u64,
    /// Rows that the engine has left out of each batch, and failures of the caller there.
    pub(super) of_engine: BTreeMap<u64, u64>,
    pub(super) of_caller: BTreeMap<u64, u64>,
}

impl SkipBudget {
    pub(super) fn new(limit: SkipLimit) -> Self {
        Self { limit, first_sample: 0, skipped_before: 0, of_engine: BTreeMap::new(), of_caller: BTreeMap::new() }
    }

    /// Begins an epoch at `first_sample`, before the engine does.
    pub(super) fn begin(&mut self, first_sample: u64, skipped_before: u64) {
        *self = Self { first_sample, skipped_before, ..Self::new(self.limit) };
    }

    /// Notes the rows of a batch.
    pub(super) fn note(&mut self, number: u64, rows: u64) {
        if rows < self.limit.rows {
            self.of_engine.insert(number, self.limit.rows - rows);
        }
    }
}
