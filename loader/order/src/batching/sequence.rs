//! Sequences of draws, and a reader's position among their batches.

use std::sync::Arc;

use crate::arrangement::Arrangement;
use crate::config::Buckets;
use crate::ids::{SampleId, StreamId};
use crate::partition::{Cell, Partition};
use crate::sampling::Draws;
use crate::shape::DataSetShape;
use crate::shuffle::{Cursor, Shuffle};

/// List of draws with its own deal and shuffle.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The stream, if all draws belong to one stream.
    pub(crate) stream: Option<StreamId>,
    pub(crate) draws: Arc<Draws>,
    pub(crate) partition: Partition,
    pub(crate) shuffle: Shuffle,
    pub(crate) arrangement: Arrangement,
}

impl Sequence {
    /// Returns the cursor of the rows, for streams of `shape`.
    pub(crate) fn cursor(&self, shape: &DataSetShape, buckets: Option<&Buckets>) -> Box<dyn Cursor> {
        self.arrangement.cursor(&self.shuffle, || {
            let lengths = buckets.map_or(Vec::new(), |buckets| buckets.lengths.clone());
            let (shape, draws, repeats) = (shape.clone(), self.draws.clone(), self.arrangement.repeats());
            Box::new(move |row| {
                let sample = draws.sample(&shape, row / repeats);
                let stream = shape.stream_of_sample(sample);
                lengths[stream.index()].values()[(sample.0 - shape.samples_of(stream).start) as usize]
            })
        })
    }

    /// The sample of a row.
    #[inline]
    pub(crate) fn sample(&self, shape: &DataSetShape, row: u64) -> SampleId {
        self.draws.sample(shape, self.arrangement.draw(row))
    }
}

/// Position of a rank's reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankPosition {
    pub(crate) node: u64,
    pub(crate) rank_of_node: u64,
    /// Global batch, of the epoch or of the part of it that is dealt.
    pub(crate) batch: u64,
    /// The sequence of this batch and its row there, for methods that make a batch of one stream.
    pub(super) sequence: usize,
    pub(super) row: u64,
    /// Batches of each sequence among the first `counted` origins.
    pub(super) counts: Vec<u64>,
    pub(super) counted: u64,
}

/// Source of a row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSource {
    pub(crate) sequence: usize,
    pub(crate) cell: Cell,
}

impl RankPosition {
    /// Position of a rank's reader, which must be moved to a batch before use.
    pub(crate) fn new(node: u64, rank_of_node: u64) -> Self {
        Self { node, rank_of_node, ..Self::default() }
    }
}
