//! Parts of a loader that the ways to the answers use.

use super::answer::Bits;
use crate::catalog::Stream;
use crate::config::LoaderConfig;
use crate::error::Result;
use crate::format::Shard;
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
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Stats,
    /// Stopped by the first error.
    pub(super) run: Arc<Run>,
    budget: Budget,
}

impl<'a> FilteredStream<'a> {
    pub(super) fn new(stream: &'a Stream, question: &'a Question, config: &'a LoaderConfig, stats: &'a Stats) -> Self {
        Self { stream, question, config, stats, run: Run::new(), budget: Budget::new(IN_MEMORY_BYTES) }
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
