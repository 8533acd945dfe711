//! Batch that is complete or has failed, before the consumer takes it.

use crate::batch::Batch;
use crate::error::{Error, Result};

/// Batch or its failure, with the bad samples that come before the failure.
#[derive(Debug)]
pub(crate) struct DoneBatch {
    /// Bad samples that were left out, in plan order: the row of each, and its error.
    pub(crate) bad: Vec<(usize, Error)>,
    pub(crate) delivered: Result<Batch>,
}

impl From<Batch> for DoneBatch {
    /// A batch without bad samples.
    fn from(batch: Batch) -> Self {
        Self { bad: Vec::new(), delivered: Ok(batch) }
    }
}
