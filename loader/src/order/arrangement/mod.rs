//! Arrangement: the rows of an epoch in place of its draws.
//!
//! The shuffle has a draw for each position. An arrangement is a cursor around the shuffle's: it permutes and repeats draws
//! within the part of a canonical node, so that partition, ranks and resumption do not depend on it. Its results are
//! *rows*: row `draw * repeats + n` is occurrence `n` of a draw, and equals the draw where nothing is repeated.
//!
//! * [`repeats`]: each draw several times in succession.

mod repeats;

use std::sync::Arc;

use super::shuffle::{Cursor, Shuffle};
use repeats::Repeats;

/// Arrangement of a sequence.
#[derive(Debug)]
pub(super) struct Arrangement {
    repeats: u64,
    /// First position of each canonical node, and the number of positions at the end; empty if nothing is arranged.
    starts: Arc<[u64]>,
}

impl Arrangement {
    /// An arrangement of canonical nodes' parts that begin at `starts`, whose last item is the end.
    pub(super) fn new(repeats: u32, starts: &[u64]) -> Self {
        let starts = if repeats > 1 { starts.into() } else { Arc::default() };
        Self { repeats: repeats.into(), starts }
    }

    /// Returns the cursor of the rows.
    pub(super) fn cursor(&self, shuffle: &Shuffle) -> Box<dyn Cursor> {
        let draws = shuffle.cursor();
        if self.repeats > 1 { Box::new(Repeats::new(draws, self.repeats, self.starts.clone())) } else { draws }
    }

    /// The draw of a row.
    #[inline]
    pub(super) fn draw(&self, row: u64) -> u64 {
        if self.repeats > 1 { row / self.repeats } else { row }
    }

    /// First and last place, in the part of a canonical node with `len` places, of the draws that the shuffle puts at `first`
    /// to `last` of it; `None` if the epoch has none of them.
    pub(super) fn places(&self, (first, last): (u64, u64), len: u64) -> Option<(u64, u64)> {
        let first = first.saturating_mul(self.repeats);
        let last = last.saturating_mul(self.repeats).saturating_add(self.repeats - 1);
        (first < len).then(|| (first, last.min(len - 1)))
    }
}
