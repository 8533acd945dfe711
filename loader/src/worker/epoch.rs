//! One worker's samples of one epoch.

use super::ahead::Ahead;
use super::data::DataSet;
use super::reader::SampleReader;
use crate::error::Result;
use crate::order::{
    EpochPlan, EpochShares, OrderConfig, OrderWarning, Rank, Resume, SampleId, ShardId, WorkerOrder, World,
};
use crate::sync::Arc;
use std::collections::VecDeque;

/// The plan of an epoch with several workers per rank.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    plan: EpochPlan,
    rank: Rank,
}

impl WorkerPlan {
    /// Plans `order` for the workers of `rank` in `world`, from `start` on, with `shares` of the streams.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be, `State` for a checkpoint that lies behind its epoch.
    pub fn new(
        data: &DataSet,
        order: &OrderConfig,
        shares: &EpochShares,
        world: World,
        rank: Rank,
        start: &Resume,
    ) -> Result<Self> {
        let plan = EpochPlan::of_shares(data.shape(), order, shares.clone(), world, start.epoch, Some(start))?;
        Ok(Self { plan, rank })
    }

    /// What the reference would have warned of.
    pub fn warnings(&self) -> &[OrderWarning] {
        self.plan.warnings()
    }

    /// The ids of `worker`, batch after batch, padded with -1 so that all workers have equally many.
    ///
    /// # Panics
    ///
    /// When there is no such worker.
    pub fn ids(&self, worker: u32) -> WorkerOrder {
        self.plan.worker(self.rank, worker)
    }
}

/// The samples of one worker in one epoch, with their shards fetched ahead.
pub struct Epoch {
    reader: Arc<SampleReader>,
    ids: WorkerOrder,
    /// Samples looked ahead, and the shard of each.
    window: VecDeque<(SampleId, ShardId)>,
    /// Samples to look ahead; 0 where there is nothing to do ahead.
    predownload: usize,
    ahead: Ahead,
    /// Samples that have entered the window.
    announced: u64,
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch").field("announced", &self.announced).finish_non_exhaustive()
    }
}

impl Epoch {
    /// The samples of `worker` under `plan`; shards are fetched up to `predownload` samples ahead.
    ///
    /// # Panics
    ///
    /// When the plan has no such worker.
    pub fn new(reader: Arc<SampleReader>, plan: &WorkerPlan, worker: u32, predownload: usize) -> Self {
        let predownload = if reader.data().has_work_ahead() { predownload } else { 0 };
        let ids = plan.ids(worker);
        Self { reader, ids, window: VecDeque::new(), predownload, ahead: Ahead::new(), announced: 0 }
    }

    /// The reader.
    pub fn reader(&self) -> &Arc<SampleReader> {
        &self.reader
    }

    /// Whether a thread has been started that fetches shards ahead.
    pub fn fetches_ahead(&self) -> bool {
        self.ahead.is_started()
    }

    /// The next sample, whose shard has been asked for; `None` at the end.
    ///
    /// # Errors
    ///
    /// What went wrong while fetching ahead, as soon as it is known.
    pub fn next_sample(&mut self) -> Result<Option<SampleId>> {
        if let Some(error) = self.ahead.failure() {
            return Err(error);
        }
        while self.window.len() <= self.predownload {
            let Some(id) = self.ids.next() else { break };
            let Ok(id) = u64::try_from(id) else { continue };
            let sample = SampleId(id);
            let shard = self.reader.shard_of(sample)?;
            if self.predownload > 0 {
                self.ahead.announce(&self.reader, shard, self.announced)?;
            }
            self.announced += 1;
            self.window.push_back((sample, shard));
        }
        let Some((sample, shard)) = self.window.pop_front() else {
            self.ahead.end();
            return Ok(None);
        };
        if self.predownload > 0 {
            self.ahead.taken(shard);
        }
        Ok(Some(sample))
    }
}
