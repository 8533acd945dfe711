//! Recut of a deal for the nodes of the first run, for the nodes of the current run. Every global batch keeps its
//! samples and their order.

use super::args::{Cell, PartitionArgs};
use super::orig::{Deal, Equalise};
use crate::order::error::{OrderError, OrderWarning};

/// Recut deal.
#[derive(Debug)]
pub(in crate::order) struct Recut {
    deal: Deal,
    ranks_per_node: u64,
    /// Samples of a device's batch in this run.
    batch: u64,
    /// Samples of a device's batch in the first run.
    initial_batch: u64,
}

impl Recut {
    pub(super) fn new(
        args: PartitionArgs,
        initial: u64,
        equalise: Equalise,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Self, OrderError> {
        let global_batch = args.nodes * args.ranks_per_node * args.batch;
        let devices = initial * args.ranks_per_node;
        if !global_batch.is_multiple_of(devices) {
            return Err(OrderError::GlobalBatchDoesNotDivide { global_batch, devices });
        }
        let deal = Deal::new(&PartitionArgs { nodes: initial, ..args }, equalise, warnings)?;
        Ok(Self { deal, ranks_per_node: args.ranks_per_node, batch: args.batch, initial_batch: global_batch / devices })
    }

    pub(super) fn deal(&self) -> &Deal {
        &self.deal
    }

    pub(super) fn initial_batch(&self) -> u64 {
        self.initial_batch
    }

    pub(super) fn cell(&self, node: u64, rank: u64, k: u64) -> Option<Cell> {
        let (batch, column) = (k / self.batch, k % self.batch);
        let in_batch = (node * self.ranks_per_node + rank) * self.batch + column;
        let (device, column) = (in_batch / self.initial_batch, in_batch % self.initial_batch);
        let (node, rank) = (device / self.ranks_per_node, device % self.ranks_per_node);
        self.deal.rank_cell(node, rank, batch * self.initial_batch + column)
    }
}
