//! Packs that one rank gets.

use super::layout::WindowReader;
use super::plan::PackPlan;
use super::window::PackWindow;
use crate::error::OrderError;
use crate::ids::{Rank, ShardId};
use crate::rank::{PlannedSample, RankOrder};

/// Fragment of a document in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFragment {
    /// The document. Its draw is an index in the epoch's resampled list of documents. `repeat` is true in packs that
    /// only make ranks or canonical nodes equal.
    pub sample: PlannedSample,
    /// Index of the pack in the batch.
    pub pack: u32,
    /// First token in the pack.
    pub offset: u32,
    /// First token in the document.
    pub first: u32,
    /// Tokens.
    pub tokens: u32,
    /// Tokens of the whole document.
    pub document_tokens: u32,
}

/// Batch of packs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackBatch {
    /// Number of packs.
    pub packs: usize,
    /// Pack by pack, from the first token on.
    pub fragments: Vec<PackedFragment>,
}

/// A rank's packs in the order of its batches, from the plan's start.
pub struct PackOrder {
    plan: PackPlan,
    packs: RankOrder,
    reader: WindowReader,
    /// By row of the second plan's deal: the last two windows, with their numbers. Packs that equalise parts are a
    /// little before the current one.
    windows: Vec<[Option<(ShardId, PackWindow)>; 2]>,
}

impl PackPlan {
    /// Returns the packs of `rank`, batch by batch.
    ///
    /// # Panics
    /// `rank` is not one of this world.
    pub fn rank(&self, rank: Rank) -> PackOrder {
        PackOrder {
            packs: self.0.packs.rank(rank),
            reader: WindowReader::new(self.0.layout.clone()),
            windows: Vec::new(),
            plan: self.clone(),
        }
    }
}

impl PackOrder {
    /// The order of the packs: number of batches, and the next one.
    pub fn packs(&self) -> &RankOrder {
        &self.packs
    }

    /// Moves to the start of a batch. Moving forward is cheap.
    pub fn seek(&mut self, batch: u64) {
        self.packs.seek(batch);
    }

    /// Replaces the content of `batch` with the next one; returns `false` when there is none. The last batch may have
    /// fewer packs than the batch size, but no batch is empty.
    ///
    /// # Errors
    /// `PackCounts`: the plan was made with the counts of a different epoch or data set.
    pub fn next_batch(&mut self, batch: &mut PackBatch) -> Result<bool, OrderError> {
        let Self { plan, packs, reader, windows } = self;
        let PackBatch { packs: count, fragments } = batch;
        *count = 0;
        fragments.clear();
        let mut failure = None;
        packs.visit_batch(|row, planned| {
            if failure.is_some() {
                return;
            }
            let located = plan.0.packs.shape().locate(planned.sample);
            let (number, pack) = located.expect("the plan has only packs of its windows");
            let row = row as usize;
            if row >= windows.len() {
                windows.resize_with(row + 1, Default::default);
            }
            let windows = &mut windows[row];
            let is_kept = |kept: &Option<(ShardId, PackWindow)>| kept.as_ref().is_some_and(|(kept, _)| *kept == number);
            let at = windows.iter().position(is_kept).unwrap_or_else(|| {
                windows.swap(0, 1);
                windows[0] = reader.pack(number.0.into()).ok().map(|window| (number, window));
                0
            });
            let window = windows[at].as_ref().map(|(_, window)| window);
            // A window with too many fragments has no number of packs, so the plan's are not its own.
            match window.filter(|window| window.len() == plan.0.counts.packs()[number.index()] as usize) {
                Some(window) => push_pack(plan, window, pack as usize, (*count as u32, planned.repeat), fragments),
                None => failure = Some(OrderError::PackCounts),
            }
            *count += 1;
        });
        failure.map_or(Ok(*count > 0), Err)
    }
}

/// Appends the fragments of pack number `at` of `window`, which has the index `pack` in the batch.
fn push_pack(
    plan: &PackPlan,
    window: &PackWindow,
    at: usize,
    (pack, repeat): (u32, bool),
    fragments: &mut Vec<PackedFragment>,
) {
    let (shape, mut offset) = (plan.documents().shape(), 0);
    for (document, fragment) in window.pack(at) {
        let stream = shape.stream_of_sample(document.sample);
        let sample = PlannedSample { sample: document.sample, stream, draw: document.draw, repeat };
        let (first, tokens) = (fragment.first, fragment.tokens);
        let document_tokens = plan.0.layout.tokens_of(document, stream);
        fragments.push(PackedFragment { sample, pack, offset, first, tokens, document_tokens });
        offset += plan.0.layout.config.occupied(tokens);
    }
}
