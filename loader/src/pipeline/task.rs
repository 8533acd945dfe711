//! One planned sample: the unit of work of the sample plane.

use crate::decode::DrawKey;
use crate::error::{Error, Result};
use crate::order::{DataSetShape, PlannedSample, ShardId};

/// A planned sample and its place in the data set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) planned: PlannedSample,
    pub(crate) shard: ShardId,
    /// Number of the sample in its shard.
    pub(crate) index: u32,
    /// Position among the rank's samples of this run, from 0.
    pub(crate) position: u64,
}

impl Task {
    /// Locates `planned` in a data set of this `shape`.
    ///
    /// # Errors
    ///
    /// `Internal` for a sample that the data set does not have.
    pub(crate) fn new(planned: PlannedSample, position: u64, shape: &DataSetShape) -> Result<Self> {
        let (shard, index) = shape.locate(planned.sample).ok_or_else(|| {
            Error::internal("the plan contains a sample that the data set does not have")
                .with("sample", planned.sample.0)
        })?;
        Ok(Self { planned, shard, index, position })
    }

    /// Key of the sample's random draws in `epoch`.
    pub(crate) fn draw_key(&self, epoch: u64) -> DrawKey {
        DrawKey { epoch, stream: self.planned.stream.0, draw: self.planned.draw }
    }
}
