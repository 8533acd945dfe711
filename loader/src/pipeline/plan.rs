//! Plan of an epoch as the stages need it: batches of samples, or of packs of documents.
//!
//! A position counts cells of the plan: samples, or packs. A document of several packs of a batch is read once for the
//! batch, since a row of the batch is a document, and packs are made of rows when all of them are there.
//!
//! A sample that is composed with partners, see [`compose`](crate::decode::compose), is a group of rows: its own and
//! one for each partner. They are read and decoded as any rows, and the batch is made of groups when all rows are
//! there.

use crate::decode::DrawKey;
use crate::decode::compose::Composition;
use crate::error::Result;
use crate::order::{
    EpochPlan, NEIGHBOURS, Node, PackBatch, PackOrder, PackPlan, PackedFragment, PlannedSample, Rank, RankOrder,
    SampleId, ShardUse,
};
use crate::sync::Arc;
use std::collections::HashMap;

/// Plan of an epoch. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum BatchPlan {
    Samples(EpochPlan),
    Packs(PackPlan),
    /// Samples with their partners.
    Groups(EpochPlan, Arc<Composition>),
}

impl BatchPlan {
    /// The plan of the cells.
    pub(crate) fn cells(&self) -> &EpochPlan {
        match self {
            Self::Samples(plan) | Self::Groups(plan, _) => plan,
            Self::Packs(plan) => plan.packs(),
        }
    }

    /// The batches of `rank`.
    pub(crate) fn rank(&self, rank: Rank) -> BatchOrder {
        match self {
            Self::Samples(plan) => BatchOrder::Samples(plan.rank(rank)),
            Self::Packs(plan) => BatchOrder::Packs(Box::new(plan.rank(rank)), PackBatch::default()),
            Self::Groups(plan, composition) => {
                BatchOrder::Groups(plan.rank(rank), plan.epoch(), Arc::clone(composition))
            }
        }
    }

    /// Uses of the data set's shards by `node`, in cells of its stream.
    pub(crate) fn shard_uses(&self, node: Node) -> Vec<ShardUse> {
        match self {
            Self::Samples(plan) => plan.shard_uses(node),
            Self::Packs(plan) => plan.shard_uses(node),
            Self::Groups(plan, _) => {
                // Partners are at most a stretch away, and the canonical nodes of a node are dealt in turn. The bounds
                // choose what to evict: for streams that are merged they are estimates.
                let around = NEIGHBOURS * plan.num_canonical_nodes().div_ceil(u64::from(plan.world().nodes));
                let widen = |ShardUse { shard, first, last }: ShardUse| ShardUse {
                    shard,
                    first: first.saturating_sub(around),
                    last: last + around,
                };
                plan.shard_uses(node).into_iter().map(widen).collect()
            }
        }
    }
}

/// Batches of a rank.
pub(crate) enum BatchOrder {
    Samples(RankOrder),
    Packs(Box<PackOrder>, PackBatch),
    /// Samples with their partners, of an epoch.
    Groups(RankOrder, u64, Arc<Composition>),
}

/// Batch of the plan.
#[derive(Debug, Default)]
pub(crate) struct PlannedBatch {
    /// Cells: samples or packs.
    pub(crate) cells: usize,
    /// Samples to read, one for each row.
    pub(crate) samples: Vec<PlannedSample>,
    /// Packs of the samples, if the cells are packs.
    pub(crate) packs: Option<PackedRows>,
    /// Groups of rows, if the cells are samples with partners.
    pub(crate) groups: Option<RowGroups>,
}

/// Rows of a batch in groups: the row of a sample, followed by the rows of its partners.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowGroups {
    /// Row of each sample.
    pub(crate) starts: Vec<u32>,
    /// Key of each sample's draws.
    pub(crate) keys: Vec<DrawKey>,
}

impl RowGroups {
    /// Returns the number of the group that has the row.
    pub(crate) fn group_of(&self, row: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= row).saturating_sub(1)
    }

    /// Returns true for the row of a partner.
    pub(crate) fn is_partner(&self, row: usize) -> bool {
        self.starts.binary_search(&(row as u32)).is_err()
    }

    /// Returns the rows of a group. `rows` is the number of all rows.
    pub(crate) fn rows_of(&self, group: usize, rows: usize) -> std::ops::Range<usize> {
        let end = self.starts.get(group + 1).map_or(rows, |start| *start as usize);
        self.starts[group] as usize..end
    }
}

/// Packs of a batch, as fragments of its rows.
#[derive(Debug, Default)]
pub(crate) struct PackedRows {
    /// Number of packs.
    pub(crate) packs: usize,
    /// The document of each row.
    pub(crate) documents: Vec<SampleId>,
    /// Pack by pack, from the first token on.
    pub(crate) fragments: Vec<RowFragment>,
}

/// Fragment of a row, which is a document, in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowFragment {
    /// The row.
    pub(crate) row: u32,
    /// Index of the pack in the batch.
    pub(crate) pack: u32,
    /// First token in the pack.
    pub(crate) offset: u32,
    /// First token in the document.
    pub(crate) first: u32,
    /// Tokens.
    pub(crate) tokens: u32,
    /// Tokens of the document, as planned.
    pub(crate) document_tokens: u32,
    /// True in packs that only make ranks equal.
    pub(crate) repeat: bool,
}

impl BatchOrder {
    /// Number of batches.
    pub(crate) fn batches(&self) -> u64 {
        match self {
            Self::Samples(order) | Self::Groups(order, ..) => order.batches(),
            Self::Packs(order, _) => order.packs().batches(),
        }
    }

    /// Moves to the start of a batch.
    pub(crate) fn seek(&mut self, batch: u64) {
        match self {
            Self::Samples(order) => order.seek(batch),
            Self::Packs(order, _) => order.seek(batch),
            Self::Groups(order, ..) => order.seek(batch),
        }
    }

    /// Replaces the content of `batch` with the next one; returns `false` when there is none.
    ///
    /// # Errors
    ///
    /// `State`: the numbers of packs in a checkpoint belong to different data.
    pub(crate) fn next_batch(&mut self, batch: &mut PlannedBatch) -> Result<bool> {
        match self {
            Self::Samples(order) => {
                let more = order.next_batch(&mut batch.samples);
                batch.cells = batch.samples.len();
                Ok(more)
            }
            Self::Packs(order, packs) => {
                let more = order.next_batch(packs)?;
                batch.set_packs(packs);
                Ok(more)
            }
            Self::Groups(order, epoch, composition) => {
                let key = |planned: &PlannedSample| key_of(planned, *epoch);
                let mut groups = RowGroups::default();
                let choose = |planned: &PlannedSample, neighbours: u64, chosen: &mut Vec<u64>| {
                    composition.choose(key(planned), neighbours, chosen);
                };
                let more = order.next_groups(&mut batch.samples, &mut groups.starts, choose);
                groups.keys = groups.starts.iter().map(|start| key(&batch.samples[*start as usize])).collect();
                batch.cells = groups.starts.len();
                batch.groups = Some(groups);
                Ok(more)
            }
        }
    }
}

/// Key of the sample's random draws in `epoch`.
pub(crate) fn key_of(planned: &PlannedSample, epoch: u64) -> DrawKey {
    DrawKey { epoch, stream: planned.stream.0, draw: planned.draw }
}

impl PlannedBatch {
    fn set_packs(&mut self, batch: &PackBatch) {
        self.cells = batch.packs;
        self.samples.clear();
        let mut rows = HashMap::new();
        let samples = &mut self.samples;
        let fragments = batch.fragments.iter().map(|fragment| {
            let row = *rows.entry(fragment.sample.sample).or_insert_with(|| {
                samples.push(fragment.sample);
                samples.len() as u32 - 1
            });
            let &PackedFragment { sample, pack, offset, first, tokens, document_tokens } = fragment;
            RowFragment { row, pack, offset, first, tokens, document_tokens, repeat: sample.repeat }
        });
        let fragments = fragments.collect();
        let documents = self.samples.iter().map(|planned| planned.sample).collect();
        self.packs = Some(PackedRows { packs: batch.packs, documents, fragments });
    }

    /// Cell of each row, from 0: the first pack that needs it, or the sample of its group.
    pub(crate) fn cells_of_rows(&self) -> Vec<u64> {
        if let Some(groups) = &self.groups {
            return (0..self.samples.len()).map(|row| groups.group_of(row) as u64).collect();
        }
        let Some(packs) = &self.packs else { return (0..self.samples.len() as u64).collect() };
        let mut cells = Vec::with_capacity(self.samples.len());
        // Rows are numbered in the order of their first fragments.
        packs.fragments.iter().for_each(|fragment| {
            if fragment.row as usize == cells.len() {
                cells.push(fragment.pack.into());
            }
        });
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{DataSetShape, OrderConfig, PackConfig, PackMethod, TokenLengths, World};
    use crate::sync::Arc;

    #[test]
    fn a_document_of_several_packs_is_one_row_of_the_batch() {
        let shape = DataSetShape::new(&[vec![3]]).expect("a shape");
        let lengths = [Arc::new(TokenLengths::new(vec![3, 10, 2]))];
        let order = OrderConfig { batch_size: 4, ..OrderConfig::default() };
        let packing = PackConfig { method: PackMethod::Cut, ..PackConfig::new(4) };
        let plan = PackPlan::new(&shape, &order, (&packing, &lengths), World::single(), 0, None, None, 1);
        let plan = BatchPlan::Packs(plan.expect("a plan"));
        let (mut batches, mut batch) = (plan.rank(Rank(0)), PlannedBatch::default());
        assert!(batches.next_batch(&mut batch).expect("good counts"));
        assert_eq!(batch.samples.iter().map(|planned| planned.sample.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((batch.cells, batch.cells_of_rows()), (4, vec![0, 0, 3]));
        let fragments = batch.packs.as_ref().expect("packs").fragments.iter();
        let found: Vec<_> =
            fragments.map(|f| (f.row, f.pack, f.offset, f.first, f.tokens, f.document_tokens)).collect();
        assert_eq!(
            found,
            [
                (0, 0, 0, 0, 3, 3),
                (1, 0, 3, 0, 1, 10),
                (1, 1, 0, 1, 4, 10),
                (1, 2, 0, 5, 4, 10),
                (1, 3, 0, 9, 1, 10),
                (2, 3, 1, 0, 2, 2)
            ]
        );
        assert!(!batches.next_batch(&mut batch).expect("good counts"));
        batches.seek(0);
        assert!(batches.next_batch(&mut batch).expect("good counts"));
    }
}
