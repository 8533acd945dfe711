//! Each device batch from one stream. Streams are dealt as if every canonical node were a physical one, with batches
//! of one sample; each physical node makes device batches of its canonical nodes' rows, each in a
//! different random order of streams; the nodes' device batches are interleaved and cut into global batches.

use std::collections::BTreeSet;
use std::ops::Range;

use super::args::BatchingArgs;
use super::origins;
use super::sequence::{RankPosition, RowSource, Sequence};
use crate::error::{OrderError, OrderWarning};
use crate::partition::PartitionArgs;
use crate::rng::Generator;

#[derive(Debug)]
pub(crate) struct DevicePerStream {
    batch: u64,
    nodes: u64,
    ranks_per_node: u64,
    canonical_per_node: u64,
    streams: usize,
    /// The stream of each device batch, per physical node.
    origins: Vec<Vec<u32>>,
}

impl DevicePerStream {
    /// Makes the sequences and the method, and counts the global batches of the epoch, including the last ones, which
    /// may be padding.
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Vec<Sequence>, Self, u64), OrderError> {
        let canonical = args.start.canonical;
        if !canonical.is_multiple_of(args.nodes()) {
            return Err(OrderError::CanonicalNotMultiple { canonical, physical: args.nodes() });
        }
        let canonical_per_node = canonical / args.nodes();
        let deal = |samples| PartitionArgs { nodes: canonical, batch: 1, ..args.partition_args(samples) };
        let sequences = args.sequence_per_stream(deal, warnings)?;
        let batch = args.config.batch_size;
        let mut rows = Vec::with_capacity(sequences.len());
        for (stream, sequence) in sequences.iter().enumerate() {
            // All canonical nodes have rows of one length, so all physical nodes have as many.
            let samples = sequence.partition.deal.node_len_padded * canonical_per_node;
            let full = samples / batch;
            if full == 0 {
                return Err(OrderError::StreamTooSmall { stream: stream as u32, batch });
            }
            if !samples.is_multiple_of(batch) {
                warnings.push(OrderWarning::StreamTailDropped { stream: stream as u32 });
            }
            rows.push(full);
        }
        // One generator serves all nodes, in order.
        let mut generator = Generator::new(args.shares_seed());
        let origins = (0..args.nodes()).map(|_| origins::shuffled(&mut generator, &rows, args.nodes()));
        let origins = origins.collect::<Result<Vec<_>, _>>()?;
        // At least one row of padding is added even where none is missing, as in the reference.
        let devices = args.world.ranks();
        let node_rows: u64 = rows.iter().sum();
        let node_rows = node_rows + devices - node_rows % devices;
        let method = DevicePerStream {
            batch,
            nodes: args.nodes(),
            ranks_per_node: args.ranks_per_node(),
            canonical_per_node,
            streams: sequences.len(),
            origins,
        };
        Ok((sequences, method, node_rows / args.ranks_per_node()))
    }

    /// The node that a rank gets device batches of, and the number of its device batch in a global batch. Device
    /// batches are interleaved node by node, but dealt to the ranks of a node together.
    fn source(&self, position: &RankPosition) -> (u64, u64) {
        let devices = self.nodes * self.ranks_per_node;
        let device_batch = position.batch * devices + position.node * self.ranks_per_node + position.rank_of_node;
        (device_batch % self.nodes, device_batch / self.nodes)
    }

    pub(super) fn seek(&self, position: &mut RankPosition) {
        let (node, row) = self.source(position);
        origins::count_to(position, &self.origins[node as usize], self.streams, row);
    }

    pub(super) fn row_source(&self, sequences: &[Sequence], position: &RankPosition, column: u64) -> Option<RowSource> {
        let (node, row) = self.source(position);
        if row >= self.origins[node as usize].len() as u64 {
            return None;
        }
        let sample = position.row * self.batch + column;
        let (canonical, rank, k) = self.cell_of(sample);
        let deal = &sequences[position.sequence].partition.deal;
        let cell = deal.rank_cell(node * self.canonical_per_node + canonical, rank, k)?;
        Some(RowSource { sequence: position.sequence, cell })
    }

    /// Canonical node of the physical node, rank and index of the rank's cell for a sample of a node's stream.
    fn cell_of(&self, sample: u64) -> (u64, u64, u64) {
        let (rest, rank) = (sample / self.ranks_per_node, sample % self.ranks_per_node);
        (rest % self.canonical_per_node, rank, rest / self.canonical_per_node)
    }

    /// Lower bound of the sample number, in a physical node's stream, of the `index`-th cell of one of its canonical
    /// nodes. The bound is less than one cell of each canonical node and rank too low.
    pub(crate) fn node_sample_at(&self, index: u64) -> u64 {
        index / self.ranks_per_node * self.canonical_per_node * self.ranks_per_node
    }

    /// The canonical nodes with samples in `source`'s device batches.
    pub(crate) fn canonical_of(&self, source: u64) -> Range<u64> {
        source * self.canonical_per_node..(source + 1) * self.canonical_per_node
    }

    /// The nodes that the ranks of `node` get device batches of.
    pub(crate) fn sources_of(&self, node: u64) -> BTreeSet<u64> {
        (0..self.ranks_per_node).map(|rank| (node * self.ranks_per_node + rank) % self.nodes).collect()
    }

    /// The global batch that each of a stream's device batches on `source` goes to.
    pub(crate) fn batches_of(&self, stream: usize, source: u64) -> Vec<u64> {
        let devices = self.nodes * self.ranks_per_node;
        let rows = origins::of_stream(&self.origins[source as usize], stream);
        rows.map(|row| (row * self.nodes + source) / devices).collect()
    }
}
