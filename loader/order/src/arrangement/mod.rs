//! Arrangement: the order of an epoch's rows, which are made from its draws.
//!
//! The shuffle has a draw for each position. An arrangement is a cursor around the shuffle's: it permutes and repeats
//! draws within the part of a canonical node, so that partition, ranks and resumption do not depend on it. Its results
//! are *rows*: row `draw * repeats + n` is occurrence `n` of a draw, and equals the draw where nothing is repeated.
//!
//! * `repeats`: each draw several times in succession;
//! * `buckets`: batches of samples of similar length.

mod buckets;
mod repeats;

use std::sync::Arc;

use super::shuffle::{Cursor, Shuffle};
pub(super) use buckets::SampleOf;
use buckets::{Buckets, Division};
use repeats::Repeats;

/// Arrangement of a sequence.
#[derive(Debug)]
pub(super) struct Arrangement {
    repeats: u64,
    division: Option<Division>,
    /// First position of each canonical node, and the number of positions at the end; empty if nothing is arranged.
    starts: Arc<[u64]>,
}

/// Buckets of a sequence.
pub(super) struct BucketArgs {
    /// Cells of the sequence in a global batch.
    pub(super) batch: u64,
    /// Global batches of a window.
    pub(super) batches: u64,
    /// Seed of the order of a window's batches; `None`: from the shortest to the longest.
    pub(super) seed: Option<u128>,
}

impl Arrangement {
    /// An arrangement of canonical nodes' parts that begin at `starts`; the last item of `starts` is the end.
    pub(super) fn new(repeats: u32, buckets: Option<BucketArgs>, starts: &[u64]) -> Self {
        let canonical = starts.len() as u64 - 1;
        // Parts of canonical nodes are made equally long.
        let places = starts.last().map_or(0, |samples| samples.div_ceil(canonical) * canonical);
        let division =
            buckets.map(|BucketArgs { batch, batches, seed }| Division { canonical, batch, batches, places, seed });
        let is_used = repeats > 1 || division.is_some();
        let starts = if is_used { starts.into() } else { Arc::default() };
        Self { repeats: repeats.into(), division, starts }
    }

    /// Changes the cells in a global batch.
    pub(super) fn set_batch(&mut self, places: u64) {
        if let Some(division) = &mut self.division {
            division.batch = places;
        }
    }

    /// Returns the cursor of the rows; `length` returns the length of a row's sample.
    pub(super) fn cursor(&self, shuffle: &Shuffle, length: impl FnOnce() -> SampleOf<f32>) -> Box<dyn Cursor> {
        let mut rows = shuffle.cursor();
        if self.repeats > 1 {
            rows = Box::new(Repeats::new(rows, self.repeats, self.starts.clone()));
        }
        if let Some(division) = &self.division {
            rows = Box::new(Buckets::new(rows, division.clone(), self.starts.clone(), length()));
        }
        rows
    }

    /// Rows of each draw.
    pub(super) fn repeats(&self) -> u64 {
        self.repeats
    }

    /// The draw of a row.
    #[inline]
    pub(super) fn draw(&self, row: u64) -> u64 {
        if self.repeats > 1 { row / self.repeats } else { row }
    }

    /// First and last cell, in the part of a canonical node with `len` cells, of the draws that the shuffle puts at
    /// `first` to `last` of it; `None` if the epoch has none of them.
    pub(super) fn positions(&self, canonical: u32, (first, last): (u64, u64), len: u64) -> Option<(u64, u64)> {
        let first = first.saturating_mul(self.repeats);
        let last = last.saturating_mul(self.repeats).saturating_add(self.repeats - 1);
        let places = (first < len).then(|| (first, last.min(len - 1)))?;
        Some(self.division.as_ref().map_or(places, |division| division.extent(canonical, places, len)))
    }
}
