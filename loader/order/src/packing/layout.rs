//! Bounds of the windows, and their documents.

use std::ops::Range;
use std::sync::Arc;

use super::added::AddedTokens;
use super::config::PackConfig;
use super::lengths::TokenLengths;
use super::window::{Document, PackWindow, Packer, WindowCount};
use crate::batching::Sequence;
use crate::epoch::EpochPlan;
use crate::error::OrderError;
use crate::ids::StreamId;
use crate::shuffle::Cursor;

/// Windows of an epoch. Each canonical node's documents are cut into windows of about equal length.
#[derive(Debug)]
pub(super) struct WindowLayout {
    /// Plan of the documents, for one rank.
    documents: EpochPlan,
    pub(super) config: PackConfig,
    /// By stream.
    lengths: Vec<Arc<TokenLengths>>,
    /// First window of each canonical node, and the number of windows at the end.
    first: Vec<u64>,
    /// Seed of the order of the packs of a window; `None`: the order of their documents.
    seed: Option<u128>,
}

impl WindowLayout {
    /// The windows of `documents`, which is the plan of one rank.
    pub(super) fn new(
        documents: EpochPlan,
        config: PackConfig,
        lengths: Vec<Arc<TokenLengths>>,
        seed: Option<u128>,
    ) -> Self {
        let mut first = vec![0];
        let window = config.window();
        let mut windows = 0;
        for part in documents.0.sequences[0].partition.deal.starts.windows(2) {
            windows += (part[1] - part[0]).div_ceil(window);
            first.push(windows);
        }
        Self { documents, config, lengths, first, seed }
    }

    pub(super) fn documents(&self) -> &EpochPlan {
        &self.documents
    }

    pub(super) fn sequence(&self) -> &Sequence {
        &self.documents.0.sequences[0]
    }

    /// Tokens of a document of this epoch.
    pub(super) fn tokens_of(&self, document: Document, stream: StreamId) -> u32 {
        let of_stream = document.sample.0 - self.documents.shape().samples_of(stream).start;
        let tokens = self.lengths[stream.index()].values()[of_stream as usize];
        let added = |added: &Arc<dyn AddedTokens>| added.added(self.documents.epoch(), stream, document.draw, tokens);
        tokens.saturating_add(self.config.added.as_ref().map_or(0, added))
    }

    /// Number of windows.
    pub(super) fn windows(&self) -> u64 {
        *self.first.last().expect("the first item is 0")
    }

    /// Number of canonical nodes.
    pub(super) fn canonical_nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// The positions of a canonical node.
    pub(super) fn part(&self, canonical: usize) -> Range<u64> {
        let starts = &self.sequence().partition.deal.starts;
        starts[canonical]..starts[canonical + 1]
    }

    /// The windows that have the positions `first` to `last` of a canonical node.
    pub(super) fn windows_between(&self, canonical: usize, first: u64, last: u64) -> Range<u64> {
        let windows = self.first[canonical]..self.first[canonical + 1];
        let part = self.part(canonical);
        let (count, len) = (windows.end - windows.start, part.end - part.start);
        // Window `w` begins at position `w * len / count`, rounded down.
        let window_of = |position: u64| {
            let at = u128::from(position - part.start) + 1;
            ((at * u128::from(count) - 1) / u128::from(len)) as u64
        };
        windows.start + window_of(first)..windows.start + window_of(last) + 1
    }

    /// Canonical node and positions of a window.
    fn bounds(&self, window: u64) -> (u32, Range<u64>) {
        let canonical = self.first.partition_point(|&first| first <= window) - 1;
        let windows = self.first[canonical]..self.first[canonical + 1];
        let part = self.part(canonical);
        let count = u128::from(windows.end - windows.start);
        let position =
            |number: u64| part.start + (u128::from(part.end - part.start) * u128::from(number) / count) as u64;
        (canonical as u32, position(window - windows.start)..position(window - windows.start + 1))
    }
}

/// Reads and packs windows that mostly ascend within each canonical node.
pub(super) struct WindowReader {
    layout: Arc<WindowLayout>,
    cursor: Box<dyn Cursor>,
    packer: Packer,
    lengths: Vec<u32>,
}

impl WindowReader {
    pub(super) fn new(layout: Arc<WindowLayout>) -> Self {
        let cursor = layout.sequence().cursor(layout.documents.shape(), None);
        Self { layout, cursor, packer: Packer::default(), lengths: Vec::new() }
    }

    /// Packs of a window.
    ///
    /// # Errors
    /// More fragments than a window may have.
    pub(super) fn count(&mut self, window: u64) -> Result<WindowCount, OrderError> {
        self.read(window, |_| ());
        self.packer.count(&self.layout.config, &self.lengths)
    }

    /// Packs a window.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub(super) fn pack(&mut self, window: u64) -> Result<PackWindow, OrderError> {
        let mut documents = Vec::new();
        self.read(window, |document| documents.push(document));
        // Windows differ, and the order of documents uses no such seeds.
        let seed = self.layout.seed.map(|seed| seed | 1 << 73 | u128::from(window) << 80);
        self.packer.pack(&self.layout.config, documents, &self.lengths, seed)
    }

    /// Fills `lengths`, and passes each document on.
    fn read(&mut self, window: u64, mut keep: impl FnMut(Document)) {
        let Self { layout, cursor, lengths, .. } = self;
        let (shape, sequence) = (layout.documents.shape(), layout.sequence());
        let (canonical, positions) = layout.bounds(window);
        lengths.clear();
        for position in positions {
            let draw = cursor.draw(canonical, position);
            let sample = sequence.sample(shape, draw);
            let stream = sequence.stream.unwrap_or_else(|| shape.stream_of_sample(sample));
            let document = Document { draw, sample };
            lengths.push(layout.tokens_of(document, stream));
            keep(document);
        }
    }
}
