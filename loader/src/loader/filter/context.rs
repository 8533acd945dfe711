//! Parts of a loader that the ways to the answers use.

use super::answer::Bits;
use crate::catalog::{Stream, columns_of};
use crate::config::LoaderConfig;
use crate::decode::TokenCounter;
use crate::error::Result;
use crate::format::{ColumnForm, ColumnUse, Shard};
use crate::pipeline::Run;
use crate::stats::Stats;
use crate::subsets::question::Question;
use crate::sync::Arc;
use forebay_core::flow::{Budget, Reservation};
use std::time::Duration;

/// Bytes of shards in memory: a few of the usual 64 MiB. A larger one is alone.
const IN_MEMORY_BYTES: u64 = 512 << 20;

/// Stream with a question about its samples, and the parts of its loader.
pub(super) struct FilteredStream<'a> {
    pub(super) stream: &'a Stream,
    pub(super) question: &'a Question,
    /// Counter of the tokens that the question is about.
    pub(super) counter: Option<&'a TokenCounter>,
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Stats,
    /// Stopped by the first error.
    pub(super) run: Arc<Run>,
    budget: Budget,
}

impl<'a> FilteredStream<'a> {
    pub(super) fn new(
        stream: &'a Stream,
        (question, counter): (&'a Question, Option<&'a TokenCounter>),
        config: &'a LoaderConfig,
        stats: &'a Stats,
    ) -> Self {
        Self { stream, question, counter, config, stats, run: Run::new(), budget: Budget::new(IN_MEMORY_BYTES) }
    }

    /// Columns that the question reads, as fields of a loader read them.
    pub(super) fn uses<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<ColumnUse<'n>> {
        let form = self.counter.and_then(|counter| columns_of(counter.fields()).first().map(|column| column.form));
        let form = form.unwrap_or(ColumnForm::Value);
        names.map(|name| ColumnUse { name, has_default: true, form }).collect()
    }

    /// Makes an empty list for the answers of shard number `number`.
    pub(super) fn no_answers(&self, number: u32) -> Bits {
        Bits::new(self.bits_of(number))
    }

    /// Bits of the answers of shard number `number`.
    pub(super) fn bits_of(&self, number: u32) -> u64 {
        self.shard(number).samples * self.question.bits()
    }

    /// The entry of a shard in the index.
    pub(super) fn shard(&self, number: u32) -> &'a Shard {
        &self.stream.index.shards[number as usize]
    }

    /// Waits until `bytes` of shards may be in memory.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation<'_>> {
        self.budget.reserve(bytes)
    }

    /// Time without progress after which a wait ends.
    pub(super) fn stall_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.config.engine.stall_timeout)
    }
}
