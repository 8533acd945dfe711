//! Input and result of a partition.

use crate::error::OrderError;

/// Cell in the deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The canonical node that has the position in its part of the shuffled epoch.
    pub(crate) canonical: u32,
    /// Position in the shuffled epoch.
    pub(crate) position: u64,
    /// True if the position is repeated here only to make parts equal; its own cell is elsewhere.
    pub(crate) repeat: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartitionArgs {
    pub(crate) samples: u64,
    pub(crate) canonical: u64,
    pub(crate) nodes: u64,
    pub(crate) ranks_per_node: u64,
    pub(crate) batch: u64,
    pub(crate) drop_first: u64,
    pub(crate) initial_nodes: Option<u64>,
    pub(crate) equal_ranks: bool,
}

impl PartitionArgs {
    /// The last cell at which the reference resumes the epoch.
    pub(crate) fn reference_end(&self) -> u64 {
        let ranks = self.nodes * self.ranks_per_node;
        // A whole round is added even if no sample is missing, as in the reference.
        self.samples + (ranks - self.samples % ranks)
    }

    /// The last cell at which the epoch can end in any world with this global batch: rows of canonical nodes are made
    /// equal, then ranks, since their number divides the global batch.
    pub(super) fn last_end(&self) -> u64 {
        let filled = self.samples.div_ceil(self.canonical) * self.canonical;
        let global_batch = (self.nodes * self.ranks_per_node).saturating_mul(self.batch);
        filled.checked_next_multiple_of(global_batch).unwrap_or(u64::MAX)
    }

    /// True if canonical nodes can be dealt to physical nodes: one number divides the second.
    pub(super) fn nodes_divide(&self) -> bool {
        self.canonical.is_multiple_of(self.nodes) || self.nodes.is_multiple_of(self.canonical)
    }

    pub(super) fn past_end(&self) -> OrderError {
        OrderError::ResumedPastEnd { resumed: self.drop_first, samples: self.samples }
    }

    /// Rejects a start that the reference rejects.
    ///
    /// # Errors
    /// `ResumedPastEnd`.
    pub(crate) fn reject_as_reference(&self) -> Result<(), OrderError> {
        if self.drop_first > self.reference_end() { Err(self.past_end()) } else { Ok(()) }
    }
}
