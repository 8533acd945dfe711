//! Partition of an epoch's positions among ranks. Positions are dealt column by column from the canonical nodes' rows
//! to physical nodes, and from each node to its ranks in turn. Cells are computed; nothing is stored per sample.
//!
//! `orig` is that deal. `relaxed` deals for the nodes of the first run and then cuts the same global batches for the
//! nodes of the current run.
//!
//! A resumed epoch is dealt from its checkpoint on. The reference rejects checkpoints shortly after the number of
//! samples, but equalised rows are longer, and are dealt here too. After that limit the rest is the tail of the whole
//! epoch, repeats included; before it, the repeats at the end are the reference's.

mod args;
mod orig;
mod relaxed;

pub(super) use args::{Cell, PartitionArgs};
use orig::Equalise;
pub(super) use orig::{Deal, canonical_starts};
use relaxed::Recut;

use super::config::PartitionAlgo;
use super::error::{OrderError, OrderWarning};

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) args: PartitionArgs,
    pub(super) deal: Deal,
    /// Samples of a device's batch in the deal: with a recut, the samples of the first run.
    pub(super) batch: u64,
    /// Set if the deal is for the nodes of the first run.
    recut: Option<Recut>,
}

impl Partition {
    pub(super) fn new(
        algo: PartitionAlgo,
        args: PartitionArgs,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Self, OrderError> {
        let equalise =
            if args.drop_first > args.reference_end() { Equalise::AsInWholeEpoch } else { Equalise::WithRest };
        if equalise == Equalise::AsInWholeEpoch && args.drop_first > args.last_end() {
            return Err(args.past_end());
        }
        let (recut, dealt) = match (algo, args.initial_nodes) {
            (PartitionAlgo::Relaxed, Some(initial)) if !args.nodes_divide() => {
                let (recut, dealt) = Recut::new(args, initial)?;
                (Some(recut), dealt)
            }
            _ => (None, args),
        };
        Ok(Self { args, deal: Deal::new(dealt, equalise, warnings)?, batch: dealt.batch, recut })
    }

    /// The `k`-th cell of a rank, or `None` for padding.
    #[inline]
    pub(super) fn cell(&self, node: u64, rank: u64, k: u64) -> Option<Cell> {
        match &self.recut {
            None => self.deal.rank_cell(node, rank, k),
            Some(recut) => recut.cell(&self.deal, node, rank, k),
        }
    }

    /// True if the deal is for the nodes of the first run.
    pub(super) fn is_recut(&self) -> bool {
        self.recut.is_some()
    }

    /// Global batches without padding; they come first.
    pub(super) fn full_batches(&self) -> u64 {
        self.deal.rank_len() / self.batch
    }

    /// Global batches with at least one cell.
    pub(super) fn batches(&self) -> u64 {
        self.deal.rank_len().div_ceil(self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(samples: u64, canonical: u64, nodes: u64, ranks_per_node: u64, batch: u64) -> PartitionArgs {
        PartitionArgs { samples, canonical, nodes, ranks_per_node, batch, ..PartitionArgs::default() }
    }

    /// Positions by global batch, in order.
    fn seen(partition: &Partition, args: PartitionArgs) -> Vec<Vec<(u64, bool)>> {
        (0..partition.batches())
            .map(|batch| {
                let mut rows = Vec::new();
                for node in 0..args.nodes {
                    for rank in 0..args.ranks_per_node {
                        for column in 0..args.batch {
                            let cell = partition.cell(node, rank, batch * args.batch + column);
                            rows.extend(cell.map(|c| (c.position, c.repeat)));
                        }
                    }
                }
                rows
            })
            .collect()
    }

    fn deal(args: PartitionArgs) -> Vec<Vec<(u64, bool)>> {
        let partition = Partition::new(PartitionAlgo::Relaxed, args, &mut Vec::new()).expect("a good partition");
        seen(&partition, args)
    }

    #[test]
    fn every_position_counts_once_however_parts_are_equalised() {
        for samples in [1, 5, 63, 64, 65, 117, 1000, 1001, 1024] {
            for canonical in [1, 2, 3, 8, 64] {
                for nodes in [1, 2, 3, 6, 8, 64] {
                    let args = args(samples, canonical, nodes, 3, 4);
                    let Ok(partition) = Partition::new(PartitionAlgo::Orig, args, &mut Vec::new()) else { continue };
                    let mut firsts: Vec<u64> = seen(&partition, args)
                        .concat()
                        .into_iter()
                        .filter_map(|(position, repeat)| (!repeat).then_some(position))
                        .collect();
                    firsts.sort_unstable();
                    assert_eq!(firsts, (0..samples).collect::<Vec<_>>(), "{args:?}");
                }
            }
        }
    }

    #[test]
    fn a_global_batch_holds_the_same_samples_on_any_legal_world() {
        let sets = |args| -> Vec<Vec<u64>> {
            let sort = |batch: Vec<(u64, bool)>| {
                let mut batch: Vec<u64> = batch.into_iter().map(|(position, _)| position).collect();
                batch.sort_unstable();
                batch
            };
            deal(args).into_iter().map(sort).collect()
        };
        let one = sets(args(1200, 8, 1, 1, 24));
        for (nodes, ranks, batch) in [(1, 8, 3), (2, 4, 3), (4, 1, 6), (8, 3, 1), (2, 6, 2)] {
            assert_eq!(sets(args(1200, 8, nodes, ranks, batch)), one, "{nodes} nodes of {ranks} ranks");
        }
    }

    #[test]
    fn relaxed_keeps_the_order_within_the_global_batch_on_odd_nodes() {
        let first = PartitionArgs { drop_first: 48, ..args(1200, 8, 4, 2, 3) };
        let resumed = PartitionArgs { initial_nodes: Some(4), ..first };
        let resumed = PartitionArgs { nodes: 3, batch: 4, ..resumed };
        assert_eq!(deal(first), deal(resumed));
    }

    #[test]
    fn ranks_of_a_recut_get_equal_numbers_of_batches_and_the_same_global_batches() {
        let first = args(1210, 8, 4, 2, 3);
        for (nodes, ranks_per_node, batch) in [(3, 2, 4), (6, 2, 2), (12, 2, 1)] {
            for drop_first in [0, 48, 1200] {
                let resumed =
                    PartitionArgs { nodes, batch, ranks_per_node, drop_first, initial_nodes: Some(4), ..first };
                let resumed = PartitionArgs { equal_ranks: true, ..resumed };
                let partition = Partition::new(PartitionAlgo::Relaxed, resumed, &mut Vec::new()).expect("a partition");
                assert!(partition.is_recut());
                let rows = |rank: u64| {
                    let places = 0..partition.batches() * batch;
                    let cell = |k| partition.cell(rank / ranks_per_node, rank % ranks_per_node, k);
                    places.filter(|&k| cell(k).is_some()).count()
                };
                let all: Vec<usize> = (0..nodes * ranks_per_node).map(rows).collect();
                assert!(all.iter().all(|rows| *rows == all[0] && *rows > 0), "{resumed:?}: {all:?}");

                let dealt = deal(PartitionArgs { drop_first, ..first });
                let mut divided = seen(&partition, resumed);
                let last = divided.len() - 1;
                let repeated = divided[last].split_off(dealt[last].len());
                assert_eq!(divided, dealt, "{resumed:?}");
                assert!(
                    repeated.iter().all(|(position, repeat)| {
                        *repeat && dealt[last].iter().any(|(dealt, _)| dealt == position)
                    })
                );
            }
        }
    }

    #[test]
    fn resuming_after_the_epoch_is_an_error() {
        let at = |drop_first| PartitionArgs { drop_first, ..args(117, 64, 1, 1, 1) };
        let partition = |args| Partition::new(PartitionAlgo::Orig, args, &mut Vec::new());
        let error = partition(at(129)).expect_err("after the end");
        assert_eq!(error, OrderError::ResumedPastEnd { resumed: 129, samples: 117 });
        assert_eq!(partition(at(128)).expect("the end").batches(), 0);
        assert_eq!(partition(at(120)).expect("before the end").batches(), 8);
        let rejected = [117, 118, 119, 128].map(|place| at(place).reject_as_reference().is_err());
        assert_eq!(rejected, [false, false, true, true], "the reference rejects earlier cells");
    }

    #[test]
    fn nodes_that_divide_neither_way_are_rejected() {
        let error = Partition::new(PartitionAlgo::Orig, args(100, 8, 3, 1, 1), &mut Vec::new()).expect_err("8 and 3");
        assert_eq!(error, OrderError::NodesDoNotDivide { canonical: 8, physical: 3 });
    }
}
