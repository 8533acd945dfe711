//! Counts of one decode thread, added to the epoch's once per chunk.
//!
//! All threads share the epoch's tables and statistics, and an update per sample would be a point of contention.

use crate::order::ShardId;
use crate::pipeline::chunk::Chunk;
use crate::pipeline::run::Run;
use crate::pipeline::shard::residency::Residency;
use crate::pipeline::shard::source::ShardSource;
use crate::stats::{Stage, TimeKind};
use crate::sync::Arc;
use std::time::{Duration, Instant};

/// Samples that are done, and work of the stages.
pub(crate) struct Tally {
    residency: Arc<Residency<Chunk>>,
    source: Arc<ShardSource>,
    run: Arc<Run>,
    /// Shard and position of samples that are decoded or skipped.
    pub(crate) samples: Vec<(ShardId, u64)>,
    pub(crate) read: StageTally,
    pub(crate) decode: StageTally,
}

/// Work of one stage.
pub(crate) struct StageTally {
    stage: Arc<Stage>,
    samples: u64,
    bytes: u64,
    time: Duration,
}

impl Tally {
    /// No counts yet.
    pub(crate) fn new(
        (residency, source): (Arc<Residency<Chunk>>, Arc<ShardSource>),
        run: Arc<Run>,
        (read, decode): (Arc<Stage>, Arc<Stage>),
    ) -> Self {
        let (read, decode) = (StageTally::new(read), StageTally::new(decode));
        Self { residency, source, run, samples: Vec::new(), read, decode }
    }

    /// Adds the counts to the epoch's, and clears them.
    pub(crate) fn flush(&mut self) {
        self.residency.read(&mut self.samples, |shard| self.source.release(shard));
        self.samples.clear();
        self.read.flush();
        self.decode.flush();
        self.run.advance();
    }
}

impl StageTally {
    fn new(stage: Arc<Stage>) -> Self {
        Self { stage, samples: 0, bytes: 0, time: Duration::ZERO }
    }

    /// Adds a sample of `bytes` bytes.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.samples += 1;
        self.bytes += bytes as u64;
    }

    /// Adds the time since `start`, records it in the trace, and sets `start` to now.
    pub(crate) fn lap(&mut self, start: &mut Instant) {
        let now = Instant::now();
        self.time += now - *start;
        self.stage.trace(TimeKind::Busy, *start, now - *start);
        *start = now;
    }

    /// Adds a wait for input since `start`.
    pub(crate) fn waited(&self, start: Instant) {
        self.stage.add_time_since(TimeKind::Input, start);
    }

    fn flush(&mut self) {
        self.stage.add_time(TimeKind::Busy, std::mem::take(&mut self.time));
        self.stage.done(std::mem::take(&mut self.samples), std::mem::take(&mut self.bytes));
    }
}
