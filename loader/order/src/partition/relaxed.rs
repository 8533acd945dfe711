//! Global batches that were dealt for the nodes of the first run, divided among the ranks of the current run. Every
//! global batch keeps its samples and their order.

use super::args::{Cell, PartitionArgs};
use super::orig::Deal;
use crate::error::OrderError;

/// Division of the first run's global batches among the current run's ranks.
#[derive(Debug)]
pub(super) struct Recut {
    ranks_per_node: u64,
    ranks: u64,
    /// Samples of a device's batch in this run.
    batch: u64,
    /// Devices of the first run, and samples of a batch on each.
    devices: u64,
    device_batch: u64,
    /// True if the rows of the last, incomplete batch are divided evenly.
    is_equal: bool,
}

impl Recut {
    /// Returns the division and the input of the deal for the `initial` nodes of the first run.
    pub(super) fn new(args: PartitionArgs, initial: u64) -> Result<(Self, PartitionArgs), OrderError> {
        let PartitionArgs { nodes, ranks_per_node, batch, equal_ranks: is_equal, .. } = args;
        let ranks = nodes * ranks_per_node;
        let (global_batch, devices) = (ranks * batch, initial * ranks_per_node);
        if !global_batch.is_multiple_of(devices) {
            return Err(OrderError::GlobalBatchDoesNotDivide { global_batch, devices });
        }
        let device_batch = global_batch / devices;
        let dealt = PartitionArgs { nodes: initial, batch: device_batch, ..args };
        Ok((Self { ranks_per_node, ranks, batch, devices, device_batch, is_equal }, dealt))
    }

    /// The `k`-th cell of a rank of this run; `None` for padding.
    pub(super) fn cell(&self, deal: &Deal, node: u64, rank: u64, k: u64) -> Option<Cell> {
        let (batch, column) = (k / self.batch, k % self.batch);
        // Rows of each device of the first run and of each rank of this run. In the last global batch the reference
        // leaves out rows that its devices lacked, so that some ranks have fewer rows, or none.
        let (mut device_rows, mut rank_rows) = (self.device_batch, self.batch);
        if self.is_equal {
            device_rows = device_rows.min(deal.rank_len().saturating_sub(batch * self.device_batch));
            rank_rows = (self.devices * device_rows).div_ceil(self.ranks);
        }
        if column >= rank_rows {
            return None;
        }
        let row = (node * self.ranks_per_node + rank) * rank_rows + column;
        let (device, column) = (row / device_rows % self.devices, row % device_rows);
        let k = batch * self.device_batch + column;
        let cell = deal.rank_cell(device / self.ranks_per_node, device % self.ranks_per_node, k)?;
        Some(Cell { repeat: cell.repeat || row >= self.devices * device_rows, ..cell })
    }
}
