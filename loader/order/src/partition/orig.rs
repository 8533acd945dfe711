//! Deal of canonical nodes' rows, column by column, to nodes and ranks in turn.

use super::args::{Cell, PartitionArgs};
use crate::error::{OrderError, OrderWarning};
use std::ops::Range;

/// Deal of positions; cells are computed, not stored.
#[derive(Debug)]
pub(crate) struct Deal {
    /// The input; `drop_first` is a multiple of the nodes.
    args: PartitionArgs,
    /// First position of each canonical node, and `samples` at the end.
    pub(crate) starts: Vec<u64>,
    /// Cells of a row before `padding`.
    row_filled: u64,
    /// Cells of a row: rows are made equal by repeating their last position, then padded.
    row: u64,
    /// Columns that pad a row, repeated as often as necessary.
    padding: Range<u64>,
    /// True if there are too few samples for the rules: rows then repeat all positions.
    pub(crate) is_tiled: bool,
    /// Cells of each node, before ranks are made equal.
    node_len: u64,
    /// Cells of each node, a multiple of its ranks.
    pub(crate) node_len_padded: u64,
    /// Cells of a node, dropped ones counted, that are repeated to make its ranks equal.
    tail: Range<u64>,
}

/// Choice of the cells that make ranks equal in the rest of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Equalise {
    /// Cells of the rest, as in the reference.
    WithRest,
    /// The cells that do so in the whole epoch, if the ranks stopped at the same cell: the rest is then the epoch's
    /// tail, repeats included.
    AsInWholeEpoch,
}

impl Deal {
    pub(super) fn new(
        args: PartitionArgs,
        equalise: Equalise,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Self, OrderError> {
        let PartitionArgs { samples, canonical, nodes, ranks_per_node, .. } = args;
        if !args.nodes_divide() {
            return Err(OrderError::NodesDoNotDivide { canonical, physical: nodes });
        }
        let drop_first = args.drop_first - args.drop_first % nodes;
        if drop_first != args.drop_first {
            warnings.push(OrderWarning::ResumeRoundedDown { multiple: nodes });
        }

        let row_filled = samples.div_ceil(canonical);
        let nodes_per_row = if canonical < nodes { nodes / canonical } else { 1 };
        let row = row_filled.next_multiple_of(nodes_per_row);
        let is_tiled = samples < canonical || (samples == canonical && canonical < nodes);
        if is_tiled {
            warnings.push(OrderWarning::FewSamplesForNodes { samples, canonical });
        }
        let padding = match row - row_filled {
            missing if missing == 0 || is_tiled => 0..1,
            missing => padding(row, missing, nodes_per_row).ok_or(OrderError::TooFewForPadding {
                samples,
                canonical,
                physical: nodes,
            })?,
        };

        let (whole, dropped) = (row * canonical / nodes, drop_first / nodes);
        let node_len = whole.saturating_sub(dropped);
        let node_len_padded = node_len.next_multiple_of(ranks_per_node);
        let missing = node_len_padded - node_len;
        let repeated = match equalise {
            Equalise::AsInWholeEpoch if dropped.is_multiple_of(ranks_per_node) => 0..whole,
            _ => dropped..dropped + node_len,
        };
        let tail = match (repeated.end - repeated.start + 1).checked_sub(ranks_per_node + missing) {
            _ if missing == 0 => dropped..dropped,
            Some(before) => repeated.start + before..repeated.start + before + missing,
            None => {
                let samples = repeated.end - repeated.start;
                warnings.push(OrderWarning::FewSamplesForRanks { samples, ranks: ranks_per_node });
                repeated
            }
        };
        let starts = canonical_starts(samples, canonical);
        let args = PartitionArgs { drop_first, ..args };
        Ok(Self { args, starts, row_filled, row, padding, is_tiled, node_len, node_len_padded, tail })
    }

    pub(crate) fn rank_len(&self) -> u64 {
        self.node_len_padded / self.args.ranks_per_node
    }

    /// Number of cells of the whole epoch, all nodes together.
    pub(crate) fn end(&self) -> u64 {
        (self.row * self.args.canonical).next_multiple_of(self.args.nodes * self.args.ranks_per_node)
    }

    /// The `k`-th cell of a rank; `None` after the last.
    #[inline]
    pub(crate) fn rank_cell(&self, node: u64, rank: u64, k: u64) -> Option<Cell> {
        self.node_cell(node, k * self.args.ranks_per_node + rank)
    }

    /// The `i`-th cell of a node; `None` after the last.
    #[inline]
    pub(crate) fn node_cell(&self, node: u64, i: u64) -> Option<Cell> {
        if i < self.node_len {
            return Some(self.cell(self.args.drop_first + i * self.args.nodes + node));
        }
        if i >= self.node_len_padded {
            return None;
        }
        // Cells are missing, so the tail is not empty.
        let i = self.tail.start + (i - self.node_len) % (self.tail.end - self.tail.start);
        Some(Cell { repeat: true, ..self.cell(i * self.args.nodes + node) })
    }

    /// The `t`-th cell, column by column.
    fn cell(&self, t: u64) -> Cell {
        let (column, canonical) = (t / self.args.canonical, t % self.args.canonical);
        if self.is_tiled {
            let place = canonical * self.row + column;
            let position = place % self.args.samples;
            let canonical = self.starts.partition_point(|&start| start <= position) - 1;
            return Cell { canonical: canonical as u32, position, repeat: place >= self.args.samples };
        }
        let (start, stop) = (self.starts[canonical as usize], self.starts[canonical as usize + 1]);
        let (column, repeat) = match column.checked_sub(self.row_filled) {
            None => (column, false),
            Some(over) => (self.padding.start + over % (self.padding.end - self.padding.start), true),
        };
        // A short row repeats its last position.
        let is_short = start + column == stop;
        Cell { canonical: canonical as u32, position: start + column - u64::from(is_short), repeat: repeat || is_short }
    }

    /// Index of `column` of a canonical node's row in its node's list; `None` if it was dropped, 0 if it was dropped
    /// and may be among the repeats at the end. Not for tiled deals.
    pub(crate) fn index_of(&self, canonical: u64, column: u64) -> Option<u64> {
        let t = column * self.args.canonical + canonical;
        let is_read = t >= self.args.drop_first.min(self.tail.start * self.args.nodes);
        is_read.then(|| t.saturating_sub(self.args.drop_first) / self.args.nodes)
    }

    /// True if `node` gets positions of a canonical node. Not for tiled deals.
    pub(crate) fn is_dealt(&self, node: u64, canonical: u64) -> bool {
        // One number divides the second.
        let parts = self.args.canonical.min(self.args.nodes);
        canonical % parts == node % parts
    }

    /// Number of cells at the end of a node's list that may be repeats or be repeated.
    pub(crate) fn tail(&self) -> u64 {
        let nodes_per_row = self.args.nodes.div_ceil(self.args.canonical);
        2 * (self.args.ranks_per_node + nodes_per_row + 1)
    }
}

/// The reference copies as many columns as are `missing`, which end `nodes_per_row - 1` before the padding; where the
/// row does not reach that far back, a single column is broadcast and anything else fails.
fn padding(row: u64, missing: u64, nodes_per_row: u64) -> Option<Range<u64>> {
    let stop = (row + 1).saturating_sub(missing + nodes_per_row);
    let from = (row + 1).saturating_sub(2 * missing + nodes_per_row);
    Some(from..stop).filter(|columns| [missing, 1].contains(&(columns.end - columns.start)))
}

/// First position of each of `canonical` parts of `samples`, and `samples` at the end.
pub(crate) fn canonical_starts(samples: u64, canonical: u64) -> Vec<u64> {
    (0..=canonical).map(|c| (u128::from(samples) * u128::from(c) / u128::from(canonical)) as u64).collect()
}
