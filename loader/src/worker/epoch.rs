//! Samples of one worker in one epoch.

use super::fetch_ahead::FetchAhead;
use super::reader::SampleReader;
use crate::error::Result;
use crate::order::{SampleId, ShardId, WorkerOrder};
use crate::sync::Arc;
use std::collections::VecDeque;

/// Samples of one worker in one epoch, with their shards fetched ahead.
pub struct Epoch {
    reader: Arc<SampleReader>,
    ids: WorkerOrder,
    /// Announced samples, and the shard of each.
    window: VecDeque<(SampleId, ShardId)>,
    /// Samples to announce ahead; 0 if no shard needs a fetch or unpacking.
    predownload: usize,
    ahead: FetchAhead,
    /// Samples that have entered the window.
    announced: u64,
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch").field("announced", &self.announced).finish_non_exhaustive()
    }
}

impl Epoch {
    /// The samples of `ids`; shards are fetched up to `predownload` samples ahead.
    pub fn new(reader: Arc<SampleReader>, ids: WorkerOrder, predownload: usize) -> Self {
        let predownload = if reader.data().has_work_ahead() { predownload } else { 0 };
        Self { reader, ids, window: VecDeque::new(), predownload, ahead: FetchAhead::new(), announced: 0 }
    }

    /// The reader.
    pub fn reader(&self) -> &Arc<SampleReader> {
        &self.reader
    }

    /// True if the thread that fetches shards ahead has been started.
    pub fn fetches_ahead(&self) -> bool {
        self.ahead.is_started()
    }

    /// Returns the next sample, from a shard that has been announced; `None` at the end.
    ///
    /// # Errors
    ///
    /// The error of a fetch ahead, as soon as it is known.
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
