//! Global batches that were dealt for the nodes of the first run, divided among those of the current run. Every global
//! batch keeps its samples and their order.

use super::args::PartitionArgs;
use crate::order::error::OrderError;

/// Division of the first run's global batches among the current run's ranks.
#[derive(Debug)]
pub(super) struct Recut {
    ranks_per_node: u64,
    /// Samples of a device's batch in this run.
    batch: u64,
    /// Samples of a device's batch in the first run.
    initial_batch: u64,
}

impl Recut {
    /// Returns the division and the input of the deal for the `initial` nodes of the first run.
    pub(super) fn new(args: PartitionArgs, initial: u64) -> Result<(Self, PartitionArgs), OrderError> {
        let PartitionArgs { nodes, ranks_per_node, batch, .. } = args;
        let global_batch = nodes * ranks_per_node * batch;
        let devices = initial * ranks_per_node;
        if !global_batch.is_multiple_of(devices) {
            return Err(OrderError::GlobalBatchDoesNotDivide { global_batch, devices });
        }
        let initial_batch = global_batch / devices;
        let dealt = PartitionArgs { nodes: initial, batch: initial_batch, ..args };
        Ok((Self { ranks_per_node, batch, initial_batch }, dealt))
    }

    /// Node, rank and index in the first run's deal of the `k`-th place of a rank.
    pub(super) fn place_in_deal(&self, node: u64, rank: u64, k: u64) -> (u64, u64, u64) {
        let (batch, column) = (k / self.batch, k % self.batch);
        let in_batch = (node * self.ranks_per_node + rank) * self.batch + column;
        let (device, column) = (in_batch / self.initial_batch, in_batch % self.initial_batch);
        (device / self.ranks_per_node, device % self.ranks_per_node, batch * self.initial_batch + column)
    }
}
