//! Threads of the shard plane.

use super::source::{ShardOutcome, ShardSource};
use crate::error::Result;
use crate::pipeline::schedule::Dispatcher;
use crate::stats::{Stage, TimeKind};
use crate::sync::Arc;

/// Shard stage: makes requested shards resident.
pub(crate) struct ShardStage {
    pub(crate) source: Arc<ShardSource>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) stage: Arc<Stage>,
}

impl ShardStage {
    /// Makes requested shards resident, the one with the earliest use first, until the run stops. Several threads do.
    pub(crate) fn run(&self) -> Result<()> {
        let Self { source, dispatcher, stage } = self;
        let residency = &dispatcher.residency;
        while let Ok(permit) = stage.timed(TimeKind::Input, || source.permits.take()) {
            let Some((_, mut shard)) = stage.timed(TimeKind::Input, || residency.next_requested()) else { break };
            loop {
                let outcome = stage
                    .timed(TimeKind::Busy, || source.make_resident(shard, &permit))
                    .map_err(|e| source.catalog.describe(e, shard))?;
                match outcome {
                    ShardOutcome::Resident => break,
                    ShardOutcome::Exchanged(earlier) => shard = earlier,
                }
            }
            stage.done(1, 0);
            source.run.advance();
            for chunk in residency.set_resident(shard) {
                dispatcher.chunks.send(chunk);
            }
            if residency.next_read(shard).is_none() {
                // Its samples were read meanwhile, from a copy that was evicted later: no read will release this one.
                source.release(shard);
            }
        }
        Ok(())
    }
}
